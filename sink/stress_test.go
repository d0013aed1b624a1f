package sink_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// WR-10, SHUT-03: entries that race with the end of the writer all get an outcome, and
// none is told to be written that is not.
func TestWR10SHUT03EveryCallIsAnswered(t *testing.T) {
	for round := range raceRounds {
		r := newRig(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries = 200
			o.MaxInFlightRequestsDest = 1 + round%4
		})
		const calls = 1000
		var applied, closed, other atomic.Int64
		var started, all sync.WaitGroup
		started.Add(calls / 2)
		for i := range calls {
			all.Go(func() {
				if i < calls/2 {
					started.Done()
				}
				o := r.w.Write(context.Background(), []sink.Entry{r.entry(strconv.Itoa(i))})[0]
				switch {
				case o.Kind == sink.Applied && r.b.Stored(strconv.Itoa(i)) == 1:
					applied.Add(1)
				case o.Kind == sink.Applied:
					t.Error("told to be written, and is not")
				case errors.Is(o.Err, sink.ErrClosed):
					closed.Add(1)
				case errors.Is(o.Err, sink.ErrOverloaded), errors.Is(o.Err, sink.ErrUnavailable):
					other.Add(1)
				default:
					t.Errorf("%v: %v", o.Kind, o.Err)
				}
			})
		}
		started.Wait()
		if err := r.w.Close(context.Background()); err != nil {
			t.Error(err)
		}
		all.Wait()
		if n := applied.Load() + closed.Load() + other.Load(); n != calls {
			t.Fatalf("%d outcomes of %d entries", n, calls)
		}
		r.close()
	}
}

// TestStress lets many goroutines, routes, keys, tables and faults loose on one writer,
// and checks at the end that what was acknowledged is stored, each key in order, and
// that nothing is left.
func TestStress(t *testing.T) {
	before := runtime.NumGoroutine()
	r := newRig(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxInFlightEntries, o.MaxBatchEntries, o.MaxActiveInstances = 300, 20, 2
		o.MaxConsecutiveRejections = 50
		o.TrialInterval = time.Millisecond
		o.IdleTimeout = 5 * time.Millisecond
		o.AttemptTimeout = 20 * time.Millisecond
		o.Retry = sink.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond}
		o.Recovery = sink.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond, MaxAttempts: 5}
	})
	var turn atomic.Uint64
	r.b.Inject(func(ctx context.Context, q *sinktest.Request) []sink.Outcome {
		switch turn.Add(1) % 23 {
		case 0:
			panic("a panic")
		case 3:
			return sinktest.Whole(len(q.Entries), sinktest.Unavailable)
		case 6:
			q.ApplyAll()
			return sinktest.Whole(len(q.Entries), sinktest.Unavailable)
		case 9:
			return sinktest.RejectWhole("bad")(ctx, q)
		case 12:
			return sinktest.Stall(nil)(ctx, q)
		case 15:
			return q.ApplyAll()[1:]
		case 18:
			return sinktest.Whole(len(q.Entries), sink.Outcome{Kind: sink.Missing, Scope: sink.ScopeBatch})
		}
		return sinktest.Reject("bad")(ctx, q)
	})
	routes := []*sink.Route{{Name: "keep"}, {Name: "drop", Trips: true}}
	type acked struct {
		dest sink.Dest
		key  string
		ids  []string
	}
	var mu sync.Mutex
	var all []acked
	var workers sync.WaitGroup
	const goroutines = 24
	for g := range goroutines {
		workers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 2))
			mine := acked{dest: sink.Dest{Instance: "i" + strconv.Itoa(g%4), Table: "t" + strconv.Itoa(g%3)}, key: "k" + strconv.Itoa(g)}
			for i := range 150 {
				// An own key, whose entries are acknowledged before the next is written, among
				// keys that all share.
				own := fmt.Sprintf("%d-%d", g, i)
				es := []sink.Entry{{Dest: mine.dest, Route: routes[0], ID: own, Key: mine.key, Bytes: 10}}
				for range rnd.IntN(4) {
					e := es[0]
					e.ID, e.Key, e.Route = own+"x", "shared"+strconv.Itoa(rnd.IntN(3)), routes[rnd.IntN(2)]
					if rnd.IntN(10) == 0 {
						e.ID = "bad"
					}
					es = append(es, e)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rnd.IntN(200))*time.Millisecond)
				for j, o := range r.w.Write(ctx, es) {
					switch {
					case o.Kind == sink.Rejected && es[j].ID != "bad" && !r.b.Merge:
						t.Error("a good record is rejected")
					case o.Kind == sink.Applied && r.b.Stored(es[j].ID) == 0:
						t.Error("acknowledged, but not stored")
					case o.Kind == sink.Applied && j == 0:
						mine.ids = append(mine.ids, own)
					}
				}
				cancel()
				if rnd.IntN(8) == 0 {
					r.w.Health()
					r.w.Route(routes[1])
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine)
		})
	}
	workers.Wait()
	r.b.Heal()
	r.close()
	for _, a := range all {
		stored := r.b.Applied(a.dest, a.key)
		last := map[string]int{}
		for i, id := range stored {
			last[id] = i
		}
		for i := 1; i < len(a.ids); i++ {
			if last[a.ids[i-1]] > last[a.ids[i]] {
				t.Errorf("%s was applied again after %s was acknowledged", a.ids[i-1], a.ids[i])
			}
		}
	}
	backTo(t, before)
}

// backTo waits until no more goroutines are left than there were.
func backTo(t *testing.T, before int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines are left of %d\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}
