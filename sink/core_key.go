package sink

import "time"

// place is where an entry is.
type place uint8

const (
	outside place = iota // not admitted
	queued               // in its group
	apart                // in a cohort that waits to be sent
	open                 // in an open request
	gone
)

// item is an entry with its state. It lives in its call.
type item struct {
	e     Entry
	call  *call
	slot  int
	route *routeState

	// Set by admission.
	lane     *lane
	seq      uint64
	admitted time.Time

	group  *group
	cohort *cohort
	inKey  links[item] // in group.queue
	inLane links[item] // in lane.waiting

	place   place
	settled bool
	trial   bool  // holds a gate half open
	alone   bool  // known poison: never sent with others
	tries   int   // attempts that ended Transient or Undecided
	missed  int   // attempts that ended Missing
	cause   error // of the last such attempt
}

// late: what happens at t comes too late for the entry's caller.
func (it *item) late(t time.Time) bool {
	return !it.call.deadline.IsZero() && !t.Before(it.call.deadline)
}

// delay makes a group or a cohort wait until at, in its lane's delayed heap.
type delay struct {
	at     time.Time
	pos    int
	group  *group
	cohort *cohort
}

// group is the queue of one key of a lane, or of its entries without key.
//
// It is in lane.ready exactly when it has something to send: its queue is not empty,
// it is not held and not delayed. n, bytes, cost and mutations are then what of it is sendable, and
// counted in the lane: everything up to the first poison entry, or the head alone where
// a batch holds a key once.
type group struct {
	key     string
	keyed   bool
	hash    uint64 // this and nextKey: in lane.keys
	nextKey *group
	queue   chain[item]
	alone   int // poison entries in queue
	// held counts the key's entries that are open or apart (keyed groups only).
	held  int
	delay delay

	links     links[group] // these and pos: in lane.ready
	pos       int
	n         int
	bytes     int64
	cost      int
	mutations int
}

func (c *core) newGroup(key string, keyed bool) *group {
	if n := len(c.freeGroups); n > 0 {
		g := c.freeGroups[n-1]
		c.freeGroups = c.freeGroups[:n-1]
		g.key, g.keyed = key, keyed
		return g
	}
	g := &group{key: key, keyed: keyed}
	g.queue.at = itemInKey
	g.delay.group = g
	return g
}

func itemInKey(it *item) *links[item] { return &it.inKey }

// whole: everything up to the first poison entry may be in one batch.
func (c *core) whole(g *group) bool { return c.o.MergeKeys || !g.keyed }

// enqueue puts a newly admitted entry at the end of its group.
func (c *core) enqueue(l *lane, it *item) {
	it.place = queued
	l.waiting.pushBack(it)
	if it.e.Key == "" {
		if it.alone {
			c.newCohort(l, nil, it)
			return
		}
		it.group = &l.loose
	} else {
		hash := l.keys.hash(it.e.Key)
		if it.group = l.keys.find(hash, it.e.Key); it.group == nil {
			it.group = c.newGroup(it.e.Key, true)
			l.keys.add(it.group, hash)
		}
	}
	g := it.group
	g.queue.pushBack(it)
	if it.alone {
		g.alone++
	}
	if !l.ready.has(g) {
		c.ready(l, g)
	} else if g.alone == 0 && c.whole(g) {
		g.count(l, it, 1)
	}
}

// putBack returns entries of one group, in order, to its front, to be sent again.
func (c *core) putBack(l *lane, g *group, its []*item) {
	for i := len(its) - 1; i >= 0; i-- {
		it := its[i]
		it.place = queued
		c.buffer(l, it)
		g.queue.pushFront(it)
		if l.ready.has(g) { // only the loose group: a keyed one is held
			g.count(l, it, 1)
		}
	}
	if l.ready.has(g) {
		l.ready.fix(g)
	}
}

// unqueue takes out an entry that is withdrawn.
func (c *core) unqueue(l *lane, it *item) {
	g := it.group
	switch {
	case l.ready.has(g) && c.whole(g) && g.alone == 0:
		head := g.queue.head == it
		g.queue.remove(it)
		g.count(l, it, -1)
		if g.queue.n == 0 {
			l.ready.remove(g)
		} else if head {
			l.ready.fix(g)
		}
	default:
		l.unready(g)
		g.queue.remove(it)
		if it.alone {
			g.alone--
		}
	}
	c.ready(l, g)
}

// release gives back n holds of a group.
func (c *core) release(l *lane, g *group, n int) {
	if g.keyed {
		g.held -= n
	}
	c.ready(l, g)
}

// ready puts g where it belongs after a change: into lane.ready when it has something to
// send, away for good when nothing is left of it. A poison entry at its head goes apart.
func (c *core) ready(l *lane, g *group) {
	if l.ready.has(g) || g.held > 0 {
		return
	}
	head := g.queue.head
	if head == nil {
		l.delayed.remove(&g.delay)
		if g.keyed {
			l.keys.remove(g)
			c.freeGroups = append(c.freeGroups, g)
		}
		return
	}
	if g.delay.pos > 0 {
		return
	}
	if head.alone {
		g.queue.remove(head)
		g.alone--
		g.held++
		c.newCohort(l, nil, head)
		return
	}
	for it := head; it != nil && !it.alone; it = g.queue.next(it) {
		g.count(l, it, 1)
		if !c.whole(g) {
			break
		}
	}
	l.ready.push(g)
}

// unready takes g out of lane.ready.
func (l *lane) unready(g *group) {
	if !l.ready.has(g) {
		return
	}
	l.ready.remove(g)
	l.n -= g.n
	l.bytes -= g.bytes
	l.cost -= g.cost
	l.mutations -= g.mutations
	g.n, g.bytes, g.cost, g.mutations = 0, 0, 0, 0
}

// count adds (1) or takes (-1) an entry to or from what is sendable.
func (g *group) count(l *lane, it *item, sign int) {
	b, k, m := int64(sign)*it.e.Bytes, sign*it.e.Cost, sign*it.e.Mutations
	g.n += sign
	g.bytes += b
	g.cost += k
	g.mutations += m
	l.n += sign
	l.bytes += b
	l.cost += k
	l.mutations += m
}

// postpone keeps a group back until at. It is not in lane.ready.
func (c *core) postpone(l *lane, d *delay, at time.Time) {
	if d.pos > 0 {
		if at.After(d.at) {
			d.at = at
			l.delayed.fix(d)
		}
		return
	}
	d.at = at
	l.delayed.push(d)
}
