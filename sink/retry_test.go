package sink_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

func within(t *testing.T, what string, got, low, high time.Duration) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s: %v, want %v to %v", what, got, low, high)
	}
}

func TestBackoffDoublesAndIsJittered(t *testing.T) {
	spread := map[time.Duration]bool{}
	for range 20 {
		inBubble(t, nil, func(r *rig) {
			r.b.Inject(sinktest.FailWhole(sinktest.Unavailable))
			p := r.write(8*time.Second, r.entry("a"))
			wantIs(t, "never well", p.wait()[0], sink.Transient, sink.ErrUnavailable)
			at := r.sentAt()
			want := 10 * ms
			for i := 1; i < len(at); i++ {
				gap := at[i] - at[i-1]
				within(t, "wait "+strconv.Itoa(i), gap, want*3/4, want*5/4)
				want = min(2*want, time.Second)
				if i == 5 {
					spread[gap] = true
				}
			}
			if p.end > 8*time.Second || p.end < 6*time.Second {
				t.Errorf("answered at %v", p.end)
			}
			if last := at[len(at)-1]; p.end != last {
				t.Errorf("answered at %v, not when the attempt of %v left no time for another", p.end, last)
			}
			if h := r.w.Route(r.route); h.Streak != 0 || h.State != sink.OK {
				t.Errorf("counted as rejection: %+v", h)
			}
		})
	}
	if len(spread) < 10 {
		t.Errorf("20 writers used %d different waits", len(spread))
	}
}

// BTERR-06: pressure is not a bad record, and the service's hint is obeyed.
func TestBTERR06RetryAfterIsHonoured(t *testing.T) {
	hinted := func(d time.Duration, scope sink.Scope) sink.Outcome {
		return sink.Outcome{Kind: sink.Transient, Scope: scope, Err: sinktest.Unavailable.Err, RetryAfter: d}
	}
	for _, scope := range []sink.Scope{sink.ScopeBatch, sink.ScopeEntry} {
		inBubble(t, nil, func(r *rig) {
			r.b.Inject(sinktest.Times(3, sinktest.FailWhole(hinted(time.Second, scope))))
			p := r.write(8*time.Second, r.entry("a"))
			wantIs(t, "after the pressure", p.wait()[0], sink.Applied)
			wantList(t, "sent", r.sentAt(), []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second})
			if h := r.w.Route(r.route); h.Streak != 0 {
				t.Errorf("streak %d", h.Streak)
			}
		})
		inBubble(t, nil, func(r *rig) { // honoured up to 60 s
			r.b.Inject(sinktest.Times(1, sinktest.FailWhole(hinted(time.Hour, scope))))
			r.write(0, r.entry("a")).wait()
			wantList(t, "sent", r.sentAt(), []time.Duration{0, time.Minute})
		})
		inBubble(t, nil, func(r *rig) { // a hint past the caller's deadline
			r.b.Inject(sinktest.FailWhole(hinted(9*time.Second, scope)))
			p := r.write(8*time.Second, r.entry("a"))
			o := p.wait()[0]
			wantIs(t, "no time for it", o, sink.Transient, sink.ErrUnavailable)
			wantTime(t, "answered", p.end, 0)
			if o.RetryAfter != 9*time.Second {
				t.Errorf("the caller is told %v", o.RetryAfter)
			}
		})
	}
}

