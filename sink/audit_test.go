package sink

import (
	"fmt"
	"time"
)

// audit recomputes what the core keeps count of, and returns the first thing that does
// not add up. It holds after every step.
func (c *core) audit(now time.Time) error {
	entries, size, buffered, opened := 0, int64(0), 0, 0
	isOpen := map[*item]*request{}
	for r := c.open.head; r != nil; r = c.open.next(r) {
		if len(r.items) == 0 {
			return fmt.Errorf("an empty request is open")
		}
		for _, it := range r.items {
			if isOpen[it] != nil {
				return fmt.Errorf("an entry is in two open requests")
			}
			isOpen[it] = r
			if it.place != open || it.lane != r.lane {
				return fmt.Errorf("an open entry is in place %d", it.place)
			}
		}
		opened++
	}
	perInst := map[*instance]int{}
	busy := map[*instance]int{}
	for d, l := range c.lanes {
		if l.dirty {
			return fmt.Errorf("a lane is left dirty")
		}
		le, lb, lw, lopen, liso, lin, lob := 0, int64(0), 0, 0, 0, 0, int64(0)
		held := map[*group]int{}
		for r := c.open.head; r != nil; r = c.open.next(r) {
			if r.lane != l {
				continue
			}
			lopen++
			busy[l.inst]++
			if r.cohort != nil {
				liso++
			}
			for _, it := range r.items {
				le++
				lb += it.e.Bytes
				lin++
				lob += it.e.Bytes
				if it.group != nil {
					held[it.group]++
				}
			}
		}
		if l.ensuring {
			busy[l.inst]++
		}
		groups := map[*group]bool{&l.loose: true}
		keys := map[string]bool{}
		for i, g := range l.keys.buckets {
			for ; g != nil; g = g.nextKey {
				if g.hash&uint64(len(l.keys.buckets)-1) != uint64(i) || g.hash != l.keys.hash(g.key) || keys[g.key] {
					return fmt.Errorf("a key is in the wrong place, or twice")
				}
				keys[g.key] = true
				groups[g] = true
			}
		}
		if len(keys) != l.keys.n {
			return fmt.Errorf("lane %v counts %d keys, has %d", d, l.keys.n, len(keys))
		}
		inCohort := map[*item]bool{}
		cohorts := 0
		note := func(co *cohort) error {
			cohorts++
			if len(co.items) == 0 {
				return fmt.Errorf("an empty cohort waits")
			}
			for q := co; q != nil; q = q.then {
				for _, it := range q.items {
					if inCohort[it] {
						return fmt.Errorf("an entry is in two cohorts")
					}
					inCohort[it] = true
				}
			}
			return nil
		}
		for co := l.cohorts.head; co != nil; co = l.cohorts.next(co) {
			if err := note(co); err != nil {
				return err
			}
		}
		for _, d := range l.delayed.s {
			if d.cohort != nil {
				if err := note(d.cohort); err != nil {
					return err
				}
			} else {
				groups[d.group] = true
			}
		}
		for r := c.open.head; r != nil; r = c.open.next(r) {
			if r.lane == l && r.cohort != nil && r.cohort.then != nil {
				if err := note(&cohort{items: r.items[:1:1]}); err != nil {
					return err
				}
				for q := r.cohort.then; q != nil; q = q.then {
					for _, it := range q.items {
						inCohort[it] = true
					}
				}
				delete(inCohort, r.items[0])
			}
		}
		apartN := 0
		for it := l.waiting.head; it != nil; it = l.waiting.next(it) {
			lw++
			le++
			lb += it.e.Bytes
			if it.settled {
				return fmt.Errorf("a settled entry waits")
			}
			switch it.place {
			case queued:
				groups[it.group] = true
			case apart:
				apartN++
				if !inCohort[it] {
					return fmt.Errorf("an entry is apart, but in no cohort")
				}
				if it.group != nil {
					held[it.group]++
				}
			default:
				return fmt.Errorf("a waiting entry is in place %d", it.place)
			}
		}
		if apartN != len(inCohort) {
			return fmt.Errorf("%d entries apart, %d in cohorts", apartN, len(inCohort))
		}
		n, b, k, ms := 0, int64(0), 0, 0
		inQueues := 0
		for g := range groups {
			alone := 0
			gn, gb, gk, gm := 0, int64(0), 0, 0
			prefix := true
			var last uint64
			for it := g.queue.head; it != nil; it = g.queue.next(it) {
				inQueues++
				if g.keyed && it.seq <= last {
					return fmt.Errorf("a key's queue is out of order")
				}
				last = it.seq
				if it.place != queued || it.group != g {
					return fmt.Errorf("a queued entry is in place %d", it.place)
				}
				if it.alone {
					alone++
					prefix = false
				}
				if prefix {
					gn++
					gb += it.e.Bytes
					gk += it.e.Cost
					gm += it.e.Mutations
					if !c.whole(g) {
						prefix = false
					}
				}
			}
			if g.queue.n == 0 && g.keyed && g.held == 0 {
				return fmt.Errorf("an empty key is kept")
			}
			if alone != g.alone {
				return fmt.Errorf("a key counts %d poison entries, has %d", g.alone, alone)
			}
			if g.keyed && g.held != held[g] {
				return fmt.Errorf("a key counts %d held, has %d", g.held, held[g])
			}
			want := g.queue.n > 0 && g.held == 0 && g.delay.pos == 0
			if l.ready.has(g) != want {
				return fmt.Errorf("a key's readiness is %v, want %v", l.ready.has(g), want)
			}
			if l.ready.has(g) {
				if g.n != gn || g.bytes != gb || g.cost != gk || g.mutations != gm {
					return fmt.Errorf("a key counts %d sendable, has %d", g.n, gn)
				}
				n, b, k, ms = n+gn, b+gb, k+gk, ms+gm
			} else if g.n != 0 {
				return fmt.Errorf("a key that is not ready counts sendable entries")
			}
		}
		if l.n != n || l.bytes != b || l.cost != k || l.mutations != ms {
			return fmt.Errorf("lane %v counts %d/%d/%d/%d sendable, has %d/%d/%d/%d", d, l.n, l.bytes, l.cost, l.mutations, n, b, k, ms)
		}
		if inQueues+apartN != lw || l.buffered != lw || l.entries != le || l.bytesAll != lb || l.open != lopen || l.isolating != liso {
			return fmt.Errorf("lane %v counts %d buffered %d entries %d open %d isolating, has %d %d %d %d",
				d, l.buffered, l.entries, l.open, l.isolating, lw, le, lopen, liso)
		}
		if l.inOpen != lin || l.openBytes != lob {
			return fmt.Errorf("lane %v counts %d entries of %d bytes open, has %d of %d", d, l.inOpen, l.openBytes, lin, lob)
		}
		if l.open > 1 && liso == 0 && !c.leavesRoom(l, 0, 0) {
			return fmt.Errorf("lane %v has %d entries of %d bytes open, and leaves no room to others", d, lin, lob)
		}
		if l.open > c.o.MaxInFlightRequestsDest || l.isolating > half(c.o.MaxInFlightRequestsDest) {
			return fmt.Errorf("lane %v has %d open requests, %d isolating", d, l.open, l.isolating)
		}
		if c.pick(l, now) != pickNone && c.open.n < c.o.MaxInFlightRequests {
			return fmt.Errorf("lane %v may send and did not", d)
		}
		if c.pick(l, now) != pickNone && !c.due.has(l) {
			return fmt.Errorf("lane %v may send and is not in the due list", d)
		}
		if l.stalled(now) && c.excess(l) && !c.room() && c.othersWait(l) {
			return fmt.Errorf("lane %v is stalled, holds more than its half, and others wait", d)
		}
		if c.excess(l) != c.heavy.has(l) {
			return fmt.Errorf("lane %v heavy %v", d, c.heavy.has(l))
		}
		if w := c.wakeTime(l, now); w.IsZero() != (l.timerPos == 0) || !w.IsZero() && !w.Equal(l.wake) {
			return fmt.Errorf("lane %v: timer %v, want %v", d, l.wake, w)
		}
		if (l.entries == 0 && !l.ensuring) != c.idle.has(l) {
			return fmt.Errorf("lane %v idle %v", d, c.idle.has(l))
		}
		if l.missing && !l.ensuring && l.entries > 0 && l.open == 0 && l.inst.state == instOpen && !now.Before(l.retryAt) {
			return fmt.Errorf("lane %v is missing and not ensured", d)
		}
		entries, size, buffered = entries+le, size+lb, buffered+lw
		perInst[l.inst] += le
	}
	if c.entries != entries || c.bytes != size || c.buffered != buffered || c.open.n != opened {
		return fmt.Errorf("counts %d entries %d bytes %d buffered, has %d %d %d", c.entries, c.bytes, c.buffered, entries, size, buffered)
	}
	if c.entries > c.o.MaxInFlightEntries || c.open.n > c.o.MaxInFlightRequests {
		return fmt.Errorf("%d entries, %d requests: above the cap", c.entries, c.open.n)
	}
	if c.room() && c.turn(now) != nil {
		return fmt.Errorf("a call waits though there is room")
	}
	gates := []*gate{}
	for _, s := range c.routes {
		gates = append(gates, &s.trip, &s.fatal)
	}
	for _, l := range c.lanes {
		gates = append(gates, &l.fatal)
	}
	for _, g := range gates {
		if g.holder != nil && (!g.shut || g.holder.settled) {
			return fmt.Errorf("a gate waits for an entry that is done")
		}
	}
	active, opening, inRecent, incident := 0, 0, 0, 0
	for name, n := range c.instances {
		if n.entries != perInst[n] || n.busy != busy[n] {
			return fmt.Errorf("instance %s counts %d entries %d busy, has %d %d", name, n.entries, n.busy, perInst[n], busy[n])
		}
		switch n.state {
		case instClosed:
			if n.entries > 0 {
				return fmt.Errorf("instance %s has entries and is not opened", name)
			}
		case instOpening:
			active++
			opening++
		case instOpen:
			active++
			inRecent++
			if len(n.lanes) == 0 {
				return fmt.Errorf("instance %s has no lanes and is open", name)
			}
		case instDraining:
			active++
			if n.busy == 0 {
				return fmt.Errorf("instance %s is drained and not closed", name)
			}
		case instClosing:
			active++
			if n.busy > 0 {
				return fmt.Errorf("instance %s closes while in use", name)
			}
		}
	}
	for _, l := range c.lanes {
		if l.inIncident {
			incident++
		}
	}
	if active != c.active || opening != c.opening || inRecent != c.recent.n || active > c.o.MaxActiveInstances {
		return fmt.Errorf("%d instances active, counted %d, at most %d", active, c.active, c.o.MaxActiveInstances)
	}
	if incident != c.incident.lanes {
		return fmt.Errorf("%d lanes in the incident, counted %d", incident, c.incident.lanes)
	}
	return nil
}
