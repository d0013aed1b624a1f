package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink/internal/traceparent"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

const (
	callersTrace  = "0af7651916cd43dd8448eb211c80319c"
	callersParent = "00-" + callersTrace + "-b7ad6b7169203331-01"
	publisher     = "00-11111111111111111111111111111111-2222222222222222-00"
)

// traced is a Tracing that traces what its caller does.
type traced struct {
	*tracetest.SpanRecorder
	tracer trace.Tracer
}

func newTraced() *traced {
	r := tracetest.NewSpanRecorder()
	return &traced{r, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r)).Tracer("")}
}

func (t *traced) Begin(r *http.Request) (context.Context, trace.Span) {
	parent := traceparent.FromHeader(r.Header)
	if !parent.IsSampled() {
		return nil, nil
	}
	return t.tracer.Start(trace.ContextWithRemoteSpanContext(r.Context(), parent), r.Method, trace.WithSpanKind(trace.SpanKindServer))
}

// only is the one span that ended, with its attributes as text.
func (t *traced) only(tb testing.TB) (sdktrace.ReadOnlySpan, map[string]string) {
	tb.Helper()
	ended := t.Ended()
	t.Reset()
	if len(ended) != 1 {
		tb.Fatalf("%d spans, want 1", len(ended))
	}
	attributes := map[string]string{}
	for _, kv := range ended[0].Attributes() {
		attributes[string(kv.Key)] = kv.Value.String()
	}
	return ended[0], attributes
}

