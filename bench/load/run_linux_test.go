package load

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pushsink/pushsink/bench/reading"
)

// counter is a server that counts the records that it gets.
type counter struct {
	*httptest.Server
	answer http.HandlerFunc // after the body was read

	mu       sync.Mutex // guards what follows
	requests int64
	seqs     map[int64]int
	problems []string
}

func newCounter(t *testing.T, shape Shape, answer http.HandlerFunc) *counter {
	c := &counter{answer: answer, seqs: map[int64]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c.mu.Lock()
		c.requests++
		if err != nil {
			c.problems = append(c.problems, err.Error())
		}
		for _, record := range recordsOf(t, shape, body) {
			var got reading.Reading
			if err := json.Unmarshal(record, &got); err != nil {
				c.problems = append(c.problems, err.Error())
			}
			c.seqs[got.Seq]++
		}
		c.mu.Unlock()
		c.answer(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *counter) addr() string { return strings.TrimPrefix(c.URL, "http://") }

func ok(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func do(t *testing.T, o Options) *Result {
	t.Helper()
	run, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	<-run.Began()
	<-run.Ended()
	r, err := run.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestClosedLoopCountsExactly(t *testing.T) {
	chunked := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"received":`)
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, strings.Repeat("1", 5000)+`}`)
	}
	for _, c := range []struct {
		name    string
		request Request
		answer  http.HandlerFunc
	}{
		{"wrapped", Request{Path: "/", Shape: Wrapped}, ok(204)},
		{"unwrapped", Request{Path: "/", Shape: Unwrapped}, ok(200)},
		{"NDJSON", Request{Path: "/", Shape: NDJSON, Records: 1000}, chunked},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newCounter(t, c.request.Shape, c.answer)
			r := do(t, Options{Addr: server.addr(), Request: c.request, Connections: 5, Seq: 11,
				Warm: 50 * time.Millisecond, Measure: 200 * time.Millisecond, Patience: time.Minute})
			each := int64(max(1, c.request.Records))
			server.mu.Lock()
			defer server.mu.Unlock()
			for _, problem := range server.problems {
				t.Error(problem)
			}
			if r.OK != server.requests || r.Records != r.OK*each || r.OK < 5 {
				t.Errorf("%d requests and %d records answered, the server had %d", r.OK, r.Records, server.requests)
			}
			if n := int64(len(server.seqs)); n != r.Records || r.NextSeq != 11+n || server.seqs[reading.FirstSeq+11] != 1 {
				t.Errorf("%d sequence numbers of %d records, the next is %d", n, r.Records, r.NextSeq)
			}
			if r.Failures() != 0 || r.InWindow > r.Records || int64(len(r.Latencies)) > r.OK || r.Window <= 0 {
				t.Errorf("failed %v, %d in a window of %v, %d latencies", r.Failed, r.InWindow, r.Window, len(r.Latencies))
			}
		})
	}
}

func TestFailuresAreCountedByStatus(t *testing.T) {
	var n int
	var mu sync.Mutex // guards n
	server := newCounter(t, Wrapped, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%3 == 0 {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	r := do(t, Options{Addr: server.addr(), Request: Request{Path: "/"}, Connections: 6, Measure: 100 * time.Millisecond, Patience: time.Minute})
	if want := server.requests / 3; r.Failed[503] != want || r.OK != server.requests-want || want == 0 {
		t.Errorf("%d of %d requests answered 2xx, failed %v", r.OK, server.requests, r.Failed)
	}
}

// arrivals are when the requests of an open loop are to be sent, up to end.
func arrivals(rate float64, end time.Duration) (at []time.Duration) {
	source := rand.New(rand.NewPCG(1, 2))
	for due := time.Duration(0); ; {
		due += time.Duration(source.ExpFloat64() / rate * float64(time.Second))
		if due >= end {
			return at
		}
		at = append(at, due)
	}
}

func TestOpenLoopSendsItsScheduleExactly(t *testing.T) {
	server := newCounter(t, Wrapped, ok(204))
	r := do(t, Options{Addr: server.addr(), Request: Request{Path: "/"}, Connections: 20, Rate: 500,
		Warm: 100 * time.Millisecond, Measure: 400 * time.Millisecond, Patience: time.Minute})
	all := arrivals(500, 500*time.Millisecond)
	warm := arrivals(500, 100*time.Millisecond)
	if want := int64(len(all)); r.OK != want || server.requests != want {
		t.Errorf("%d requests answered, %d arrived, %d were to be sent", r.OK, server.requests, want)
	}
	if want := len(all) - len(warm); len(r.Latencies) != want {
		t.Errorf("%d latencies, %d requests were to be sent within the window", len(r.Latencies), want)
	}
}

// A server that stalls is charged for the requests that were to be sent meanwhile.
func TestOpenLoopOmitsNothing(t *testing.T) {
	const stall = 300 * time.Millisecond
	var once sync.Once
	server := newCounter(t, Wrapped, func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { <-time.After(stall) })
		w.WriteHeader(http.StatusNoContent)
	})
	r := do(t, Options{Addr: server.addr(), Request: Request{Path: "/"}, Connections: 1, Rate: 200,
		Measure: 600 * time.Millisecond, Patience: time.Minute})
	all := arrivals(200, 600*time.Millisecond)
	if len(r.Latencies) != len(all) {
		t.Fatalf("%d latencies of %d requests", len(r.Latencies), len(all))
	}
	// Those that were to be sent in the first half of the stall waited for its second.
	want := len(arrivals(200, all[0]+stall/2))
	slow := 0
	for _, latency := range r.Latencies {
		if latency >= stall/2 {
			slow++
		}
	}
	if slow < want || want < 10 {
		t.Errorf("%d requests took %v or more, at least %d were held up so long", slow, stall/2, want)
	}
}

func TestUnansweredRequestsFail(t *testing.T) {
	release := make(chan struct{})
	server := newCounter(t, Wrapped, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	r := do(t, Options{Addr: server.addr(), Request: Request{Path: "/"}, Connections: 3, Measure: 20 * time.Millisecond, Patience: 50 * time.Millisecond})
	if r.OK != 0 || r.Failed[0] != 3 {
		t.Errorf("%d answered, failed %v; want 3 without an answer", r.OK, r.Failed)
	}
}

func TestAServerThatClosesEndsTheRun(t *testing.T) {
	server := newCounter(t, Wrapped, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	run, err := Start(Options{Addr: server.addr(), Request: Request{Path: "/"}, Connections: 1, Measure: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(); err == nil {
		t.Error("no error")
	}
}

// unfriendly closes the first connections that it accepts.
type unfriendly struct {
	net.Listener
	left   int           // used by the accepting goroutine alone
	closed chan struct{} // when none is left
}

func (l *unfriendly) Accept() (net.Conn, error) {
	for ; l.left > 0; l.left-- {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		_ = c.Close()
		if l.left == 1 {
			close(l.closed)
		}
	}
	return l.Listener.Accept()
}

func (l *unfriendly) wait() { <-l.closed }

// A connection that the server closes while it is not used is opened anew for the next
// request.
func TestAConnectionClosedUnusedIsReplaced(t *testing.T) {
	const closed, rate, length = 3, 10, 600 * time.Millisecond
	server := httptest.NewUnstartedServer(ok(204))
	l := &unfriendly{server.Listener, closed, make(chan struct{})}
	server.Listener = l
	server.Start()
	defer server.Close()
	r := do(t, Options{Addr: server.Listener.Addr().String(), Request: Request{Path: "/"}, Connections: closed, Rate: rate,
		Measure: length, Patience: time.Minute, connected: l.wait})
	all := arrivals(rate, length)
	if want := int64(len(all)); r.OK != want || r.Failures() != 0 {
		t.Errorf("%d of %d requests answered, failed %v", r.OK, want, r.Failed)
	}
}
