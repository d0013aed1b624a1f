package handlers

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/pushsink/pushsink"
)

// bearer lets requests in that carry a token, as the middleware of AUTH does.
func bearer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			next.ServeHTTP(w, r)
		case "Bearer other":
			refuse(w, r, http.StatusForbidden, "email not allowed (AUTH_EMAILS)")
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, r, http.StatusUnauthorized, "no bearer token")
		}
	})
}

// untouched is a body that fails the test when it is read.
type untouched struct {
	t    *testing.T
	read bool
}

func (b *untouched) Read([]byte) (int, error) { b.read = true; return 0, io.ErrUnexpectedEOF }
func (b *untouched) Close() error             { return nil }

func TestBODY04RefusedBeforeTheBody(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.config.Auth = bearer })
	for _, c := range []struct {
		name, method, path, token string
		header                    []string
		status                    int
	}{
		{"no token, known path", "POST", "/v1/routes/r/push", "", nil, 401},
		{"no token, unknown route", "POST", "/v1/routes/x/push", "", nil, 401},
		{"no token, unknown path", "POST", "/x", "", nil, 401},
		{"no token, wrong method", "PUT", "/v1/routes/r/push", "", nil, 401},
		{"no token, default", "POST", "/", "", nil, 401},
		{"no token, dryrun", "POST", "/v1/routes/r/dryrun", "", nil, 401},
		{"other account", "POST", "/v1/routes/r/push", "other", nil, 403},
		{"unknown route", "POST", "/v1/routes/x/push", "good", nil, 404},
		{"unknown path", "POST", "/v1/routes/r/pushes", "good", nil, 404},
		{"wrong method", "PUT", "/v1/routes/r/push", "good", nil, 405},
		{"encoding", "POST", "/v1/routes/r/push", "good", []string{"Content-Encoding", "br"}, 415},
		{"encoding of a batch", "POST", "/v1/routes/r/records", "good", []string{"Content-Type", "application/json", "Content-Encoding", "br"}, 415},
		{"media type", "POST", "/v1/routes/r/records", "good", []string{"Content-Type", "text/plain"}, 415},
		{"no media type", "POST", "/v1/routes/r/records", "good", nil, 415},
		{"length over the cap", "POST", "/v1/routes/r/push", "good", nil, 413},
	} {
		t.Run("BODY-04 "+c.name, func(t *testing.T) {
			body := &untouched{t: t}
			r := newServerRequest(c.method, c.path, body)
			r.ContentLength = 800 << 20
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			for i := 0; i < len(c.header); i += 2 {
				r.Header.Set(c.header[i], c.header[i+1])
			}
			w := newRecorder()
			f.handler.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("got %d, want %d: %s", w.Code, c.status, w.Body)
			}
			if body.read {
				t.Error("the body was read")
			}
			if w.Header().Get("Connection") != "close" {
				t.Error("the connection goes on although the body was left")
			}
		})
	}
	// Over the wire: the bomb itself.
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 64 {
		z.Write(zeros)
	}
	z.Close()
	for path, status := range map[string]int{"/v1/routes/r/push": 401, "/nowhere": 401} {
		a := f.do(f.request("POST", path, bomb.String(), "Content-Encoding", "gzip"))
		f.want("BODY-04 bomb "+path, a, status, "")
	}
}

