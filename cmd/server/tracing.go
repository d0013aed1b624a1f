package main

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/internal/traceparent"
	"github.com/pushsink/pushsink/sink"
)

// requestTracing begins the spans of requests.
type requestTracing struct {
	tracer  trace.Tracer
	sampler sampler
}

var _ handlers.Tracing = requestTracing{}

func (t requestTracing) Begin(r *http.Request) (context.Context, trace.Span) {
	parent := traceparent.FromHeader(r.Header)
	if !t.sampler.samples(parent) {
		return nil, nil
	}
	ctx := r.Context()
	if parent.IsValid() {
		parent = traceparent.WithState(parent, r.Header.Get("Tracestate"))
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	return t.tracer.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
}

// backendTracing makes the spans of one sink's requests.
type backendTracing struct {
	tracer trace.Tracer
	// operation is the request's name, and always what holds for each of its spans.
	operation string
	always    []attribute.KeyValue
}

var _ sink.Tracer = (*backendTracing)(nil)

// Attributes of spans beside those of OpenTelemetry's semantic conventions.
const (
	entriesKey  = attribute.Key("pushsink.batch.entries")
	bytesKey    = attribute.Key("pushsink.batch.bytes")
	attemptKey  = attribute.Key("pushsink.attempt")
	isolatedKey = attribute.Key("pushsink.isolated")
	outcomeKey  = "pushsink.outcomes."
)

// systemBigtable follows what the conventions say of Spanner; they do not name Bigtable.
var systemBigtable = semconv.DBSystemNameKey.String("gcp.bigtable")

func newBackendTracing(tracer trace.Tracer, system attribute.KeyValue, service, operation string) *backendTracing {
	return &backendTracing{tracer, operation, []attribute.KeyValue{
		system, semconv.DBOperationName(operation), semconv.RPCSystemNameGRPC, semconv.RPCMethod(service + "/" + operation),
	}}
}

// backendTracer is nil where nothing is traced.
func (srv *server) backendTracer(system attribute.KeyValue, service, operation string) sink.Tracer {
	tracer := srv.telemetry.tracer()
	if tracer == nil {
		return nil
	}
	return newBackendTracing(tracer, system, service, operation)
}

// maxLinks is the most links of a span, the specification's own limit.
const maxLinks = 128

// Begin implements sink.Tracer. A request that holds the records of one traced request is a
// child of it; one that gathers several is in a trace of its own. Both are linked to them.
func (t *backendTracing) Begin(ctx context.Context, d sink.Dest, batch []sink.Entry) (context.Context, func(sink.RequestStats)) {
	var origins []trace.Span
	for i := range batch {
		if batch[i].Origin != nil {
			origins = addOrigin(origins, batch[i].Origin)
		}
	}
	if len(origins) == 0 {
		return ctx, nil
	}
	target := d.Table
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(t.always...),
		trace.WithAttributes(semconv.DBNamespace(d.Instance), entriesKey.Int(len(batch)))}
	if d.Table != "" {
		options = append(options, trace.WithAttributes(semconv.DBCollectionName(d.Table)))
	} else {
		target = d.Instance
	}
	if len(batch) > 1 { // the conventions' word for it is of several only
		options = append(options, trace.WithAttributes(semconv.DBOperationBatchSize(len(batch))))
	}
	links := make([]trace.Link, len(origins))
	for i, span := range origins {
		links[i].SpanContext = span.SpanContext()
	}
	options = append(options, trace.WithLinks(links...))
	if len(origins) == 1 {
		ctx = trace.ContextWithSpan(ctx, origins[0])
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, span := t.tracer.Start(ctx, t.operation+" "+target, options...)
	return ctx, func(s sink.RequestStats) { endBackendSpan(span, s) }
}

// addOrigin adds a span that is not among them yet.
func addOrigin(origins []trace.Span, origin any) []trace.Span {
	span, ok := origin.(trace.Span)
	if !ok || len(origins) == maxLinks {
		return origins
	}
	for i := len(origins) - 1; i >= 0; i-- { // the entries of one request stand together
		if origins[i] == span {
			return origins
		}
	}
	return append(origins, span)
}

// endBackendSpan says what came of the request. A record that the service refused is no
// failure of the request.
func endBackendSpan(span trace.Span, s sink.RequestStats) {
	span.SetAttributes(bytesKey.Int64(s.Bytes), attemptKey.Int(s.Attempt))
	if s.Isolated {
		span.SetAttributes(isolatedKey.Bool(true))
	}
	failed := ""
	for k := sink.Undecided; k <= sink.Fatal; k++ {
		if s.Outcomes[k] == 0 {
			continue
		}
		span.SetAttributes(attribute.Int(outcomeKey+k.String(), s.Outcomes[k]))
		if k != sink.Applied && k != sink.Rejected {
			failed = k.String() // the gravest comes last
		}
	}
	if failed != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(failed))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
