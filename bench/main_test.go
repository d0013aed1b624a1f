package main

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/bench/process"
	"github.com/pushsink/pushsink/bench/report"
)

func TestScenariosAreWhole(t *testing.T) {
	seen := map[string]bool{startScenario: true}
	for _, s := range scenarios() {
		if seen[s.id] {
			t.Errorf("two scenarios %s", s.id)
		}
		seen[s.id] = true
		for _, c := range s.contenders {
			if packages[c] == "" && !isOurs(c) {
				t.Errorf("%s: no contender %s", s.id, c)
			}
		}
		for _, target := range s.targets {
			for _, c := range []string{target.Of, target.To} {
				if c != "" && !slices.Contains(s.contenders, c) {
					t.Errorf("%s: a target of %s, which does not take part", s.id, c)
				}
			}
			if target.Bound <= 0 {
				t.Errorf("%s: target %+v", s.id, target)
			}
		}
	}
}

// TestExplanationsAreOfTargets: what is said of a miss is said of a target that exists.
func TestExplanationsAreOfTargets(t *testing.T) {
	names := map[report.TargetName]bool{}
	for _, s := range scenarios() {
		for _, target := range s.targets {
			names[report.TargetName{Scenario: s.id, Measure: target.Measure, Of: target.Of, To: target.To}] = true
		}
	}
	why := report.Explanations()
	for name, text := range why {
		if !names[name] || text == "" {
			t.Errorf("%+v is no target, or nothing is said of it: %q", name, text)
		}
	}
	if len(why) == 0 {
		t.Error("nothing is explained")
	}
}

// TestBulkOptionsAreDocumented: who reads how to set the server for bulk loads gets what was
// measured.
func TestBulkOptionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(bulkOptions, " "); !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
		t.Errorf("docs/sizing.md does not say %s", want)
	}
}

func TestPick(t *testing.T) {
	for _, c := range []struct {
		names, contenders string
		want              string
		start             bool
		bad               string
	}{
		{names: "push-256", want: "push-256:naive,benthos,benthos-bloblang,pushsink"},
		{names: "open-50, push-256", contenders: "naive", want: "push-256:naive open-50:naive"},
		{names: "start", start: true},
		{names: "ndjson", contenders: "decode"},
		{names: "nonsense,push-256", bad: "nonsense"},
		{contenders: "nobody", bad: "nobody"},
	} {
		kept, start, err := pickAll(c.names, c.contenders)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%q of %q: error %v", c.names, c.contenders, err)
			}
			continue
		}
		var got []string
		for _, s := range kept {
			got = append(got, s.id+":"+strings.Join(s.contenders, ","))
		}
		if err != nil || start != c.start || strings.Join(got, " ") != c.want {
			t.Errorf("%q of %q: %q, cold start %t, %v", c.names, c.contenders, got, start, err)
		}
	}
	if kept, start, err := pickAll("", ""); err != nil || !start || len(kept) != len(scenarios()) {
		t.Errorf("all: %d scenarios, cold start %t, %v", len(kept), start, err)
	}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-list"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		if !strings.Contains(out.String(), s.id) {
			t.Errorf("%s is not listed", s.id)
		}
	}
}

func TestRefusedFlags(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "0"}, {"-measure", "0s"}, {"-warm", "-1s"}, {"more"}, {"-out", "x.md", "-scenario", "start"}, {"-out", "x.md", "-contenders", naive},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// The figures of a turn stand only where the backend had what was answered, and nearly all
// was answered.
func TestCheckOfATurn(t *testing.T) {
	for _, c := range []struct {
		contender string
		turn      report.Turn
		fails     bool
	}{
		{ours, report.Turn{Requests: 1000, Answered: 1000, Written: 1000}, false},
		{ours, report.Turn{Requests: 1000, Answered: 1000, Written: 1001}, false},
		{ours, report.Turn{Requests: 1000, Answered: 1000, Written: 999}, true},
		{ours, report.Turn{Requests: 1000, Answered: 1000, Written: 1000, Failed: 10}, false},
		{ours, report.Turn{Requests: 1000, Answered: 1000, Written: 1000, Failed: 11}, true},
		{ours, report.Turn{Failed: 1}, true},
		{ours, report.Turn{}, true},
		{decode, report.Turn{Requests: 1000, Answered: 1000}, false},
	} {
		err := check(&scenario{}, &server{name: c.contender, Process: &process.Process{}}, c.turn)
		if (err != nil) != c.fails {
			t.Errorf("%s %+v: %v", c.contender, c.turn, err)
		}
	}
}
