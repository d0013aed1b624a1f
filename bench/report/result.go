package report

import (
	"slices"
	"time"
)

// Results are everything that a run of the benchmark found.
type Results struct {
	Machine   Machine
	Rounds    int
	Took      time.Duration
	Scenarios []Scenario
	Starts    []Start
	// Why says of targets what stands in the way of them; it is shown of those that were
	// missed in this run.
	Why map[TargetName]string
}

// Machine is where it ran.
type Machine struct {
	CPU     string
	Cores   int
	Kernel  string
	Go      string
	Commit  string // of the project; with + when the work tree differed
	LoadAvg string // of the last minute, before the first scenario
}

// Scenario is one kind of load, and what each contender made of it.
type Scenario struct {
	ID, Title string
	// Loop says how the load was made.
	Loop    string
	Rows    []Row
	Targets []Target
}

// Row is one contender, Turns its rounds.
type Row struct {
	Contender string
	Turns     []Turn
}

// Turn is one contender in one round. Per-record figures are those of the window.
type Turn struct {
	Rate      float64       // records answered 2xx, a second
	CPU       float64       // CPU of the server, microseconds a record
	Allocs    float64       // heap allocations a record; 0 = not measured
	Batch     float64       // entries in a backend request
	P50, P99  time.Duration // 0 = not measured
	Memory    int64         // resident bytes at the end of the window, all connections open
	Peak      int64         // most resident bytes since the process began
	Generator float64       // CPU of the generator, microseconds a record
	Backend   float64       // CPU of the backend, microseconds a record

	// Of the whole turn:
	Requests int64 // answered 2xx
	Answered int64 // records answered 2xx
	Written  int64 // entries that the backend had got
	Failed   int64 // requests not answered 2xx
}

// Measure is a figure of a turn that a target is about.
type Measure string

// The measures.
const (
	Rate        Measure = "rate"
	CPU         Measure = "server CPU per record"
	PerCPU      Measure = "records per CPU second"
	P50         Measure = "p50"
	P99         Measure = "p99"
	Allocations Measure = "allocations per record"
	Memory      Measure = "RSS"
)

func (m Measure) of(t Turn) float64 {
	switch m {
	case Rate:
		return t.Rate
	case CPU:
		return t.CPU
	case PerCPU:
		if t.CPU == 0 {
			return 0
		}
		return 1e6 / t.CPU
	case P50:
		return t.P50.Seconds()
	case P99:
		return t.P99.Seconds()
	case Allocations:
		return t.Allocs
	case Memory:
		return float64(t.Memory)
	}
	return 0
}

// Target is what the measure of one contender has to be: times that of another in the
// same round, or, without another, a number.
type Target struct {
	Measure Measure
	Of, To  string
	AtMost  bool // else at least
	Bound   float64
}

// Start is what a cold start of a contender costs.
type Start struct {
	Contender string
	Binary    int64           // bytes
	Ready     []time.Duration // from exec to the first 200 of its readiness
	Idle      []int64         // resident bytes, ready and without traffic
	Switches  []float64       // context switches a second, idle
	CPU       []time.Duration // used in a second of idleness
}

// Spread is the median of some figures and the ends of their range.
type Spread struct{ Median, Min, Max float64 }

func spread(figures []float64) Spread {
	if len(figures) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return Spread{median, sorted[0], sorted[n-1]}
}

// row finds a contender's.
func (s *Scenario) row(contender string) *Row {
	for i := range s.Rows {
		if s.Rows[i].Contender == contender {
			return &s.Rows[i]
		}
	}
	return nil
}

// Judged is a target and what was measured.
type Judged struct {
	Target
	Spread
	// Known: both contenders were measured.
	Known, Met bool
}

// Judge holds the scenario against its targets. The median of the rounds decides.
func (s *Scenario) Judge() []Judged {
	var all []Judged
	for _, t := range s.Targets {
		j := Judged{Target: t}
		if figures := s.figures(t); len(figures) > 0 {
			j.Spread, j.Known = spread(figures), true
			j.Met = j.Median >= t.Bound
			if t.AtMost {
				j.Met = j.Median <= t.Bound
			}
		}
		all = append(all, j)
	}
	return all
}

// figures are the target's measure by round.
func (s *Scenario) figures(t Target) (figures []float64) {
	of, to := s.row(t.Of), s.row(t.To)
	if of == nil || t.To != "" && to == nil {
		return nil
	}
	for i, turn := range of.Turns {
		v := t.Measure.of(turn)
		if t.To != "" {
			if i >= len(to.Turns) {
				break
			}
			base := t.Measure.of(to.Turns[i])
			if base == 0 {
				continue
			}
			v /= base
		}
		figures = append(figures, v)
	}
	return figures
}
