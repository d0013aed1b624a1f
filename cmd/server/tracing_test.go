package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink/sink"
)

// newServerRequest is a push with a traceparent; empty = without.
func newServerRequest(parent string) *http.Request {
	r := httptest.NewRequest("POST", "/v1/routes/telemetry/push", http.NoBody)
	if parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	return r
}

func recorded() (*tracetest.SpanRecorder, trace.Tracer) {
	recorder := tracetest.NewSpanRecorder()
	return recorder, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("")
}

// attributesOf are a span's attributes as text.
func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	m := map[string]string{}
	for _, kv := range s.Attributes() {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// The span of a backend request: whose child it is, whom it is linked to, and what it says.
func TestBackendSpan(t *testing.T) {
	recorder, tracer := recorded()
	_, a := tracer.Start(t.Context(), "a")
	_, b := tracer.Start(t.Context(), "b")
	entries := func(origins ...any) (batch []sink.Entry) {
		for _, o := range origins {
			batch = append(batch, sink.Entry{Origin: o, Key: "secret-key"})
		}
		return batch
	}
	many := make([]any, 0, 500)
	for range 500 {
		_, span := tracer.Start(t.Context(), "one of many")
		many = append(many, span, span)
	}
	d := sink.Dest{Instance: "projects/p/instances/i", Table: "readings"}
	var applied, mixed, refused sink.RequestStats
	applied.Outcomes[sink.Applied], applied.Entries, applied.Attempt, applied.Bytes = 1, 1, 1, 77
	mixed.Outcomes[sink.Applied], mixed.Outcomes[sink.Transient], mixed.Outcomes[sink.Fatal], mixed.Attempt = 1, 1, 1, 3
	refused.Outcomes[sink.Applied], refused.Outcomes[sink.Rejected], refused.Attempt, refused.Isolated = 1, 1, 1, true
	broken := sink.RequestStats{Err: errors.New("broken"), Attempt: 1}
	broken.Outcomes[sink.Undecided] = 1

	for name, c := range map[string]struct {
		batch  []sink.Entry
		stats  sink.RequestStats
		traced bool
		parent trace.Span // nil = a trace of its own
		links  int
		failed bool
		want   map[string]string
	}{
		"nobody is traced":                        {batch: entries(nil, nil)},
		"an origin that is no span is left alone": {batch: entries("text")},
		"one record": {entries(a), applied, true, a, 1, false, map[string]string{
			"db.operation.name": "MutateRows", "db.system.name": "gcp.bigtable", "db.namespace": d.Instance, "db.collection.name": "readings",
			"rpc.method": "google.bigtable.v2.Bigtable/MutateRows", "pushsink.batch.entries": "1", "db.operation.batch.size": "",
			"pushsink.batch.bytes": "77", "pushsink.attempt": "1", "pushsink.isolated": "", "pushsink.outcomes.applied": "1", "pushsink.outcomes.rejected": "", "error.type": ""}},
		"one traced request among others": {entries(nil, a, a, nil), mixed, true, a, 1, true, map[string]string{
			"pushsink.batch.entries": "4", "db.operation.batch.size": "4", "pushsink.attempt": "3", "error.type": "fatal",
			"pushsink.outcomes.transient": "1", "pushsink.outcomes.fatal": "1"}},
		"two traced requests":           {entries(a, b, a), refused, true, nil, 2, false, map[string]string{"pushsink.isolated": "true", "pushsink.outcomes.rejected": "1"}},
		"more than a span may name":     {entries(many...), applied, true, nil, 128, false, nil},
		"a backend that broke its word": {entries(a), broken, true, a, 1, true, map[string]string{"error.type": "undecided"}},
	} {
		t.Run(name, func(t *testing.T) {
			recorder.Reset()
			bt := newBackendTracing(tracer, systemBigtable, "google.bigtable.v2.Bigtable", "MutateRows")
			ctx, end := bt.Begin(t.Context(), d, c.batch)
			if !c.traced {
				if end != nil || ctx != t.Context() {
					t.Error("traced")
				}
				return
			}
			end(c.stats)
			if len(recorder.Ended()) != 1 {
				t.Fatalf("%d spans", len(recorder.Ended()))
			}
			span := recorder.Ended()[0]
			if span.SpanContext().SpanID() != trace.SpanContextFromContext(ctx).SpanID() {
				t.Error("the backend's context is in another span")
			}
			if span.Name() != "MutateRows readings" || span.SpanKind() != trace.SpanKindClient || len(span.Links()) != c.links {
				t.Errorf("%s span %q with %d links, want %d", span.SpanKind(), span.Name(), len(span.Links()), c.links)
			}
			if c.parent == nil && span.Parent().IsValid() || c.parent != nil && span.Parent().SpanID() != c.parent.SpanContext().SpanID() {
				t.Errorf("parent %v", span.Parent())
			}
			if failed := span.Status().Code == codes.Error; failed != c.failed {
				t.Errorf("status %v", span.Status())
			}
			got := attributesOf(span)
			for key, want := range c.want {
				if got[key] != want {
					t.Errorf("%s: %q, want %q", key, got[key], want)
				}
			}
			for key, value := range got {
				if value == "secret-key" {
					t.Errorf("%s is a row's key", key)
				}
			}
		})
	}
}

// A batch of which nobody is traced costs nothing.
func TestUntracedBatchesAllocateNothing(t *testing.T) {
	_, tracer := recorded()
	bt := newBackendTracing(tracer, systemBigtable, "google.bigtable.v2.Bigtable", "MutateRows")
	batch := make([]sink.Entry, 100)
	ctx := context.Background()
	wantNoAllocations(t, "a batch", func() { bt.Begin(ctx, sink.Dest{Table: "readings"}, batch) })
}
