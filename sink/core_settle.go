package sink

import "time"

// fate is what one outcome means for its entry.
type fate uint8

const (
	over    fate = iota // settled, or nobody waits for it
	again               // to be sent again
	refused             // refused for itself, with others in the request
	suspect             // in a request that was refused as a whole
)

// verdict gathers what a request says of its lane.
type verdict struct {
	pause    bool // a batch-wide Transient
	missing  bool
	hint     time.Duration // the longest RetryAfter of those
	cause    error
	applied  bool
	fatal    bool // of the destination
	decided  bool // some entry was applied or rejected
	retrying bool // some entry is to be sent again for a reason of its own
	answered bool // something came back other than pause or missing
	jitter   float64
}

// wrote takes the outcomes of an open request. broken is set when the backend panicked;
// slow when the attempt ran into its timeout.
func (c *core) wrote(now time.Time, r *request, outs []Outcome, broken error, slow bool) {
	l := r.lane
	l.open--
	l.inOpen -= len(r.items)
	l.openBytes -= r.bytes
	c.open.remove(r)
	l.lastOutcome = now
	if r.cohort != nil {
		l.isolating--
	}
	if broken == nil && len(outs) != len(r.items) {
		broken = because(ErrBackend, errShort)
	}

	v := verdict{jitter: c.rand()}
	var suspects, kept []*item
	var keptUntil time.Time
	// The rest of a cohort's key. Only a cohort of a single key has one, and a single
	// key makes a single turn of this loop.
	var then *cohort
	if r.cohort != nil {
		then = r.cohort.then
	}
	passed := then == nil
	whole := len(r.items)
	for i := 0; i < len(r.items); {
		j := unitEnd(r.items, i)
		unit, g := r.items[i:j], r.items[i].group
		live := unit[:0]
		worst, until := over, time.Time{}
		for n, it := range unit {
			o := Outcome{Kind: Undecided, Err: broken}
			if broken == nil {
				o = outs[i+n]
			}
			f, at := c.judge(now, r, it, o, whole == 1, broken != nil, &v)
			if f == over {
				c.leave(it)
				continue
			}
			live = append(live, it)
			worst = max(worst, f)
			if at.After(until) {
				until = at
			}
		}
		if g != nil && g.keyed {
			g.held -= j - i - len(live)
		}
		switch {
		case len(live) == 0:
		case worst == suspect:
			suspects = append(suspects, live...)
		case worst == refused:
			c.rebuffer(l, live)
			c.halve(l, clone(live), then)
			passed = true
		case r.cohort != nil:
			kept = append(kept, live...)
			if until.After(keptUntil) {
				keptUntil = until
			}
		case until.IsZero():
			c.putBack(l, g, live)
			c.release(l, g, len(live))
		default:
			c.sendLater(l, g, live, until)
		}
		if g != nil && len(live) == 0 {
			c.release(l, g, 0)
		}
		i = j
	}
	if len(suspects) > 0 {
		c.rebuffer(l, suspects)
		c.halve(l, suspects, then)
		passed = true
	}
	if len(kept) > 0 {
		c.keep(l, r.cohort, kept, keptUntil)
		passed = true
	}
	if !passed {
		c.endCohort(l, r.cohort)
	}

	c.resize(l, whole, slow, v.applied)
	if v.applied {
		l.fails = 0
		if !v.fatal { // one request may hold both
			l.fatal.open()
		}
	}
	switch {
	case v.pause, v.missing: // they see to it
	case v.decided || !v.retrying:
		l.failingSince = time.Time{}
	case l.failingSince.IsZero():
		l.failingSince, l.cause = now, v.cause
	}
	if v.pause {
		c.pause(l, now, v.hint, v.cause)
	}
	if v.missing {
		c.lost(l, now, v.hint, v.cause)
	} else if v.answered && !l.missing {
		c.found(l)
	}
	if v.decided {
		l.took(now.Sub(r.started))
	}
	c.unused(l.inst)
	c.mark(l)
	c.freeRequest(r)
	c.run(now)
}

