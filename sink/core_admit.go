package sink

import (
	"fmt"
	"time"
)

// room: below all caps. It is never asked whether an entry fits: a cap is passed by at
// most one entry, and one larger than a cap enters an empty writer.
func (c *core) room() bool {
	return c.entries < c.o.MaxInFlightEntries && c.bytes < c.o.MaxInFlightBytes && c.buffered < c.o.MaxBuffered
}

// enter admits what there is room for of a new call. What can't be admitted at once is
// looked at all the same, so that an entry that will be refused does not wait for it.
func (c *core) enter(now time.Time, k *call) {
	if c.turn(now) == nil {
		for !k.admitted() && c.room() && !c.held(now, k) {
			c.admitNext(now, k)
		}
	}
	if k.admitted() {
		c.woken = append(c.woken, k)
		return
	}
	for i := k.next; i < len(k.items); i++ {
		if o, refused := c.refusal(now, &k.items[i]); refused {
			c.settle(&k.items[i], o)
		}
	}
	for !k.admitted() && k.items[k.next].settled {
		k.next++
	}
	if k.admitted() {
		c.woken = append(c.woken, k)
		return
	}
	c.waiting.pushBack(k)
}

// admit gives room to waiting calls, one entry each in turn, so that a large call does
// not starve small ones. The list stays in order of each call's last admission.
func (c *core) admit(now time.Time) {
	for c.room() {
		k := c.turn(now)
		if k == nil {
			return
		}
		took := c.admitNext(now, k) // turn saw that it is not held
		for !took && !k.admitted() && !c.held(now, k) {
			took = c.admitNext(now, k)
		}
		switch {
		case k.admitted():
			c.waiting.remove(k)
			c.woken = append(c.woken, k)
		case took:
			c.waiting.remove(k)
			c.waiting.pushBack(k)
		}
	}
}

// turn is the first waiting call whose next entry may be looked at; nil = none.
func (c *core) turn(now time.Time) *call {
	for k := c.waiting.head; k != nil; k = c.waiting.next(k) {
		if !c.held(now, k) {
			return k
		}
	}
	return nil
}

// held: the next entry of k is for a lane that is slow and has its half. It waits, and
// calls for other lanes pass it.
func (c *core) held(now time.Time, k *call) bool {
	if k.behind == nil {
		k.behind = c.front(k)
	}
	if l := k.behind; l != nil && c.full(l) && l.slow() && l.down(now) {
		return true
	}
	k.behind = nil
	return false
}

// front is the lane of the entry that k wants to have admitted next; nil = it has none yet.
func (c *core) front(k *call) *lane {
	for i := k.next; i < len(k.items); i++ {
		if it := &k.items[i]; !it.settled {
			return c.find(it.e.Dest)
		}
	}
	return nil
}

// admitNext looks at the next entry of k, and reports whether it was admitted.
func (c *core) admitNext(now time.Time, k *call) bool {
	it := &k.items[k.next]
	k.next++
	if it.settled {
		return false
	}
	if o, refused := c.refusal(now, it); refused {
		c.settle(it, o)
		return false
	}
	l := c.laneFor(now, it.e.Dest)
	it.lane, it.admitted = l, now
	c.seq++
	it.seq = c.seq
	it.alone = c.poison.has(now, it.e.Route, it.e.ID)
	it.route.trip.take(it)
	it.route.fatal.take(it)
	l.fatal.take(it)

	c.entries++
	c.bytes += it.e.Bytes
	c.buffered++
	l.entries++
	l.bytesAll += it.e.Bytes
	l.buffered++
	l.inst.entries++
	k.last = now
	c.enqueue(l, it)
	c.need(now, l.inst)
	c.mark(l)
	return true
}

// refusal is the outcome of an entry that is not let in, whatever room there is.
func (c *core) refusal(now time.Time, it *item) (Outcome, bool) {
	if it.route == nil {
		it.route = c.routeFor(it.e.Route)
	}
	r := it.route
	if c.closed {
		return Outcome{Kind: Undecided, Err: ErrClosed}, true
	}
	if !r.trip.admits(now, c.o.TrialInterval) {
		return r.tripped(nil), true
	}
	if it.e.Bytes > c.o.MaxRecordBytes {
		if r.trip.shut { // half open: nothing is dropped before a record was applied
			return r.tripped(ErrTooLarge), true
		}
		return Outcome{Kind: Rejected, Err: fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, it.e.Bytes, c.o.MaxRecordBytes)}, true
	}
	if it.e.Cost > c.o.MaxBatchCost && !c.o.LoneOverCost {
		if r.trip.shut {
			return r.tripped(ErrTooLarge), true
		}
		return Outcome{Kind: Rejected, Err: fmt.Errorf("%d mutations in one record, at most %d", it.e.Cost, c.o.MaxBatchCost)}, true
	}
	if !r.fatal.admits(now, c.o.TrialInterval) {
		return Outcome{Kind: Fatal, Scope: ScopeRoute, Err: because(ErrUnavailable, r.fatal.err)}, true
	}
	l := c.find(it.e.Dest)
	if l == nil {
		return Outcome{}, false
	}
	if !l.fatal.admits(now, c.o.TrialInterval) {
		return Outcome{Kind: Fatal, Scope: ScopeBatch, Err: because(ErrUnavailable, l.fatal.err)}, true
	}
	if c.full(l) && !l.slow() && l.down(now) {
		c.counts.Shed++
		return Outcome{Kind: Transient, Scope: ScopeBatch, Err: because(ErrUnavailable, l.why())}, true
	}
	if t := l.resumes(now); !t.IsZero() && it.late(t) {
		return Outcome{Kind: Transient, Scope: ScopeBatch, Err: because(ErrUnavailable, l.why()), RetryAfter: t.Sub(now)}, true
	}
	return Outcome{}, false
}

