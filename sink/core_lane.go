package sink

import "time"

// stallAfter is how long a lane may go without a sign of life before it counts as down.
const stallAfter = 250 * time.Millisecond

// minTurn is the least time between two batches of a busy lane that are not full: a request
// costs some 100 us of CPU however little it holds, and a service that answers in less than a
// few of them must not be sent single entries (docs/adr/0004).
const minTurn = 500 * time.Microsecond

// savedTurns is how many turns a busy lane keeps that it had nothing to send in. Arrivals are
// uneven: with none kept, one that comes shortly after another waits although few requests
// are open; with many, requests bunch up (docs/adr/0004).
const savedTurns = 1

// lane is the state of one destination.
type lane struct {
	dest Dest
	inst *instance
	slot int // in inst.lanes

	dirty     bool // in core.dirty
	forgotten bool // no longer in core.lanes

	// What it holds. entries and bytes: admitted and not gone; buffered: not open.
	entries  int
	bytesAll int64
	buffered int
	waiting  chain[item] // queued and apart, oldest first

	// What it may send. n, bytes, cost and mutations sum the groups in ready.
	keys      keyTable
	loose     group          // entries without key
	ready     ordered[group] // by their oldest entries
	n         int
	bytes     int64
	cost      int
	mutations int
	delayed   heap[*delay]  // groups and cohorts that back off
	cohorts   chain[cohort] // to be sent each by itself

	// Requests.
	open      int
	inOpen    int           // entries of open requests
	openBytes int64         // of these entries
	isolating int           // open requests that are cohorts
	isolated  bool          // the last request was a cohort
	limit     int           // entries in a batch; below MaxBatchEntries after a timeout
	turn      time.Time     // when the next batch is due, if not before
	rpc       time.Duration // what a request takes: a moving mean; 0 = none was answered yet

	// How it fares.
	lastOutcome  time.Time // of a request; at first, when the first was sent
	failingSince time.Time // first batch-wide failure since the last good request; zero = none
	fails        int       // pauses in a row
	pausedUntil  time.Time
	cause        error // of the pause
	fatal        gate

	// Recovery (core_recover.go).
	missing        bool // sends nothing until ensured
	ensuring       bool
	inIncident     bool
	round          int
	retryAt        time.Time
	unchangedSince time.Time
	unchangedUntil time.Time

	idleSince time.Time
	idleLinks links[lane]
	dueLinks  links[lane]
	// heavyLinks: it holds more than its half.
	heavyLinks links[lane]
	wake       time.Time
	timerPos   int
}

// find is the lane of d; nil = there is none. Entries of one destination mostly come one after
// another.
func (c *core) find(d Dest) *lane {
	if l := c.lastLane; l != nil && l.dest == d {
		return l
	}
	l := c.lanes[d]
	if l != nil {
		c.lastLane = l
	}
	return l
}

// laneFor finds or makes the lane of d.
func (c *core) laneFor(now time.Time, d Dest) *lane {
	if l := c.find(d); l != nil {
		return l
	}
	l := &lane{dest: d, keys: newKeyTable(), limit: c.o.MaxBatchEntries, lastOutcome: now}
	l.waiting.at = func(it *item) *links[item] { return &it.inLane }
	l.loose.queue.at = itemInKey
	l.ready = newOrdered(
		func(a, b *group) bool { return a.queue.head.seq < b.queue.head.seq },
		func(g *group) *links[group] { return &g.links },
		func(g *group) *int { return &g.pos })
	l.delayed = heap[*delay]{
		less: func(a, b *delay) bool { return a.at.Before(b.at) },
		pos:  func(d *delay) *int { return &d.pos },
	}
	l.cohorts.at = func(co *cohort) *links[cohort] { return &co.links }
	c.lanes[d] = l
	c.attach(l)
	return l
}

// forget drops an idle lane; its instance closes with its last one.
func (c *core) forget(now time.Time, l *lane) {
	c.counts.Evictions++
	c.idle.remove(l)
	c.due.remove(l)
	c.heavy.remove(l)
	c.timers.remove(l)
	delete(c.lanes, l.dest)
	if c.lastLane == l {
		c.lastLane = nil
	}
	l.forgotten = true
	c.detach(now, l)
}

// paused: the lane sends nothing, by a batch-wide failure or because its destination is
// missing.
func (l *lane) paused(now time.Time) bool { return l.missing || now.Before(l.pausedUntil) }

// stalled: no sign of life for stallAfter, though there should have been one.
func (l *lane) stalled(now time.Time) bool {
	t := l.stallTime()
	return !t.IsZero() && !now.Before(t)
}

