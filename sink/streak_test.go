package sink_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// dropping is a rig whose route trips at bound, and whose service refuses what its name
// says: "R…" is bad.
func dropping(t *testing.T, bound int, f func(r *rig)) {
	t.Helper()
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxConsecutiveRejections = bound }, func(r *rig) {
		r.route = &sink.Route{Name: "r", Trips: true}
		r.b.Inject(refuseR)
		f(r)
	})
}

func refuseR(_ context.Context, q *sinktest.Request) []sink.Outcome {
	outs := make([]sink.Outcome, len(q.Entries))
	for i, e := range q.Entries {
		if e.ID != "" && e.ID[0] == 'R' {
			outs[i] = sinktest.Refused
			continue
		}
		q.Apply(i, i+1)
		outs[i].Kind = sink.Applied
	}
	return outs
}

func (r *rig) one(id string) sink.Outcome { return r.write(8*time.Second, r.entry(id)).wait()[0] }

// HEALTH-01: consecutive does not mean ever.
func TestHEALTH01SuccessResetsTheStreak(t *testing.T) {
	dropping(t, 3, func(r *rig) {
		for i, step := range []struct {
			id     string
			streak int
			state  sink.State
		}{
			{"R1", 1, sink.OK}, {"R2", 2, sink.OK}, {"ok", 0, sink.OK}, {"R3", 1, sink.OK}, {"R4", 2, sink.OK}, {"ok", 0, sink.OK},
			{"R5", 1, sink.OK}, {"R6", 2, sink.OK}, {"ok", 0, sink.OK},
			{"R7", 1, sink.OK}, {"R8", 2, sink.OK}, {"R9", 3, sink.Tripped},
		} {
			r.one(step.id)
			if h := r.w.Route(r.route); h.Streak != step.streak || h.State != step.state || h.Bound != 3 {
				t.Errorf("step %d: streak %d of %d, %v; want %d, %v", i, h.Streak, h.Bound, h.State, step.streak, step.state)
			}
		}
	})
}

// HEALTH-03: only confirmed rejections count.
func TestHEALTH03OnlyConfirmedRejectionsCount(t *testing.T) {
	for name, fault := range map[string]sinktest.Fault{
		"unavailable": sinktest.FailWhole(sinktest.Unavailable),
		"timeout":     sinktest.Stall(nil),
		"denied":      sinktest.FailWhole(sinktest.Denied),
		"panic":       sinktest.Panic(),
		"forgotten":   sinktest.FailWhole(sink.Outcome{}),
	} {
		dropping(t, 100, func(r *rig) {
			r.b.Inject(fault)
			for i := range 100 {
				if o := r.one("R" + strconv.Itoa(i)); o.Kind == sink.Rejected {
					t.Fatalf("%s: %v", name, o)
				}
			}
			if h := r.w.Route(r.route); h.Streak != 0 || h.State != sink.OK {
				t.Errorf("%s: %+v", name, h)
			}
		})
	}
	dropping(t, 100, func(r *rig) {
		for i := range 99 {
			r.one("R" + strconv.Itoa(i))
		}
		r.one("ok")
		if h := r.w.Route(r.route); h.Streak != 0 || h.State != sink.OK {
			t.Errorf("99 rejections and a success: %+v", h)
		}
	})
}

