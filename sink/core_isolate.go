package sink

// cohort is a set of entries that is sent in a request of its own, to find out which of
// them the service refuses: the halves of a refused batch, a refused entry, known poison.
// Its entries' groups are held until it is done, so it keeps its place in their keys.
//
// It is in one place: in lane.cohorts, in lane.delayed, in an open request, or behind
// another cohort of the same key (then).
type cohort struct {
	items []*item
	then  *cohort // the rest of the same single key
	delay delay
	links links[cohort]
}

// newCohort lines up its, which are held and in lane.waiting.
func (c *core) newCohort(l *lane, then *cohort, its ...*item) *cohort {
	co := &cohort{items: its, then: then}
	co.delay.cohort = co
	for _, it := range its {
		it.place = apart
		it.cohort = co
	}
	l.cohorts.pushBack(co)
	return co
}

// rebuffer returns open entries to lane.waiting.
func (c *core) rebuffer(l *lane, its []*item) {
	for i := len(its) - 1; i >= 0; i-- {
		its[i].place = apart
		c.buffer(l, its[i])
	}
}

// halve lines up its as two cohorts, or as one when only a single entry is left. Entries
// of one key are neighbours and are not torn apart, unless there is nothing but them:
// then the second half goes after the first. A culprit among n keys thus costs at most
// 2*ceil(log2 n) requests, and so does one among n entries of a key.
func (c *core) halve(l *lane, its []*item, then *cohort) {
	c.counts.Isolations++
	if len(its) == 1 {
		c.newCohort(l, then, its[0])
		return
	}
	units := 0
	for i := 0; i < len(its); i = unitEnd(its, i) {
		units++
	}
	if units == 1 {
		m := (len(its) + 1) / 2
		second := c.newCohort(l, then, clone(its[m:])...)
		l.cohorts.remove(second)
		c.newCohort(l, second, clone(its[:m])...)
		return
	}
	m := 0
	for range (units + 1) / 2 {
		m = unitEnd(its, m)
	}
	c.newCohort(l, nil, clone(its[:m])...)
	c.newCohort(l, nil, clone(its[m:])...)
}

func clone(its []*item) []*item { return append([]*item(nil), its...) }

// unitEnd is the end of the run of one key that starts at i.
func unitEnd(its []*item, i int) int {
	g := its[i].group
	j := i + 1
	if g == nil || !g.keyed {
		return j
	}
	for j < len(its) && its[j].group == g {
		j++
	}
	return j
}

// takeCohort opens the next cohort, in parts if batches have become smaller than it.
func (c *core) takeCohort(l *lane) *request {
	co := l.cohorts.head
	for len(co.items) > l.limit {
		l.cohorts.remove(co)
		tail := l.cohorts.tail
		c.halve(l, co.items, co.then)
		// To the front, the first half first.
		if tail == nil {
			co = l.cohorts.head
			continue
		}
		for part := l.cohorts.tail; part != tail; part = l.cohorts.tail {
			l.cohorts.remove(part)
			l.cohorts.pushFront(part)
			co = part
		}
	}
	l.cohorts.remove(co)
	r := c.newRequest(l)
	for _, it := range co.items {
		it.cohort = nil
		c.take(l, r, it)
	}
	r.cohort = co
	l.isolating++
	return r
}

// endCohort lets the next one of the same key go.
func (c *core) endCohort(l *lane, co *cohort) {
	for next := co.then; next != nil; next = next.then {
		if len(next.items) > 0 {
			l.cohorts.pushBack(next)
			return
		}
	}
}

// leaveCohort takes out an entry that is withdrawn.
func (c *core) leaveCohort(l *lane, it *item) {
	co := it.cohort
	for i, x := range co.items {
		if x == it {
			co.items = append(co.items[:i], co.items[i+1:]...)
			break
		}
	}
	it.cohort = nil
	if len(co.items) == 0 && (l.cohorts.has(co) || co.delay.pos > 0) {
		l.cohorts.remove(co)
		l.delayed.remove(&co.delay)
		c.endCohort(l, co)
	}
	if it.group != nil {
		c.release(l, it.group, 1)
	}
}