// A request's span is the caller's child and says what was asked, what came of it, and
// whose message it was; nothing of it is data.
func TestServerSpan(t *testing.T) {
	tr := newTraced()
	f := newFixture(t, offline, func(f *fixture) {
		f.config.Tracing = tr
		f.writer.outcome = func(e sink.Entry) sink.Outcome {
			switch e.Key {
			case "bad":
				return sink.Outcome{Kind: sink.Rejected, Err: &schema.Error{Code: schema.Constraint, Detail: "no"}}
			case "down":
				return sink.Outcome{Kind: sink.Transient, Err: sink.ErrUnavailable}
			}
			return sink.Outcome{Kind: sink.Applied}
		}
	})
	message := func(data string, extra ...string) string {
		attributes := strings.Join(extra, ",")
		return `{"message":{"data":"` + b64(data) + `","messageId":"m7","attributes":{` + attributes + `}},"subscription":"projects/p/subscriptions/s","deliveryAttempt":3}`
	}
	for name, c := range map[string]struct {
		r     *http.Request
		name  string
		error bool
		links int
		want  map[string]string // "" = absent
	}{
		"a push": {f.request("POST", "/v1/routes/r/push?key=secret-key", message(`{"id":"secret-key"}`, `"googclient_traceparent":"`+publisher+`"`, `"googclient_tracestate":"a=1"`)),
			"POST /v1/routes/{route}/push", false, 1, map[string]string{
				"http.request.method": "POST", "http.route": "/v1/routes/{route}/push", "http.response.status_code": "204", "url.path": "/v1/routes/r/push",
				"url.scheme": "http", "server.address": f.request("GET", "/", "").Host, "network.protocol.version": "1.1", "error.type": "",
				"pushsink.route": "r", "pushsink.records.received": "1", "pushsink.records.written": "1", "pushsink.records.failed": "", "pushsink.code": "",
				"messaging.system": "gcp_pubsub", "messaging.message.id": "m7", "messaging.destination.subscription.name": "projects/p/subscriptions/s",
				"messaging.operation.type": "process", "messaging.gcp_pubsub.message.delivery_attempt": "3"}},
		"a publisher's span that cannot be read": {f.request("POST", "/", message(`{"id":"secret-key"}`, `"googclient_traceparent":"00-secret-key"`)),
			"POST /", false, 0, map[string]string{"pushsink.route": "r", "http.route": "/"}},
		"an unwrapped push": {f.request("POST", "/", `{"id":"secret-key"}`, "X-Goog-Pubsub-Message-Id", "m8", "googclient_traceparent", publisher),
			"POST /", false, 1, map[string]string{"messaging.message.id": "m8", "messaging.system": ""}},
		"a rejected record": {f.request("POST", "/v1/routes/r/push", message(`{"id":"bad"}`)),
			"POST /v1/routes/{route}/push", false, 0, map[string]string{"http.response.status_code": "422", "pushsink.records.failed": "1", "pushsink.records.written": "0", "pushsink.code": "constraint", "error.type": ""}},
		"a sink that is down": {f.request("POST", "/v1/routes/r/push", message(`{"id":"down"}`)),
			"POST /v1/routes/{route}/push", true, 0, map[string]string{"http.response.status_code": "503", "error.type": "503", "pushsink.code": "unavailable"}},
		"a batch": {f.request("POST", "/v1/routes/r/records", `[{"id":"a"},{"id":"secret-key"},{"id":"b","do":"skip"},{"id":"bad"}]`, "Content-Type", "application/json"),
			"POST /v1/routes/{route}/records", false, 0, map[string]string{"http.response.status_code": "422", "pushsink.records.received": "4", "pushsink.records.written": "2",
				"pushsink.records.skipped": "1", "pushsink.records.failed": "1", "messaging.system": ""}},
		"an unknown path": {f.request("GET", "/no/such", ""),
			"GET", false, 0, map[string]string{"http.route": "", "http.response.status_code": "404", "pushsink.route": "", "url.path": "/no/such"}},
		"an unknown method": {f.request("BREW", "/no/such", ""),
			"HTTP", false, 0, map[string]string{"http.request.method": "_OTHER", "http.request.method_original": "BREW"}},
		"a panic": {f.request("POST", "/v1/routes/r/push", message(`{"id":"secret-key","do":"panic"}`)),
			"POST /v1/routes/{route}/push", true, 0, map[string]string{"http.response.status_code": "500", "error.type": "500"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.r.Header.Set("Traceparent", callersParent)
			f.do(c.r)
			span, attributes := tr.only(t)
			if span.Name() != c.name || span.SpanKind() != trace.SpanKindServer {
				t.Errorf("%s span %q, want a server's %q", span.SpanKind(), span.Name(), c.name)
			}
			if p := span.Parent(); span.SpanContext().TraceID().String() != callersTrace || p.SpanID().String() != "b7ad6b7169203331" {
				t.Errorf("not the caller's child: trace %s, parent %s", span.SpanContext().TraceID(), p.SpanID())
			}
			if failed := span.Status().Code == otelcodes.Error; failed != c.error {
				t.Errorf("status %v, want an error: %v", span.Status(), c.error)
			}
			for key, want := range c.want {
				if got := attributes[key]; got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
			if text := fmt.Sprint(attributes); strings.Contains(text, "secret-key") {
				t.Errorf("the span holds a key: %s", text)
			}
			links := span.Links()
			if len(links) != c.links {
				t.Fatalf("%d links, want %d", len(links), c.links)
			}
			for _, l := range links {
				if l.SpanContext.TraceID().String() != strings.Repeat("1", 32) || l.SpanContext.SpanID().String() != strings.Repeat("2", 16) {
					t.Errorf("linked to %v", l.SpanContext)
				}
			}
			if name == "a push" && links[0].SpanContext.TraceState().String() != "a=1" {
				t.Errorf("the publisher's tracestate is %q", links[0].SpanContext.TraceState())
			}
		})
	}
}

// What a caller may choose is short in a span: those of requests that were not let in wait for
// their export, too.
func TestSpanTextIsBounded(t *testing.T) {
	tr := newTraced()
	f := newFixture(t, offline, func(f *fixture) { f.config.Tracing = tr })
	long := strings.Repeat("é", 20_000)
	odd := f.request("POST", "/"+url.PathEscape(long), "")
	odd.Method, odd.Host = strings.Repeat("M", 20_000), long
	for _, c := range []struct {
		r    *http.Request
		keys []string
	}{
		{odd, []string{"url.path", "server.address", "http.request.method_original"}},
		{f.request("POST", "/", `{"message":{"messageId":"`+long+`"},"subscription":"`+long+`"}`), []string{"messaging.message.id", "messaging.destination.subscription.name"}},
	} {
		c.r.Header.Set("Traceparent", callersParent)
		f.do(c.r)
		_, attributes := tr.only(t)
		for _, key := range c.keys {
			if v := attributes[key]; len(v) < maxSpanText-2 || len(v) > maxSpanText || !utf8.ValidString(v) {
				t.Errorf("%s: %d bytes, want %d", key, len(v), maxSpanText)
			}
		}
	}
}

// The entries of a traced request carry its span, whichever way they came; others carry nothing.
func TestEntriesCarryTheSpan(t *testing.T) {
	tr := newTraced()
	f := newFixture(t, offline, func(f *fixture) { f.config.Tracing = tr })
	lines := `{"id":"a"}` + "\n" + `{"id":"b"}` + "\n"
	for _, r := range []*http.Request{
		f.request("POST", "/", wrap(`{"id":"a"}`, "m")),
		f.request("POST", "/v1/routes/r/records", lines, "Content-Type", "application/x-ndjson"),
		f.request("POST", "/v1/routes/r/records", `[{"id":"a"},{"id":"b"}]`, "Content-Type", "application/json"),
	} {
		for _, parent := range []string{callersParent, strings.TrimSuffix(callersParent, "1") + "0"} {
			r := r.Clone(t.Context())
			r.Body, _ = r.GetBody()
			f.writer.calls = nil
			r.Header.Set("Traceparent", parent)
			f.do(r)
			ended := tr.Ended()
			tr.Reset()
			es := f.writer.entries()
			if len(es) == 0 {
				t.Fatal("no entries")
			}
			for _, e := range es {
				switch span, _ := e.Origin.(trace.Span); {
				case len(ended) == 0 && e.Origin != nil:
					t.Errorf("%s, not traced: an entry carries %v", r.URL.Path, e.Origin)
				case len(ended) == 1 && (span == nil || span.SpanContext().SpanID() != ended[0].SpanContext().SpanID()):
					t.Errorf("%s: an entry carries %v", r.URL.Path, e.Origin)
				}
			}
			if want := strings.HasSuffix(parent, "1"); want != (len(ended) == 1) {
				t.Errorf("%s: %d spans", parent, len(ended))
			}
		}
	}
}

// A connection that is broken off leaves a span that says so.
func TestSpanOfARequestThatIsBrokenOff(t *testing.T) {
	tr := newTraced()
	f := newFixture(t, offline, func(f *fixture) {
		f.config.Tracing = tr
		f.config.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	})
	func() {
		defer func() { recover() }()
		f.api.handler(NoAuth).ServeHTTP(newRecorder(), f.request("GET", "/metrics", "", "Traceparent", callersParent))
	}()
	if span, _ := tr.only(t); span.Status().Code != otelcodes.Error {
		t.Errorf("status %v", span.Status())
	}
}

// logTraces is a log handler that keeps the trace that each line belongs to.
type logTraces struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *logTraces) Handle(ctx context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	sc := traceparent.Of(ctx)
	l.lines = append(l.lines, fmt.Sprintf("%s %s %v", r.Message, sc.TraceID(), sc.IsSampled()))
	return nil
}

