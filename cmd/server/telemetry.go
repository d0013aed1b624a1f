package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// telemetry owns the instruments' provider and the listener of /metrics. It is closed
// last, so that the drain can still be seen.
type telemetry struct {
	provider *sdkmetric.MeterProvider
	// page answers GET /metrics in Prometheus text.
	page http.Handler

	server *http.Server // nil without METRICS_PORT
	addr   net.Addr
	served chan error
}

// newTelemetry makes the provider, and opens /metrics on port where port is not nil; 0 is
// a free one. With loopback only this machine can reach it.
func newTelemetry(port *int, loopback bool) (*telemetry, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics exporter: %w", err)
	}
	t := &telemetry{
		provider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
		page:     promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	if port == nil {
		return t, nil
	}
	listener, err := listen(*port, loopback)
	if err != nil {
		return nil, fmt.Errorf("PUSHSINK_METRICS_PORT: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.page)
	t.addr = listener.Addr()
	t.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	t.served = make(chan error, 1)
	go func() { t.served <- t.server.Serve(listener) }()
	return t, nil
}

func (t *telemetry) meter() metric.Meter {
	return t.provider.Meter("github.com/pushsink/pushsink")
}

// close ends the listener and flushes the provider.
func (t *telemetry) close(ctx context.Context) error {
	var errs []error
	if t.server != nil {
		if err := t.server.Shutdown(ctx); err != nil {
			errs = append(errs, err, t.server.Close())
		}
		if err := <-t.served; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, t.provider.Shutdown(ctx))...)
}

// listen opens a TCP port, 0 for a free one.
func listen(port int, loopback bool) (net.Listener, error) {
	host := ""
	if loopback {
		host = "127.0.0.1"
	}
	return net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
}
