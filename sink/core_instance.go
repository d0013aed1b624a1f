package sink

import "time"

type instState uint8

const (
	instClosed instState = iota
	instWanted
	instOpening
	instOpen
	instDraining // takes no new batch, closes when its requests have ended
	instClosing
)

// instance is one client of the backend, shared by its lanes. From opening to closing it
// holds one of MaxActiveInstances slots: while it is closed off the write path, too.
type instance struct {
	name  string
	state instState
	lanes []*lane
	links links[instance]

	entries   int       // of its lanes
	busy      int       // open requests and ensures
	served    bool      // a batch was sent since it opened
	waitSince time.Time // entries wait for it to open; zero = none do
	cancelled bool      // its Open was told to end
	fails     int       // Opens in a row that failed
	retryAt   time.Time
	cause     error
}

func (c *core) attach(l *lane) {
	n := c.instances[l.dest.Instance]
	if n == nil {
		n = &instance{name: l.dest.Instance}
		c.instances[n.name] = n
	}
	l.inst, l.slot = n, len(n.lanes)
	n.lanes = append(n.lanes, l)
}

func (c *core) detach(now time.Time, l *lane) {
	n := l.inst
	last := len(n.lanes) - 1
	n.lanes[l.slot] = n.lanes[last]
	n.lanes[l.slot].slot = l.slot
	n.lanes[last] = nil
	n.lanes = n.lanes[:last]
	if last == 0 {
		c.retire(now, n)
	}
}

// retire closes an instance that lost its last lane.
func (c *core) retire(now time.Time, n *instance) {
	switch n.state {
	case instOpen:
		c.drainInstance(now, n)
	case instOpening:
		c.cancelOpen(n)
	case instClosed, instWanted:
		c.unwant(n)
		delete(c.instances, n.name)
	}
}

// need has a closed instance with entries opened.
func (c *core) need(now time.Time, n *instance) {
	if n.state != instClosed || n.entries == 0 {
		return
	}
	n.state = instWanted
	n.waitSince = now
	c.wanted = append(c.wanted, n)
}

func (c *core) unwant(n *instance) {
	for i, x := range c.wanted {
		if x == n {
			c.wanted = append(c.wanted[:i], c.wanted[i+1:]...)
			break
		}
	}
	n.state = instClosed
	n.waitSince = time.Time{}
}

// pumpInstances opens what is wanted in order while there are slots, and drains one
// instance for each that finds none.
func (c *core) pumpInstances(now time.Time) {
	if c.closed && c.calls.n == 0 {
		for c.recent.head != nil {
			c.drainInstance(now, c.recent.head)
		}
	}
	starved := 0
	for i := 0; i < len(c.wanted); {
		n := c.wanted[i]
		switch {
		case n.entries == 0:
			c.unwant(n)
			if len(n.lanes) == 0 {
				delete(c.instances, n.name)
			}
			continue
		case now.Before(n.retryAt):
		case c.active < c.o.MaxActiveInstances:
			c.wanted = append(c.wanted[:i], c.wanted[i+1:]...)
			n.state = instOpening
			n.cancelled = false
			c.active++
			c.opening++
			c.counts.Opens++
			c.started = append(c.started, work{kind: doOpen, inst: n})
			continue
		default:
			n.retryAt = time.Time{} // a slot is awaited, not a time
			starved++
		}
		i++
	}
	if starved > 0 {
		c.makeRoom(now, starved)
	}
}

// makeRoom drains the least recently used instances, one per starved one, beyond those
// on their way out. Each open serves at least one batch, unless it has no entries left.
func (c *core) makeRoom(now time.Time, starved int) {
	leaving := c.active - c.recent.n - c.opening
	for n := c.recent.head; n != nil && leaving < starved; {
		next := c.recent.next(n)
		if n.served || n.entries == 0 {
			c.drainInstance(now, n)
			leaving++
		}
		n = next
	}
}

func (c *core) drainInstance(now time.Time, n *instance) {
	c.recent.remove(n)
	n.state = instDraining
	for _, l := range n.lanes {
		c.mark(l)
	}
	c.closeDrained(n)
}

func (c *core) closeDrained(n *instance) {
	if n.state == instDraining && n.busy == 0 {
		n.state = instClosing
		c.started = append(c.started, work{kind: doRelease, inst: n})
	}
}

// cancelOpen ends an Open that nobody waits for any more.
func (c *core) cancelOpen(n *instance) {
	if n.state == instOpening && !n.cancelled {
		n.cancelled = true
		c.started = append(c.started, work{kind: doCancelOpen, inst: n})
	}
}

// opened takes the answer to an Open.
func (c *core) opened(now time.Time, n *instance, err error) {
	c.opening--
	if err == nil {
		n.state = instOpen
		n.served = false
		n.fails, n.retryAt, n.cause = 0, time.Time{}, nil
		n.waitSince = time.Time{}
		c.recent.pushBack(n)
		for _, l := range n.lanes {
			c.mark(l)
		}
		if len(n.lanes) == 0 {
			c.drainInstance(now, n)
		}
		c.run(now)
		return
	}
	n.state = instClosed
	c.active--
	if !n.cancelled { // else whoever waits now came after it was given up
		n.cause = err
		n.fails++
		n.retryAt = now.Add(c.backoff(c.o.Retry, n.fails, 0))
		for _, l := range n.lanes {
			if c.draining {
				c.giveUpAll(l, Outcome{Kind: Transient, Scope: ScopeBatch, Err: because(ErrUnavailable, err)})
			} else {
				c.giveUpLate(l, now, n.retryAt)
			}
		}
	}
	since := n.waitSince
	n.waitSince = time.Time{}
	c.closedInstance(now, n)
	if n.state == instWanted && !since.IsZero() {
		n.waitSince = since
	}
	c.run(now)
}

// released takes note that a client is closed, which frees its slot.
func (c *core) released(now time.Time, n *instance) {
	n.state = instClosed
	c.active--
	c.closedInstance(now, n)
	c.run(now)
}

func (c *core) closedInstance(now time.Time, n *instance) {
	if len(n.lanes) == 0 {
		delete(c.instances, n.name)
		return
	}
	c.need(now, n)
	for _, l := range n.lanes {
		c.mark(l)
	}
}

// used notes a request or an ensure of n.
func (c *core) used(n *instance) {
	n.busy++
	n.served = true
	if n.state == instOpen && c.recent.tail != n {
		c.recent.remove(n)
		c.recent.pushBack(n)
	}
}

func (c *core) unused(n *instance) {
	n.busy--
	c.closeDrained(n)
}
