package sink_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// An OK that comes with an error is none: it would show as an acknowledged record whose
// backend said that it failed.
func TestAppliedWithAnErrorNeverAcknowledges(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.b.Inject(func(_ context.Context, q *sinktest.Request) []sink.Outcome {
			return sinktest.Whole(len(q.Entries), sink.Outcome{Kind: sink.Applied, Err: errors.New("and yet")})
		})
		if o := r.write(2*time.Second, r.entry("a")).wait()[0]; o.Acknowledges() || o.Err == nil {
			t.Errorf("got %v: %v", o.Kind, o.Err)
		}
	})
	inBubble(t, nil, func(r *rig) {
		r.b.SetMissing(table)
		r.b.EnsureFunc = func(context.Context, sink.Dest) sink.Ensured {
			return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Applied, Err: errors.New("and yet")}}
		}
		writes := len(r.sizes())
		wantIs(t, "an Ensure that contradicts itself", r.write(2*time.Second, r.entry("a")).wait()[0], sink.Transient, sink.ErrUnavailable)
		if n := len(r.sizes()) - writes; n != 1 {
			t.Errorf("sent %d times: the table was taken for made", n)
		}
	})
}

// A caller that has left before it called has nothing sent for it, idle as the lane may be.
func TestAnEndedContextSendsNothing(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		o := r.w.Write(ctx, []sink.Entry{r.entry("a")})[0]
		wantIs(t, "outcome", o, sink.Undecided, sink.ErrWithdrawn)
		synctest.Wait()
		if n := len(r.sizes()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// A route on trial drops nothing, whatever is wrong with the record.
func TestTooCostlyOnTrialIsNotDropped(t *testing.T) {
	dropping(t, 1, func(r *rig) {
		r.one("R1")
		r.sleepUntil(11 * time.Second)
		e := r.entry("costly")
		e.Cost = 1 << 30
		wantIs(t, "outcome", r.write(0, e).wait()[0], sink.Undecided, sink.ErrTripped)
	})
}

// Entries that each fail by themselves are a lane that fails, too: it may not eat the
// process.
func TestEntryTransientsTakeAtMostHalf(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.b.Inject(sinktest.For(table, func(_ context.Context, q *sinktest.Request) []sink.Outcome {
			o := sinktest.Unavailable
			o.Scope = sink.ScopeEntry
			return sinktest.Whole(len(q.Entries), o)
		}))
		var ps []*pending
		for i := range 1500 {
			ps = append(ps, r.write(8*time.Second, r.entry(strconv.Itoa(i))))
			time.Sleep(3 * ms)
		}
		e := r.entry("good")
		e.Dest = sink.Dest{Instance: table.Instance, Table: "other"}
		p := r.write(8*time.Second, e)
		wantIs(t, "another lane's", p.wait()[0], sink.Applied)
		if p.took != 0 {
			t.Errorf("it took %v", p.took)
		}
		kinds(ps...)
	})
}

// A lone entry that runs into the timeout says nothing of how many are too many.
func TestALoneTimeoutKeepsTheBatchSize(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxInFlightRequestsDest = 1 }, func(r *rig) {
		r.b.Inject(sinktest.Times(1, sinktest.Stall(nil)))
		first := r.write(8*time.Second, r.entry("slow"))
		synctest.Wait()
		rest := r.each(8*time.Second, r.entries(0, 50)...)
		kinds(append(rest, first)...)
		if s := r.sizes(); len(s) > 3 {
			t.Errorf("batches of %v", s)
		}
	})
}

// Rejected ids are remembered in little memory: at most 64 bytes each, and in a streak
// only where it has a bound.
func TestLongIDs(t *testing.T) {
	dropping(t, 3, func(r *rig) {
		long := "R" + strings.Repeat("x", 1<<20)
		for range 5 {
			r.one(long)
		}
		if h := r.w.Route(r.route); h.Streak != 1 {
			t.Errorf("one record, a streak of %d", h.Streak)
		}
		r.one(long + "y")
		if h := r.w.Route(r.route); h.Streak != 2 {
			t.Errorf("two records, a streak of %d", h.Streak)
		}
	})
}

// BTERR-04: an OK and a batch-wide PERMISSION_DENIED in one request: the record is
// written, and health shows the failure all the same.
func TestBTERR04AnOKDoesNotHideTheFatalBesideIt(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxInFlightRequestsDest = 1 }, func(r *rig) {
		held := make(chan struct{})
		r.b.Inject(sinktest.Times(1, sinktest.Deaf(held)))
		first := r.write(8*time.Second, r.entry("first"))
		synctest.Wait()
		two := r.each(8*time.Second, r.entries(0, 2)...)
		synctest.Wait()
		r.b.Inject(func(_ context.Context, q *sinktest.Request) []sink.Outcome {
			outs := sinktest.Whole(len(q.Entries), sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeBatch, Err: errors.New("PERMISSION_DENIED")})
			if len(q.Entries) == 2 {
				q.Apply(0, 1)
				outs[0] = sink.Outcome{Kind: sink.Applied}
			}
			return outs
		})
		close(held)
		wantKinds(t, "first", kinds(first), map[sink.Kind]int{sink.Applied: 1})
		wantKinds(t, "two", kinds(two...), map[sink.Kind]int{sink.Applied: 1, sink.Fatal: 1})
		if s := r.w.Destination(table).State; s != sink.FatalState {
			t.Errorf("the destination is %v", s)
		}
	})
}
