package sink

import (
	"context"
	"time"
)

// core is the writer's state machine: plain data, with no goroutine, lock, channel or
// clock. Its steps (submit, cancel, wrote, ensured, opened, released, tick, drain, shut)
// take the time and leave behind the work they started (started) and the calls to wake
// (woken). It never calls code that is not its own.
//
// Invariants, held after every step:
//
//  1. An entry is settled exactly once, and as Applied only where a request's outcome
//     said Applied for it.
//  2. An entry is in one place: outside (not admitted), queued in its group, apart in a
//     cohort, open in one request, or gone. Only open entries are the backend's.
//  3. Entries of one (Dest, Key) leave in order of admission. While one is open or apart
//     its group is held, and what is behind it in the group is not sendable; a request
//     holds several of them only with MergeKeys, as neighbours and in order.
//  4. entries and bytes count what is admitted and not gone, buffered what of it is not
//     open. Admission happens only below all three caps, so each is passed by at most
//     one entry (buffered also by what comes back to be sent again).
//  5. An entry whose caller left is sent no more. If it is open its request goes on, it
//     keeps its place in the caps and its key, and its outcome reaches nobody.
//  6. A lane that may send now is in the due list, one that may send later than now has
//     the time for it in timers. So nothing waits without a request, a timer or a cap.
//  7. An instance takes batches only while open. opening, open, draining and closing
//     ones count against MaxActiveInstances.
//  8. A route's rejections are settled as Rejected only while its trip gate is not shut.
type core struct {
	o    Options
	rand func() float64 // 0 <= x < 1, for jitter

	// Admission (core_admit.go).
	entries  int
	bytes    int64
	buffered int
	seq      uint64
	waiting  chain[call]   // calls with entries not admitted, round robin, longest wait first
	calls    chain[call]   // calls with entries not settled
	ends     ordered[call] // of these, those with a deadline, the earliest first

	// Lanes (core_lane.go).
	lanes    map[Dest]*lane
	lastLane *lane       // the one that find found last; nil = none
	dirty    []*lane     // touched in this step
	due      chain[lane] // may send now
	heavy    chain[lane] // hold more than their half of some cap
	idle     chain[lane] // without entries, longest first
	timers   heap[*lane]
	open     chain[request] // oldest first

	// Recovery of missing destinations (core_recover.go).
	incident incident
	ensuring int

	// Instances (core_instance.go).
	instances map[string]*instance
	wanted    []*instance     // wait to be opened, in order
	recent    chain[instance] // open ones, least recently used first
	opening   int
	active    int // opening, open, draining or closing

	// Routes (streak.go).
	routes    map[*Route]*routeState
	lastRoute *routeState // the one that routeFor found last; nil = none
	poison    poison

	// Shutdown.
	draining bool
	closed   bool
	drainAt  time.Time // zero: no drain

	counts Counters

	// What a step leaves for the shell.
	started []work
	woken   []*call

	freeRequests []*request
	freeGroups   []*group
}

func newCore(o Options, rand func() float64) *core {
	c := &core{
		o: o, rand: rand,
		lanes:     make(map[Dest]*lane),
		instances: make(map[string]*instance),
		routes:    make(map[*Route]*routeState),
	}
	c.waiting.at = func(k *call) *links[call] { return &k.ring }
	c.calls.at = func(k *call) *links[call] { return &k.live }
	c.due.at = func(l *lane) *links[lane] { return &l.dueLinks }
	c.heavy.at = func(l *lane) *links[lane] { return &l.heavyLinks }
	c.idle.at = func(l *lane) *links[lane] { return &l.idleLinks }
	c.open.at = func(r *request) *links[request] { return &r.links }
	c.recent.at = func(n *instance) *links[instance] { return &n.links }
	c.ends = newOrdered(
		func(a, b *call) bool { return a.deadline.Before(b.deadline) },
		func(k *call) *links[call] { return &k.endLinks },
		func(k *call) *int { return &k.endPos })
	c.timers = heap[*lane]{
		less: func(a, b *lane) bool { return a.wake.Before(b.wake) },
		pos:  func(l *lane) *int { return &l.timerPos },
	}
	return c
}

// workKind says what the shell has to do.
type workKind uint8

const (
	doWrite workKind = iota
	doEnsure
	doOpen
	doCancelOpen // end the context of an Open that nobody waits for any more
	doRelease
)

type work struct {
	kind workKind
	req  *request
	lane *lane
	inst *instance
	ctx  context.Context // the shell's, of doOpen
}

// call is one caller's entries and their outcomes.
type call struct {
	items []item
	outs  []Outcome
	next  int // the first entry not yet looked at for admission
	left  int // entries without outcome
	// deadline is when the call ends; zero = never. Before it, what could not finish in
	// time is left out.
	deadline time.Time
	endLinks links[call]
	endPos   int
	last     time.Time // last admission, at first the submission
	behind   *lane     // the slow lane that the next entry waits for, when last looked at
	late     bool      // refused: entries were not admitted within AdmissionTimeout
	ring     links[call]
	live     links[call]
	ticket   *Ticket // the shell's
}

