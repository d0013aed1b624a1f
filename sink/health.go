package sink

import (
	"cmp"
	"slices"
	"time"
)

// State is how a route or destination fares.
type State uint8

const (
	// OK: it can be written to as far as is known.
	OK State = iota
	// Trial: it was tripped or fatal, and the next record is let through to see.
	Trial
	// Tripped: too many rejections in a row; everything is answered with ErrTripped.
	Tripped
	// FatalState: the service said it can't be written to, and waiting does not help.
	FatalState
)

// String gives the name used in health answers.
func (s State) String() string {
	switch s {
	case OK:
		return "ok"
	case Trial:
		return "trial"
	case Tripped:
		return "tripped"
	default:
		return "fatal"
	}
}

// RouteHealth is how a route fares in one writer.
type RouteHealth struct {
	Route *Route
	State State
	// Streak counts the confirmed rejections in a row; Bound is
	// WRITER_MAX_CONSECUTIVE_REJECTIONS, at which a route with Trips set trips.
	Streak, Bound int
	// Err is the last rejection of the streak, or what made the route fatal; nil when OK
	// and without streak.
	Err error
	// Since is when it tripped or became fatal; trials that failed since do not change it.
	// The zero time when OK.
	Since time.Time
}

// Able: the route takes records, be it a trial.
func (h RouteHealth) Able() bool { return h.State == OK || h.State == Trial }

// DestHealth is a destination that is not OK.
type DestHealth struct {
	Dest  Dest
	State State // FatalState or Trial
	Err   error
	Since time.Time
}

// Health is a snapshot of a Writer.
type Health struct {
	// Routes are those that ever had an entry, by name.
	Routes []RouteHealth
	// Destinations are those that are fatal, in order.
	Destinations []DestHealth
	// Stuck: a request is open past twice its attempt timeout, so the backend does not
	// obey its context, and only a restart helps.
	Stuck bool
	// OldestRequest is the age of the oldest open request.
	OldestRequest time.Duration
	Draining      bool

	InFlightEntries int   // admitted and not done; a caller that left does not end it
	InFlightBytes   int64 // of those
	Buffered        int   // of those, not in an open request
	OpenRequests    int
	WaitingCalls    int // with entries not admitted
	Lanes           int
	OpenInstances   int // clients opening, open or closing
	Counters        Counters
}

// Health takes a snapshot. It costs microseconds and waits for no I/O.
func (w *Writer) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.core.health(time.Now())
}

// Route tells how r fares. It is cheap enough to ask for each record: a tripped or fatal
// route's records are to be answered 503 whatever the mapping says of them.
func (w *Writer) Route(r *Route) RouteHealth {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.core.routes[r]
	if s == nil {
		return RouteHealth{Route: r, Bound: w.o.MaxConsecutiveRejections}
	}
	return s.health(time.Now(), w.o)
}

// Destination tells how d fares.
func (w *Writer) Destination(d Dest) DestHealth {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.core.lanes[d]; l != nil {
		return l.health(time.Now(), w.o)
	}
	return DestHealth{Dest: d}
}

// ClearFatal says that a check outside the writer found d in order.
func (w *Writer) ClearFatal(d Dest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.core.lanes[d]; l != nil {
		l.fatal.open()
	}
}

func (g *gate) state(now time.Time, interval time.Duration, shut State) State {
	switch {
	case !g.shut:
		return OK
	case g.halfOpen(now, interval):
		return Trial
	default:
		return shut
	}
}

func (s *routeState) health(now time.Time, o Options) RouteHealth {
	h := RouteHealth{Route: s.route, Streak: s.streak, Bound: o.MaxConsecutiveRejections}
	if s.streak > 0 {
		h.Err = s.last
	}
	trip, fatal := s.trip.state(now, o.TrialInterval, Tripped), s.fatal.state(now, o.TrialInterval, FatalState)
	switch {
	case trip == OK && fatal == OK:
	case trip == Tripped || fatal == OK || fatal == Trial && trip == Trial:
		h.State, h.Err, h.Since = trip, s.trip.err, s.trip.first
	default:
		h.State, h.Err, h.Since = fatal, s.fatal.err, s.fatal.first
	}
	return h
}

func (l *lane) health(now time.Time, o Options) DestHealth {
	return DestHealth{Dest: l.dest, State: l.fatal.state(now, o.TrialInterval, FatalState), Err: l.fatal.err, Since: l.fatal.first}
}

func (c *core) health(now time.Time) Health {
	h := Health{
		Draining:        c.draining,
		InFlightEntries: c.entries,
		InFlightBytes:   c.bytes,
		Buffered:        c.buffered,
		OpenRequests:    c.open.n,
		WaitingCalls:    c.waiting.n,
		Lanes:           len(c.lanes),
		OpenInstances:   c.active,
		Counters:        c.counts,
	}
	if r := c.open.head; r != nil {
		h.OldestRequest = now.Sub(r.started)
		h.Stuck = h.OldestRequest > 2*c.o.AttemptTimeout
	}
	for _, s := range c.routes {
		if s.route != nil {
			h.Routes = append(h.Routes, s.health(now, c.o))
		}
	}
	slices.SortFunc(h.Routes, func(a, b RouteHealth) int { return cmp.Compare(a.Route.Name, b.Route.Name) })
	for _, l := range c.lanes {
		if l.fatal.shut {
			h.Destinations = append(h.Destinations, l.health(now, c.o))
		}
	}
	slices.SortFunc(h.Destinations, func(a, b DestHealth) int {
		return cmp.Or(cmp.Compare(a.Dest.Instance, b.Dest.Instance), cmp.Compare(a.Dest.Table, b.Dest.Table))
	})
	return h
}
