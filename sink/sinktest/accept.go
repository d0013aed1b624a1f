package sinktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pushsink/pushsink/sink"
)

// Failure is a way in which a service fails that the suite asks for.
type Failure int

const (
	// CallUnavailable: the whole call fails with a passing reason, nothing is applied.
	CallUnavailable Failure = iota
	// AppliedUnavailable: everything is applied, yet the call fails with a passing reason.
	AppliedUnavailable
	// HalfAnswered: the first half is applied and answered, then the answer breaks off.
	HalfAnswered
	// StatusLeftOut: the call ends well, but one entry has no status and is not applied.
	StatusLeftOut
	// Stalled: nothing comes until the attempt's context ends, nothing is applied.
	Stalled
	// PermissionDenied: the whole call fails for good, nothing is applied.
	PermissionDenied
)

func (f Failure) String() string {
	return [...]string{"call unavailable", "applied but unavailable", "half answered", "status left out", "stalled", "permission denied"}[f]
}

// Subject is a real backend under test, with a service behind it: an emulator or a
// scripted server. A func that is nil is a thing the subject can't do; the tests that
// need it are skipped.
type Subject struct {
	Backend sink.Backend
	// Options are the sink's; the suite shortens the times in them.
	Options sink.Options
	// Entry encodes a record that stores value under key. A bad one is refused by the
	// service for good, whatever is sent beside it.
	Entry func(route *sink.Route, id, key, value string, bad bool) sink.Entry
	// Read returns what is stored under key.
	Read func(key string) (value string, ok bool, err error)
	// Fail has the service answer its next n data calls so; false = it can't.
	Fail func(f Failure, n int) bool
	// Missing encodes a record for a destination that is not there and may be created.
	Missing func(route *sink.Route, id, key, value string) sink.Entry
	// ReadMissing returns what is stored under key there.
	ReadMissing func(key string) (value string, ok bool, err error)
	// Calls is the number of data calls the service got.
	Calls func() int
}

// suite is one Subject with its writer.
type suite struct {
	Subject
	t     *testing.T
	w     *sink.Writer
	route *sink.Route
}

// patience bounds every wait for what has to come: the service, or this process, may stand
// still for seconds, and no figure depends on it.
const patience = 5 * time.Minute

// Run has every backend that maker makes pass the acceptance suite. maker is called once
// for each test and cleans up with t.Cleanup.
func Run(t *testing.T, maker func(t *testing.T) Subject) {
	for _, tt := range []struct {
		name string
		run  func(s *suite)
	}{
		{"written and read back", (*suite).roundTrip},
		{"a key's last write wins", (*suite).order},
		{"a bad record fails alone", (*suite).poison},
		{"failures of the service", (*suite).failures},
		{"a service that stalls", (*suite).stalls},
		{"permission denied", (*suite).denied},
		{"a missing destination is made once", (*suite).missing},
		{"what is acknowledged is stored", (*suite).acknowledged},
		{"callers that leave", (*suite).leavers},
		{"nothing is left", (*suite).nothingLeft},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &suite{Subject: maker(t), t: t, route: &sink.Route{Name: "accept"}}
			o := s.Options
			o.AttemptTimeout = patience
			if tt.name == "a service that stalls" {
				o.AttemptTimeout = 500 * time.Millisecond
			}
			o.Retry = sink.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond}
			o.Recovery = sink.Backoff{Initial: 5 * time.Millisecond, Max: 100 * time.Millisecond, MaxAttempts: 1000}
			o.AdmissionTimeout, o.TrialInterval = patience, patience
			var err error
			if s.w, err = sink.New(s.Backend, o); err != nil {
				t.Fatal(err)
			}
			tt.run(s)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := s.w.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func (s *suite) write(es ...sink.Entry) []sink.Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.w.Write(ctx, es)
}

func (s *suite) entries(prefix string, n int) []sink.Entry {
	es := make([]sink.Entry, n)
	for i := range es {
		id := fmt.Sprintf("%s-%03d", prefix, i)
		es[i] = s.Entry(s.route, id, id, "value of "+id, false)
	}
	return es
}

