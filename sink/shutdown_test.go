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

// SHUT-04: the end of the process flushes what lingers at once, and writes it.
func TestSHUT04DrainFlushesAtOnce(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxTimeInBuffer, o.AttemptTimeout = 5*time.Second, 30*time.Second
	}, func(r *rig) {
		held := make(chan struct{})
		r.b.Inject(sinktest.Times(1, sinktest.Stall(held)))
		first := r.write(0, r.entry("first"))
		synctest.Wait()
		ps := r.each(0, r.entries(0, 3)...)
		r.sleepUntil(100 * ms)
		r.w.Drain(time.Now().Add(5 * time.Second))
		wantKinds(t, "the three", kinds(ps...), map[sink.Kind]int{sink.Applied: 3})
		wantTime(t, "written", r.at(), 100*ms)
		close(held)
		wantKinds(t, "the first", kinds(first), map[sink.Kind]int{sink.Applied: 1})
		wantKinds(t, "a call during the drain", kinds(r.write(0, r.entry("late"))), map[sink.Kind]int{sink.Applied: 1})
	})
}

func TestDrainShortensDeadlines(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxInFlightRequestsDest = 1 }, func(r *rig) {
		r.b.Inject(sinktest.Stall(nil))
		open := r.write(60*time.Second, r.entry("open"))
		synctest.Wait()
		waits := r.write(0, r.entry("waits"))
		soon := r.write(2*time.Second, r.entry("soon"))
		r.sleepUntil(time.Second)
		r.w.Drain(time.Now().Add(1500 * ms))
		late := r.write(60*time.Second, r.entry("late"))
		wantIs(t, "its own deadline", soon.wait()[0], sink.Undecided, sink.ErrWithdrawn)
		wantTime(t, "answered", soon.end, 2*time.Second)
		wantIs(t, "open", open.wait()[0], sink.Undecided, sink.ErrInFlight, sink.ErrClosed)
		wantIs(t, "waiting", waits.wait()[0], sink.Undecided, sink.ErrWithdrawn, sink.ErrClosed)
		wantIs(t, "submitted since", late.wait()[0], sink.Undecided, sink.ErrWithdrawn, sink.ErrClosed)
		wantTime(t, "all answered", r.at(), 2500*ms)
	})
}

func TestDrainStartsNoBackoff(t *testing.T) {
	for name, fault := range map[string]sinktest.Fault{
		"batch":   sinktest.FailWhole(sinktest.Unavailable),
		"entry":   sinktest.FailWhole(sink.Outcome{}),
		"missing": sinktest.FailWhole(missing),
	} {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) { b.Latency = 10 * ms }, func(r *rig) {
			r.b.Inject(fault)
			p := r.write(0, r.entry("a"))
			synctest.Wait()
			r.w.Drain(time.Now().Add(5 * time.Second))
			wantIs(t, name, p.wait()[0], p.outs[0].Kind, sink.ErrUnavailable)
			wantTime(t, "answered", p.end, 10*ms)
		})
	}
}

func TestClose(t *testing.T) {
	t.Run("waits for what is open", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) { b.Latency, b.ReleaseLatency = 100*ms, 50*ms }, func(r *rig) {
			p := r.write(0, r.entry("a"))
			synctest.Wait()
			if err := r.w.Close(context.Background()); err != nil {
				t.Error(err)
			}
			wantTime(t, "closed, with its client", r.at(), 150*ms)
			wantKinds(t, "it", kinds(p), map[sink.Kind]int{sink.Applied: 1})
			wantIs(t, "afterwards", r.one("b"), sink.Undecided, sink.ErrClosed)
			if err := r.w.Close(context.Background()); err != nil {
				t.Error("again: ", err)
			}
		})
	})
	t.Run("cancels when its time is over", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.AttemptTimeout, o.MaxInFlightRequestsDest = time.Hour, 1
		}, func(r *rig) {
			r.b.Inject(sinktest.Stall(nil))
			p := r.write(0, r.entry("a"))
			synctest.Wait()
			q := r.write(0, r.entry("b"))
			synctest.Wait()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := r.w.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("closed with %v", err)
			}
			wantTime(t, "closed", r.at(), time.Second)
			wantIs(t, "open", p.wait()[0], sink.Undecided, sink.ErrInFlight, sink.ErrClosed)
			wantIs(t, "waiting", q.wait()[0], sink.Undecided, sink.ErrWithdrawn, sink.ErrClosed)
		})
	})
	t.Run("a backend that does not obey", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			release := make(chan struct{})
			r.b.Inject(sinktest.Deaf(release))
			p := r.write(0, r.entry("a"))
			synctest.Wait()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := r.w.Close(ctx); err == nil {
				t.Error("closed though a request is open")
			}
			wantTime(t, "given up", r.at(), 1250*ms)
			wantIs(t, "its caller", p.wait()[0], sink.Undecided, sink.ErrInFlight)
			close(release)
		})
	})
	t.Run("a writer that was never used", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {})
	})
}

func TestStuck(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		release := make(chan struct{})
		r.b.Inject(sinktest.Deaf(release))
		p := r.write(4*time.Second, r.entry("a"))
		r.sleepUntil(6 * time.Second)
		if h := r.w.Health(); h.Stuck || h.OldestRequest != 6*time.Second {
			t.Errorf("at twice the attempt timeout: stuck %v, oldest %v", h.Stuck, h.OldestRequest)
		}
		r.sleepUntil(6*time.Second + 1)
		if h := r.w.Health(); !h.Stuck {
			t.Error("past twice the attempt timeout: not stuck")
		}
		kinds(p)
		close(release)
		synctest.Wait()
		if h := r.w.Health(); h.Stuck || h.OpenRequests != 0 {
			t.Errorf("afterwards: %+v", h)
		}
	})
}

func TestIdleWriterHasNoGoroutine(t *testing.T) {
	// A bubble ends only when all its goroutines have: here without Close.
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		for range 3 {
			r.one("a")
		}
	})
}
