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

func TestAdmissionTimeout(t *testing.T) {
	t.Run("runs from the submission", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, b.Latency = 1, 2*time.Second
		}, func(r *rig) {
			first := r.write(0, r.entry("first"))
			r.sleepUntil(100 * ms)
			p := r.write(8*time.Second, r.entry("second"))
			wantIs(t, "not admitted", p.wait()[0], sink.Transient, sink.ErrOverloaded)
			wantTime(t, "answered", p.end, 600*ms)
			kinds(first)
			wantList(t, "sizes", r.sizes(), []int{1})
		})
	})
	t.Run("runs from the call's last admission", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, b.Latency = 1, 300*ms
		}, func(r *rig) {
			p := r.write(0, r.entries(0, 4)...)
			wantKinds(t, "admitted one by one", kinds(p), map[sink.Kind]int{sink.Applied: 4})
			wantTime(t, "answered", p.end, 1200*ms)
		})
	})
	t.Run("keeps what was admitted", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, b.Latency = 2, 700*ms
		}, func(r *rig) {
			p := r.write(0, r.entries(0, 4)...)
			wantKinds(t, "half", kinds(p), map[sink.Kind]int{sink.Applied: 2, sink.Transient: 2})
		})
	})
	t.Run("tells a stream's reader before the outcomes", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, b.Latency = 2, 700*ms
		}, func(r *rig) {
			tk := r.w.Submit(context.Background(), r.entries(0, 4))
			if tk.Overloaded() {
				t.Error("overloaded before the timeout")
			}
			if err := tk.Admitted(context.Background()); err != nil {
				t.Error(err)
			}
			wantTime(t, "told", r.at(), 500*ms)
			if !tk.Overloaded() {
				t.Error("not overloaded after the timeout")
			}
			tk.Wait()
		})
	})
	t.Run("0 refuses at once", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, o.AdmissionTimeout, b.Latency = 2, 0, 100*ms
		}, func(r *rig) {
			p := r.write(0, r.entries(0, 3)...)
			synctest.Wait()
			q := r.write(0, r.entry("q"))
			wantIs(t, "beside a full writer", q.wait()[0], sink.Transient, sink.ErrOverloaded)
			wantTime(t, "answered", q.end, 0)
			wantKinds(t, "three in two places", kinds(p), map[sink.Kind]int{sink.Applied: 2, sink.Transient: 1})
		})
	})
	t.Run("0 and a small buffer admits what can be sent", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxBuffered, o.AdmissionTimeout, o.MaxBatchEntries, b.Latency = 2, 0, 2, 100*ms
		}, func(r *rig) {
			r.write(0, r.entry("opens the client")).wait()
			p := r.write(0, r.entries(0, 10)...)
			wantKinds(t, "ten by two", kinds(p), map[sink.Kind]int{sink.Applied: 10})
		})
	})
}

func TestCapsArePassedByAtMostOneEntry(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxInFlightBytes, b.Latency = 100, 50*ms
	}, func(r *rig) {
		es := r.entries(0, 6)
		for i := range es {
			es[i].Bytes = 60
		}
		p := r.write(0, es...)
		synctest.Wait()
		if h := r.w.Health(); h.InFlightBytes != 120 || h.InFlightEntries != 2 || h.WaitingCalls != 1 {
			t.Errorf("%d bytes, %d entries in flight, %d calls wait", h.InFlightBytes, h.InFlightEntries, h.WaitingCalls)
		}
		wantKinds(t, "all", kinds(p), map[sink.Kind]int{sink.Applied: 6})

		huge := r.entry("huge")
		huge.Bytes = 5000 // above the cap: enters an empty writer
		wantKinds(t, "larger than the cap", kinds(r.write(0, huge)), map[sink.Kind]int{sink.Applied: 1})
	})
}

func TestALargeCallDoesNotStarveSmallOnes(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxInFlightEntries, o.MaxBatchEntries, o.MaxInFlightRequestsDest, b.Latency = 10, 10, 1, 10*ms
	}, func(r *rig) {
		large := r.write(0, r.entries(0, 1000)...)
		r.sleepUntil(5 * ms)
		small := r.each(0, r.entry("a"), r.entry("b"), r.entry("c"))
		wantKinds(t, "small", kinds(small...), map[sink.Kind]int{sink.Applied: 3})
		if at := r.at(); at > 30*ms {
			t.Errorf("small calls were answered at %v", at)
		}
		wantKinds(t, "large", kinds(large), map[sink.Kind]int{sink.Applied: 1000})
	})
}

