package handlers

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// benchAPI is the whole handler over a null mapping and writer.
func benchAPI(b *testing.B) http.Handler {
	rt := &Route{Route: &schema.Route{Name: "r", Format: "json"}, Sink: &sink.Route{}, Target: fakeTarget{}, Writer: discardWriter{}, Mapper: discardMapper{}}
	return New(Config{Routes: []*Route{rt}, Default: rt, Limits: DefaultLimits(), Auth: NoAuth})
}

// nullResponse is a ResponseWriter without a connection.
type nullResponse struct {
	header http.Header
	status int
}

func (w *nullResponse) Header() http.Header         { return w.header }
func (w *nullResponse) WriteHeader(status int)      { w.status = status }
func (w *nullResponse) Write(p []byte) (int, error) { return len(p), nil }

// A connection takes deadlines.
func (w *nullResponse) SetReadDeadline(time.Time) error { return nil }

type rewound struct{ *strings.Reader }

func (rewound) Close() error { return nil }

func benchRequest(b *testing.B, path, media, body string) {
	h := benchAPI(b)
	r := newServerRequest("POST", path, http.NoBody)
	r.Header.Set("Content-Type", media)
	src := strings.NewReader(body)
	r.Body = rewound{src}
	w := &nullResponse{header: http.Header{}}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		src.Seek(0, io.SeekStart)
		r.ContentLength = int64(len(body))
		clear(w.header)
		w.status = 0
		h.ServeHTTP(w, r)
		if w.status != 204 && w.status != 200 {
			b.Fatal(w.status)
		}
	}
}

// BenchmarkPush is one delivery of a 500 byte record, with its envelope, through routing,
// body, envelope, writer and status.
func BenchmarkPush(b *testing.B) {
	benchRequest(b, "/v1/routes/r/push", "application/json",
		`{"subscription":"projects/p/subscriptions/s","message":{"publishTime":"2026-11-29T22:12:13.287Z","publish_time":"2026-11-29T22:12:13.287Z","messageId":"8241","message_id":"8241","attributes":{"tenant":"t1"},"data":"`+b64(`{"id":"a","x":"`+strings.Repeat("y", 485)+`"}`)+`"}}`)
}

// BenchmarkNDJSON is a stream of 1,000 records of 500 bytes.
func BenchmarkNDJSON(b *testing.B) {
	benchRequest(b, "/v1/routes/r/records", "application/x-ndjson", strings.Repeat(`{"id":"a","x":"`+strings.Repeat("y", 483)+"\"}\n", 1000))
}

// BenchmarkArray is an array of 1,000 records of 500 bytes.
func BenchmarkArray(b *testing.B) {
	one := `{"id":"a","x":"` + strings.Repeat("y", 483) + `"}`
	benchRequest(b, "/v1/routes/r/records", "application/json", "["+strings.TrimSuffix(strings.Repeat(one+",", 1000), ",")+"]")
}

// BenchmarkEnvelope is the decoding of one wrapped push alone.
func BenchmarkEnvelope(b *testing.B) {
	body := []byte(wrap(`{"id":"a","x":"`+strings.Repeat("y", 485)+`"}`, "8241"))
	pool := new(buffers)
	var e envelope
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var rec schema.Record
		buf, bad := e.decode(body, pool, &rec)
		if bad != nil {
			b.Fatal(bad)
		}
		pool.put(buf)
	}
}