// why is the cause of a lane's pause, as far as it is known.
func (l *lane) why() error {
	if l.cause != nil {
		return l.cause
	}
	return l.inst.cause
}

// why is what the entry's last attempt ended with, or without one what its lane fails with.
func (it *item) why() error {
	if it.cause == nil && it.lane != nil && !it.lane.failingSince.IsZero() {
		return it.lane.why()
	}
	return it.cause
}

// refuseLate answers calls that waited AdmissionTimeout since their last admission.
func (c *core) refuseLate(now time.Time) {
	for k := c.waiting.head; k != nil && !now.Before(k.last.Add(c.o.AdmissionTimeout)); k = c.waiting.head {
		c.waiting.remove(k)
		k.late = true
		for ; k.next < len(k.items); k.next++ {
			if it := &k.items[k.next]; !it.settled {
				c.counts.Overloaded++
				c.settle(it, Outcome{Kind: Transient, Scope: ScopeBatch, Err: ErrOverloaded})
			}
		}
		c.woken = append(c.woken, k)
	}
}

// full: the lane holds its half of some cap.
func (c *core) full(l *lane) bool {
	return l.entries >= half(c.o.MaxInFlightEntries) || l.buffered >= half(c.o.MaxBuffered) ||
		l.bytesAll >= max(1, c.o.MaxInFlightBytes/2)
}

// excess: the lane holds more than its half, of something that can be given back.
func (c *core) excess(l *lane) bool {
	return l.waiting.tail != nil && (l.entries > half(c.o.MaxInFlightEntries) || l.buffered > half(c.o.MaxBuffered) ||
		l.bytesAll-l.waiting.tail.e.Bytes >= max(1, c.o.MaxInFlightBytes/2))
}

// relieve takes back what stalled lanes hold above their half, when calls for other
// lanes wait for room. What nobody else wants is left to a slow lane.
func (c *core) relieve(now time.Time) {
	if c.waiting.n == 0 || c.room() {
		return
	}
	for l := c.heavy.head; l != nil; l = c.heavy.next(l) {
		if l.stalled(now) && c.othersWait(l) {
			c.shed(l)
		}
	}
}

// othersWait: a call for another lane than l waits.
func (c *core) othersWait(l *lane) bool {
	for k := c.waiting.head; k != nil; k = c.waiting.next(k) {
		if c.front(k) != l {
			return true
		}
	}
	return false
}

// shed answers the newest entries of a lane, down to its half.
func (c *core) shed(l *lane) {
	for c.excess(l) {
		it := l.waiting.tail
		c.counts.Shed++
		c.giveUp(it, Outcome{Kind: Transient, Scope: ScopeBatch, Err: because(ErrUnavailable, l.why())})
	}
}

// giveUp settles an entry that waits in its lane.
func (c *core) giveUp(it *item, o Outcome) {
	c.pullOut(it)
	c.leave(it)
	c.settle(it, o)
}

// giveUpLate answers those waiting in l that could not be sent before their callers'
// deadlines, as nothing is sent before t.
func (c *core) giveUpLate(l *lane, now, t time.Time) {
	for it := l.waiting.head; it != nil; {
		next := l.waiting.next(it)
		if it.late(t) {
			c.giveUp(it, Outcome{Kind: Transient, Scope: ScopeBatch, Err: because(ErrUnavailable, l.why()), RetryAfter: t.Sub(now)})
		}
		it = next
	}
}

// giveUpAll answers everything that waits in l.
func (c *core) giveUpAll(l *lane, o Outcome) {
	for it := l.waiting.head; it != nil; it = l.waiting.head {
		c.giveUp(it, o)
	}
}

// pullOut takes a waiting entry out of its lane's queues.
func (c *core) pullOut(it *item) {
	l := it.lane
	switch it.place {
	case queued:
		c.unqueue(l, it)
	case apart:
		c.leaveCohort(l, it)
	}
	l.waiting.remove(it)
	l.buffered--
	c.buffered--
	c.mark(l)
}

// leave gives back the room of an entry that is no longer anywhere in the writer.
func (c *core) leave(it *item) {
	l := it.lane
	it.place = gone
	c.entries--
	c.bytes -= it.e.Bytes
	l.entries--
	l.bytesAll -= it.e.Bytes
	l.inst.entries--
	if l.inst.entries == 0 {
		c.cancelOpen(l.inst)
	}
	c.mark(l)
}

// withdraw ends a call: nothing more is sent for it. reason, if any, goes before the
// outcome's own.
func (c *core) withdraw(now time.Time, k *call, reason error) {
	c.waiting.remove(k)
	for i := range k.items {
		it := &k.items[i]
		if it.settled {
			continue
		}
		why := ErrWithdrawn
		if it.place == open {
			why = ErrInFlight
		}
		err := because(why, it.why())
		if reason != nil {
			err = because(reason, err)
		}
		o := Outcome{Kind: Undecided, Err: err}
		c.counts.Withdrawn++
		if it.place == queued || it.place == apart {
			c.giveUp(it, o)
		} else {
			c.settle(it, o)
		}
	}
	if !k.admitted() {
		k.next = len(k.items)
		c.woken = append(c.woken, k)
	}
}