// HEALTH-04: a tripped route recovers, by a trial.
func TestHEALTH04TripTrialRecovery(t *testing.T) {
	dropping(t, 3, func(r *rig) {
		for i := range 3 {
			wantIs(t, "up to the bound, the tripping one included", r.one("R"+strconv.Itoa(i)), sink.Rejected)
		}
		requests := len(r.sizes())
		wantIs(t, "tripped, bad", r.one("R4"), sink.Undecided, sink.ErrTripped, sinktest.Refused.Err)
		wantIs(t, "tripped, good", r.one("good"), sink.Undecided, sink.ErrTripped)
		tooLarge := r.entry("large")
		tooLarge.Bytes = 1 << 40
		wantIs(t, "tripped, too large", r.write(0, tooLarge).wait()[0], sink.Undecided, sink.ErrTripped)
		if len(r.sizes()) != requests {
			t.Error("a tripped route sends")
		}
		other := r.entry("other")
		other.Route = &sink.Route{Name: "other", Trips: true}
		wantIs(t, "another route", r.write(0, other).wait()[0], sink.Applied)

		r.sleepUntil(10*time.Second - 1)
		if s := r.w.Route(r.route).State; s != sink.Tripped {
			t.Errorf("just before the interval: %v", s)
		}
		r.sleepUntil(10 * time.Second)
		if h := r.w.Route(r.route); h.State != sink.Trial || !h.Able() {
			t.Errorf("after the interval: %+v", h)
		}
		wantIs(t, "trial, too large: nothing is dropped", r.write(0, tooLarge).wait()[0], sink.Undecided, sink.ErrTripped)
		wantIs(t, "trial, bad: not dropped", r.one("R5"), sink.Undecided, sink.ErrTripped)
		if h := r.w.Route(r.route); h.State != sink.Tripped || !h.Since.Equal(r.start) {
			t.Errorf("after a bad trial: %v since %v", h.State, h.Since.Sub(r.start))
		}

		r.sleepUntil(20 * time.Second)
		// A trial that ends without an answer leaves the next record to try.
		r.b.Inject(sinktest.Times(1, sinktest.Panic()))
		wantIs(t, "trial without an answer", r.one("good"), sink.Undecided, sink.ErrBackend)
		if s := r.w.Route(r.route).State; s != sink.Trial {
			t.Errorf("after a trial without an answer: %v", s)
		}
		release := make(chan struct{})
		r.b.Inject(sinktest.Times(1, sinktest.Deaf(release)))
		ctx, cancel := context.WithCancel(context.Background())
		leaver := r.writeCtx(ctx, nil, r.entry("leaver"))
		synctest.Wait()
		wantIs(t, "one trial at a time", r.one("second"), sink.Undecided, sink.ErrTripped)
		cancel()
		wantIs(t, "trial that left", leaver.wait()[0], sink.Undecided, sink.ErrInFlight)
		wantIs(t, "the next tries", r.one("good"), sink.Applied)
		close(release)
		if h := r.w.Route(r.route); h.State != sink.OK || h.Streak != 0 || h.Err != nil {
			t.Errorf("after a good trial: %+v", h)
		}
		wantIs(t, "closed: dropped again", r.one("R6"), sink.Rejected)
	})
}

// Since says when the route tripped, however many trials failed after that.
func TestFailedTrialsLeaveSince(t *testing.T) {
	dropping(t, 1, func(r *rig) {
		wantIs(t, "bad", r.one("R0"), sink.Rejected)
		tripped := r.w.Route(r.route).Since
		for i := range 3 {
			r.sleepUntil(time.Duration(i+1) * 10 * time.Second)
			wantIs(t, "trial", r.one("R"+strconv.Itoa(i+1)), sink.Undecided, sink.ErrTripped)
			if h := r.w.Route(r.route); h.State != sink.Tripped || h.Since != tripped {
				t.Errorf("after trial %d: %v since %v, want tripped since %v", i, h.State, h.Since, tripped)
			}
		}
		r.sleepUntil(40 * time.Second)
		wantIs(t, "good", r.one("good"), sink.Applied)
		r.sleepUntil(45 * time.Second)
		wantIs(t, "bad again", r.one("R9"), sink.Rejected)
		if h := r.w.Route(r.route); h.Since != tripped.Add(45*time.Second) {
			t.Errorf("tripped again, since %v", h.Since)
		}
	})
}

