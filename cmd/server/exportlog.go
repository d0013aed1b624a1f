package main

import (
	"context"
	"log/slog"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/pushsink/pushsink/internal/fadinglog"
)

// exportLog logs, at a falling rate, what could not be exported. A collector that is away
// costs log lines, and nothing else.
type exportLog struct {
	logger *slog.Logger
	events fadinglog.Kinds[string] // by signal
}

// longestCause is as much of a collector's words as is logged.
const longestCause = 300

func (l *exportLog) failed(signal string, err error) {
	n, due := l.events.Due(signal)
	if !due {
		return
	}
	cause := err.Error()
	if len(cause) > longestCause {
		cause = cause[:longestCause]
	}
	l.logger.Warn("telemetry not exported", "signal", signal, "cause", cause, "count", n)
}

// Handle implements otel.ErrorHandler, for what the SDK itself complains about.
func (l *exportLog) Handle(err error) { l.failed("sdk", err) }

// loggedSpans and loggedMetrics are exporters whose failures end in the log: the SDK's own
// handler of errors knows no kinds.
type loggedSpans struct {
	sdktrace.SpanExporter
	log *exportLog
}

func (e loggedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.failed("traces", err)
	}
	return nil
}

type loggedMetrics struct {
	sdkmetric.Exporter
	log *exportLog
}

func (e loggedMetrics) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	if err := e.Exporter.Export(ctx, m); err != nil {
		e.log.failed("metrics", err)
	}
	return nil
}