// judge settles an entry if its outcome is final, and otherwise says what to do with it:
// for again, at is when, if it backs off by itself.
func (c *core) judge(now time.Time, r *request, it *item, o Outcome, alone, broken bool, v *verdict) (f fate, at time.Time) {
	l := it.lane
	if o.Kind == Applied && o.Err != nil {
		o.Kind = Undecided // a contradiction never acknowledges
	}
	switch o.Kind {
	case Applied:
		v.applied, v.decided, v.answered = true, true, true
		it.route.applied()
		c.settle(it, Outcome{Kind: Applied})
		return over, at

	case Rejected:
		v.decided, v.answered = true, true
		if alone || o.Sole {
			c.reject(now, it, o)
			return over, at
		}
		if it.settled {
			return over, at
		}
		if o.Scope == ScopeBatch {
			return suspect, at
		}
		return refused, at

	case Fatal:
		v.answered = true
		o.Err = because(ErrUnavailable, o.Err)
		switch o.Scope {
		case ScopeRoute:
			it.route.fatal.close(now, o.Err)
		case ScopeBatch:
			v.fatal = true
			l.fatal.close(now, o.Err)
			c.giveUpAll(l, o)
		}
		c.settle(it, o)
		return over, at

	case Missing:
		it.missed++
		it.cause = o.Err
		switch {
		case it.settled:
		case c.draining, it.missed > c.o.Recovery.MaxAttempts, l.unchanged(now, r.started):
			c.settle(it, Outcome{Kind: Missing, Scope: o.Scope, Err: because(ErrUnavailable, o.Err)})
		default:
			v.missing, v.cause = true, o.Err
			v.hint = max(v.hint, o.RetryAfter)
			return again, at
		}
		return over, at

	default: // Transient, Undecided
		if o.Kind != Transient {
			o.Kind = Undecided
		}
		if broken { // not sent again: nobody knows what the backend did with it
			c.settle(it, o)
			return over, at
		}
		it.tries++
		it.cause = o.Err
		if o.Scope == ScopeBatch {
			v.pause, v.cause = true, o.Err
			v.hint = max(v.hint, o.RetryAfter)
		} else {
			v.answered, v.retrying = true, true
			if v.cause == nil {
				v.cause = o.Err
			}
			at = now.Add(backoff(c.o.Retry, it.tries, o.RetryAfter, v.jitter))
		}
		if it.settled {
			return over, at
		}
		if c.draining || spent(it.tries, o.MaxAttempts) || spent(it.tries, c.o.Retry.MaxAttempts) || !at.IsZero() && it.late(at) {
			c.settle(it, Outcome{Kind: o.Kind, Scope: o.Scope, Err: because(ErrUnavailable, o.Err), RetryAfter: o.RetryAfter})
			return over, at
		}
		c.counts.Retries++
		return again, at
	}
}

func spent(tries, max int) bool { return max > 0 && tries >= max }

// settle gives an entry its outcome. It is the only place that does.
func (c *core) settle(it *item, o Outcome) {
	if it.settled {
		return // its caller left
	}
	it.settled = true
	if it.trial {
		it.route.trip.release(it)
		it.route.fatal.release(it)
		it.lane.fatal.release(it)
	}
	if o.Kind != Applied && o.Err == nil {
		o.Err = ErrUnavailable
	}
	c.counts.Settled[o.Kind]++
	k := it.call
	k.outs[it.slot] = o
	k.left--
	if k.left == 0 {
		c.calls.remove(k)
		c.ends.remove(k)
		c.woken = append(c.woken, k)
	}
}

// reject settles an entry whose rejection is confirmed.
func (c *core) reject(now time.Time, it *item, o Outcome) {
	c.poison.add(now, it.e.Route, it.e.ID)
	if it.settled {
		return // nobody learns of it, so it is not dropped and does not count
	}
	r := it.route
	if r.trip.shut {
		if r.trip.holder == it {
			r.trip.close(now, o.Err)
		}
		c.settle(it, r.tripped(o.Err))
		return
	}
	if o.Err == nil {
		o.Err = errNoReason
	}
	c.counts.Rejections++
	r.count(it.e.ID, o.Err, c.o.MaxConsecutiveRejections)
	if r.trips(c.o.MaxConsecutiveRejections) {
		c.counts.Trips++
		r.trip.close(now, o.Err)
	}
	// The record that trips the route is still the caller's to drop or dead-letter.
	c.settle(it, o)
}