func TestABatchWideFailurePausesTheLane(t *testing.T) {
	other := sink.Dest{Instance: "i", Table: "other"}
	inBubble(t, nil, func(r *rig) {
		o := sinktest.Unavailable
		o.RetryAfter = 2 * time.Second
		r.b.Inject(sinktest.For(table, sinktest.Times(1, sinktest.FailWhole(o))))
		first := r.write(8*time.Second, r.entry("a"))
		r.sleepUntil(time.Second)
		second := r.write(8*time.Second, r.entry("b"))
		hurried := r.write(900*ms, r.entry("c"))
		e := r.entry("d")
		e.Dest = other
		free := r.write(8*time.Second, e)
		wantIs(t, "who can't wait for the pause to end", hurried.wait()[0], sink.Transient, sink.ErrUnavailable)
		wantTime(t, "answered", hurried.end, time.Second)
		kinds(free)
		wantTime(t, "another lane's", free.end, time.Second)
		wantKinds(t, "the lane's", kinds(first, second), map[sink.Kind]int{sink.Applied: 2})
		wantList(t, "sent", r.sentAt(), []time.Duration{0, time.Second, 2 * time.Second})
	})
}

// BTERR-03: an entry whose status was left out is sent again alone, and is no rejection.
func TestBTERR03ForgottenEntry(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.b.Inject(sinktest.Times(1, sinktest.Forget("1")))
		p := r.write(8*time.Second, r.entries(0, 3)...)
		wantKinds(t, "all", kinds(p), map[sink.Kind]int{sink.Applied: 3})
		wantList(t, "sizes", r.sizes(), []int{3, 1})
		for i := range 3 {
			if n := r.b.Stored(strconv.Itoa(i)); n != 1 {
				t.Errorf("entry %d applied %d times", i, n)
			}
		}
		if h := r.w.Route(r.route); h.Streak != 0 {
			t.Errorf("streak %d", h.Streak)
		}
	})
}

func TestAnEntrysTransientDelaysItsKeyOnly(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		o := sink.Outcome{Kind: sink.Transient, Err: sinktest.Unavailable.Err, RetryAfter: time.Second}
		r.b.Inject(sinktest.Times(1, sinktest.Answer(o, "a1")))
		first := r.write(8*time.Second, r.entry("a1", "a"), r.entry("b1", "b"), r.entry("free", ""))
		synctest.Wait()
		behind := r.write(8*time.Second, r.entry("a2", "a"))
		same := r.write(8*time.Second, r.entry("b2", "b"))
		wantKinds(t, "another key's", kinds(same), map[sink.Kind]int{sink.Applied: 1})
		wantTime(t, "answered", same.end, 0)
		wantKinds(t, "the key's", kinds(first, behind), map[sink.Kind]int{sink.Applied: 4})
		wantList(t, "order", r.b.Applied(table, "a"), []string{"a1", "a2"})
		wantTime(t, "all", r.at(), time.Second)
	})
	t.Run("unordered entries", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			o := sink.Outcome{Kind: sink.Transient, Err: sinktest.Unavailable.Err, RetryAfter: time.Second}
			r.b.Inject(sinktest.Times(1, sinktest.Answer(o, "1", "2")))
			es := r.entries(0, 5)
			for i := range es {
				es[i].Key = ""
			}
			kinds(r.write(8*time.Second, es...))
			wantList(t, "sizes: both go on together", r.sizes(), []int{5, 2})
		})
	})
}

func TestMaxAttempts(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		o := sinktest.Unavailable
		o.MaxAttempts = 3
		r.b.Inject(sinktest.FailWhole(o))
		wantIs(t, "a cause worth three", r.write(8*time.Second, r.entry("a")).wait()[0], sink.Transient, sink.ErrUnavailable, o.Err)
		wantList(t, "sizes", r.sizes(), []int{1, 1, 1})
	})
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.Retry.MaxAttempts = 5 }, func(r *rig) {
		r.b.Inject(sinktest.FailWhole(sinktest.Unavailable))
		r.write(8*time.Second, r.entry("a")).wait()
		if n := len(r.sizes()); n != 5 {
			t.Errorf("%d attempts of 5", n)
		}
	})
}

