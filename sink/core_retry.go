package sink

import "time"

// maxHint is the longest RetryAfter that is honoured.
const maxHint = time.Minute

// backoff is the wait before the attempt after the n-th failure: doubling, jittered by
// +-25 %, and never shorter than the service's hint.
func (c *core) backoff(b Backoff, n int, hint time.Duration) time.Duration {
	return backoff(b, n, hint, c.rand())
}

// backoff with a given jitter, 0 to 1: entries that fail together come back together,
// not each by itself.
func backoff(b Backoff, n int, hint time.Duration, jitter float64) time.Duration {
	d := b.Initial
	for i := 1; i < n && d < b.Max; i++ {
		d = min(2*d, b.Max)
	}
	d = time.Duration(float64(d) * (0.75 + 0.5*jitter))
	return max(d, min(hint, maxHint), time.Millisecond)
}

// pause stops the lane after a batch-wide failure. Requests that were open together fail
// together: only the first of them lengthens the backoff.
func (c *core) pause(l *lane, now time.Time, hint time.Duration, cause error) {
	l.cause = cause
	if l.failingSince.IsZero() {
		l.failingSince = now
	}
	if c.draining {
		return
	}
	until := now.Add(min(hint, maxHint))
	if !now.Before(l.pausedUntil) {
		l.fails++
		until = now.Add(c.backoff(c.o.Retry, l.fails, hint))
	}
	if until.After(l.pausedUntil) {
		l.pausedUntil = until
	}
	c.giveUpLate(l, now, l.pausedUntil)
}

// resize makes a lane's batches half as large after a timeout of n entries (of one says
// nothing of their number), and an eighth larger again after each full one that went well.
func (c *core) resize(l *lane, n int, slow, well bool) {
	switch {
	case slow && n > 1:
		l.limit = min(l.limit, half(n))
	case well && n >= l.limit && l.limit < c.o.MaxBatchEntries:
		l.limit = min(l.limit+max(1, l.limit/8), c.o.MaxBatchEntries)
	}
}

// sendLater puts entries back that back off by themselves: their key waits with them,
// the rest of the lane does not.
func (c *core) sendLater(l *lane, g *group, its []*item, at time.Time) {
	if !g.keyed {
		g = c.newGroup("", false)
		its[0].group = g
	}
	c.putBack(l, g, its)
	c.postpone(l, &g.delay, at)
	c.release(l, g, len(its))
}

// keep sends a cohort's undecided entries again as the same cohort.
func (c *core) keep(l *lane, co *cohort, its []*item, at time.Time) {
	c.rebuffer(l, its)
	co.items = append(co.items[:0], its...)
	for _, it := range co.items {
		it.cohort = co
	}
	if at.IsZero() {
		l.cohorts.pushFront(co)
	} else {
		c.postpone(l, &co.delay, at)
	}
}
