package main

import (
	"context"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/spanner"
)

// spannerAdapter is Spanner.
type spannerAdapter struct{ sink *spanner.Sink }

// openSpanner makes the adapter and its writer.
func (srv *server) openSpanner() error {
	s := srv.settings
	config := s.spannerConfig()
	config.Meter, config.Log, config.DialOptions = srv.telemetry.meter(), srv.logger, srv.dial
	backend, err := spanner.New(config, srv.routes.List)
	if err != nil {
		return err
	}
	a := &spannerAdapter{backend}
	operation := "BatchWrite"
	if config.WriteMethod == spanner.Commit {
		operation = "Commit"
	}
	srv.outlets.spanner, err = newOutlet(srv.watch(backend), a, s.spannerWriter(databases(srv.routes)), config.Meter,
		srv.backendTracer(semconv.DBSystemNameGCPSpanner, "google.spanner.v1.Spanner", operation), srv.console)
	if err != nil {
		a.close()
	}
	return err
}

// databases is how many databases the routes name at most.
func databases(routes *schema.Routes) int {
	named := map[string]bool{}
	for _, r := range routes.List {
		if r.Spanner != nil {
			named[r.Spanner.Database] = true
		}
	}
	return len(named)
}

func (a *spannerAdapter) bind(r *schema.Route, identity *sink.Route) (bound, error) {
	target, err := a.sink.Route(r, identity)
	if err != nil {
		return bound{}, err
	}
	return bound{target: target, dest: target.Dest()}, nil
}

func (a *spannerAdapter) check(ctx context.Context) map[string]string {
	problems := map[string]string{}
	for _, p := range a.sink.Check(ctx) {
		addProblem(problems, p.Route, p.Text)
	}
	return problems
}

func (a *spannerAdapter) close() { a.sink.Close() }