// BTERR-10: a batch that is too large for its timeout comes back in smaller pieces.
func TestBTERR10SmallerBatchesAfterATimeout(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.AttemptTimeout, o.MaxInFlightRequestsDest = 495*ms, 1
	}, func(r *rig) {
		slow := true
		r.b.Inject(func(ctx context.Context, q *sinktest.Request) []sink.Outcome {
			if !slow {
				return nil
			}
			select {
			case <-time.After(time.Duration(len(q.Entries)) * 10 * ms):
				return nil
			case <-ctx.Done():
				return make([]sink.Outcome, len(q.Entries))
			}
		})
		p := r.write(8*time.Second, r.entries(0, 100)...)
		wantKinds(t, "all", kinds(p), map[sink.Kind]int{sink.Applied: 100})
		sizes := r.sizes()
		wantList(t, "sizes", sizes[:3], []int{100, 50, 25})
		for _, n := range sizes[3:] {
			if n > 49 {
				t.Errorf("a batch of %d after smaller ones were found to pass", n)
			}
		}
		slow = false
		// Recovers slowly: an eighth more after each full batch.
		for i := range 40 {
			kinds(r.write(0, r.entries(1000+100*i, 1100+100*i)...))
		}
		sizes = r.sizes()
		if last := sizes[len(sizes)-1]; last != 100 {
			t.Errorf("batches are %d in the end", last)
		}
	})
}

// WR-03: a request that ends in an unknown way does not hold up the next.
func TestWR03AFailedBatchDoesNotBlockLaterOnes(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		o := sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, Err: sinktest.Unavailable.Err, MaxAttempts: 3}
		r.b.Inject(sinktest.Times(1, sinktest.FailWhole(o)))
		first := r.write(8*time.Second, r.entry("a"))
		synctest.Wait()
		next := r.write(8*time.Second, r.entry("b"))
		wantKinds(t, "both", kinds(first, next), map[sink.Kind]int{sink.Applied: 2})
		if next.took >= time.Second {
			t.Errorf("the next one took %v", next.took)
		}
	})
}

// WR-06: slots of requests whose backend panicked come back.
func TestWR06PanicsGiveTheirSlotsBack(t *testing.T) {
	for name, fault := range map[string]sinktest.Fault{
		"panic": sinktest.Panic(), "short answer": sinktest.Short(), "long answer": sinktest.Long(),
		"goroutine ends": func(context.Context, *sinktest.Request) []sink.Outcome { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxInFlightRequests = 2 }, func(r *rig) {
				r.b.Inject(sinktest.Times(10, fault))
				for i := range 10 {
					o := r.write(8*time.Second, r.entries(10*i, 10*i+3)...).wait()
					for _, o := range o {
						wantIs(t, "of a broken backend", o, sink.Undecided, sink.ErrBackend)
					}
				}
				if n := len(r.sizes()); n != 10 {
					t.Errorf("%d requests: what a broken backend had is not sent again", n)
				}
				wantKinds(t, "the 11th", kinds(r.write(0, r.entry("x"))), map[sink.Kind]int{sink.Applied: 1})
				if h := r.w.Health(); h.InFlightEntries != 0 || h.OpenRequests != 0 {
					t.Errorf("left: %+v", h)
				}
			})
		})
	}
}

// WR-07: foreign code that panics while a result is handled does not stop the writer.
func TestWR07APanicInResultHandling(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.Observer = &touchy{} }, func(r *rig) {
		r.b.Inject(sinktest.Times(1, sinktest.FailWhole(sink.Outcome{Kind: sink.Rejected, Err: touchyError{}})))
		if o := r.write(0, r.entry("a")).wait()[0]; o.Kind != sink.Rejected {
			t.Errorf("outcome %v", o.Kind)
		}
		wantKinds(t, "the next", kinds(r.write(0, r.entry("b"))), map[sink.Kind]int{sink.Applied: 1})
	})
}

// touchy is an observer, and touchyError an error, that panic when touched.
type touchy struct{}

func (*touchy) Request(sink.RequestStats) { panic("observer") }

type touchyError struct{}

func (touchyError) Error() string { panic("error text") }
func (touchyError) Is(error) bool { panic("error identity") }
