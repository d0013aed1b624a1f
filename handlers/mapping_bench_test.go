package handlers

import (
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// mappedRecord is about 500 bytes.
const mappedRecord = `{"device":"sensor-0042","site":"eu-west-1","kind":"reading","seq":9007199254740993,"temp":21.375,` +
	`"humidity":0.4825,"ok":true,"note":"after the filter was changed","tags":{"floor":"3","room":"b-17","owner":"facilities"},` +
	`"gps":{"lat":52.520008,"lon":13.404954,"alt":34.5},"history":[20.5,20.75,21.0,21.125,21.25],"firmware":{"version":"4.2.1","build":20260102},` +
	`"meta":{"source":"gateway-7","received":"2026-01-02T03:04:05.678Z","attempt":1,"signal":-71,"battery":88}}`

// A row of five cells by plain paths, and by an expression in every cell and in the key.
const (
	plainCells = `routes: {r: {bigtable: {table: t, rowKey: "{data.device}", set: [
  {family: m, column: temp, value: data.temp, as: float64},
  {family: m, column: seq, value: data.seq, as: int64},
  {family: m, column: note, value: data.note, as: string},
  {family: m, column: floor, value: data.tags.floor, as: string},
  {family: m, column: lat, value: data.gps.lat, as: float64}]}}}`
	celCells = `routes: {r: {bigtable: {table: t, rowKey: "{pad(hash(data.device, 16), 2)}#{data.device}", set: [
  {family: m, column: temp, value: data.temp * 1.8 + 32.0, as: float64},
  {family: m, column: seq, value: data.seq + 1, as: int64},
  {family: m, column: note, value: data.note.trim(), as: string},
  {family: m, column: floor, value: 'data.tags.floor + "/" + data.tags.room', as: string},
  {family: m, column: lat, value: data.gps.lat * 3600.0, as: float64}]}}}`
)

// mappedRequest gives a function that serves one request through everything in front of
// the writer, with a compiled mapping.
func mappedRequest(t testing.TB, routes, path, media, body string) func() {
	compiled, err := schema.Compile("routes.yaml", []byte(routes))
	if err != nil {
		t.Fatal(err)
	}
	rt := &Route{Route: compiled.Default, Sink: &sink.Route{}, Target: fakeTarget{}, Writer: discardWriter{}}
	h := New(Config{Routes: []*Route{rt}, Default: rt, Limits: DefaultLimits(), Auth: NoAuth})
	r := newServerRequest("POST", path, http.NoBody)
	r.Header.Set("Content-Type", media)
	src := strings.NewReader(body)
	r.Body = rewound{src}
	w := &nullResponse{header: http.Header{}}
	return func() {
		if _, err := src.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(len(body))
		clear(w.header)
		w.status = 0
		h.ServeHTTP(w, r)
		if w.status != 204 && w.status != 200 {
			t.Fatal(w.status)
		}
	}
}

var mappedRequests = []struct{ name, path, media, body string }{
	{"push", "/v1/routes/r/push", "application/json",
		`{"subscription":"projects/p/subscriptions/s","message":{"publishTime":"2026-11-29T22:12:13.287Z","publish_time":"2026-11-29T22:12:13.287Z",` +
			`"messageId":"8241","message_id":"8241","attributes":{"tenant":"t1"},"data":"` + b64(mappedRecord) + `"}}`},
	{"ndjson", "/v1/routes/r/records", "application/x-ndjson", strings.Repeat(mappedRecord+"\n", 100)},
}

// BenchmarkMapped is one push, and a stream of 100 records, by each of the two mappings.
func BenchmarkMapped(b *testing.B) {
	for _, m := range mappedRequests {
		for name, routes := range map[string]string{"plain": plainCells, "cel": celCells} {
			b.Run(m.name+"/"+name, func(b *testing.B) {
				serve := mappedRequest(b, routes, m.path, m.media, m.body)
				b.ReportAllocs()
				for b.Loop() {
					serve()
				}
			})
		}
	}
}

// TestCELInEveryCell compares the CPU of the two mappings: their least of interleaved
// rounds, so that a busy machine matters little. The bound holds with SOAK=1; otherwise
// the comparison is short and only has to be sane.
func TestCELInEveryCell(t *testing.T) {
	rounds, least, bound := 2, 10*time.Millisecond, 16.0
	if os.Getenv("SOAK") == "1" {
		rounds, least, bound = 30, 200*time.Millisecond, 1.6
	}
	for _, m := range mappedRequests {
		plain := mappedRequest(t, plainCells, m.path, m.media, m.body)
		cel := mappedRequest(t, celCells, m.path, m.media, m.body)
		var best [2]time.Duration // per request
		for round := range rounds {
			for i, serve := range []func(){plain, cel} {
				if used := perRequest(t, serve, least); round == 0 || used < best[i] {
					best[i] = used
				}
			}
		}
		ratio := float64(best[1]) / float64(best[0])
		if ratio > bound {
			t.Errorf("%s: an expression in every cell costs %.2f of plain paths, at most %.1f is wanted", m.name, ratio, bound)
		}
		t.Logf("%s: plain paths %v, an expression in every cell %v of CPU a request: %.2f", m.name, best[0], best[1], ratio)
	}
}

// perRequest is the process's CPU time of one of so many requests that take so long.
func perRequest(t *testing.T, serve func(), least time.Duration) time.Duration {
	n := 0
	start := cpuTime(t)
	for {
		for range 16 {
			serve()
		}
		n += 16
		if used := cpuTime(t) - start; used >= least {
			return used / time.Duration(n)
		}
	}
}

func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
