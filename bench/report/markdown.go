package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Markdown writes the results as a page.
func (r *Results) Markdown(w io.Writer) error {
	p := &page{}
	p.line("# Benchmarks")
	p.line("")
	p.line("Written by `make bench`, figures and all; do not edit. %d rounds, %s in all. Contenders take turns (A B C, A B C, …),",
		r.Rounds, r.Took.Round(time.Second))
	p.line("a figure is the median of the rounds with the lowest and the highest in parentheses, and a ratio is made within a round.")
	p.line("")
	p.line("| | |")
	p.line("|---|---|")
	p.line("| processor | %s, %d cores, shared by server, backend and load generator |", r.Machine.CPU, r.Machine.Cores)
	p.line("| system | %s, %s |", r.Machine.Kernel, r.Machine.Go)
	p.line("| commit | %s |", r.Machine.Commit)
	p.line("| load average at the start | %s |", r.Machine.LoadAvg)
	p.line("")
	p.targets(r)
	p.missed(r)
	p.starts(r.Starts)
	p.line("## Every row")
	p.line("")
	p.line("CPU and allocations are the server's, per record. Batch: entries in a backend request. RSS: with all connections open;")
	p.line("peak: since the process began. The last two columns are the generator's and the backend's CPU per record.")
	p.line("")
	for _, s := range r.Scenarios {
		p.scenario(&s)
	}
	p.text.WriteString(method)
	_, err := io.WriteString(w, p.text.String())
	return err
}

