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

const ms = time.Millisecond

func TestLoneRecordNeverWaitsForATimer(t *testing.T) {
	for _, linger := range []time.Duration{0, 10 * ms, 7 * time.Second} {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxTimeInBuffer = linger
			b.Latency = 5 * ms
		}, func(r *rig) {
			p := r.write(8*time.Second, r.entry("a"))
			wantKinds(t, "a lone record", kinds(p), map[sink.Kind]int{sink.Applied: 1})
			wantTime(t, "answered", p.end, 5*ms)
			wantList(t, "sent", r.sentAt(), []time.Duration{0})
		})
	}
}

func TestBusyLane(t *testing.T) {
	tests := []struct {
		name  string
		tune  func(o *sink.Options, b *sinktest.Backend)
		at    []time.Duration // a record comes
		sent  []time.Duration
		sizes []int
	}{
		{"lingers", func(o *sink.Options, b *sinktest.Backend) { b.Latency = 100 * ms },
			[]time.Duration{0, 3 * ms, 5 * ms}, []time.Duration{0, 13 * ms}, []int{1, 2}},
		{"no linger: each at once", func(o *sink.Options, b *sinktest.Backend) { b.Latency = 100 * ms; o.MaxTimeInBuffer = 0 },
			[]time.Duration{0, 3 * ms, 5 * ms}, []time.Duration{0, 3 * ms, 5 * ms}, []int{1, 1, 1}},
		{"sends when a request ends", func(o *sink.Options, b *sinktest.Backend) { b.Latency = 100 * ms; o.MaxTimeInBuffer = time.Second },
			[]time.Duration{0, 3 * ms, 5 * ms}, []time.Duration{0, 100 * ms}, []int{1, 2}},
		{"sends when a batch is full", func(o *sink.Options, b *sinktest.Backend) {
			b.Latency, o.MaxTimeInBuffer, o.MaxBatchEntries = 100*ms, time.Second, 2
		}, []time.Duration{0, 3 * ms, 5 * ms, 6 * ms}, []time.Duration{0, 5 * ms, 100 * ms}, []int{1, 2, 1}},
		{"waits for its request cap", func(o *sink.Options, b *sinktest.Backend) {
			b.Latency, o.MaxTimeInBuffer, o.MaxInFlightRequestsDest = 100*ms, 0, 2
		}, []time.Duration{0, 3 * ms, 5 * ms, 6 * ms}, []time.Duration{0, 3 * ms, 100 * ms}, []int{1, 1, 2}},
		{"waits for the writer's request cap", func(o *sink.Options, b *sinktest.Backend) {
			b.Latency, o.MaxTimeInBuffer, o.MaxInFlightRequests = 100*ms, 0, 1
		}, []time.Duration{0, 3 * ms, 5 * ms}, []time.Duration{0, 100 * ms}, []int{1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.tune, func(r *rig) {
				var ps []*pending
				for i, at := range tt.at {
					r.sleepUntil(at)
					ps = append(ps, r.write(0, r.entry(strconv.Itoa(i))))
					synctest.Wait()
				}
				wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: len(tt.at)})
				wantList(t, "sent", r.sentAt(), tt.sent)
				wantList(t, "sizes", r.sizes(), tt.sizes)
			})
		})
	}
}

// WR-04: a timer armed in one path only let records sit past the linger.
func TestWR04TimerIsArmedInEveryPath(t *testing.T) {
	tune := func(o *sink.Options, b *sinktest.Backend) {
		o.MaxTimeInBuffer = 50 * ms
		b.Latency = 100 * ms
	}
	sentWithin := func(t *testing.T, r *rig, n int, came time.Duration) {
		t.Helper()
		at := r.sentAt()
		if len(at) <= n {
			t.Fatalf("%d requests, want more than %d", len(at), n)
		}
		if d := at[n] - came; d < 0 || d > 50*ms {
			t.Errorf("request %d was sent %v after its record came", n, d)
		}
	}
	t.Run("first thing, and after an idle minute", func(t *testing.T) {
		inBubble(t, tune, func(r *rig) {
			r.write(0, r.entry("a")).wait()
			sentWithin(t, r, 0, 0)
			time.Sleep(time.Minute)
			came := r.at()
			r.write(0, r.entry("b")).wait()
			sentWithin(t, r, 1, came)
		})
	})
	t.Run("after a flush that ended in a rejection", func(t *testing.T) {
		inBubble(t, tune, func(r *rig) {
			r.b.Inject(sinktest.Reject("a"))
			a := r.write(0, r.entry("a"))
			r.sleepUntil(99 * ms)
			b := r.write(0, r.entry("b"))
			wantKinds(t, "both", kinds(a, b), map[sink.Kind]int{sink.Rejected: 1, sink.Applied: 1})
			sentWithin(t, r, 1, 99*ms)
			time.Sleep(time.Second)
			came := r.at()
			r.write(0, r.entry("c")).wait()
			sentWithin(t, r, 2, came)
		})
	})
	t.Run("a steady stream does not push the timer away", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			tune(o, b)
			b.Latency = 10 * time.Second // no request ends
			o.AttemptTimeout = time.Minute
		}, func(r *rig) {
			var ps []*pending
			for i := range 10 {
				ps = append(ps, r.write(0, r.entry(strconv.Itoa(i))))
				synctest.Wait()
				time.Sleep(40 * ms)
			}
			wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: 10})
			// At 40 the second comes and waits until 90, with the third; the fourth, of 120,
			// until 170, with the fifth; and so on.
			wantList(t, "sent", r.sentAt()[:4], []time.Duration{0, 90 * ms, 170 * ms, 250 * ms})
		})
	})
}

