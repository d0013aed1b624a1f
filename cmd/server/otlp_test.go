package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/pushsink/pushsink/internal/scripted"
)

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// postWith posts a push with one header more.
func postWith(url, body, name, value string) answer {
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err == nil {
		req.Header.Set(name, value)
	}
	return do(req, err)
}

// OTEL-01: what happened within the exporters' batching windows of 5 s and 60 s arrives at
// the collector when the process is stopped.
func TestOTEL01TheLastSpansAndMetricsArrive(t *testing.T) {
	c := newCollector(t, false)
	bt := scripted.New(t, scripted.Options{})
	bt.AddTable(readings, "m")
	p := start(t, real(t, bt, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+c.addr, "OTEL_SERVICE_NAME=orders-writer",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test,k=v"))
	push := func(body, parent string) {
		t.Helper()
		if a := postWith(p.url()+"/v1/routes/telemetry/push", body, "traceparent", parent); a.status != 204 {
			t.Errorf("push: %d %s %v", a.status, a.body, a.err)
		}
	}
	traced := strings.Replace(pushBody("pump", 1), `"messageId"`, `"attributes":{"googclient_traceparent":"00-11111111111111111111111111111111-2222222222222222-01"},"messageId"`, 1)
	push(traced, "00-"+callersTrace+"-"+callersSpan+"-01")
	push(pushBody("silent", 1), "00-99999999999999999999999999999999-"+callersSpan+"-00")
	p.stop()

	server := c.span(t, "POST /v1/routes/{route}/push")
	if hexOf(server.TraceId) != callersTrace || hexOf(server.ParentSpanId) != callersSpan || server.Kind != tracepb.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's span: %v", server)
	}
	if len(server.Links) != 1 || hexOf(server.Links[0].TraceId) != strings.Repeat("1", 32) {
		t.Errorf("links to the publisher: %v", server.Links)
	}
	client := c.span(t, "MutateRows readings")
	if hexOf(client.TraceId) != callersTrace || hexOf(client.ParentSpanId) != hexOf(server.SpanId) || client.Kind != tracepb.Span_SPAN_KIND_CLIENT {
		t.Errorf("the backend request's span: %v", client)
	}
	if len(client.Links) != 1 || hexOf(client.Links[0].SpanId) != hexOf(server.SpanId) {
		t.Errorf("links to the records' spans: %v", client.Links)
	}
	if client.StartTimeUnixNano < server.StartTimeUnixNano || client.EndTimeUnixNano > server.EndTimeUnixNano {
		t.Error("the backend request is not within the request")
	}
	for key, want := range map[string]string{"db.system.name": "gcp.bigtable", "db.collection.name": "readings", "db.operation.name": "MutateRows",
		"rpc.system.name": "grpc", "db.namespace": "projects/p/instances/instance"} {
		if got := texts(client.Attributes)[key]; got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if len(c.spans) != 2 {
		t.Errorf("%d spans, want none of the request that its caller did not sample", len(c.spans))
	}
	for key, want := range map[string]string{"service.name": "orders-writer", "deployment.environment.name": "test", "k": "v", "telemetry.sdk.language": "go"} {
		if got := c.resources[0][key]; got != want {
			t.Errorf("resource %s: %q, want %q", key, got, want)
		}
	}
	if c.resources[0]["service.instance.id"] == "" || c.resources[0]["service.version"] == "" {
		t.Errorf("resource %v", c.resources[0])
	}
	if n := c.sum("pushsink.records"); n != 2 {
		t.Errorf("%d records counted, want 2", n)
	}
	if n := c.sum("pushsink.http.requests"); n != 2 {
		t.Errorf("%d requests counted, want 2", n)
	}
}

// OTEL-01, the other side: a collector that takes calls and never answers holds up neither
// the requests nor the stop, which would wait ten minutes for it. (When exactly the stop goes
// on without it: TestOTEL01HangingExportersEndWithTheBudget.)
func TestOTEL01AHangingCollectorHoldsNothingUp(t *testing.T) {
	c := newCollector(t, true)
	bt := scripted.New(t, scripted.Options{})
	bt.AddTable(readings, "m")
	p := start(t, real(t, bt, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+c.addr, "OTEL_TRACES_SAMPLER=always_on", "PUSHSINK_SHUTDOWN_TIMEOUT=2s",
		"OTEL_EXPORTER_OTLP_TIMEOUT=600000", "OTEL_BSP_EXPORT_TIMEOUT=600000", "OTEL_METRIC_EXPORT_TIMEOUT=600000",
		"OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_METRIC_EXPORT_INTERVAL=1", "OTEL_BSP_MAX_QUEUE_SIZE=4"))
	url := p.url()
	<-c.asked
	for i := range 50 { // more than the queue of spans holds
		if a := post(url+"/", pushBody(fmt.Sprint("d", i), 1)); a.status != 204 {
			t.Fatalf("push: %d %s %v", a.status, a.body, a.err)
		}
	}
	p.signal(syscall.SIGTERM)
	ended := time.AfterFunc(patience, func() { p.signal(syscall.SIGKILL) })
	defer ended.Stop()
	if code := p.wait(); code == -1 {
		t.Error("the stop waited for the collector")
	}
	p.logged("stopped")
}

// hanging is an exporter whose collector never answers.
type hanging struct{}

func (hanging) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}
func (hanging) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}
func (h hanging) Export(ctx context.Context, _ *metricdata.ResourceMetrics) error {
	return h.Shutdown(ctx)
}
func (h hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	return h.Shutdown(ctx)
}
func (h hanging) ForceFlush(ctx context.Context) error { return h.Shutdown(ctx) }
func (hanging) Shutdown(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestOTEL01HangingExportersEndWithTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		minutes := 10 * time.Minute
		x := &telemetry{
			logger: newLogger(&log, "info", platform{}),
			meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(hanging{}, sdkmetric.WithTimeout(minutes)))),
			spans:  newSpans(resource.Empty(), sdktrace.WithBatcher(hanging{}, sdktrace.WithExportTimeout(minutes))),
		}
		counter, err := x.meter().Int64Counter("n")
		if err != nil {
			t.Fatal(err)
		}
		counter.Add(t.Context(), 1)
		_, span := x.tracer().Start(t.Context(), "s")
		span.End()
		const budget = 2 * time.Second
		s, cancel := newStopper(x.logger, budget)
		defer cancel()
		s.step("flush telemetry", x.close)
		if took := time.Since(s.began); took != budget-stepGrace {
			t.Errorf("the flush took %s, want %s", took, budget-stepGrace)
		}
		if err := s.done(); err != nil {
			t.Error(err)
		}
		for _, signal := range []string{"metrics", "traces"} {
			if !strings.Contains(log.String(), `"message":"telemetry not flushed","signal":"`+signal+`"`) {
				t.Errorf("nothing is said of %s in\n%s", signal, log.String())
			}
		}
		time.Sleep(minutes) // the export that nobody waits for ends
	})
}