type page struct{ text strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

func (p *page) targets(r *Results) {
	p.line("## Against the targets")
	p.line("")
	p.line("| scenario | measure | of | to | measured | target | |")
	p.line("|---|---|---|---|---|---|---|")
	missed, all := 0, 0
	for _, s := range r.Scenarios {
		for _, j := range s.Judge() {
			verdict := "met"
			switch {
			case !j.Known:
				verdict = "not measured"
			case !j.Met:
				verdict = "**missed**"
				missed++
			}
			all++
			to := j.To
			if to == "" {
				to = "—"
			}
			p.line("| [%s](#%s) %s | %s | %s | %s | %s | %s | %s |", s.ID, s.ID, s.Title, j.Measure, j.Of, to,
				j.show(j.unit()), j.target(), verdict)
		}
	}
	p.line("")
	p.line("%d targets, %d missed.", all, missed)
	p.line("")
}

// title is the measure of whom to whom.
func (t Target) title() string {
	if t.To == "" {
		return fmt.Sprintf("%s of %s", t.Measure, t.Of)
	}
	return fmt.Sprintf("%s of %s to %s", t.Measure, t.Of, t.To)
}

// unit of the figure: a ratio's, or none.
func (t Target) unit() string {
	if t.To == "" {
		return ""
	}
	return "x"
}

// target is what the figure has to be.
func (t Target) target() string {
	sign := ">="
	if t.AtMost {
		sign = "<="
	}
	return sign + " " + strconv.FormatFloat(t.Bound, 'g', -1, 64) + t.unit()
}

func (p *page) starts(starts []Start) {
	if len(starts) == 0 {
		return
	}
	p.line("## Cold start")
	p.line("")
	p.line("From exec to the first 200 of `/health/ready` with the null backend beside it, and idle for a second after that.")
	p.line("Targets for pushsink: <= %d MB, <= %d ms, <= %d MB idle.", StartBinary/1e6, StartReady/time.Millisecond, StartIdle/1e6)
	p.line("")
	p.line("| contender | binary MB | exec to ready ms | idle RSS MB | idle context switches/s | idle CPU ms/s | |")
	p.line("|---|---|---|---|---|---|---|")
	for _, s := range starts {
		verdict := ""
		if s.Contender == Ours {
			verdict = "met"
			if missed := s.missed(); len(missed) > 0 {
				verdict = "**missed**: " + strings.Join(missed, ", ")
			}
		}
		p.line("| %s | %.1f | %s | %s | %s | %s | %s |", s.Contender, float64(s.Binary)/1e6,
			show(s.Ready, func(d time.Duration) float64 { return float64(d) / 1e6 }),
			show(s.Idle, func(n int64) float64 { return float64(n) / 1e6 }),
			show(s.Switches, func(f float64) float64 { return f }),
			spreadOf(s.CPU, func(d time.Duration) float64 { return float64(d) / 1e6 }).text(""), verdict)
	}
	p.line("")
}

// Ours is the contender that the targets are about.
const Ours = "pushsink"

// Targets of a cold start: bytes on disk, time from exec to ready, resident bytes idle.
const (
	StartBinary int64 = 45e6
	StartReady        = 100 * time.Millisecond
	StartIdle   int64 = 45e6
)

func (s *Start) missed() (missed []string) {
	if s.Binary > StartBinary {
		missed = append(missed, "binary")
	}
	if spreadOf(s.Ready, func(d time.Duration) float64 { return float64(d) }).Median > float64(StartReady) {
		missed = append(missed, "ready")
	}
	if spreadOf(s.Idle, func(n int64) float64 { return float64(n) }).Median > float64(StartIdle) {
		missed = append(missed, "idle RSS")
	}
	return missed
}

func (p *page) scenario(s *Scenario) {
	p.line("### %s", s.ID)
	p.line("")
	p.line("%s. %s. Alone: `make bench SCENARIO=%s`.", s.Title, s.Loop, s.ID)
	p.line("")
	p.line("| contender | records/s | CPU us | allocations | batch | p50 ms | p99 ms | RSS MB | peak MB | generator us | backend us |")
	p.line("|---|---|---|---|---|---|---|---|---|---|---|")
	for _, row := range s.Rows {
		cell := func(of func(Turn) float64) string { return show(row.Turns, of) }
		p.line("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |", row.label(),
			cell(func(t Turn) float64 { return t.Rate }),
			cell(func(t Turn) float64 { return t.CPU }),
			cell(func(t Turn) float64 { return t.Allocs }),
			cell(func(t Turn) float64 { return t.Batch }),
			cell(func(t Turn) float64 { return float64(t.P50) / 1e6 }),
			cell(func(t Turn) float64 { return float64(t.P99) / 1e6 }),
			cell(func(t Turn) float64 { return float64(t.Memory) / 1e6 }),
			cell(func(t Turn) float64 { return float64(t.Peak) / 1e6 }),
			cell(func(t Turn) float64 { return t.Generator }),
			cell(func(t Turn) float64 { return t.Backend }))
	}
	p.line("")
	if answered, written, failed := s.totals(); answered > 0 {
		p.line("%d records were answered 2xx; the backend had %d entries. %d requests failed.", answered, written, failed)
		p.line("")
	}
}

// label is the contender, and how many requests it did not answer 2xx, if any.
func (r *Row) label() string {
	var failed int64
	for _, t := range r.Turns {
		failed += t.Failed
	}
	if failed == 0 {
		return r.Contender
	}
	return fmt.Sprintf("%s (%d failed)", r.Contender, failed)
}

func (s *Scenario) totals() (answered, written, failed int64) {
	for _, row := range s.Rows {
		for _, t := range row.Turns {
			answered, written, failed = answered+t.Answered, written+t.Written, failed+t.Failed
		}
	}
	return answered, written, failed
}

func spreadOf[T any](from []T, of func(T) float64) Spread {
	figures := make([]float64, len(from))
	for i, t := range from {
		figures[i] = of(t)
	}
	return spread(figures)
}

func show[T any](from []T, of func(T) float64) string { return spreadOf(from, of).show("") }

// show leaves out what was not measured: no figure that is shown is 0 otherwise.
func (s Spread) show(unit string) string {
	if s == (Spread{}) {
		return "—"
	}
	return s.text(unit)
}

func (s Spread) text(unit string) string {
	if s.Min == s.Max {
		return number(s.Median) + unit
	}
	return fmt.Sprintf("%s%s (%s..%s)", number(s.Median), unit, number(s.Min), number(s.Max))
}

// number prints three digits, or all of a larger whole part.
func number(f float64) string {
	switch a := max(f, -f); {
	case a >= 100:
		return fmt.Sprintf("%.0f", f)
	case a >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}
