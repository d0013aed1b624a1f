package report

import (
	_ "embed"
	"strings"
)

// TargetName names a target.
type TargetName struct {
	Scenario string
	Measure  Measure
	Of, To   string // To is empty where the target is a number
}

//go:embed missed.md
var missed string

// Explanations are the texts of missed.md: what stands in the way of a target. A heading is
// the target's name, "## scenario | measure | of | to".
func Explanations() map[TargetName]string { return explanations(missed) }

func explanations(text string) map[TargetName]string {
	all := map[TargetName]string{}
	for _, part := range strings.Split("\n"+text, "\n## ")[1:] {
		heading, body, _ := strings.Cut(part, "\n")
		var names [4]string
		for i, name := range strings.SplitN(heading, "|", len(names)) {
			names[i] = strings.TrimSpace(name)
		}
		all[TargetName{names[0], Measure(names[1]), names[2], names[3]}] = strings.TrimSpace(body)
	}
	return all
}

// missed shows the targets that were missed, and why.
func (p *page) missed(r *Results) {
	first := true
	for _, s := range r.Scenarios {
		for _, j := range s.Judge() {
			if !j.Known || j.Met {
				continue
			}
			if first {
				p.line("## What was missed and why")
				p.line("")
				first = false
			}
			why := r.Why[TargetName{s.ID, j.Measure, j.Of, j.To}]
			if why == "" {
				why = "Nobody has said why."
			}
			p.line("- **[%s](#%s), %s: %s, target %s.** %s", s.ID, s.ID, j.title(), j.show(j.unit()), j.target(), strings.ReplaceAll(why, "\n", "\n  "))
		}
	}
	if !first {
		p.line("")
	}
}
