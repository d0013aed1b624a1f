package sink_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

var missing = sink.Outcome{Kind: sink.Missing, Scope: sink.ScopeBatch, Err: sinktest.Refused.Err}

// One Ensure however many wait, then everything in order.
func TestMissingTableIsEnsuredOnce(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { b.Latency, o.MaxTimeInBuffer = 10*ms, 0 }, func(r *rig) {
		r.b.SetMissing(table)
		var ps []*pending
		for i := range 50 {
			ps = append(ps, r.write(8*time.Second, r.entry(strconv.Itoa(i), "k"+strconv.Itoa(i%5))))
			synctest.Wait()
			time.Sleep(ms / 2)
		}
		wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: 50})
		wantList(t, "ensured", r.b.Ensures(), []sink.Dest{table})
		for k := range 5 {
			var want []string
			for i := k; i < 50; i += 5 {
				want = append(want, strconv.Itoa(i))
			}
			wantList(t, "order of a key", r.b.Applied(table, "k"+strconv.Itoa(k)), want)
		}
		if h := r.w.Route(r.route); h.Streak != 0 {
			t.Errorf("streak %d", h.Streak)
		}
	})
}

func TestEnsureGoesOnWhenTheCallersLeave(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.b.EnsureFunc = func(ctx context.Context, d sink.Dest) sink.Ensured {
			select {
			case <-time.After(10 * time.Second):
				return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Applied}}
			case <-ctx.Done():
				t.Error("the ensure was ended")
				return sink.Ensured{}
			}
		}
		r.b.Inject(sinktest.Times(1, sinktest.FailWhole(missing)))
		p := r.write(8*time.Second, r.entry("a"))
		wantIs(t, "past the deadline", p.wait()[0], sink.Undecided, sink.ErrWithdrawn, missing.Err)
		wantTime(t, "answered", p.end, 8*time.Second)
		second := r.write(8*time.Second, r.entry("b"))
		synctest.Wait()
		if n := len(r.b.Ensures()); n != 1 {
			t.Errorf("%d ensures", n)
		}
		wantIs(t, "the redelivery", second.wait()[0], sink.Applied)
		wantTime(t, "the redelivery waits for the same ensure", second.end, 10*time.Second)
		if n := r.b.Stored("a"); n != 0 {
			t.Errorf("the withdrawn one was sent %d times", n)
		}
	})
}