// ACK-07: overload answers quickly and does not queue without bound.
func TestACK07OverloadAnswersQuickly(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxBuffered, o.MaxInFlightRequestsDest, o.MaxBatchEntries = 10, 2, 1
	}, func(r *rig) {
		blocked := make(chan struct{})
		r.b.Inject(sinktest.Deaf(blocked))
		var ps []*pending
		for i := range 200 {
			ps = append(ps, r.write(8*time.Second, r.entry(strconv.Itoa(i))))
		}
		synctest.Wait()
		if h := r.w.Health(); h.Buffered != 10 || h.OpenRequests != 2 || h.WaitingCalls != 188 {
			t.Errorf("%d buffered, %d open, %d wait", h.Buffered, h.OpenRequests, h.WaitingCalls)
		}
		r.sleepUntil(time.Second)
		close(blocked)
		got := kinds(ps...)
		// 2 open and 10 buffered. The lane stalls at 250 ms, but nobody else wants its room.
		wantKinds(t, "200 requests", got, map[sink.Kind]int{sink.Applied: 12, sink.Transient: 188})
		for _, p := range ps {
			if o := p.outs[0]; o.Kind == sink.Transient && p.took >= time.Second {
				t.Errorf("refused after %v", p.took)
			}
		}
	})
}

// WR-13: the byte cap bounds what is held, whatever the counts allow.
func TestWR13BytesBound(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		blocked := make(chan struct{})
		r.b.Inject(sinktest.Deaf(blocked))
		var ps []*pending
		for i := range 300 {
			e := r.entry(strconv.Itoa(i))
			e.Bytes = 1 << 20
			ps = append(ps, r.write(8*time.Second, e))
		}
		synctest.Wait()
		if h := r.w.Health(); h.InFlightBytes > 64<<20 || h.InFlightEntries != 64 {
			t.Errorf("%d bytes of %d entries in flight", h.InFlightBytes, h.InFlightEntries)
		}
		r.sleepUntil(time.Second)
		h := r.w.Health()
		if h.InFlightBytes > 64<<20 || h.WaitingCalls != 0 {
			t.Errorf("%d bytes in flight, %d calls wait", h.InFlightBytes, h.WaitingCalls)
		}
		close(blocked)
		got := kinds(ps...)
		if got[sink.Applied] != h.InFlightEntries || got[sink.Applied]+got[sink.Transient] != 300 {
			t.Errorf("outcomes %v, %d were in flight", got, h.InFlightEntries)
		}
	})
}

