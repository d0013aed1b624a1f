package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope names the instruments' and the spans' code.
const scope = "github.com/pushsink/pushsink"

// telemetry owns what metrics and spans go through, and the listener of /metrics. It is
// closed last, so that the drain can still be seen.
type telemetry struct {
	meters *sdkmetric.MeterProvider
	spans  *sdktrace.TracerProvider // nil = nothing is traced
	// page answers GET /metrics in Prometheus text.
	page http.Handler

	logger *slog.Logger
	server *http.Server // nil without METRICS_PORT
	addr   net.Addr
	served chan error
}

// newTelemetry makes the providers, with what o wants exported, and opens /metrics where
// METRICS_PORT is set. views see every instrument that is made. It dials nothing that it
// waits for.
func newTelemetry(ctx context.Context, s *settings, p platform, logger *slog.Logger, views ...sdkmetric.View) (*telemetry, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	page, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics exporter: %w", err)
	}
	from, err := newResource(ctx, p)
	if err != nil {
		return nil, err
	}
	t := &telemetry{page: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), logger: logger}
	failures := &exportLog{logger: logger}
	otel.SetErrorHandler(failures)

	readers := []sdkmetric.Option{sdkmetric.WithResource(from), sdkmetric.WithReader(page), sdkmetric.WithView(views...)}
	if s.OTel.Metrics != "" {
		exporter, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpointURL(s.OTel.Metrics))
		if err != nil {
			return nil, fmt.Errorf("OTLP exporter of metrics: %w", err)
		}
		readers = append(readers, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(loggedMetrics{exporter, failures})))
	}
	t.meters = sdkmetric.NewMeterProvider(readers...)
	if s.OTel.Traces != "" {
		exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(s.OTel.Traces))
		if err != nil {
			return nil, fmt.Errorf("OTLP exporter of traces: %w", err)
		}
		t.spans = newSpans(from, sdktrace.WithBatcher(loggedSpans{exporter, failures}))
	}
	if s.MetricsPort == nil {
		return t, nil
	}
	listener, err := listen(*s.MetricsPort, s.Dev)
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

// newSpans makes a provider that records every span that it is asked for: whether to ask was
// decided before (see sampler).
func newSpans(from *resource.Resource, to sdktrace.TracerProviderOption) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithResource(from), sdktrace.WithSampler(sdktrace.AlwaysSample()), to)
}

// newResource says who exports. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last
// word.
func newResource(ctx context.Context, p platform) (*resource.Resource, error) {
	name := p.service
	if name == "" {
		name = "pushsink"
	}
	own := append(p.attributes(), semconv.ServiceName(name), semconv.ServiceVersion(version()), semconv.ServiceInstanceID(uuid.NewString()))
	from, err := resource.New(ctx, resource.WithSchemaURL(semconv.SchemaURL), resource.WithTelemetrySDK(),
		resource.WithAttributes(own...), resource.WithFromEnv())
	if err != nil && from == nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return from, nil // what cannot be read of the variables is left out
}

func (t *telemetry) meter() metric.Meter { return t.meters.Meter(scope) }

// tracer is nil where nothing is traced.
func (t *telemetry) tracer() trace.Tracer {
	if t.spans == nil {
		return nil
	}
	return t.spans.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
}

// close ends the listener and flushes the providers. A collector that takes nothing any more
// is logged, and fails no stop.
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
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-stepGrace))
		defer cancel()
	}
	var both sync.WaitGroup
	flush := func(signal string, shutdown func(context.Context) error) {
		both.Go(func() {
			if err := shutdown(ctx); err != nil {
				t.logger.Warn("telemetry not flushed", "signal", signal, "cause", err.Error())
			}
		})
	}
	flush("metrics", t.meters.Shutdown)
	if t.spans != nil {
		flush("traces", t.spans.Shutdown)
	}
	both.Wait()
	return errors.Join(errs...)
}

// listen opens a TCP port, 0 for a free one.
func listen(port int, loopback bool) (net.Listener, error) {
	host := ""
	if loopback {
		host = "127.0.0.1"
	}
	return net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
}