func TestRecoveryBudget(t *testing.T) {
	t.Run("an ensure that fails", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.Recovery.MaxAttempts = 4 }, func(r *rig) {
			r.b.SetMissing(table)
			r.b.EnsureFunc = func(context.Context, sink.Dest) sink.Ensured {
				return sink.Ensured{Outcome: sinktest.Unavailable}
			}
			p := r.write(0, r.entry("a"))
			wantIs(t, "spent", p.wait()[0], sink.Missing, sink.ErrUnavailable, sinktest.Unavailable.Err)
			if n := len(r.b.Ensures()); n != 4 {
				t.Errorf("%d ensures of 4", n)
			}
			within(t, "0.5 + 1 + 2 s of backoff", p.end, 3500*ms*3/4, 3500*ms*5/4)
		})
	})
	t.Run("a table that takes three seconds to be seen", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			r.b.EnsureFunc = func(context.Context, sink.Dest) sink.Ensured {
				return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Applied}}
			}
			r.b.Inject(func(context.Context, *sinktest.Request) []sink.Outcome {
				if r.at() < 3*time.Second {
					return []sink.Outcome{missing}
				}
				return nil
			})
			p := r.write(15*time.Second, r.entry("a"))
			wantIs(t, "seen at last", p.wait()[0], sink.Applied)
			// The rounds are 0.5, 1, 2 and 4 s apart, each +-25 %.
			within(t, "answered", p.end, 3*time.Second, 7500*ms*5/4)
		})
	})
	t.Run("what can't be in time is answered now", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			r.b.Inject(sinktest.FailWhole(missing))
			r.b.EnsureFunc = func(context.Context, sink.Dest) sink.Ensured {
				return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Transient, RetryAfter: 9 * time.Second, Err: missing.Err}}
			}
			p := r.write(8*time.Second, r.entry("a"))
			wantIs(t, "no time left", p.wait()[0], sink.Transient, sink.ErrUnavailable)
			wantTime(t, "answered", p.end, 0)
		})
	})
	t.Run("an ensure that had nothing to do ends it", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			r.b.Inject(sinktest.FailWhole(missing))
			for range 3 {
				p := r.write(8*time.Second, r.entry("a"))
				wantIs(t, "the same failure again", p.wait()[0], sink.Missing, sink.ErrUnavailable)
				wantTime(t, "answered", p.end, 0)
			}
			wantList(t, "ensured", r.b.Ensures(), []sink.Dest{table})
			if n := len(r.sizes()); n != 4 {
				t.Errorf("%d requests", n)
			}
			time.Sleep(10 * time.Second)
			r.b.Heal()
			r.b.SetMissing(table)
			wantIs(t, "later it is worth another", r.one("b"), sink.Applied)
		})
	})
	t.Run("one incident's rounds are shared", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.Recovery.MaxAttempts = 3 }, func(r *rig) {
			r.b.EnsureFunc = func(context.Context, sink.Dest) sink.Ensured {
				return sink.Ensured{Outcome: sinktest.Unavailable}
			}
			r.b.Inject(sinktest.FailWhole(missing))
			var ps []*pending
			for i := range 20 {
				e := r.entry(strconv.Itoa(i))
				e.Dest.Table = "t" + strconv.Itoa(i)
				ps = append(ps, r.write(0, e))
				synctest.Wait()
				time.Sleep(50 * ms) // each later than the one before
			}
			wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Missing: 20})
			// Alone each would take 0.5 + 1 s from its start; the last came after 0.95 s.
			within(t, "all spent", r.at(), 1125*ms, 1900*ms)
		})
	})
	t.Run("several missing tables are all made", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			var es []sink.Entry
			for i := range 30 {
				e := r.entry(strconv.Itoa(i))
				e.Dest.Table = "t" + strconv.Itoa(i)
				r.b.SetMissing(e.Dest)
				es = append(es, e)
			}
			wantKinds(t, "all", kinds(r.write(8*time.Second, es...)), map[sink.Kind]int{sink.Applied: 30})
			if n := len(r.b.Ensures()); n != 30 {
				t.Errorf("%d ensures of 30 tables", n)
			}
		})
	})
}

func TestEnsureIsFinal(t *testing.T) {
	for _, tt := range []struct {
		answer sink.Outcome
		kind   sink.Kind
	}{
		{sinktest.Denied, sink.Fatal},
		{sinktest.Refused, sink.Rejected},
	} {
		inBubble(t, nil, func(r *rig) {
			r.b.SetMissing(table)
			r.b.EnsureFunc = func(context.Context, sink.Dest) sink.Ensured { return sink.Ensured{Outcome: tt.answer} }
			p := r.write(8*time.Second, r.entries(0, 3)...)
			wantKinds(t, tt.kind.String(), kinds(p), map[sink.Kind]int{tt.kind: 3})
			if h := r.w.Route(r.route); (h.Streak == 3) != (tt.kind == sink.Rejected) {
				t.Errorf("%v: streak %d", tt.kind, h.Streak)
			}
			if fatal := r.w.Destination(table).State == sink.FatalState; fatal != (tt.kind == sink.Fatal) {
				t.Errorf("%v: destination fatal %v", tt.kind, fatal)
			}
		})
	}
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.Recovery.MaxAttempts = 2 }, func(r *rig) {
		r.b.SetMissing(table)
		r.b.EnsureFunc = func(context.Context, sink.Dest) sink.Ensured { panic("no") }
		wantIs(t, "a panic is a failed round", r.one("a"), sink.Missing, sink.ErrUnavailable, sink.ErrBackend)
	})
}