// WR-09: sizes at, and one past, their bounds.
func TestWR09RecordAndBatchSizes(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxRecordBytes = 1000 }, func(r *rig) {
		for size, want := range map[int64]sink.Kind{1000: sink.Applied, 1001: sink.Rejected} {
			e := r.entry("x" + strconv.FormatInt(size, 10))
			e.Bytes = size
			o := r.write(0, e).wait()[0]
			if want == sink.Rejected {
				wantIs(t, "1001 bytes", o, want, sink.ErrTooLarge)
			} else {
				wantIs(t, "1000 bytes", o, want)
			}
		}
		if h := r.w.Route(r.route); h.Streak != 0 {
			t.Errorf("a too large record counts to the streak: %+v", h)
		}
	})
	hold := func(r *rig, es ...sink.Entry) []int {
		first := r.write(0, r.entry("first"))
		synctest.Wait()
		ps := []*pending{first}
		for _, e := range es {
			ps = append(ps, r.write(0, e))
			synctest.Wait()
		}
		wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: 1 + len(es)})
		return r.sizes()[1:]
	}
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxBatchBytes, o.MaxInFlightRequestsDest, b.Latency = 2500, 1, ms
	}, func(r *rig) {
		es := r.entries(0, 3)
		for i := range es {
			es[i].Bytes = 1000
		}
		wantList(t, "batches of 1000 bytes under 2500", hold(r, es...), []int{2, 1})
	})
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxBatchEntries, o.MaxInFlightRequestsDest, b.Latency = 2, 1, ms
	}, func(r *rig) {
		wantList(t, "batches of at most 2", hold(r, r.entries(0, 5)...), []int{2, 2, 1})
	})
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxBatchMutations, o.MaxInFlightRequestsDest, b.Latency = 6, 1, ms
	}, func(r *rig) {
		es := r.entries(0, 8)
		for i := range es {
			es[i].Mutations = 2
		}
		es[0].Mutations = 0 // counts as 1
		es[6].Mutations = 7 // above the bound: alone
		wantList(t, "batches of 2 mutations under 6", hold(r, es...), []int{3, 3, 1, 1})
	})
	t.Run("an entry above the batch bound goes alone", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxBatchBytes, o.MaxBatchCost, o.LoneOverCost, o.MaxInFlightRequestsDest, b.Latency = 100, 10, true, 1, ms
		}, func(r *rig) {
			es := r.entries(0, 5)
			es[1].Bytes = 300
			es[3].Cost = 12
			wantList(t, "batches around two large entries", hold(r, es...), []int{1, 1, 1, 1, 1})
		})
	})
	t.Run("an entry above the cost bound is rejected where it can't go alone", func(t *testing.T) {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxBatchCost = 10 }, func(r *rig) {
			e := r.entry("a")
			e.Cost = 11
			wantIs(t, "11 mutations", r.write(0, e).wait()[0], sink.Rejected)
		})
	})
}

// WR-12: requests of one lane are not serialised.
func TestWR12RequestsRunSideBySide(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxInFlightRequests, o.MaxBatchEntries, b.Latency = 4, 1, 100*ms
	}, func(r *rig) {
		wantKinds(t, "all", kinds(r.each(0, r.entries(0, 40)...)...), map[sink.Kind]int{sink.Applied: 40})
		wantTime(t, "40 records by 4 at a time of 100 ms", r.at(), time.Second)
		if n := r.b.MaxOpen(); n != 4 {
			t.Errorf("%d requests open at a time, want 4", n)
		}
	})
}

func TestDueLanesTakeTurns(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxInFlightRequests, o.MaxBatchEntries, b.Latency = 1, 1, 10*ms
	}, func(r *rig) {
		var ps []*pending
		for i := range 12 {
			e := r.entry(strconv.Itoa(i))
			e.Dest.Table = []string{"busy", "busy", "busy", "quiet"}[i%4]
			ps = append(ps, r.write(0, e))
			synctest.Wait()
		}
		kinds(ps...)
		var order string
		for _, q := range r.b.Requests() {
			order += q.Dest.Table[:1]
		}
		// The first busy one finds the slot free; then both lanes are due.
		if order != "bbqbqbqbbbbb" {
			t.Errorf("a freed slot went to %s, want the lanes in turn", order)
		}
	})
}