// A collector that is away costs few log lines, however often the export is tried, and no
// request.
func TestACollectorThatIsAwayDoesNotFillTheLog(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	bt.AddTable(readings, "m")
	p := start(t, real(t, bt, "OTEL_EXPORTER_OTLP_ENDPOINT=http://user:secret-word@127.0.0.1:1", "OTEL_TRACES_SAMPLER=always_on",
		"OTEL_BSP_EXPORT_TIMEOUT=10", "OTEL_METRIC_EXPORT_TIMEOUT=10", "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_METRIC_EXPORT_INTERVAL=1",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=secret-word"))
	began := time.Now()
	url := p.url()
	failures := func(signal string) (lines int, count float64) {
		for _, e := range p.entries("telemetry not exported") {
			if e["signal"] == signal {
				lines++
				count = max(count, e["count"].(float64))
			}
		}
		return lines, count
	}
	eventually(t, func() (bool, string) {
		if a := post(url+"/", pushBody("pump", 1)); a.status != 204 {
			t.Fatalf("push: %d %s %v", a.status, a.body, a.err)
		}
		_, traces := failures("traces")
		_, metrics := failures("metrics")
		return traces >= 16 && metrics >= 16, fmt.Sprintf("16 failures of each; %v and %v", traces, metrics)
	})
	p.stop()
	for _, signal := range []string{"traces", "metrics"} {
		lines, count := failures(signal)
		// 1, 2, 4, 8 … and one a minute.
		if most := 1 + int(math.Log2(count)) + int(time.Since(began)/time.Minute); lines > most {
			t.Errorf("%s: %d lines of %v failures, want %d at most", signal, lines, count, most)
		}
	}
	if strings.Contains(p.output()+p.stderr.String(), "secret-word") {
		t.Error("a credential is logged")
	}
}

// A request of Spanner is named by what it does; Google's older header is continued; an
// endpoint needs no scheme.
func TestTracesOfSpanner(t *testing.T) {
	c := newCollector(t, false)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := grpc.NewServer()
	sppb.RegisterSpannerServer(service, &scriptedSpanner{})
	go service.Serve(listener)
	t.Cleanup(service.Stop)
	p := start(t, append([]string{"PORT=0", "PUSHSINK_ROUTES_FILE=" + write(t, "routes.yaml", spannerRoutes), "PUSHSINK_AUTH=none",
		"PUSHSINK_SPANNER_DATABASE=projects/p/instances/i/databases/d", "SPANNER_EMULATOR_HOST=" + listener.Addr().String(),
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + c.addr, "OTEL_EXPORTER_OTLP_INSECURE=true"}, patient...))
	if a := postWith(p.url()+"/", pushBody("pump", 1), "X-Cloud-Trace-Context", callersTrace+"/74;o=1"); a.status != 204 {
		t.Fatalf("push: %d %s %v", a.status, a.body, a.err)
	}
	p.stop()
	server := c.span(t, "POST /")
	if hexOf(server.TraceId) != callersTrace || hexOf(server.ParentSpanId) != "000000000000004a" {
		t.Errorf("the request's span: %v", server)
	}
	client := c.span(t, "BatchWrite projects/p/instances/i/databases/d")
	if got := texts(client.Attributes); got["db.system.name"] != "gcp.spanner" || got["db.namespace"] != "projects/p/instances/i/databases/d" || got["rpc.method"] != "google.spanner.v1.Spanner/BatchWrite" {
		t.Errorf("attributes %v", got)
	}
	if len(c.metrics) != 0 {
		t.Errorf("%d metrics came, although only the traces have an endpoint", len(c.metrics))
	}
}
