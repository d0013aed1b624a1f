package acceptance

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pushsink/pushsink/internal/scripted"
)

// lastRoutes gives all cells one time: only the order of the writes tells them apart.
const lastRoutes = `
routes:
  last:
    bigtable:
      table: last
      rowKey: "{data.k}"
      timestamp: timestamp("2026-01-02T03:04:05Z")
      set:
        - {family: f, column: v, value: data.v, as: int64}
`

// TestLastLineWins: lines of one row in one batch, in one stream that trickles, and in
// batches that race with a slow first one. The service applies the entries of each call
// in random order, and breaks some calls after a part of them. The last line is what the
// row holds, once, when all is answered.
func TestLastLineWins(t *testing.T) {
	n := size(10_000, 400)
	holds := &holds{waiting: map[string]*hold{}}
	bt := scripted.New(t, scripted.Options{Script: func(c *scripted.Call) scripted.Plan {
		p := scripted.Plan{Shuffle: true, Delay: time.Duration(rand.IntN(2000)) * time.Microsecond, Until: holds.of(c)}
		if rand.IntN(25) == 0 {
			p.Fail, p.Apply = scripted.Status(codes.Unavailable, "the connection is draining", 0), rand.IntN(len(c.Entries)+1)
		}
		return p
	}})
	bt.AddTable(tableName("last"), "f")
	s := startServer(t, serverBinary(t), bt.Addr(), lastRoutes, nil)
	client := newClient(t)
	post := func(lines string) answer {
		return postRecords(t.Context(), client, s.URL, "last", strings.NewReader(lines))
	}
	wrote := func(trial int, a answer, lines string) {
		want := strings.Count(lines, "\n")
		if b := a.batch(t); a.Status != http.StatusOK || b.Written != want {
			t.Errorf("trial %d: %v, want %d written", trial, a, want)
		}
	}

	var kinds [3]atomic.Int64
	start := time.Now()
	inParallel(24, n, func(i int) {
		key := fmt.Sprintf("k%06d", i)
		v := 0
		lines := func(count int) string {
			var b strings.Builder
			for range count {
				for range rand.IntN(3) {
					fmt.Fprintf(&b, "{\"k\":\"other%d\",\"v\":0}\n", rand.IntN(1000))
				}
				v++
				fmt.Fprintf(&b, "{\"k\":%q,\"v\":%d}\n", key, v)
			}
			return b.String()
		}
		kind := i % len(kinds)
		kinds[kind].Add(1)
		switch kind {
		case 0: // in one batch
			body := lines(2 + rand.IntN(5))
			wrote(i, post(body), body)
		case 1: // in one stream, line by line
			body := lines(2 + rand.IntN(5))
			r, w := io.Pipe()
			go func() {
				for line := range strings.Lines(body) {
					_, _ = io.WriteString(w, line)
				}
				_ = w.Close()
			}()
			wrote(i, postRecords(t.Context(), client, s.URL, "last", r), body)
		case 2: // in batches, while the call of the first one is held
			h := holds.add(key)
			first := lines(1 + rand.IntN(3))
			var racing sync.WaitGroup
			racing.Go(func() { wrote(i, post(first), first) })
			select {
			case <-h.seen: // it is admitted and sent: whatever comes now is later
			case <-time.After(patience):
				t.Errorf("trial %d: the first batch was never sent", i)
			}
			second := lines(1 + rand.IntN(3))
			time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, h.release)
			wrote(i, post(second), second)
			racing.Wait()
		}
		cells := bt.Row(tableName("last"), key)["f:v"]
		if len(cells) != 1 || len(cells[0].Value) != 8 || int(cells[0].Value[7]) != v {
			t.Errorf("trial %d of kind %d: the row holds %v, want %d", i, kind, cells, v)
		}
	})
	stats := bt.Stats()
	t.Logf("%d trials in %v (one batch %d, one stream %d, racing batches %d): the last line won in all; %d calls with %d entries",
		n, time.Since(start).Round(time.Millisecond), kinds[0].Load(), kinds[1].Load(), kinds[2].Load(), stats.Requests, stats.Entries)
}

// holds keeps calls back that hold one of some rows, the first time each.
type holds struct {
	mu      sync.Mutex // guards waiting
	waiting map[string]*hold
}

type hold struct {
	seen     chan struct{} // closed when the row's first call came
	released chan struct{}
}

func (h *hold) release() { close(h.released) }

func (h *holds) add(key string) *hold {
	one := &hold{seen: make(chan struct{}), released: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[key] = one
	return one
}

// of is what a call waits for; nil = nothing. One of several rows in a call is enough.
func (h *holds) of(c *scripted.Call) (until <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range c.Entries {
		if one := h.waiting[string(e.GetRowKey())]; one != nil {
			delete(h.waiting, string(e.GetRowKey()))
			close(one.seen)
			until = one.released
		}
	}
	return until
}