func (k *call) admitted() bool { return k.next == len(k.items) }

// submit takes in a new call.
func (c *core) submit(now time.Time, k *call) {
	k.left = len(k.items)
	if k.left == 0 {
		c.woken = append(c.woken, k)
		return
	}
	k.last = now
	if c.draining && !c.drainAt.IsZero() && (k.deadline.IsZero() || c.drainAt.Before(k.deadline)) {
		k.deadline = c.drainAt
	}
	c.calls.pushBack(k)
	if !k.deadline.IsZero() {
		c.ends.push(k)
	}
	c.enter(now, k)
	c.run(now)
}

// stillborn answers a call whose caller left before it was submitted.
func (c *core) stillborn(k *call) {
	k.left, k.next = len(k.items), len(k.items)
	for i := range k.items {
		c.counts.Withdrawn++
		c.settle(&k.items[i], Outcome{Kind: Undecided, Err: ErrWithdrawn})
	}
	if len(k.items) == 0 {
		c.woken = append(c.woken, k)
	}
}

// cancel withdraws what is not yet sent of a call whose caller left.
func (c *core) cancel(now time.Time, k *call) {
	c.withdraw(now, k, nil)
	c.run(now)
}

// tick does what has become due.
func (c *core) tick(now time.Time) {
	for c.timers.len() > 0 && !now.Before(c.timers.s[0].wake) {
		l := c.timers.s[0]
		c.timers.remove(l)
		c.mark(l)
	}
	for l := c.idle.head; l != nil && now.Sub(l.idleSince) > c.o.IdleTimeout; l = c.idle.head {
		c.forget(now, l)
	}
	if c.draining && !c.drainAt.IsZero() && !now.Before(c.drainAt) {
		for k := c.calls.head; k != nil; k = c.calls.head {
			c.withdraw(now, k, ErrClosed)
		}
	}
	for k := c.ends.first(); k != nil && !now.Before(k.deadline); k = c.ends.first() {
		c.withdraw(now, k, nil)
	}
	c.run(now)
}

// drain flushes lingering lanes, starts no new backoff, and ends every call, present and
// to come, at `at` unless its own deadline is earlier; zero = its own.
func (c *core) drain(now, at time.Time) {
	c.draining = true
	if !at.IsZero() && (c.drainAt.IsZero() || at.Before(c.drainAt)) {
		c.drainAt = at
		for k := c.calls.head; k != nil; k = c.calls.next(k) {
			if k.deadline.IsZero() || at.Before(k.deadline) {
				k.deadline = at
				c.ends.fix(k)
			}
		}
	}
	for _, l := range c.lanes {
		c.mark(l)
	}
	c.run(now)
}

// shut refuses new calls and gives the instances back once nothing is left.
func (c *core) shut(now time.Time) {
	c.closed = true
	c.drain(now, time.Time{})
}

// abandon ends every call: the time for closing is over.
func (c *core) abandon(now time.Time) {
	for k := c.calls.head; k != nil; k = c.calls.head {
		c.withdraw(now, k, ErrClosed)
	}
	c.run(now)
}

// quiet: nothing is left and nothing runs.
func (c *core) quiet() bool {
	return c.calls.n == 0 && c.open.n == 0 && c.ensuring == 0 && c.active == 0
}

// run brings everything to where nothing more can be done now. Every step ends with it.
func (c *core) run(now time.Time) {
	for again := true; again; {
		c.admit(now)
		c.settleDirty(now)
		sent := c.send(now)
		c.relieve(now)
		c.pumpInstances(now)
		again = sent || len(c.dirty) > 0 || c.room() && c.turn(now) != nil
	}
	c.refuseLate(now)
}

// next is the time of the next tick; zero = none needed.
func (c *core) next() time.Time {
	var at time.Time
	soonest := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if c.timers.len() > 0 {
		soonest(c.timers.s[0].wake)
	}
	if k := c.waiting.head; k != nil {
		soonest(k.last.Add(c.o.AdmissionTimeout))
	}
	if l := c.idle.head; l != nil {
		// Strictly longer than the timeout.
		soonest(l.idleSince.Add(c.o.IdleTimeout).Add(1))
	}
	for _, n := range c.wanted {
		soonest(n.retryAt)
	}
	if k := c.ends.first(); k != nil {
		soonest(k.deadline)
	}
	return at
}

// mark has l looked at before the step ends.
func (c *core) mark(l *lane) {
	if !l.dirty {
		l.dirty = true
		c.dirty = append(c.dirty, l)
	}
}

func (c *core) settleDirty(now time.Time) {
	for len(c.dirty) > 0 {
		l := c.dirty[len(c.dirty)-1]
		c.dirty = c.dirty[:len(c.dirty)-1]
		l.dirty = false
		c.refresh(l, now)
	}
}

// half is the share of a lane that is down, and of isolation.
func half(n int) int { return max(1, n/2) }
