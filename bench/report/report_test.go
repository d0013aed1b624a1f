package report

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// example has every kind of row: met, missed, without a baseline, without a figure.
func example() *Results {
	turn := func(rate, cpu float64, p50 time.Duration) Turn {
		return Turn{Rate: rate, CPU: cpu, Allocs: 66.54, Batch: 46.4, P50: p50, P99: 3 * p50, Memory: 64.8e6, Peak: 70e6,
			Generator: 8.25, Backend: 14.7, Answered: int64(rate), Written: int64(rate) + 1}
	}
	ratio := func(m Measure, to string, bound float64, most bool) Target {
		return Target{Measure: m, Of: Ours, To: to, Bound: bound, AtMost: most}
	}
	return &Results{
		Machine: Machine{CPU: "Some CPU", Cores: 2, Kernel: "Linux 6", Go: "go1 linux/amd64", Commit: "abc1234", LoadAvg: "0.05"},
		Rounds:  3, Took: 9*time.Minute + 41*time.Second,
		Scenarios: []Scenario{
			{
				ID: "push-256", Title: "wrapped push, backend 5 ms, 256 connections", Loop: "Closed loop",
				Rows: []Row{
					{"naive", []Turn{turn(1000, 100, 5e6), turn(1100, 90, 6e6), turn(900, 110, 7e6)}},
					{Ours, []Turn{turn(2500, 40, 5e6), turn(2200, 45, 6.6e6), turn(2700, 44, 7e6)}},
				},
				Targets: []Target{
					ratio(Rate, "naive", 2, false), ratio(CPU, "naive", .4, true), ratio(P50, "naive", 1.05, true),
					ratio(PerCPU, "naive", .65, false), ratio(Allocations, "", 90, true), ratio(Rate, "benthos", 2.4, false),
					ratio(Memory, "naive", .9, true), ratio(Allocations, "", 60, true),
				},
			},
			{
				ID: "ceiling", Title: "nothing to compare", Loop: "Closed loop",
				Rows: []Row{{"client-ceiling", []Turn{{Rate: 123456, CPU: 7.5, Batch: 100, Failed: 3}}}},
			},
		},
		Why: map[TargetName]string{
			{"push-256", Memory, Ours, "naive"}:  "It holds more.\nIt is worth it.",
			{"push-256", CPU, Ours, "naive"}:     "This target was met.",
			{"push-256", Rate, Ours, "benthos"}:  "This one was not measured.",
			{"push-1000", Memory, Ours, "naive"}: "This scenario did not run.",
		},
		Starts: []Start{
			{"naive", 20e6, []time.Duration{30e6, 20e6}, []int64{20e6}, []float64{1}, []time.Duration{0}},
			{Ours, 46e6, []time.Duration{50e6, 40e6, 60e6}, []int64{44e6}, []float64{2}, []time.Duration{0}},
		},
	}
}

func TestMarkdown(t *testing.T) {
	var got bytes.Buffer
	if err := example().Markdown(&got); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/report.md"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the page differs from %s (go test ./report -update, and look at the difference):\n%s", golden, got.Bytes())
	}
}

func TestExplanations(t *testing.T) {
	got := explanations("About.\n\n## a | rate | b | c\nOne.\n\nTwo.\n## a | allocations per record | b |\nThree.\n")
	want := map[TargetName]string{
		{"a", Rate, "b", "c"}:       "One.\n\nTwo.",
		{"a", Allocations, "b", ""}: "Three.",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{3, 1, 2}, Spread{2, 1, 3}},
		{[]float64{4, 1, 2, 3}, Spread{2.5, 1, 4}},
	} {
		if got := spread(c.in); got != c.want {
			t.Errorf("%v: %v, want %v", c.in, got, c.want)
		}
	}
}

// Ratios are made within a round: a slow one slows both.
func TestRatiosAreOfOneRound(t *testing.T) {
	s := Scenario{
		Rows: []Row{
			{"naive", []Turn{{Rate: 100}, {Rate: 10}, {Rate: 1000}}},
			{Ours, []Turn{{Rate: 200}, {Rate: 30}, {Rate: 2100}}},
		},
		Targets: []Target{
			{Measure: Rate, Of: Ours, To: "naive", Bound: 2.1},
			{Measure: Rate, Of: Ours, To: "naive", Bound: 2.11},
			{Measure: Rate, Of: Ours, To: "naive", Bound: 2.1, AtMost: true},
			{Measure: Rate, Of: Ours, To: "naive", Bound: 2.09, AtMost: true},
			{Measure: P99, Of: Ours, To: "naive", Bound: 1, AtMost: true},
		},
	}
	judged := s.Judge()
	for i, want := range []bool{true, false, true, false, false} {
		if judged[i].Met != want {
			t.Errorf("%+v, want met %t", judged[i], want)
		}
	}
	if got := judged[0].Spread; got != (Spread{2.1, 2, 3}) {
		t.Errorf("spread %v", got)
	}
	if judged[4].Known {
		t.Error("a ratio of what was not measured is known")
	}
}
