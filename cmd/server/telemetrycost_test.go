package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// appliedAtOnce is a writer that has written what it is given, a target that encodes nothing,
// and a backend span's tracer in between, as the writer has it.
type appliedAtOnce struct{ tracer sink.Tracer }

func (appliedAtOnce) Encode(r *schema.Record, _ *schema.Mutation) (sink.Entry, error) {
	return sink.Entry{Dest: sink.Dest{Instance: "i", Table: "t"}, Bytes: int64(len(r.Data))}, nil
}

func (w appliedAtOnce) Submit(ctx context.Context, es []sink.Entry) handlers.Ticket {
	if w.tracer != nil {
		if _, end := w.tracer.Begin(ctx, es[0].Dest, es); end != nil {
			s := sink.RequestStats{Entries: len(es), Attempt: 1}
			s.Outcomes[sink.Applied] = len(es)
			end(s)
		}
	}
	return applied(len(es))
}

func (appliedAtOnce) RouteState(*sink.Route) handlers.RouteState { return handlers.RouteState{} }
func (appliedAtOnce) Stuck() string                              { return "" }

type applied int

func (applied) Admitted() bool { return true }
func (n applied) Wait() []sink.Outcome {
	return slices.Repeat([]sink.Outcome{{Kind: sink.Applied}}, int(n))
}

// dropped is an exporter that has no collector.
type dropped struct{}

func (dropped) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (dropped) Shutdown(context.Context) error                             { return nil }

// instrumented is one way to run the handlers.
type instrumented struct {
	name    string
	metrics bool
	sampler *sampler // nil = no tracing
	parent  string
}

const unsampledParent = "00-" + callersTrace + "-" + callersSpan + "-00"

var (
	alwaysOn = newSampler("always_on", 1)
	standard = newSampler("parentbased_traceidratio", rootRatio)
	ways     = []instrumented{
		{"nothing", false, nil, unsampledParent},
		{"metrics", true, nil, unsampledParent},
		{"metrics, traces; the parent is not sampled", true, &standard, unsampledParent},
		{"metrics, traces; no parent, 1 % sampled", true, &standard, ""},
		{"metrics, traces; every request sampled", true, &alwaysOn, unsampledParent},
	}
)

// pusher gives a function that sends one push of 500 bytes through the whole HTTP surface,
// with a real mapping, and without a connection or a sink.
func (w instrumented) pusher(t testing.TB) func() {
	routes, err := schema.Compile("routes.yaml", []byte(telemetryRoutes))
	if err != nil {
		t.Fatal(err)
	}
	writer := appliedAtOnce{}
	config := handlers.Config{Limits: handlers.DefaultLimits(), Auth: handlers.NoAuth}
	if w.metrics {
		exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		if config.Observer, err = newObserver(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)).Meter(scope)); err != nil {
			t.Fatal(err)
		}
	}
	if w.sampler != nil {
		provider := newSpans(resource.Empty(), sdktrace.WithBatcher(dropped{}))
		t.Cleanup(func() { provider.Shutdown(context.Background()) })
		tracer := provider.Tracer(scope)
		config.Tracing = requestTracing{tracer, *w.sampler}
		writer.tracer = newBackendTracing(tracer, systemBigtable, "google.bigtable.v2.Bigtable", "MutateRows")
	}
	route := &handlers.Route{Route: routes.List[0], Sink: &sink.Route{Name: "telemetry"}, Target: writer, Writer: writer}
	config.Routes, config.Default = []*handlers.Route{route}, route
	handler := handlers.New(config)

	body := strings.Replace(pushBody("pump", 1), `"messageId"`, `"attributes":{"pad":"`+strings.Repeat("x", 400)+`"},"messageId"`, 1)
	r := newServerRequest(w.parent)
	read := strings.NewReader(body)
	r.Body, r.ContentLength = io.NopCloser(read), int64(len(body))
	answer := &bareAnswer{header: http.Header{}}
	return func() {
		read.Seek(0, io.SeekStart)
		clear(answer.header)
		answer.status = 0
		handler.ServeHTTP(answer, r)
		if answer.status != http.StatusNoContent {
			t.Fatalf("answered %d", answer.status)
		}
	}
}