func TestRouting(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct {
		method, path   string
		status         int
		allow, pattern string
	}{
		{"POST", "/v1/routes/r/push", 400, "", "/v1/routes/{route}/push"},
		{"POST", "/", 400, "", "/"},
		{"GET", "/v1/routes/r/push", 405, "POST", ""},
		{"DELETE", "/v1/routes/r/records", 405, "POST", ""},
		{"POST", "/v1/routes/r/rows", 405, "GET", ""},
		{"POST", "/health/live", 405, "GET", ""},
		{"BREW", "/health/live", 405, "GET", ""},
		{"POST", "/v1/routes/none/push", 404, "", "/v1/routes/{route}/push"},
		{"POST", "/v1/routes//push", 404, "", ""},
		{"POST", "/v1/routes/r/push/", 404, "", "unmatched"},
		{"GET", "/healthz", 404, "", "unmatched"},
		{"BREW", "/no/such/path", 404, "", "unmatched"},
		{"GET", "/health/routes/none", 404, "", "/health/routes/{route}"},
		{"GET", "/v1/routes/r/rows", 404, "", "/v1/routes/{route}/rows"},
		{"POST", "/v1/routes/%72/push", 400, "", "/v1/routes/{route}/push"},
	} {
		a := f.do(f.request(c.method, c.path, ""))
		if a.status != c.status || a.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: got %d Allow %q, want %d %q: %s", c.method, c.path, a.status, a.header.Get("Allow"), c.status, c.allow, a.body)
		}
	}
	for key := range f.counts.requests {
		pattern, _, _ := strings.Cut(key, " ")
		if pattern != "unmatched" && pattern != "/" && !strings.HasPrefix(pattern, "/health/") && !strings.Contains(pattern, "{route}") {
			t.Errorf("label %q", key)
		}
	}
	for _, c := range []string{"unmatched GET 404", "/v1/routes/{route}/push POST 404"} {
		if f.counts.of(func(c *counts) map[string]int { return c.requests }, c) == 0 {
			t.Errorf("%q not counted: %v", c, f.counts.requests)
		}
	}
}

// OTEL-03: labels do not follow what clients send.
func TestOTEL03LabelsAreFixed(t *testing.T) {
	f := newFixture(t)
	h := f.handler
	for i := range 2000 {
		r := newServerRequest(strings.Repeat("M", i%50+1), "/p"+strings.Repeat("x", i%300), http.NoBody)
		h.ServeHTTP(newRecorder(), r)
		h.ServeHTTP(newRecorder(), newServerRequest("POST", "/v1/routes/x"+strings.Repeat("y", i%300)+"/push", http.NoBody))
	}
	if n := len(f.counts.requests); n > 4 {
		t.Errorf("%d series: %v", n, f.counts.requests)
	}
}

func TestNilAuthDenies(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.config.Auth = nil })
	f.want("AUTH-07", f.push(wrap(`{"id":"a"}`, "m")), 401, "")
	for _, path := range []string{"/health/live", "/openapi.yaml"} {
		if a := f.do(f.request("GET", path, "")); a.status != 200 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// What is off is 404, and names the option that opens it.
func TestExposure(t *testing.T) {
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/v1/routes/r/rows", "PUSHSINK_EXPOSE=rows"},
		{"POST", "/v1/routes/r/dryrun", "PUSHSINK_EXPOSE=dryrun"},
		{"POST", "/", "no such path"},
		{"GET", "/", "PUSHSINK_EXPOSE=console"},
		{"GET", "/metrics", "PUSHSINK_METRICS_PORT"},
	} {
		f := newFixture(t, func(f *fixture) { f.config.Expose = Expose{}; f.config.Default = nil })
		if a := f.do(f.request(c.method, c.path, "")); a.status != 404 || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s: %d %s, want 404 with %q", c.method, c.path, a.status, a.body, c.want)
		}
	}
	// With a default route the path is there, for pushes.
	f := newFixture(t, func(f *fixture) { f.config.Expose = Expose{} })
	if a := f.do(f.request("GET", "/", "")); a.status != 405 || !strings.Contains(a.body, "PUSHSINK_EXPOSE=console") {
		t.Errorf("GET /: %d %s, want 405 that names the option", a.status, a.body)
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	f := newFixture(t)
	if a := f.do(f.request("GET", "/openapi.yaml", "")); a.status != 200 || a.body != string(pushsink.OpenAPI) {
		t.Errorf("got %d, %d bytes", a.status, len(a.body))
	}
}