func TestADownLaneHoldsAtMostHalf(t *testing.T) {
	down, up := sink.Dest{Instance: "i", Table: "down"}, sink.Dest{Instance: "i", Table: "up"}
	at := func(r *rig, d sink.Dest, from, to int) []sink.Entry {
		es := r.entries(from, to)
		for i := range es {
			es[i].Dest = d
		}
		return es
	}
	t.Run("stalled", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, o.MaxBatchEntries, o.MaxInFlightRequestsDest, o.MaxInFlightRequests = 20, 2, 6, 12
		}, func(r *rig) {
			r.b.Inject(sinktest.For(down, sinktest.Stall(nil)))
			hung := r.each(8*time.Second, at(r, down, 0, 20)...)
			r.sleepUntil(200 * ms)
			waiting := r.write(8*time.Second, at(r, up, 100, 105)...)
			synctest.Wait()
			if h := r.w.Health(); h.InFlightEntries != 20 || h.WaitingCalls != 1 {
				t.Errorf("before: %+v", h)
			}
			wantKinds(t, "another lane's, which waited", kinds(waiting), map[sink.Kind]int{sink.Applied: 5})
			wantTime(t, "answered when the lane had been silent for 250 ms", waiting.end, 250*ms)

			refused := r.write(8*time.Second, at(r, down, 200, 201)...)
			passing := r.write(8*time.Second, at(r, up, 300, 301)...)
			wantKinds(t, "another lane's, behind it", kinds(passing), map[sink.Kind]int{sink.Applied: 1})
			if passing.took != 0 {
				t.Errorf("it took %v", passing.took)
			}
			wantIs(t, "a new one for the silent lane", refused.wait()[0], sink.Transient, sink.ErrOverloaded)
			if refused.took != 500*ms {
				t.Errorf("refused after %v", refused.took)
			}
			// Six requests took eleven of the twenty; of the nine that waited none may stay.
			h := r.w.Health()
			if h.InFlightEntries != 11 || h.Counters.Shed != 9 {
				t.Errorf("%d entries in flight, %d shed", h.InFlightEntries, h.Counters.Shed)
			}
			kinds(hung...)
		})
	})
	t.Run("paused", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxInFlightEntries = 20 }, func(r *rig) {
			o := sinktest.Unavailable
			o.RetryAfter = 2 * time.Second
			r.b.Inject(sinktest.For(down, sinktest.Times(1, sinktest.FailWhole(o))))
			first := r.write(8*time.Second, at(r, down, 0, 1)...)
			synctest.Wait()
			ps := r.each(8*time.Second, at(r, down, 1, 15)...)
			synctest.Wait()
			if h := r.w.Health(); h.InFlightEntries != 10 {
				t.Errorf("a paused lane holds %d of 20", h.InFlightEntries)
			}
			others := r.write(8*time.Second, at(r, up, 20, 30)...)
			wantKinds(t, "another lane's", kinds(others), map[sink.Kind]int{sink.Applied: 10})
			if others.took != 0 {
				t.Errorf("they took %v", others.took)
			}
			wantKinds(t, "the down lane's", kinds(append(ps, first)...), map[sink.Kind]int{sink.Applied: 10, sink.Transient: 5})
		})
	})
	// A large batch for a table that answers slowly, and alone in the process, is held back
	// and not refused: every entry is written, none is shed.
	t.Run("slow and wanted by nobody else", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, o.MaxBatchEntries, o.MaxInFlightRequestsDest, b.Latency = 20, 4, 2, 400*ms
		}, func(r *rig) {
			p := r.write(30*time.Second, r.entries(0, 200)...)
			wantKinds(t, "all", kinds(p), map[sink.Kind]int{sink.Applied: 200})
			if h := r.w.Health(); h.Counters.Shed != 0 || h.Counters.Overloaded != 0 {
				t.Errorf("%d shed, %d overloaded", h.Counters.Shed, h.Counters.Overloaded)
			}
		})
	})
	// So is one for a table that is being made.
	t.Run("being made", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, o.AdmissionTimeout, b.Latency = 20, 2*time.Second, 600*ms
		}, func(r *rig) {
			r.b.SetMissing(r.entry("0").Dest)
			p := r.write(30*time.Second, r.entries(0, 200)...)
			wantKinds(t, "all", kinds(p), map[sink.Kind]int{sink.Applied: 200})
		})
	})
	t.Run("a short pause takes nothing back", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, o.MaxInFlightRequestsDest, o.MaxBatchEntries, b.Latency = 20, 1, 4, ms
		}, func(r *rig) {
			r.b.Inject(sinktest.Times(1, sinktest.FailWhole(sinktest.Unavailable)))
			wantKinds(t, "all", kinds(r.each(8*time.Second, r.entries(0, 20)...)...), map[sink.Kind]int{sink.Applied: 20})
		})
	})
	t.Run("request slots", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightRequests, o.MaxInFlightRequestsDest, o.MaxBatchEntries, o.AttemptTimeout = 4, 4, 1, 10*time.Second
		}, func(r *rig) {
			r.b.Inject(sinktest.For(down, sinktest.Stall(nil)))
			ps := r.each(5*time.Second, at(r, down, 0, 1)...)
			r.sleepUntil(300 * ms)
			ps = append(ps, r.each(5*time.Second, at(r, down, 1, 9)...)...)
			if h := r.w.Health(); h.OpenRequests != 2 {
				t.Errorf("a stalled lane has %d of 4 request slots", h.OpenRequests)
			}
			wantKinds(t, "another lane's", kinds(r.write(0, at(r, up, 20, 21)...)), map[sink.Kind]int{sink.Applied: 1})
			kinds(ps...)
		})
	})
}