// stallTime is when the lane stalls if nothing happens; zero = it does not.
func (l *lane) stallTime() time.Time {
	var at time.Time
	earliest := func(since time.Time) {
		if t := since.Add(stallAfter); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if !l.failingSince.IsZero() {
		earliest(l.failingSince)
	}
	if l.open > 0 {
		earliest(l.lastOutcome)
	}
	if l.entries > 0 && !l.inst.waitSince.IsZero() {
		earliest(l.inst.waitSince)
	}
	return at
}

// down lanes are let in up to half of everything.
func (l *lane) down(now time.Time) bool { return l.paused(now) || l.stalled(now) }

// slow: should the lane be down, then nothing says that its destination fails. It is
// silent, it is being made for the first time, or its client is being opened. What is
// beyond its half waits to be admitted; a failing lane's is refused at once.
func (l *lane) slow() bool {
	if l.missing {
		return l.round <= 1
	}
	return l.failingSince.IsZero() && l.inst.cause == nil
}

// resumes is when a lane that sends nothing may send again; zero = now, or unknown.
func (l *lane) resumes(now time.Time) time.Time {
	at := l.inst.retryAt
	if l.pausedUntil.After(at) {
		at = l.pausedUntil
	}
	if l.missing && l.retryAt.After(at) {
		at = l.retryAt
	}
	if at.After(now) {
		return at
	}
	return time.Time{}
}

type pick uint8

const (
	pickNone pick = iota
	pickBatch
	pickCohort
)

// pick says what l may send now.
func (c *core) pick(l *lane, now time.Time) pick {
	if l.paused(now) || l.inst.state != instOpen || l.open >= c.slots(l, now) {
		return pickNone
	}
	isolate := l.cohorts.n > 0 && l.isolating < half(c.o.MaxInFlightRequestsDest)
	batch := l.n > 0 && c.batchDue(l, now) && (l.open == 0 || c.leavesRoom(l, 1, l.ready.first().queue.head.e.Bytes))
	switch {
	case isolate && batch && l.isolated, !isolate && batch:
		return pickBatch // in turns, so that poison does not hold up the rest
	case isolate:
		return pickCohort
	default:
		return pickNone
	}
}

// leavesRoom: with n more entries open, of so many bytes, l leaves an eighth of the writer's
// room to others. What is open cannot be taken back when l falls silent.
func (c *core) leavesRoom(l *lane, n int, bytes int64) bool {
	return l.inOpen+n <= c.o.MaxInFlightEntries-max(1, c.o.MaxInFlightEntries/8) &&
		l.openBytes+bytes <= c.o.MaxInFlightBytes-max(1, c.o.MaxInFlightBytes/8)
}

func (c *core) slots(l *lane, now time.Time) int {
	if l.down(now) {
		return min(c.o.MaxInFlightRequestsDest, half(c.o.MaxInFlightRequests))
	}
	return c.o.MaxInFlightRequestsDest
}

// batchDue: an idle lane sends at once; a busy one when a batch is full, or at batchTime.
func (c *core) batchDue(l *lane, now time.Time) bool {
	return l.open == 0 || c.draining ||
		l.n >= l.limit || l.bytes >= c.o.MaxBatchBytes || l.cost >= c.o.MaxBatchCost || l.mutations >= c.o.MaxBatchMutations ||
		!now.Before(c.batchTime(l))
}

// batchTime is when what a busy lane holds is due though no batch is full: its oldest
// sendable entry waited MaxTimeInBuffer, or the lane's turn came. Turns spread the requests
// that it may have open evenly over the time that one takes. Requests that start whenever
// another ends bunch up instead, until one of them takes nearly all that waits.
func (c *core) batchTime(l *lane) time.Time {
	at := l.ready.first().queue.head.admitted.Add(c.o.MaxTimeInBuffer)
	if l.rpc > 0 && l.turn.Before(at) {
		return l.turn
	}
	return at
}

// takeTurn says when the next batch is due after one that is sent now, whose oldest entry came
// at oldest. What of the last turn passed before that is saved; while entries waited for a
// request to end, none is.
func (c *core) takeTurn(l *lane, now, oldest time.Time) {
	turn := max(minTurn, l.rpc/time.Duration(c.o.MaxInFlightRequestsDest))
	saved := min(oldest.Sub(l.turn), savedTurns*turn)
	l.turn = now.Add(turn - max(0, saved))
}

// refresh brings l up to date: what backed off long enough becomes sendable, recovery
// goes on, and the lane is entered where it will be found again.
func (c *core) refresh(l *lane, now time.Time) {
	if l.forgotten {
		return
	}
	for l.delayed.len() > 0 && !now.Before(l.delayed.s[0].at) {
		d := l.delayed.s[0]
		l.delayed.remove(d)
		if d.cohort != nil {
			l.cohorts.pushBack(d.cohort)
		} else {
			c.ready(l, d.group)
		}
	}
	c.recover(l, now)
	if !c.excess(l) {
		c.heavy.remove(l)
	} else if !c.heavy.has(l) {
		c.heavy.pushBack(l)
	}

	if c.pick(l, now) == pickNone {
		c.due.remove(l)
	} else if !c.due.has(l) {
		c.due.pushBack(l)
	}

	if l.entries > 0 || l.ensuring {
		c.idle.remove(l)
	} else if !c.idle.has(l) {
		l.idleSince = now
		c.idle.pushBack(l)
	}

	wake := c.wakeTime(l, now)
	switch {
	case wake.IsZero():
		c.timers.remove(l)
	case l.timerPos == 0:
		l.wake = wake
		c.timers.push(l)
	case !wake.Equal(l.wake):
		l.wake = wake
		c.timers.fix(l)
	}
}

// wakeTime is when l has to be looked at though nothing happens; zero = never.
func (c *core) wakeTime(l *lane, now time.Time) time.Time {
	var at time.Time
	after := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if l.entries == 0 {
		return at
	}
	after(l.pausedUntil)
	if l.missing && !l.ensuring && l.open == 0 {
		after(l.retryAt)
	}
	if l.n > 0 && l.open > 0 {
		after(c.batchTime(l))
	}
	if l.delayed.len() > 0 {
		after(l.delayed.s[0].at)
	}
	if c.excess(l) {
		after(l.stallTime())
	}
	return at
}

// request is one backend call.
type request struct {
	lane      *lane
	items     []*item
	bytes     int64
	cost      int
	mutations int
	attempt   int     // the most that one of items has had, this one included
	cohort    *cohort // nil: an ordinary batch
	started   time.Time
	links     links[request]
	batch     []Entry // the shell's: what the backend is given
}

// send gives free request slots to due lanes, one each in turn.
func (c *core) send(now time.Time) bool {
	sent := false
	for c.open.n < c.o.MaxInFlightRequests && c.due.head != nil {
		l := c.due.head
		c.due.remove(l)
		switch c.pick(l, now) {
		case pickBatch:
			c.takeTurn(l, now, l.ready.first().queue.head.admitted)
			c.launch(l, c.takeBatch(l), now)
			l.isolated, sent = false, true
		case pickCohort:
			c.launch(l, c.takeCohort(l), now)
			l.isolated, sent = true, true
		}
		c.refresh(l, now)
	}
	return sent
}

func (c *core) launch(l *lane, r *request, now time.Time) {
	r.started = now
	if l.open == 0 {
		l.lastOutcome = now
	}
	l.open++
	l.inOpen += len(r.items)
	l.openBytes += r.bytes
	c.open.pushBack(r)
	c.used(l.inst)
	c.counts.Requests++
	c.started = append(c.started, work{kind: doWrite, req: r, lane: l})
}

// takeBatch fills a request from the groups in order of their oldest entry.
func (c *core) takeBatch(l *lane) *request {
	r := c.newRequest(l)
	for g := l.ready.first(); g != nil && c.takeFrom(l, g, r); g = l.ready.first() {
	}
	return r
}

// takeFrom moves what fits from g into r; false = the batch is full.
func (c *core) takeFrom(l *lane, g *group, r *request) bool {
	took, full := 0, false
	for it := g.queue.head; it != nil && !it.alone; it = g.queue.head {
		if full = !c.fits(l, r, it); full {
			break
		}
		g.queue.remove(it)
		g.count(l, it, -1)
		c.take(l, r, it)
		took++
		if !c.whole(g) {
			break
		}
	}
	switch {
	case took == 0:
	case g.keyed:
		g.held += took
		l.unready(g)
	case g.queue.n == 0:
		l.ready.remove(g)
	default:
		l.ready.fix(g)
	}
	return !full
}

// fits: an entry alone always does, so that an oversize one is sent by itself.
func (c *core) fits(l *lane, r *request, it *item) bool {
	n, bytes := len(r.items), r.bytes+it.e.Bytes
	return n == 0 || n < l.limit && bytes <= c.o.MaxBatchBytes && c.leavesRoom(l, n+1, bytes) &&
		r.cost+it.e.Cost <= c.o.MaxBatchCost && r.mutations+it.e.Mutations <= c.o.MaxBatchMutations
}

// take opens an entry.
func (c *core) take(l *lane, r *request, it *item) {
	it.place = open
	l.waiting.remove(it)
	l.buffered--
	c.buffered--
	r.items = append(r.items, it)
	r.bytes += it.e.Bytes
	r.cost += it.e.Cost
	r.mutations += it.e.Mutations
	r.attempt = max(r.attempt, 1+it.tries+it.missed)
}

// buffer is the reverse of take, for an entry that is to be sent again. It goes to the
// front of what waits.
func (c *core) buffer(l *lane, it *item) {
	l.waiting.pushFront(it)
	l.buffered++
	c.buffered++
}

func (c *core) newRequest(l *lane) *request {
	if n := len(c.freeRequests); n > 0 {
		r := c.freeRequests[n-1]
		c.freeRequests = c.freeRequests[:n-1]
		r.lane = l
		return r
	}
	return &request{lane: l}
}

func (c *core) freeRequest(r *request) {
	clear(r.items)
	*r = request{items: r.items[:0], batch: r.batch[:0]}
	if len(c.freeRequests) < c.o.MaxInFlightRequests {
		c.freeRequests = append(c.freeRequests, r)
	}
}

// took takes the time of an answered request into the mean, an eighth of it.
func (l *lane) took(d time.Duration) {
	if l.rpc == 0 {
		l.rpc = d
		return
	}
	l.rpc += (d - l.rpc) / 8
}
