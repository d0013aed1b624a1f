package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
	"github.com/pushsink/pushsink/sink/bigtable/embedded"
	"github.com/pushsink/pushsink/sink/deadletter"
)

//go:embed demo.yaml
var demoRoutes []byte

// server is everything that runs. stop ends it in the reverse order of its fields, and
// takes one that was composed in part.
type server struct {
	settings *settings
	logger   *slog.Logger
	routes   *schema.Routes

	telemetry *telemetry
	memory    *embedded.Server // dev mode
	backend   *bigtable.Sink
	writer    *sink.Writer
	fixed     map[string]sink.Dest  // by route: its table, where that does not depend on the record
	letters   *deadletter.Publisher // nil when no route wants one

	ready     *readiness
	endChecks context.CancelFunc

	http     *http.Server
	conns    conns
	listener net.Listener
	served   chan error
}

// serve runs until ctx ends, and then drains.
func serve(ctx context.Context, s *settings, out io.Writer) error {
	srv := &server{settings: s, logger: newLogger(out, s.LogLevel)}
	for _, warning := range s.Warnings {
		srv.logger.Warn("configuration", "warning", warning)
	}
	if err := srv.open(ctx); err != nil {
		return errors.Join(err, srv.stop())
	}
	srv.announce(out)
	select {
	case <-ctx.Done():
		return srv.stop()
	case err := <-srv.served:
		srv.served <- nil
		return errors.Join(fmt.Errorf("the listener failed: %w", err), srv.stop())
	}
}
