package sink_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

func (r *rig) to(instance, table, id string) sink.Entry {
	e := r.entry(id)
	e.Dest = sink.Dest{Instance: instance, Table: table}
	return e
}

func TestIdleDestinationIsForgotten(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.IdleTimeout, b.Latency = time.Second, 100*ms
	}, func(r *rig) {
		lanes := func(want, clients int) {
			t.Helper()
			synctest.Wait()
			h := r.w.Health()
			if now, _ := r.b.Clients(); h.Lanes != want || now != clients {
				t.Errorf("at %v: %d lanes, %d clients; want %d, %d", r.at(), h.Lanes, now, want, clients)
			}
		}
		r.write(0, r.to("i", "t", "a"), r.to("i", "u", "b")).wait() // idle from 100 ms on
		r.sleepUntil(600 * ms)
		p := r.write(0, r.to("i", "u", "c")) // idle from 700 ms on
		r.sleepUntil(1090 * ms)              // have the writer's timer fire at 1100 ms: a linger ends
		busy := r.each(0, r.to("i", "v", "1"), r.to("i", "v", "2"))
		r.sleepUntil(1100 * ms)
		lanes(3, 1) // not longer than the timeout yet
		r.sleepUntil(1100*ms + 1)
		lanes(2, 1)
		r.sleepUntil(1700*ms + 1)
		lanes(1, 1) // a table never closes a shared client
		r.sleepUntil(2200*ms + 1)
		lanes(0, 0)
		kinds(append(busy, p)...)
		// Rebuilt transparently; one with entries is never forgotten.
		r.b.Latency = 0
		r.b.Inject(func(context.Context, *sinktest.Request) []sink.Outcome { time.Sleep(2500 * ms); return nil })
		q := r.write(0, r.to("i", "t", "d"))
		r.sleepUntil(4500 * ms)
		lanes(1, 1)
		wantKinds(t, "it", kinds(q), map[sink.Kind]int{sink.Applied: 1})
		wantList(t, "opened", r.b.Opens(), []string{"i", "i"})
	})
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.IdleTimeout = 1<<63 - 1 }, func(r *rig) {
		r.one("a")
		time.Sleep(24 * time.Hour)
		if h := r.w.Health(); h.Lanes != 1 {
			t.Errorf("%d lanes with the longest timeout", h.Lanes)
		}
	})
}

// CONN-06: many tables on many instances never hold more clients than allowed, and all
// go away.
func TestCONN06ManyTablesFewClients(t *testing.T) {
	before := runtime.NumGoroutine()
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxActiveInstances, o.IdleTimeout = 4, time.Second
		b.Latency, b.OpenLatency, b.ReleaseLatency = 5*ms, 20*ms, 30*ms
	}, func(r *rig) {
		var ps []*pending
		for round := range 5 {
			for i := range 200 {
				e := r.to("i"+strconv.Itoa(i%20), "t"+strconv.Itoa(i), strconv.Itoa(1000*round+i))
				ps = append(ps, r.write(8*time.Second, e))
			}
			synctest.Wait()
			time.Sleep(100 * ms)
		}
		got := kinds(ps...)
		if got[sink.Applied]+got[sink.Transient] != 1000 || got[sink.Applied] < 900 {
			t.Errorf("outcomes %v", got)
		}
		for i := range 200 { // what was not let in comes again
			for r.write(8*time.Second, r.to("i"+strconv.Itoa(i%20), "t"+strconv.Itoa(i), strconv.Itoa(i))).wait()[0].Kind != sink.Applied {
			}
		}
		if _, peak := r.b.Clients(); peak != 4 {
			t.Errorf("%d clients opening, open or closing at a time, want 4", peak)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if now, _ := r.b.Clients(); now != 0 || r.w.Health().Lanes != 0 || r.w.Health().OpenInstances != 0 {
			t.Errorf("%d clients, %d lanes after quiet", now, r.w.Health().Lanes)
		}
		if n := runtime.NumGoroutine(); n > before+3 { // the bubble's own
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
}

func TestLeastRecentlyUsedInstanceMakesRoom(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxActiveInstances = 2
		b.Latency, b.OpenLatency, b.ReleaseLatency = 10*ms, 5*ms, 20*ms
	}, func(r *rig) {
		r.write(0, r.to("a", "t", "1")).wait() // 15
		r.write(0, r.to("b", "t", "2")).wait() // 30
		r.write(0, r.to("a", "t", "3")).wait() // 40: b is the least recently used
		p := r.write(0, r.to("c", "t", "4"))   // b closes until 60, c opens until 65
		kinds(p)
		wantTime(t, "c, in the slot that b held until it was closed", p.end, 75*ms)
		q := r.write(0, r.to("a", "t", "5"))
		kinds(q)
		wantTime(t, "a, which stayed open", q.end, 85*ms)
		wantList(t, "opened", r.b.Opens(), []string{"a", "b", "c"})
	})
	t.Run("drains first", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxActiveInstances, o.MaxInFlightRequestsDest = 1, 1
			b.Latency = 100 * ms
		}, func(r *rig) {
			first := r.write(0, r.to("a", "t", "1"))
			synctest.Wait()
			rest := r.write(0, r.to("a", "t", "2"))
			synctest.Wait()
			other := r.write(0, r.to("b", "t", "3"))
			kinds(first, rest, other)
			wantTime(t, "a's first, which was open", first.end, 100*ms)
			wantTime(t, "b's, which waited longer than a's second", other.end, 200*ms)
			wantTime(t, "a's second, after it opened again", rest.end, 300*ms)
			wantList(t, "opened", r.b.Opens(), []string{"a", "b", "a"})
		})
	})
	t.Run("each open serves a batch", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxActiveInstances = 1
			b.OpenLatency, b.Latency = 10*ms, ms
		}, func(r *rig) {
			var ps []*pending
			for i := range 30 {
				ps = append(ps, r.write(0, r.to("i"+strconv.Itoa(i%3), "t", strconv.Itoa(i))))
			}
			wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: 30})
			if opens, requests := len(r.b.Opens()), len(r.sizes()); opens > requests {
				t.Errorf("%d opens for %d requests", opens, requests)
			}
		})
	})
}

