package sink

import "time"

// gate holds back what is known not to work, and lets one entry through after a while to
// see whether it does again.
type gate struct {
	shut   bool
	since  time.Time // the last failure, from which the next trial is due
	first  time.Time // the failure that shut it; trials that failed did not change it
	err    error
	holder *item // the one let through; nil = the next may be
}

// halfOpen: it is time to try.
func (g *gate) halfOpen(now time.Time, interval time.Duration) bool {
	return g.shut && !now.Before(g.since.Add(interval))
}

func (g *gate) admits(now time.Time, interval time.Duration) bool {
	return !g.shut || g.holder == nil && g.halfOpen(now, interval)
}

// take makes an admitted entry the one that tries.
func (g *gate) take(it *item) {
	if g.shut {
		g.holder = it
		it.trial = true
	}
}

// release: it ended. Unless that opened or closed the gate, the next may try.
func (g *gate) release(it *item) {
	if g.holder == it {
		g.holder = nil
	}
}

func (g *gate) close(now time.Time, err error) {
	first := now
	if g.shut {
		first = g.first
	}
	*g = gate{shut: true, since: now, first: first, err: err}
}

func (g *gate) open() {
	if g.shut {
		*g = gate{}
	}
}

// routeState is what the writer knows of a route.
type routeState struct {
	route  *Route
	streak int
	ids    map[string]struct{} // in the streak; only where a trip is possible
	last   error               // of the last rejection
	trip   gate
	fatal  gate
}

func (c *core) routeFor(r *Route) *routeState {
	if s := c.lastRoute; s != nil && s.route == r {
		return s
	}
	s := c.routes[r]
	if s == nil {
		s = &routeState{route: r}
		c.routes[r] = s
	}
	c.lastRoute = s
	return s
}

// applied: the route can write.
func (s *routeState) applied() {
	if s.streak > 0 {
		s.streak = 0
		clear(s.ids)
	}
	s.trip.open()
	s.fatal.open()
}

// count adds a confirmed rejection. An id counts once in a streak; ids are kept only where
// the streak has a bound, and so are at most as many.
func (s *routeState) count(id string, err error, bound int) {
	s.last = err
	if s.route != nil && s.route.Trips && bound > 0 && id != "" {
		id = kept(id)
		if _, ok := s.ids[id]; ok {
			return
		}
		if s.ids == nil {
			s.ids = make(map[string]struct{})
		}
		s.ids[id] = struct{}{}
	}
	s.streak++
}

func (s *routeState) trips(bound int) bool {
	return s.route != nil && s.route.Trips && bound > 0 && s.streak >= bound
}

// tripped is the outcome of what a tripped route does not let through.
func (s *routeState) tripped(cause error) Outcome {
	if cause == nil {
		cause = s.trip.err
	}
	return Outcome{Kind: Undecided, Scope: ScopeRoute, Err: because(ErrTripped, cause)}
}