// applied checks that each outcome is Applied and each value is stored.
func (s *suite) applied(what string, es []sink.Entry, outs []sink.Outcome) {
	s.t.Helper()
	for i, o := range outs {
		if o.Kind != sink.Applied {
			s.t.Errorf("%s: entry %d is %v: %v", what, i, o.Kind, o.Err)
		}
		s.stored(es[i].ID, "value of "+es[i].ID)
	}
}

func (s *suite) stored(key, want string) {
	s.t.Helper()
	if got, ok, err := s.Read(key); err != nil || !ok || got != want {
		s.t.Errorf("stored under %s: %q (there: %v, error: %v), want %q", key, got, ok, err, want)
	}
}

func (s *suite) roundTrip() {
	for _, n := range []int{1, 2, 250} {
		es := s.entries(fmt.Sprint("round", n), n)
		s.applied(fmt.Sprint(n, " entries"), es, s.write(es...))
	}
}

// order writes a key many times without waiting, so that its entries meet in batches
// and in flight.
func (s *suite) order() {
	const times = 200
	tickets := make([]*sink.Ticket, 0, times)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range times {
		id := fmt.Sprintf("v%03d", i)
		tickets = append(tickets, s.w.Submit(ctx, []sink.Entry{
			s.Entry(s.route, id, "ordered", id, false),
			s.Entry(s.route, id+"x", "other"+id, id, false),
		}))
		if i%50 == 0 && s.Fail != nil {
			s.Fail(CallUnavailable, 1)
		}
	}
	for i, tk := range tickets {
		for _, o := range tk.Wait() {
			if o.Kind != sink.Applied {
				s.t.Fatalf("write %d is %v: %v", i, o.Kind, o.Err)
			}
		}
	}
	s.stored("ordered", fmt.Sprintf("v%03d", times-1))
}

func (s *suite) poison() {
	for _, bad := range []int{0, 37, 99} {
		es := s.entries(fmt.Sprint("poison", bad), 100)
		es[bad] = s.Entry(s.route, fmt.Sprint("bad", bad), fmt.Sprint("bad", bad), "v", true)
		before := s.calls()
		outs := s.write(es...)
		spent := s.calls() - before
		for i, o := range outs {
			if i == bad {
				if o.Kind != sink.Rejected {
					s.t.Errorf("the bad one is %v: %v", o.Kind, o.Err)
				}
				if _, ok, err := s.Read(es[i].ID); ok || err != nil {
					s.t.Errorf("the bad one is stored (%v), error %v", ok, err)
				}
				continue
			}
			s.applied("beside a bad one", es[i:i+1], outs[i:i+1])
		}
		if spent > 2*7+1 {
			s.t.Errorf("%d calls for 100 entries, one of them bad", spent)
		}
		// Delivered again it is alone from the start.
		before = s.calls()
		if o := s.write(es[bad])[0]; o.Kind != sink.Rejected {
			s.t.Errorf("the bad one, delivered again, is %v: %v", o.Kind, o.Err)
		}
		if spent := s.calls() - before; s.Calls != nil && spent != 1 {
			s.t.Errorf("a redelivery took %d calls", spent)
		}
	}
}

func (s *suite) calls() int {
	if s.Calls == nil {
		return 0
	}
	return s.Calls()
}

func (s *suite) failures() {
	s.afterEach(CallUnavailable, AppliedUnavailable, HalfAnswered, StatusLeftOut)
}

func (s *suite) stalls() { s.afterEach(Stalled) }

// afterEach wants everything written after the service failed once in each way.
func (s *suite) afterEach(fs ...Failure) {
	if s.Fail == nil {
		s.t.Skip("the subject can't fail")
	}
	for _, f := range fs {
		for _, n := range []int{1, 2, 10} {
			s.t.Run(fmt.Sprintf("%v, %d entries", f, n), func(t *testing.T) {
				if !s.Fail(f, 1) {
					t.Skip("the subject can't")
				}
				outer := s.t
				s.t = t
				defer func() { s.t = outer }()
				es := s.entries(fmt.Sprintf("fail%d-%d", f, n), n)
				s.applied("after it", es, s.write(es...))
			})
		}
	}
	if h := s.w.Route(s.route); h.Streak != 0 || h.State != sink.OK {
		s.t.Errorf("the route is %v with a streak of %d", h.State, h.Streak)
	}
}