func TestKeyOrder(t *testing.T) {
	for _, merge := range []bool{true, false} {
		inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MergeKeys, b.Latency = merge, 9*ms
		}, func(r *rig) {
			ps := r.each(0, r.entry("1", "k"), r.entry("2", "k"), r.entry("x"), r.entry("3", "k"))
			wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: 4})
			wantList(t, "order of the key", r.b.Applied(table, "k"), []string{"1", "2", "3"})
			// x lingers; 2 and 3 wait for 1, and without merging 3 waits for 2.
			sent := []time.Duration{0, 9 * ms}
			if !merge {
				sent = append(sent, 18*ms)
			}
			wantList(t, "sent", r.sentAt(), sent)
		})
	}
}

func TestEntriesBlockedByTheirKeyDoNotArmTheTimer(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { b.Latency = 200 * ms }, func(r *rig) {
		ps := r.each(0, r.entry("1", "k"), r.entry("2", "k"))
		time.Sleep(100 * ms)
		if n := len(r.b.Requests()); n != 1 {
			t.Errorf("%d requests while the key's first is open", n)
		}
		kinds(ps...)
		wantList(t, "sent", r.sentAt(), []time.Duration{0, 200 * ms})
	})
}

// SRV-06: a caller that leaves takes nobody with it.
func TestSRV06OneCallerLeaves(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		b.Latency, o.MaxInFlightRequestsDest = 100*ms, 1
	}, func(r *rig) {
		first := r.write(0, r.entry("first"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		leaver := r.writeCtx(ctx, nil, r.entry("leaver"))
		synctest.Wait()
		others := r.each(0, r.entries(0, 9)...)
		r.sleepUntil(150 * ms) // the ten are in one open request
		cancel()
		wantIs(t, "the one that left", leaver.wait()[0], sink.Undecided, sink.ErrInFlight)
		wantTime(t, "it was answered", leaver.end, 150*ms)
		wantKinds(t, "the others", kinds(append(others, first)...), map[sink.Kind]int{sink.Applied: 10})
		wantList(t, "sizes", r.sizes(), []int{1, 10})
		if r.b.Stored("leaver") != 1 {
			t.Error("the leaver's record was in the request and is not stored")
		}
	})
}

func TestWithdrawnIsNeverSent(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		b.Latency, o.MaxInFlightRequestsDest = 100*ms, 1
	}, func(r *rig) {
		first := r.write(0, r.entry("first"))
		synctest.Wait()
		late := r.write(50*ms, r.entry("late"))
		wantIs(t, "past its deadline", late.wait()[0], sink.Undecided, sink.ErrWithdrawn)
		wantTime(t, "answered", late.end, 50*ms)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for _, o := range r.w.Write(ended, r.entries(0, 3)) {
			wantIs(t, "with an ended context", o, sink.Undecided, sink.ErrWithdrawn)
		}
		kinds(first)
		time.Sleep(time.Second)
		wantList(t, "sizes", r.sizes(), []int{1})
	})
}

func TestTicket(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		b.Latency, o.MaxInFlightEntries, o.MaxInFlightRequestsDest = 100*ms, 4, 1 // 3 open, one behind them
	}, func(r *rig) {
		ctx, cancel := context.WithCancel(context.Background())
		tk := r.w.Submit(ctx, r.entries(0, 5))
		short, stop := context.WithTimeout(context.Background(), 10*ms)
		if err := tk.Admitted(short); err != context.DeadlineExceeded {
			t.Errorf("admitted: %v, want the deadline", err)
		}
		stop()
		if err := tk.Admitted(context.Background()); err != nil {
			t.Error(err)
		}
		wantTime(t, "admitted", r.at(), 100*ms)
		for _, o := range tk.Wait() {
			wantIs(t, "each", o, sink.Applied)
		}
		wantTime(t, "settled", r.at(), 200*ms)

		// Nobody waits when the caller leaves.
		tk = r.w.Submit(ctx, r.entries(10, 15))
		cancel()
		<-tk.AdmittedChan()
		<-tk.Done()
		for i, o := range tk.Wait() {
			want := sink.ErrInFlight
			if i >= 3 {
				want = sink.ErrWithdrawn
			}
			wantIs(t, "of a caller that left", o, sink.Undecided, want)
		}
		if outs := r.w.Submit(context.Background(), nil).Wait(); len(outs) != 0 {
			t.Errorf("outcomes of nothing: %v", outs)
		}
		if outs := r.w.Write(ctx, nil); len(outs) != 0 {
			t.Errorf("outcomes of nothing for nobody: %v", outs)
		}
	})
}
