package handlers

import (
	"time"

	"github.com/pushsink/pushsink/schema"
)

// noteWritten tells the observer of the group's records that were written.
func (h *api) noteWritten(rt *route, g *group) {
	var now time.Time
	for i := range g.items {
		it := &g.items[i]
		if it.v.fate != written {
			continue
		}
		if now.IsZero() {
			now = time.Now()
		}
		if !it.rec.Published.IsZero() {
			h.observer.Durable(rt.Name, now.Sub(it.rec.Published))
		}
		if it.late {
			h.observer.Late(rt.Name)
		}
	}
}

// late reports that a cell of the row is older than its family keeps.
func (rt *route) late(row *schema.RowMutation, now time.Time) bool {
	if row == nil {
		return false
	}
	for i := range row.Ops {
		op := &row.Ops[i]
		if op.Kind != schema.SetCell {
			continue
		}
		if age := rt.maxAge[op.Family]; age > 0 && now.Sub(time.UnixMicro(op.Micros)) > age {
			return true
		}
	}
	return false
}

// maxAges are the ages beyond which the declared families' cells may be collected; nil =
// there is none.
func maxAges(t *schema.BigtableTarget) map[string]time.Duration {
	if t == nil {
		return nil
	}
	var ages map[string]time.Duration
	for family, rule := range t.Families {
		if age := maxAge(rule); age > 0 {
			if ages == nil {
				ages = map[string]time.Duration{}
			}
			ages[family] = age
		}
	}
	return ages
}

// maxAge is the age from which rule collects every cell; 0 = age alone never does.
func maxAge(rule *schema.GCRule) time.Duration {
	if rule == nil {
		return 0
	}
	age := rule.MaxAge
	for _, r := range rule.Union { // any of them collects
		if a := maxAge(r); a > 0 && (age == 0 || a < age) {
			age = a
		}
	}
	for _, r := range rule.Intersection { // all of them must
		a := maxAge(r)
		if a == 0 {
			return 0
		}
		age = max(age, a)
	}
	return age
}