// bareAnswer is a ResponseWriter without a connection.
type bareAnswer struct {
	header http.Header
	status int
}

func (a *bareAnswer) Header() http.Header             { return a.header }
func (a *bareAnswer) WriteHeader(status int)          { a.status = status }
func (a *bareAnswer) Write(p []byte) (int, error)     { return len(p), nil }
func (a *bareAnswer) SetReadDeadline(time.Time) error { return nil }

// Tracing allocates nothing for a request that is not traced, through the whole surface.
func TestUntracedPushesAllocateAsWithoutTracing(t *testing.T) {
	off := newSampler("parentbased_traceidratio", 0)
	for _, parent := range []string{unsampledParent, ""} {
		var with, without float64
		// Under the race detector pools forget things at random, on either side of a whole
		// number. What tracing allocated would be there each time.
		for range 20 {
			without = testing.AllocsPerRun(300, instrumented{"", true, nil, parent}.pusher(t))
			with = testing.AllocsPerRun(300, instrumented{"", true, &off, parent}.pusher(t))
			if with <= without {
				break
			}
		}
		if with > without {
			t.Errorf("parent %q: %v allocations, %v without tracing", parent, with, without)
		}
	}
}

func BenchmarkTelemetry(b *testing.B) {
	for _, w := range ways {
		b.Run(strings.ReplaceAll(w.name, " ", "_"), func(b *testing.B) {
			push := w.pusher(b)
			b.ReportAllocs()
			for b.Loop() {
				push()
			}
		})
	}
}

const (
	costBegins = "<!-- cost -->\n"
	costEnds   = "<!-- /cost -->"
)

// TestTelemetryCost measures what the instrumentation costs a push and writes it into
// docs/telemetry.md: make telemetry-cost. The ways take turns, a millisecond each, so that
// what else the machine does meets all of them, and each round's ratio is of neighbours.
func TestTelemetryCost(t *testing.T) {
	if os.Getenv("TELEMETRY_COST") == "" {
		t.Skip("make telemetry-cost measures")
	}
	const rounds, pushes = 3000, 50
	runs := make([]func(), len(ways))
	times := make([][]float64, len(ways))
	ratios := make([][]float64, len(ways))
	for i, w := range ways {
		runs[i] = w.pusher(t)
		for range 2000 {
			runs[i]()
		}
	}
	for range rounds {
		var base float64
		for i, run := range runs {
			began := time.Now()
			for range pushes {
				run()
			}
			took := float64(time.Since(began)) / pushes
			if i == 0 {
				base = took
			}
			times[i] = append(times[i], took)
			ratios[i] = append(ratios[i], took/base)
		}
	}
	median := func(list []float64) float64 { slices.Sort(list); return list[len(list)/2] }
	var b strings.Builder
	b.WriteString(costBegins + "| instrumented | ratio | of a push (µs) | allocations |\n|---|---|---|---|\n")
	for i, w := range ways {
		fmt.Fprintf(&b, "| %s | %.2f | %.2f | %.0f |\n", w.name, median(ratios[i]), median(times[i])/1000, testing.AllocsPerRun(300, runs[i]))
	}
	b.WriteString(costEnds)
	t.Log("\n" + b.String())
	file := filepath.Join("..", "..", "docs", "telemetry.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)" + costBegins + ".*" + costEnds)
	if !block.Match(text) {
		t.Fatal("docs/telemetry.md has no place for the figures")
	}
	if err := os.WriteFile(file, block.ReplaceAllLiteral(text, []byte(b.String())), 0o644); err != nil {
		t.Fatal(err)
	}
}
