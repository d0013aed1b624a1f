package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushsink/pushsink/bench/load"
	"github.com/pushsink/pushsink/bench/report"
)

// scenario is one kind of load and who takes it.
type scenario struct {
	id, title   string
	contenders  []string
	latency     time.Duration // of the backend
	shape       load.Shape
	records     int // in a request of NDJSON
	spanner     bool
	connections int
	rate        float64 // requests a second of the open loop; 0 = closed
	share       float64 // open loop at this share of the contender's own maximum
	longer      float64 // the window is so many times as long; 0 = 1
	targets     []report.Target
}

const (
	ours  = report.Ours
	bulk  = "pushsink-bulk" // the same with bulkOptions
	naive = "naive"

	benthos       = "benthos"
	benthosMapped = "benthos-bloblang"
)

func ratio(of, to string, m report.Measure, bound float64) report.Target {
	return report.Target{Measure: m, Of: of, To: to, Bound: bound}
}

func atMost(t report.Target) report.Target {
	t.AtMost = true
	return t
}

// scenarios are all there are, in the order in which they run.
func scenarios() []scenario {
	const ms = time.Millisecond
	latencies := []report.Target{
		atMost(ratio(ours, naive, report.P50, 1.05)),
		atMost(ratio(ours, naive, report.P99, 1.2)),
	}
	return []scenario{
		{
			id: "push-1000", title: "wrapped push, backend 5 ms, 1000 connections",
			contenders: []string{naive, ours}, latency: 5 * ms, connections: 1000,
			targets: []report.Target{
				ratio(ours, naive, report.Rate, 2.5),
				atMost(ratio(ours, naive, report.CPU, .45)),
				atMost(ratio(ours, naive, report.Memory, 1)),
				atMost(ratio(ours, "", report.Allocations, 90)),
			},
		},
		{
			id: "push-256", title: "wrapped push, backend 5 ms, 256 connections",
			contenders: []string{naive, benthos, benthosMapped, ours}, latency: 5 * ms, connections: 256,
			targets: []report.Target{
				ratio(ours, naive, report.Rate, 2),
				atMost(ratio(ours, naive, report.CPU, .5)),
				ratio(ours, benthos, report.Rate, 2.4),
				ratio(ours, benthosMapped, report.Rate, 2.4),
			},
		},
		{
			id: "push-256-2ms", title: "wrapped push, backend 2 ms, 256 connections",
			contenders: []string{naive, ours}, latency: 2 * ms, connections: 256,
			targets: []report.Target{
				ratio(ours, naive, report.Rate, 1.75),
				atMost(ratio(ours, naive, report.CPU, .5)),
			},
		},
		{
			id: "unwrapped-256", title: "unwrapped push, backend 5 ms, 256 connections",
			contenders: []string{naive, ours}, latency: 5 * ms, connections: 256, shape: load.Unwrapped,
		},
		{
			id: "open-50", title: "wrapped push, backend 5 ms, 50 a second",
			contenders: []string{naive, ours}, latency: 5 * ms, connections: 64, rate: 50, longer: 3, targets: latencies,
		},
		{
			id: "open-1000", title: "wrapped push, backend 5 ms, 1000 a second",
			contenders: []string{naive, ours}, latency: 5 * ms, connections: 256, rate: 1000, targets: latencies,
		},
		{
			id: "open-80", title: "wrapped push, backend 5 ms, at 80 % of the contender's own maximum",
			contenders: []string{naive, ours}, latency: 5 * ms, connections: 1000, share: .8,
			targets: []report.Target{
				ratio(ours, naive, report.Rate, 2),
				atMost(ratio(ours, naive, report.P99, 1.5)),
			},
		},
		{
			id: "ndjson", title: "NDJSON of 1000 records, backend 5 ms, 4 connections",
			contenders: []string{"naive-batch", benthos, benthosMapped, ours, bulk}, latency: 5 * ms, connections: 4, shape: load.NDJSON, records: 1000,
			targets: []report.Target{
				ratio(ours, "naive-batch", report.Rate, 1.5),
				atMost(ratio(ours, "naive-batch", report.CPU, .55)),
				ratio(ours, benthos, report.Rate, 2),
				ratio(ours, benthosMapped, report.Rate, 2),
				ratio(bulk, "naive-batch", report.Rate, 1.5),
				atMost(ratio(bulk, "naive-batch", report.CPU, .55)),
				ratio(bulk, benthos, report.Rate, 2),
				ratio(bulk, benthosMapped, report.Rate, 2),
			},
		},
		{
			id: "spanner-1000", title: "wrapped push to Spanner, backend 5 ms, 1000 connections",
			contenders: []string{"naive-spanner", ours}, latency: 5 * ms, connections: 1000, spanner: true,
			targets: []report.Target{ratio(ours, "naive-spanner", report.Rate, 2.5)},
		},
		{
			id: "ceiling-256", title: "wrapped push, backend 0 ms, 256 connections",
			contenders: []string{"decode", ours, "client-ceiling"}, connections: 256,
			targets: []report.Target{ratio(ours, "decode", report.PerCPU, .65)},
		},
		{
			id: "ceiling-1000", title: "wrapped push, backend 0 ms, 1000 connections",
			contenders: []string{"decode", ours}, connections: 1000,
			targets: []report.Target{ratio(ours, "decode", report.PerCPU, .65)},
		},
	}
}

// loop says how the load is made.
func (s *scenario) loop() string {
	switch {
	case s.share > 0:
		return fmt.Sprintf("Open loop at %.0f %% of what the contender did in a closed loop of %d connections just before", 100*s.share, s.connections)
	case s.rate > 0:
		return fmt.Sprintf("Open loop, %.0f requests a second", s.rate)
	default:
		return "Closed loop"
	}
}

// pickAll keeps the named scenarios (all without names), and of them the named contenders;
// start: the cold start as well.
func pickAll(names, contenders string) (kept []scenario, start bool, err error) {
	wanted := words(names)
	take := func(id string) bool {
		at := slices.Index(wanted, id)
		if at >= 0 {
			wanted = slices.Delete(wanted, at, at+1)
		}
		return at >= 0 || names == ""
	}
	start = take(startScenario)
	for _, s := range scenarios() {
		if !take(s.id) {
			continue
		}
		s.contenders = slices.DeleteFunc(s.contenders, func(c string) bool { return !chosen(contenders, c) })
		if len(s.contenders) > 0 {
			kept = append(kept, s)
		}
	}
	if len(wanted) > 0 {
		return nil, false, fmt.Errorf("no such scenario: %s", strings.Join(wanted, ", "))
	}
	for _, c := range words(contenders) {
		if packages[c] == "" && !isOurs(c) {
			return nil, false, fmt.Errorf("no such contender: %s", c)
		}
	}
	return kept, start, nil
}

// chosen reports whether the list names the contender, as an empty one does.
func chosen(list, contender string) bool {
	return list == "" || slices.Contains(words(list), contender)
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