// Every log line inside a request belongs to its trace, whether or not that is sampled, and
// whether or not anything is traced at all.
func TestLogLinesBelongToTheRequestsTrace(t *testing.T) {
	for _, tracing := range []Tracing{nil, newTraced()} {
		for flag, sampled := range map[string]bool{"0": false, "1": true} {
			logs := &logTraces{Handler: slog.DiscardHandler}
			f := newFixture(t, offline, func(f *fixture) {
				f.config.Tracing = tracing
				f.config.Logger = slog.New(enabled{logs})
				f.route.OnReject = schema.Drop
				f.route.Sink.Trips = true
			})
			parent := strings.TrimSuffix(callersParent, "1") + flag
			f.push(wrap(`{"id":"a","do":"mismatch"}`, "m"), "Traceparent", parent)
			f.push(wrap(`{"id":"a","do":"panic"}`, "m"), "Traceparent", parent)
			f.writer.state = RouteState{Tripped: true, TrippedSince: f.api.arrivals.now()}
			f.push(wrap(`{"id":"a","do":"mismatch"}`, "m"), "Traceparent", parent)
			var want []string
			for _, message := range []string{"record dropped by onReject", "panic in a request", "route stopped by rejections"} {
				want = append(want, fmt.Sprintf("%s %s %v", message, callersTrace, sampled))
			}
			if !slices.Equal(logs.lines, want) {
				t.Errorf("tracing %v, sampled %v: %q, want %q", tracing != nil, sampled, logs.lines, want)
			}
		}
	}
}

// enabled logs every level.
type enabled struct{ slog.Handler }

func (enabled) Enabled(context.Context, slog.Level) bool { return true }
