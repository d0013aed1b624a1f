package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
	"github.com/pushsink/pushsink/sink/bigtable/embedded"
)

// bigtableAdapter is Bigtable, in dev mode one in memory.
type bigtableAdapter struct {
	sink   *bigtable.Sink
	memory *embedded.Server // nil outside dev mode
	demo   sink.Dest        // dev mode's table
	logger *slog.Logger
}

// openBigtable makes the adapter and its writer.
func (srv *server) openBigtable() error {
	s := srv.settings
	config := s.bigtableConfig()
	config.Meter, config.DialOptions = srv.telemetry.meter(), srv.dial
	a := &bigtableAdapter{logger: srv.logger}
	if s.Dev {
		var err error
		if a.memory, err = embedded.Start(); err != nil {
			return fmt.Errorf("the Bigtable in memory: %w", err)
		}
		config.Project, config.Instance, config.AppProfile = "dev", "memory", ""
		config.Endpoint, config.DialOptions = embedded.Endpoint, a.memory.DialOptions()
	}
	var err error
	if a.sink, err = bigtable.New(config, srv.routes.List); err == nil {
		srv.outlets.bigtable, err = newOutlet(srv.watch(a.sink), a, s.bigtableWriter(), config.Meter, srv.backendTracer(systemBigtable, "google.bigtable.v2.Bigtable", "MutateRows"), srv.console)
	}
	if err != nil {
		a.close()
	}
	return err
}

func (a *bigtableAdapter) bind(r *schema.Route, identity *sink.Route) (bound, error) {
	target, err := a.sink.Route(r, identity)
	if err != nil {
		return bound{}, err
	}
	b := bound{target: target, rows: rowReader{a.sink, target, r.Bigtable.Table != ""}}
	if fixed, err := target.Dest("", ""); err == nil { // else the record says
		b.dest = fixed
	}
	if a.memory != nil {
		a.demo = b.dest
	}
	return b, nil
}

func (a *bigtableAdapter) check(ctx context.Context) map[string]string {
	problems := map[string]string{}
	for _, p := range a.sink.Check(ctx) {
		addProblem(problems, p.Route, p.Text)
	}
	if a.memory != nil && len(problems) == 0 {
		a.makeDemoTable(ctx)
	}
	return problems
}

// makeDemoTable lets the demo's rows be asked for before there are any. The check left the
// client open.
func (a *bigtableAdapter) makeDemoTable(ctx context.Context) {
	if made := a.sink.Ensure(ctx, a.demo); made.Kind != sink.Applied {
		a.logger.Debug("the demo's table waits for its first record", "error", made.Err)
	}
}

func (a *bigtableAdapter) close() {
	if a.sink != nil {
		a.sink.Close()
	}
	if a.memory != nil {
		a.memory.Close()
	}
}
