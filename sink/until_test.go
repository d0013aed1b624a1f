package sink_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// The writer ends a call at its deadline by itself: its context has none, and nobody waits.
func TestSubmitUntilDeadline(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		b.Latency, o.MaxInFlightEntries, o.MaxInFlightRequestsDest, o.AdmissionTimeout = 100*ms, 3, 1, time.Second
	}, func(r *rig) {
		ctx := context.Background()
		open := r.w.SubmitUntil(ctx, r.start.Add(40*ms), r.entries(0, 1))
		synctest.Wait()
		queued := r.w.SubmitUntil(ctx, r.start.Add(50*ms), r.entries(1, 3))
		waits := r.w.SubmitUntil(ctx, r.start.Add(30*ms), r.entries(3, 4))
		lasts := r.w.SubmitUntil(ctx, time.Time{}, r.entries(4, 5))
		if waits.Overloaded() || lasts.Overloaded() {
			t.Error("refused, though there is time")
		}
		for _, c := range []struct {
			what string
			tk   *sink.Ticket
			at   time.Duration
			want error
		}{
			{"not admitted", waits, 30 * ms, sink.ErrWithdrawn},
			{"in an open request", open, 40 * ms, sink.ErrInFlight},
			{"queued", queued, 50 * ms, sink.ErrWithdrawn},
		} {
			<-c.tk.Done()
			wantTime(t, c.what, r.at(), c.at)
			for _, o := range c.tk.Wait() {
				wantIs(t, c.what, o, sink.Undecided, c.want)
			}
			if err := c.tk.Admitted(ctx); err != nil {
				t.Errorf("%s: admitted: %v", c.what, err)
			}
		}
		for _, o := range lasts.Wait() {
			wantIs(t, "without a deadline", o, sink.Applied)
		}
		wantTime(t, "without a deadline", r.at(), 200*ms)
		wantList(t, "sizes", r.sizes(), []int{1, 1})

		past := r.w.SubmitUntil(ctx, r.start.Add(200*ms), r.entries(5, 7))
		for _, o := range past.Wait() {
			wantIs(t, "at its deadline", o, sink.Undecided, sink.ErrWithdrawn)
		}
		wantList(t, "sizes", r.sizes(), []int{1, 1})
	})
}

// A context that ends counts while somebody waits.
func TestSubmitUntilContext(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		b.Latency, o.MaxInFlightRequestsDest = 100*ms, 1
	}, func(r *rig) {
		open := r.w.SubmitUntil(context.Background(), time.Time{}, r.entries(0, 1))
		synctest.Wait()
		ctx, leave := context.WithCancel(context.Background())
		queued := r.w.SubmitUntil(ctx, r.start.Add(time.Second), r.entries(1, 2))
		time.AfterFunc(10*ms, leave)
		wantIs(t, "of a caller that left", queued.Wait()[0], sink.Undecided, sink.ErrWithdrawn)
		wantTime(t, "of a caller that left", r.at(), 10*ms)
		wantIs(t, "of another", open.Wait()[0], sink.Applied)
		wantList(t, "sizes", r.sizes(), []int{1})
		gone := r.w.SubmitUntil(ctx, r.start.Add(time.Second), r.entries(2, 3))
		wantIs(t, "after its caller left", gone.Wait()[0], sink.Undecided, sink.ErrWithdrawn)
	})
}

// Without any time to wait, a call is refused before SubmitUntil returns, and tells so: the
// reader of a stream stops there.
func TestSubmitUntilOverloadedAtOnce(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		b.Latency, o.MaxInFlightEntries, o.AdmissionTimeout = 100*ms, 1, 0
	}, func(r *rig) {
		ctx := context.Background()
		first := r.w.SubmitUntil(ctx, time.Time{}, r.entries(0, 1))
		second := r.w.SubmitUntil(ctx, time.Time{}, r.entries(1, 3))
		for _, c := range []struct {
			tk   *sink.Ticket
			want bool
		}{{first, false}, {second, true}} {
			if err := c.tk.Admitted(ctx); err != nil || c.tk.Overloaded() != c.want {
				t.Errorf("admitted: %v, overloaded: %t, want %t", err, c.tk.Overloaded(), c.want)
			}
		}
		for _, o := range second.Wait() {
			wantIs(t, "without room", o, sink.Transient, sink.ErrOverloaded)
		}
		wantIs(t, "the first", first.Wait()[0], sink.Applied)
	})
}

// A caller whose entry was never answered itself learns what its table fails with; once the
// table is well again, nothing of it.
func TestDeadlineTellsWhatTheLaneFailsWith(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		b.Latency, o.MaxInFlightRequestsDest = 100*ms, 1
		o.Retry = sink.Backoff{Initial: 40 * ms, Max: 40 * ms}
	}, func(r *rig) {
		r.b.Inject(sinktest.Times(1, sinktest.FailWhole(sinktest.Unavailable)))
		first := r.write(0, r.entry("first")) // fails at 100 ms, is sent again before 150
		synctest.Wait()
		ctx, leave := context.WithCancel(context.Background())
		queued := r.writeCtx(ctx, nil, r.entry("queued"))
		r.sleepUntil(110 * ms)
		leave()
		open := r.write(50*ms, r.entry("open"))
		wantIs(t, "while the lane pauses", queued.wait()[0], sink.Undecided, sink.ErrWithdrawn, sinktest.Unavailable.Err)
		wantIs(t, "in an open request", open.wait()[0], sink.Undecided, sink.ErrInFlight, sinktest.Unavailable.Err)
		wantIs(t, "the one that waited", first.wait()[0], sink.Applied)
		o := r.write(50*ms, r.entry("later")).wait()[0]
		wantIs(t, "after it went well", o, sink.Undecided, sink.ErrInFlight)
		if errors.Is(o.Err, sinktest.Unavailable.Err) {
			t.Errorf("after it went well: %v", o.Err)
		}
	})
}