func (s *suite) denied() {
	if s.Fail == nil || !s.Fail(PermissionDenied, 1) {
		s.t.Skip("the subject can't")
	}
	es := s.entries("denied", 3)
	for i, o := range s.write(es...) {
		if o.Kind != sink.Fatal || !errors.Is(o.Err, sink.ErrUnavailable) {
			s.t.Errorf("entry %d is %v: %v", i, o.Kind, o.Err)
		}
		if _, ok, err := s.Read(es[i].ID); ok || err != nil {
			s.t.Errorf("entry %d is stored (%v), error %v", i, ok, err)
		}
	}
	if h := s.w.Route(s.route); h.Streak != 0 {
		s.t.Errorf("a streak of %d", h.Streak)
	}
	if s.w.Destination(es[0].Dest).State != sink.FatalState {
		s.t.Error("the destination is not fatal")
	}
}

func (s *suite) missing() {
	if s.Missing == nil {
		s.t.Skip("the subject can't create destinations")
	}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			id := fmt.Sprintf("made%02d", i)
			if o := s.write(s.Missing(s.route, id, id, "value of "+id))[0]; o.Kind != sink.Applied {
				s.t.Errorf("entry %d is %v: %v", i, o.Kind, o.Err)
			}
			if got, ok, err := s.ReadMissing(id); err != nil || !ok || got != "value of "+id {
				s.t.Errorf("stored under %s: %q (there: %v, error: %v)", id, got, ok, err)
			}
		})
	}
	all.Wait()
	if n := s.w.Health().Counters.Ensures; n != 1 {
		s.t.Errorf("ensured %d times", n)
	}
}

// acknowledged mixes everything, and compares what was told with what is stored.
func (s *suite) acknowledged() {
	kinds := []Failure{CallUnavailable, AppliedUnavailable, HalfAnswered, StatusLeftOut}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 20 {
				// One call in three fails: so many, and not so many a second, that a slow
				// machine gets through as well.
				if s.Fail != nil && (g+i)%3 == 0 {
					s.Fail(kinds[(g+i)/3%len(kinds)], 1)
				}
				es := s.entries(fmt.Sprintf("mix%d-%02d", g, i), 1+(g+i)%7)
				if i%9 == 8 {
					id := fmt.Sprintf("mixbad%d-%d", g, i)
					es[0] = s.Entry(s.route, id, id, "v", true)
				}
				for j, o := range s.write(es...) {
					switch {
					case o.Kind == sink.Applied && i%9 == 8 && j == 0:
						s.stored(es[j].ID, "v") // a half answered call may have taken it
					case o.Kind == sink.Applied:
						s.stored(es[j].ID, "value of "+es[j].ID)
					case o.Kind == sink.Rejected && i%9 == 8 && j == 0:
					default:
						s.t.Errorf("entry %s is %v: %v", es[j].ID, o.Kind, o.Err)
					}
				}
			}
		})
	}
	all.Wait()
}

// leavers share batches with callers that stay.
func (s *suite) leavers() {
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			es := s.entries(fmt.Sprintf("leave%02d", i), 3)
			if i%2 == 0 {
				s.applied("who stayed", es, s.write(es...))
				return
			}
			ctx, cancel := context.WithCancel(context.Background())
			tk := s.w.Submit(ctx, es)
			cancel()
			for j, o := range tk.Wait() {
				if o.Kind != sink.Applied && !errors.Is(o.Err, sink.ErrWithdrawn) && !errors.Is(o.Err, sink.ErrInFlight) {
					s.t.Errorf("entry %d of one that left is %v: %v", j, o.Kind, o.Err)
				}
			}
		})
	}
	all.Wait()
}

func (s *suite) nothingLeft() {
	before := runtime.NumGoroutine()
	es := s.entries("left", 50)
	es = slices.Insert(es, 10, s.Entry(s.route, "bad", "bad", "v", true))
	s.write(es...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.w.Close(ctx); err != nil {
		s.t.Fatal(err)
	}
	if h := s.w.Health(); h.InFlightEntries != 0 || h.InFlightBytes != 0 || h.OpenRequests != 0 || h.OpenInstances != 0 {
		s.t.Errorf("left: %+v", h)
	}
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
