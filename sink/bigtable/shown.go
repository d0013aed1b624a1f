package bigtable

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names of tables and column families stand in the routes file, or a record gave them
// through a template. The latter are data: no error shows them, nor the service's words,
// which may repeat them.

// inRoutesFile reports whether some route has the table's name written out.
func (tb *table) inRoutesFile() bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.ContainsFunc(tb.sharers, func(t *target) bool { return t.static })
}

// shown is the table as an error may name it.
func (tb *table) shown() string {
	if tb.inRoutesFile() {
		return "table " + tb.dest.Table
	}
	return "a table named by records"
}

// tableShown likewise, from an entry of it.
func (p *payload) tableShown() string {
	if p.route.target.static || p.table.inRoutesFile() {
		return "table " + p.table.dest.Table
	}
	return fmt.Sprintf("a table that records of route %s name", p.route.target.name)
}

// knows reports whether the routes file has the family's name written out for the route.
func (t *target) knows(family string) bool {
	return slices.Contains(t.spec.Used, family) || t.declares(family)
}

// familiesShown are column families as an error may name them.
func (p *payload) familiesShown(names []string) string {
	var shown []string
	for _, n := range names {
		if p.route.target.knows(n) {
			shown = append(shown, "column family "+strconv.Quote(n))
		}
	}
	if len(shown) < len(names) {
		shown = append(shown, "a column family that the record names")
	}
	return strings.Join(shown, " or ")
}

// namedByRecord reports whether the record gave the name of its table or of a family.
func (p *payload) namedByRecord() bool {
	if !p.route.target.static && !p.table.inRoutesFile() {
		return true
	}
	return slices.ContainsFunc(p.families(), func(f string) bool { return !p.route.target.knows(f) })
}
