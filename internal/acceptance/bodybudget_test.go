package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/scripted"
)

// TestManyLargePushesStayInsideTheBodyBudget: pushes of 10 MB, 1,000 of them at once (short:
// 40 of 2 MB, and a quarter of the budget), are written or refused: 429 before their bodies are decoded. The server never
// holds more of bodies than BODY_BYTES_IN_FLIGHT, and its memory is bounded by it.
func TestManyLargePushesStayInsideTheBodyBudget(t *testing.T) {
	const inFlight = 64 << 20 // BIGTABLE_MAX_IN_FLIGHT_BYTES
	budget := size(128, 32) << 20
	bound := int64(5*(inFlight+budget)/2 + 64<<20)
	n, payload := size(1000, 40), size(10_000_000, 2_000_000)
	for _, protocol := range []string{"HTTP/1.1", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			bt := scripted.New(t, scripted.Options{KeysOnly: true, Latency: 20 * time.Millisecond})
			bt.AddTable(tableName("byid"), "f")
			s := startServer(t, plainBinary(t), bt.Addr(), byIDRoutes, map[string]string{
				"PUSHSINK_METRICS_PORT": "0", "PUSHSINK_BODY_BYTES_IN_FLIGHT": fmt.Sprint(budget)})
			metrics := metricsURL(t, s)
			client := newClient(t)
			if protocol == "h2c" {
				client = newH2Client(t)
			}
			client.Timeout = 0
			const id = "#id"
			head, tail, found := bytes.Cut(message{ID: "1", Data: make([]byte, payload), Attributes: map[string]string{"id": id}}.body(t), []byte(id))
			if !found {
				t.Fatal("no place for the id in the body")
			}
			answers := make([]answer, n)
			// No body ends before every other is sent but for its last byte, or refused: so they
			// meet, however fast each is.
			pending, together := make([]atomic.Bool, n), make(chan struct{})
			meet := sync.OnceFunc(func() { close(together) })
			var left atomic.Int64
			left.Store(int64(n))
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					defer left.Add(-1)
					defer pending[i].Store(true)
					end := len(tail) - 1
					body := io.MultiReader(bytes.NewReader(head), strings.NewReader(fmt.Sprintf("%04d", i)), bytes.NewReader(tail[:end]),
						pause{&pending[i], together}, bytes.NewReader(tail[end:]))
					answers[i] = pushFrom(t.Context(), client, s.URL, "byid", body, len(head)+4+len(tail))
				})
			}
			most, looks := 0, 0
			for ; left.Load() > 0; <-time.After(10 * time.Millisecond) {
				most = max(most, metric(t, metrics, "pushsink_http_body_held_bytes"))
				looks++
				if allSet(pending) {
					meet()
				}
			}
			all.Wait()
			statuses := map[int]int{}
			for i, a := range answers {
				statuses[a.Status]++
				stored := bt.Has(tableName("byid"), fmt.Sprintf("%04d", i))
				switch {
				case a.Status == http.StatusNoContent && stored:
				case a.Status == http.StatusTooManyRequests && !stored && a.Header.Get("Retry-After") != "" && strings.Contains(a.Body, `"code":"overloaded"`):
				case a.Status == http.StatusServiceUnavailable && !stored && a.Header.Get("Retry-After") != "":
					// The writer holds half of its bytes for a table that is slow to answer.
				case a.Status == 0 && !stored && protocol == "HTTP/1.1":
					// A refusal that came while the body was still being sent can be lost with the
					// connection. On HTTP/2 every request gets its answer.
				default:
					t.Errorf("push %d, stored %v: %v", i, stored, a)
				}
			}
			if statuses[http.StatusNoContent] == 0 || statuses[http.StatusTooManyRequests] == 0 {
				t.Errorf("answers %v, want some written and some refused", statuses)
			}
			if most > budget {
				t.Errorf("%d bytes of bodies held, budget %d", most, budget)
			}
			peak := memory(t, s, "VmHWM")
			if peak > bound {
				t.Errorf("peak RSS %d MiB, bound %d MiB", peak>>20, bound>>20)
			}
			if held := metric(t, metrics, "pushsink_http_body_held_bytes"); held != 0 {
				t.Errorf("%d bytes are still held", held)
			}
			if a := push(t.Context(), client, s.URL, "byid", message{ID: "2", Attributes: map[string]string{"id": "after"}}.body(t)); a.Status != http.StatusNoContent {
				t.Errorf("a push afterwards: %v", a)
			}
			t.Logf("%d pushes of %d bytes: %v; at most %d MiB of bodies held (%d looks), peak RSS %d MiB (bound %d)",
				n, payload, statuses, most>>20, looks, peak>>20, bound>>20)
		})
	}
}

// pause is an empty part of a body that says when it is reached, and ends with until.
type pause struct {
	reached *atomic.Bool
	until   <-chan struct{}
}

func (p pause) Read([]byte) (int, error) {
	p.reached.Store(true)
	<-p.until
	return 0, io.EOF
}
