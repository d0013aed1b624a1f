package sink

import "time"

// incident is the making of missing destinations. All lanes that are missing at a time
// share its rounds (an Ensure and the writes after it), so a hundred tables that can't be
// made do not each spend a whole budget one after the other.
type incident struct {
	lanes int
	round int // 1 = the first
	next  time.Time
}

// lost stops a lane whose destination is missing. Open requests are waited for, then it
// is ensured once, then everything is sent again in order.
func (c *core) lost(l *lane, now time.Time, hint time.Duration, cause error) {
	l.cause = cause
	if l.failingSince.IsZero() {
		l.failingSince = now
	}
	if l.missing { // another request of the same failure
		c.giveUpLate(l, now, l.retryAt)
		return
	}
	l.missing = true
	if l.inIncident {
		c.roundFailed(l, now, hint)
		return
	}
	if c.incident.lanes == 0 {
		c.incident = incident{round: 1}
	}
	c.incident.lanes++
	l.inIncident = true
	l.round = c.incident.round
	if now.Before(c.incident.next) {
		l.round-- // the first try of a lane that comes between two rounds is not a new one
	}
	l.retryAt = now
}

// roundFailed schedules the lane's next round, or ends it with the budget.
func (c *core) roundFailed(l *lane, now time.Time, hint time.Duration) {
	if l.round == c.incident.round {
		c.incident.round++
		c.incident.next = now.Add(c.backoff(c.o.Recovery, l.round, hint))
	}
	l.round = c.incident.round
	if l.round > c.o.Recovery.MaxAttempts || c.draining {
		c.giveUpAll(l, Outcome{Kind: Missing, Scope: ScopeBatch, Err: because(ErrUnavailable, l.cause)})
		c.found(l)
		return
	}
	l.retryAt = c.incident.next
	if t := now.Add(min(hint, maxHint)); t.After(l.retryAt) {
		l.retryAt = t
	}
	c.giveUpLate(l, now, l.retryAt)
}

// found ends the lane's part in the incident.
func (c *core) found(l *lane) {
	l.missing = false
	if l.inIncident {
		l.inIncident = false
		c.incident.lanes--
	}
}

// recover starts an Ensure when the lane's requests are drained, and lets go of an
// incident that nobody waits for.
func (c *core) recover(l *lane, now time.Time) {
	if l.entries == 0 {
		l.failingSince = time.Time{}
		if !l.ensuring {
			c.found(l)
		}
		return
	}
	if !l.missing || l.ensuring || l.open > 0 || now.Before(l.retryAt) || l.inst.state != instOpen {
		return
	}
	l.ensuring = true
	c.ensuring++
	c.counts.Ensures++
	c.used(l.inst)
	c.started = append(c.started, work{kind: doEnsure, lane: l})
}

// ensured takes the answer to an Ensure. It goes on when the callers leave, so there may
// be nothing left to send.
func (c *core) ensured(now time.Time, l *lane, e Ensured) {
	l.ensuring = false
	c.ensuring--
	c.unused(l.inst)
	if e.Kind == Applied && e.Err != nil {
		e.Kind = Undecided
	}
	switch e.Kind {
	case Applied:
		l.missing = false
		if e.Unchanged {
			l.unchangedSince, l.unchangedUntil = now, now.Add(c.o.Recovery.Max)
		}
	case Fatal:
		l.cause = e.Err
		o := Outcome{Kind: Fatal, Scope: ScopeBatch, Err: because(ErrUnavailable, e.Err)}
		l.fatal.close(now, o.Err)
		c.giveUpAll(l, o)
		c.found(l)
	case Rejected:
		for it := l.waiting.head; it != nil; it = l.waiting.head {
			c.pullOut(it)
			c.leave(it)
			c.reject(now, it, e.Outcome)
		}
		c.found(l)
	default:
		l.cause = e.Err
		c.roundFailed(l, now, e.RetryAfter)
	}
	c.mark(l)
	c.run(now)
}

// unchanged: a request of that time came after an Ensure that had nothing to do, so what
// it misses will not come by waiting.
func (l *lane) unchanged(now, started time.Time) bool {
	return now.Before(l.unchangedUntil) && !started.Before(l.unchangedSince)
}
