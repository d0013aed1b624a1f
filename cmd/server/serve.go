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

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/deadletter"
)

//go:embed demo.yaml
var demoRoutes []byte

// server is everything that runs. stop ends it in the reverse order of its fields, and
// takes one that was composed in part.
type server struct {
	settings *settings
	platform platform
	logger   *slog.Logger
	warnings []string // that were logged before the port was open
	routes   *schema.Routes
	// dial is added to the connections of the sinks' clients. It is empty but where the
	// service is in this process, and then listener may be set before open, too.
	dial []grpc.DialOption
	// views see every instrument that is made; a test may set them before open.
	views []sdkmetric.View

	// keysTransport fetches the keys of the tokens' issuer; nil but where that is in this process.
	keysTransport http.RoundTripper

	telemetry *telemetry
	console   *handlers.Console // nil unless exposed
	outlets   outlets
	fixed     map[*schema.Route]sink.Dest // where all entries of the route go, if there is one such place
	letters   *deadletter.Publisher       // nil when no route wants one

	ready     *readiness
	found     causes // by the last check; only checks, one at a time, use it
	endChecks context.CancelFunc

	http       *http.Server
	endReading context.CancelFunc // of request bodies
	conns      conns
	listener   net.Listener
	served     chan error
}

func newServer(s *settings, p platform, out io.Writer) *server {
	return &server{settings: s, platform: p, logger: newLogger(out, s.LogLevel, p)}
}

// serve runs until ctx ends, and then drains.
func serve(ctx context.Context, s *settings, out io.Writer) error {
	srv := newServer(s, findPlatform(ctx, s, metadataTimeout), out)
	for _, warning := range s.Warnings {
		srv.warn(warning)
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