func TestAnIDCountsOnceInAStreak(t *testing.T) {
	dropping(t, 3, func(r *rig) {
		for range 500 {
			wantIs(t, "the same record", r.one("R"), sink.Rejected)
		}
		if h := r.w.Route(r.route); h.Streak != 1 {
			t.Errorf("streak %d", h.Streak)
		}
	})
	dropping(t, 3, func(r *rig) { // an unknown id always counts
		r.b.Inject(sinktest.FailWhole(sinktest.Refused))
		for range 3 {
			r.write(0, sink.Entry{Dest: table, Route: r.route}).wait()
		}
		if h := r.w.Route(r.route); h.State != sink.Tripped {
			t.Errorf("%+v", h)
		}
	})
}

// A rejection that reaches nobody is not dropped, so it does not count.
func TestARejectionOfACallerThatLeftDoesNotCount(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { b.Latency = 100 * ms }, func(r *rig) {
		r.route = &sink.Route{Name: "r", Trips: true}
		r.b.Inject(refuseR)
		wantIs(t, "who left", r.write(50*ms, r.entry("R")).wait()[0], sink.Undecided, sink.ErrInFlight)
		time.Sleep(time.Second)
		if h := r.w.Route(r.route); h.Streak != 0 {
			t.Errorf("streak %d", h.Streak)
		}
	})
}

func TestARouteThatLosesNothingNeverTrips(t *testing.T) {
	for name, tune := range map[string]struct {
		trips bool
		bound int
	}{"onReject fail": {false, 3}, "bound -1": {true, -1}} {
		dropping(t, tune.bound, func(r *rig) {
			r.route = &sink.Route{Name: "r", Trips: tune.trips}
			for i := range 500 {
				wantIs(t, name, r.one("R"+strconv.Itoa(i)), sink.Rejected)
			}
			if h := r.w.Route(r.route); h.State != sink.OK || h.Streak != 500 {
				t.Errorf("%s: %+v", name, h)
			}
		})
	}
}

// Exactly the bound is dropped, whatever is in flight when the route trips.
func TestExactlyTheBoundIsDropped(t *testing.T) {
	for _, fault := range []func() sinktest.Fault{
		func() sinktest.Fault { return refuseR },
		func() sinktest.Fault { return sinktest.FailWhole(sinktest.RefusedWhole) },
		func() sinktest.Fault {
			o := sinktest.Refused
			o.Sole = true
			return sinktest.FailWhole(o)
		},
	} {
		before := newRig(t, func(o *sink.Options, b *sinktest.Backend) {
			o.MaxInFlightEntries, o.AdmissionTimeout, o.TrialInterval = 5000, time.Minute, time.Hour
		})
		before.route = &sink.Route{Name: "r", Trips: true}
		before.b.Inject(fault())
		var rejected, tripped atomic.Int64
		var all sync.WaitGroup
		for g := range 50 {
			all.Go(func() {
				for i := range 20 {
					e := before.entry("R" + strconv.Itoa(g) + "-" + strconv.Itoa(i))
					e.Dest.Table = "t" + strconv.Itoa(g%5)
					switch o := before.w.Write(context.Background(), []sink.Entry{e})[0]; {
					case o.Kind == sink.Rejected:
						rejected.Add(1)
					case o.Kind == sink.Undecided:
						tripped.Add(1)
					default:
						t.Errorf("%v: %v", o.Kind, o.Err)
					}
				}
			})
		}
		all.Wait()
		if rejected.Load() != 100 || tripped.Load() != 900 {
			t.Errorf("%d dropped, %d answered as tripped; want 100, 900", rejected.Load(), tripped.Load())
		}
		before.close()
	}
}

// HEALTH-06: requests that end side by side do not make a streak of what is not in a row.
func TestHEALTH06ParallelCompletions(t *testing.T) {
	r := newRig(t, func(o *sink.Options, b *sinktest.Backend) { o.MaxInFlightRequestsDest, b.Latency = 4, ms })
	r.route = &sink.Route{Name: "r", Trips: true}
	r.b.Inject(refuseR)
	stop := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := 0; time.Now().Before(stop); i++ {
				id := "good"
				if g == 0 {
					id = "R"
				}
				e := r.entry(id + strconv.Itoa(g) + "-" + strconv.Itoa(i))
				e.Dest.Table = "t" + strconv.Itoa(g)
				if o := r.w.Write(context.Background(), []sink.Entry{e})[0]; o.Kind != sink.Applied && o.Kind != sink.Rejected {
					t.Errorf("%v: %v", o.Kind, o.Err)
					return
				}
			}
		})
	}
	all.Wait()
	r.close()
}