// A push that goes past the router is answered, counted, traced and logged as through it.
func TestStraightPushesAreAsTheRouters(t *testing.T) {
	type seen struct {
		status int
		header http.Header
		body   string
		counts map[string]int
		span   string
		logs   string
	}
	with := func(straight bool, path, method, token, body string, change func(*fixture)) (seen, bool) {
		tr := newTraced()
		f := newFixture(t, offline, func(f *fixture) {
			f.config.Auth = bearer
			f.config.Tracing = tr
			f.config.Logger = slog.New(slog.NewTextHandler(&lockedWriter{w: f.logs}, &slog.HandlerOptions{
				ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey || a.Key == "stack" {
						return slog.Attr{}
					}
					return a
				}}))
			if change != nil {
				change(f)
			}
		})
		r, err := http.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.RequestURI = r.URL.RequestURI()
		r.Header.Set("Traceparent", callersParent)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		found := f.api.straight(r) != nil
		if !straight {
			clear(f.api.pushes)
		}
		w := newRecorder()
		f.handler.ServeHTTP(w, r)
		span, attributes := tr.only(t)
		s := seen{status: w.Code, header: w.Header(), body: w.Body.String(), counts: f.counts.requests, logs: f.logs.String(),
			span: fmt.Sprint(span.Name(), span.Status(), span.Parent().SpanID(), attributes)}
		return s, found
	}
	noDefault := func(f *fixture) { f.config.Default = nil }
	good := wrap(`{"id":"a"}`, "m")
	for _, c := range []struct {
		name, method, path, token, body string
		change                          func(*fixture)
		straight                        bool
		status                          int
	}{
		{"push", "POST", "/v1/routes/r/push", "good", good, nil, true, 204},
		{"a query", "POST", "/v1/routes/r/push?x=/", "good", good, nil, true, 204},
		{"an empty query", "POST", "/v1/routes/r/push?", "good", good, nil, true, 204},
		{"default", "POST", "/", "good", good, nil, true, 204},
		{"default, no path at all", "POST", "", "good", good, nil, false, 204},
		{"no default", "POST", "/", "good", good, noDefault, false, 404},
		{"no token", "POST", "/v1/routes/r/push", "", good, nil, true, 401},
		{"no token for the default", "POST", "/", "", good, nil, true, 401},
		{"another's token", "POST", "/v1/routes/r/push", "other", good, nil, true, 403},
		{"no such route", "POST", "/v1/routes/none/push", "good", good, nil, false, 404},
		{"no name", "POST", "/v1/routes//push", "good", good, nil, false, 404},
		{"the pattern itself", "POST", "/v1/routes/{route}/push", "good", good, nil, false, 404},
		{"the method", "PUT", "/v1/routes/r/push", "good", good, nil, false, 405},
		{"no method of ours", "BREW", "/v1/routes/r/push", "good", good, nil, false, 405},
		{"the method of the default", "DELETE", "/", "good", good, nil, false, 405},
		{"a slash behind", "POST", "/v1/routes/r/push/", "good", good, nil, false, 404},
		{"a slash twice", "POST", "//v1/routes/r/push", "good", good, nil, false, 404},
		{"a slash twice within", "POST", "/v1/routes/r//push", "good", good, nil, false, 404},
		{"dots", "POST", "/v1/routes/../routes/r/push", "good", good, nil, false, 404},
		{"escaped", "POST", "/v1/routes/%72/push", "good", good, nil, false, 204},
		{"escaped, elsewhere", "POST", "/v1/r%6futes/r/push", "good", good, nil, false, 404},
		{"an escaped slash", "POST", "/v1/routes/r%2Fpush", "good", good, nil, false, 404},
		{"capitals", "POST", "/v1/routes/R/push", "good", good, nil, false, 404},
		{"no envelope", "POST", "/v1/routes/r/push", "good", "{}", nil, true, 400},
		{"a refused record", "POST", "/v1/routes/r/push", "good", wrap(`{"do":"mismatch"}`, "m"), nil, true, 422},
		{"a panic", "POST", "/v1/routes/r/push", "good", wrap(`{"do":"panic"}`, "m"), nil, true, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, straight := with(true, c.path, c.method, c.token, c.body, c.change)
			want, _ := with(false, c.path, c.method, c.token, c.body, c.change)
			if straight != c.straight || got.status != c.status {
				t.Errorf("straight %v, status %d, want %v %d: %s", straight, got.status, c.straight, c.status, got.body)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}
