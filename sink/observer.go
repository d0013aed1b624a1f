package sink

import (
	"context"
	"time"
)

// Observer is told of every backend request after it ended, from the request's goroutine
// and outside the writer's lock. Its caller waits for it.
type Observer interface {
	Request(RequestStats)
}

// Tracer makes the spans of backend requests. What panics in it is left out, and costs the
// request nothing.
type Tracer interface {
	// Begin is called before a backend request, on its goroutine, and end, unless it is nil,
	// after it. The backend is given the context that Begin returns, which must be derived
	// from ctx. batch is the writer's: nothing of it may be kept but the entries' Origins.
	Begin(ctx context.Context, d Dest, batch []Entry) (_ context.Context, end func(RequestStats))
}

// RequestStats describe one backend request.
type RequestStats struct {
	Dest    Dest
	Entries int
	Bytes   int64
	Cost    int
	Latency time.Duration
	// Attempt is 1, or higher where it sends entries again that a passing reason or a
	// missing table had kept back: the most attempts that one of them has had.
	Attempt  int
	Isolated bool // sent apart, to find out what the service refuses
	// Outcomes counts the backend's outcomes by Kind. All are Undecided when Err is set.
	Outcomes [Fatal + 1]int
	Err      error // the backend panicked or answered short
}

func summary(r *request, outs []Outcome, broken error) RequestStats {
	s := RequestStats{
		Dest: r.lane.dest, Entries: len(r.items), Bytes: r.bytes, Cost: r.cost, Attempt: r.attempt,
		Latency: time.Since(r.started), Isolated: r.cohort != nil, Err: broken,
	}
	if s.Err == nil && len(outs) != len(r.items) {
		s.Err = because(ErrBackend, errShort)
	}
	if s.Err != nil {
		s.Outcomes[Undecided] = len(r.items)
		return s
	}
	for _, o := range outs {
		if o.Kind > Fatal {
			o.Kind = Undecided
		}
		s.Outcomes[o.Kind]++
	}
	return s
}

// Counters count since the writer was made.
type Counters struct {
	Requests   uint64 // backend requests started
	Retries    uint64 // entries sent again after Transient or Undecided
	Isolations uint64 // sets of entries divided to find what the service refuses
	Ensures    uint64 // Backend.Ensure calls started
	Opens      uint64 // Backend.Open calls started
	Evictions  uint64 // lanes forgotten after IdleTimeout
	Rejections uint64 // confirmed, other than while tripped
	Trips      uint64
	Overloaded uint64            // entries not admitted within AdmissionTimeout
	Shed       uint64            // entries refused or given up as their lane is down and holds its half
	Withdrawn  uint64            // entries whose caller left first
	Settled    [Fatal + 1]uint64 // by Kind
}