func TestFatal(t *testing.T) {
	t.Run("of a destination", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			r.b.Inject(sinktest.For(table, sinktest.FailWhole(sinktest.Denied)))
			wantIs(t, "the first", r.one("a"), sink.Fatal, sink.ErrUnavailable, sinktest.Denied.Err)
			n := len(r.sizes())
			wantIs(t, "the next", r.one("b"), sink.Fatal, sink.ErrUnavailable, sinktest.Denied.Err)
			if len(r.sizes()) != n {
				t.Error("it was sent")
			}
			h := r.w.Health()
			if len(h.Destinations) != 1 || h.Destinations[0].Dest != table || h.Destinations[0].State != sink.FatalState {
				t.Errorf("destinations %+v", h.Destinations)
			}
			if r.w.Route(r.route).State != sink.OK {
				t.Error("it is the route's, too")
			}
			other := r.entry("c")
			other.Dest.Table = "other"
			wantIs(t, "another table", r.write(0, other).wait()[0], sink.Applied)

			r.sleepUntil(10 * time.Second)
			if s := r.w.Destination(table).State; s != sink.Trial {
				t.Errorf("after 10 s: %v", s)
			}
			wantIs(t, "the trial", r.one("d"), sink.Fatal)
			wantIs(t, "after it", r.one("e"), sink.Fatal)
			if len(r.sizes()) != n+2 {
				t.Errorf("%d requests more, want the other table's and the trial's", len(r.sizes())-n)
			}
			r.b.Heal()
			r.sleepUntil(20 * time.Second)
			wantIs(t, "a good trial", r.one("f"), sink.Applied)
			wantIs(t, "after it", r.one("g"), sink.Applied)
			if h := r.w.Health(); len(h.Destinations) != 0 {
				t.Errorf("destinations %+v", h.Destinations)
			}
		})
	})
	t.Run("a check clears it", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			r.b.Inject(sinktest.Times(1, sinktest.FailWhole(sinktest.Denied)))
			r.one("a")
			r.w.ClearFatal(table)
			wantIs(t, "the next", r.one("b"), sink.Applied)
		})
	})
	t.Run("of a route", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			o := sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeRoute, Err: sinktest.Denied.Err}
			r.b.Inject(sinktest.Times(1, sinktest.FailWhole(o)))
			wantIs(t, "the first", r.one("a"), sink.Fatal)
			wantIs(t, "the next", r.one("b"), sink.Fatal, sink.ErrUnavailable)
			if h := r.w.Route(r.route); h.State != sink.FatalState || h.Err == nil {
				t.Errorf("%+v", h)
			}
			other := r.entry("c")
			other.Route = &sink.Route{Name: "other"}
			wantIs(t, "another route", r.write(0, other).wait()[0], sink.Applied)
			r.sleepUntil(10 * time.Second)
			wantIs(t, "the trial", r.one("d"), sink.Applied)
			if h := r.w.Route(r.route); h.State != sink.OK {
				t.Errorf("%+v", h)
			}
		})
	})
	t.Run("of one entry gates nothing", func(t *testing.T) {
		inBubble(t, nil, func(r *rig) {
			r.b.Inject(sinktest.Times(1, sinktest.FailWhole(sink.Outcome{Kind: sink.Fatal, Err: sinktest.Denied.Err})))
			wantIs(t, "it", r.one("a"), sink.Fatal, sink.ErrUnavailable)
			wantIs(t, "the next", r.one("b"), sink.Applied)
		})
	})
}