// An instance that was opened and finds no free request slot is not closed again for
// those that wait, though it is not busy.
func TestAnOpenInstanceServesBeforeItMakesRoom(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxActiveInstances, o.MaxInFlightRequests, b.Latency, b.OpenLatency = 2, 1, 100*ms, ms
	}, func(r *rig) {
		var ps []*pending
		for _, name := range []string{"a", "b", "c", "d"} {
			ps = append(ps, r.write(0, r.to(name, "t", name)))
			time.Sleep(5 * ms)
		}
		kinds(ps...)
		wantList(t, "opened", r.b.Opens(), []string{"a", "b", "c", "d"})
	})
}

func TestAWaitingOpenEndsWithItsCallers(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.b.OpenFunc = func(ctx context.Context, instance string) error {
			if instance == "hangs" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		p := r.write(2*time.Second, r.to("hangs", "t", "1"))
		r.sleepUntil(time.Second)
		q := r.write(2*time.Second, r.to("hangs", "t", "2"))
		wantIs(t, "first", p.wait()[0], sink.Undecided, sink.ErrWithdrawn)
		wantTime(t, "answered", p.end, 2*time.Second)
		if h := r.w.Health(); h.OpenInstances != 1 {
			t.Error("the open ended though somebody waits for it")
		}
		wantIs(t, "second", q.wait()[0], sink.Undecided, sink.ErrWithdrawn)
		synctest.Wait()
		if h := r.w.Health(); h.OpenInstances != 0 {
			t.Error("the open goes on for nobody")
		}
		if now, _ := r.b.Clients(); now != 0 {
			t.Errorf("%d clients", now)
		}
	})
	t.Run("in the queue for a slot", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxActiveInstances = 1 }, func(r *rig) {
			r.b.Inject(sinktest.For(sink.Dest{Instance: "a", Table: "t"}, sinktest.Stall(nil)))
			first := r.write(8*time.Second, r.to("a", "t", "1"))
			synctest.Wait()
			second := r.write(time.Second, r.to("b", "t", "2"))
			wantIs(t, "never opened", second.wait()[0], sink.Undecided, sink.ErrWithdrawn)
			wantTime(t, "answered", second.end, time.Second)
			r.b.Heal()
			wantIs(t, "the other", first.wait()[0], sink.Applied)
		})
	})
}

func TestOpenThatFailsBacksOff(t *testing.T) {
	boom := errors.New("no route to host")
	inBubble(t, nil, func(r *rig) {
		r.b.OpenFunc = func(context.Context, string) error {
			if r.at() < 2*time.Second {
				return boom
			}
			return nil
		}
		hurried := r.write(15*ms, r.entry("hurried"))
		p := r.write(8*time.Second, r.entry("a"))
		wantIs(t, "who can't wait", hurried.wait()[0], sink.Transient, sink.ErrUnavailable, boom)
		wantIs(t, "who can", p.wait()[0], sink.Applied)
		within(t, "opened", p.end, 2*time.Second, 4*time.Second)
		if n := len(r.b.Opens()); n < 6 || n > 12 {
			t.Errorf("%d opens in 2 s of doubling backoff", n)
		}
	})
	inBubble(t, nil, func(r *rig) {
		r.b.OpenFunc = func(context.Context, string) error { panic("secret") }
		wantIs(t, "an open that panics", r.write(100*ms, r.entry("a")).wait()[0], sink.Transient, sink.ErrUnavailable, sink.ErrBackend)
	})
}
