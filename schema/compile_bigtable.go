package schema

import (
	"slices"
	"time"
)

func (c *compiler) bigtable(f *bigtableFile, path string, sc scope) (*BigtableTarget, *rowMapping) {
	t := &BigtableTarget{Project: f.Project.text, AppProfile: f.AppProfile.text, MaxTables: 1}
	m := &rowMapping{rules: c.rules}
	c.plainName(&f.Project.scalar, "project id")
	c.plainName(&f.AppProfile.scalar, "app profile id")
	c.instance(f, t, m, sc)
	c.tables(f, t, m, sc)
	m.rowKey = c.template(&f.RowKey, sc)
	if f.RowKey.given && f.RowKey.text == "" {
		c.add(f.RowKey.at(0), f.RowKey.path, "the row key is empty")
	} else if m.rowKey != nil {
		if key, fixed := m.rowKey.static(); fixed && len(key) > MaxRowKey {
			c.add(f.RowKey.at(0), f.RowKey.path, "the row key is longer than %d bytes", MaxRowKey)
		} else if fixed {
			c.warn(f.RowKey.at(0), f.RowKey.path, "every record goes to one row")
		}
	}
	m.timestamp, m.source = c.sourced(&f.Timestamp, sc, wantTime)
	c.families(f, path, t, m)
	used := map[string]bool{}
	c.allCells(f.All, path, m, sc, used, t)
	for i := range f.Set {
		m.set = append(m.set, c.cell(&f.Set[i], "set["+itoa(i)+"]", sc, used, t))
	}
	c.deletes(f, m, sc, used, t)
	if f.All == nil && len(f.Set) == 0 && m.delete == nil {
		c.add(f.mark, path, "the mapping writes nothing: set, all or delete is wanted")
	}
	for family := range used {
		t.Used = append(t.Used, family)
	}
	slices.Sort(t.Used)
	return t, m
}

func (c *compiler) instance(f *bigtableFile, t *BigtableTarget, m *rowMapping, sc scope) {
	tmpl := c.template(&f.Instance, sc)
	for i := range f.Allow {
		w := &f.Allow[i]
		c.name(&w.scalar, "instance", c.rules.instance)
		if slices.Contains(t.Allow, w.text) {
			c.add(w.at(0), w.path, "%q is in allow twice", w.text)
		}
		t.Allow = append(t.Allow, w.text)
	}
	fixed := false
	if tmpl != nil {
		var text string
		if text, fixed = tmpl.static(); fixed {
			t.Instance = text
			if !c.rules.instance.ok(text) {
				c.add(f.Instance.at(0), f.Instance.path, "%q is no instance: %s", text, c.rules.instance.text)
			}
		} else {
			m.instance, m.allow = tmpl, t.Allow
		}
	}
	switch {
	case m.instance != nil && len(t.Allow) == 0:
		c.add(f.Instance.at(0), f.Instance.path, "a templated instance needs allow, the list of instances it may become")
	case len(t.Allow) > 0 && (fixed || !f.Instance.given):
		c.add(f.Allow[0].at(0), f.Allow[0].path, "allow is here without a templated instance")
	}
	m.static = t.Instance
}

func (c *compiler) tables(f *bigtableFile, t *BigtableTarget, m *rowMapping, sc scope) {
	m.table = c.template(&f.Table, sc)
	if m.table == nil {
		return
	}
	text, fixed := m.table.static()
	if fixed {
		t.Table = text
		if !c.table.ok(text) {
			c.add(f.Table.at(0), f.Table.path, "%q is no table: %s", text, c.table.text)
		}
	} else {
		t.MaxTables = MaxTablesDefault
		for _, p := range m.table.parts {
			for _, ch := range p.literal {
				if !c.table.ok("_" + string(ch)) {
					c.add(f.Table.at(0), f.Table.path, "%q cannot be in a table name: %s", ch, c.table.text)
				}
			}
		}
	}
	if n := &f.MaxTables; n.given {
		switch {
		case n.n < 1:
			c.add(n.at(0), n.path, "at least 1 is wanted")
		case fixed:
			c.warn(n.at(0), n.path, "has no effect beside a table that is no template")
		default:
			t.MaxTables = n.n
		}
	}
}

func (c *compiler) families(f *bigtableFile, path string, t *BigtableTarget, m *rowMapping) {
	t.Create = f.Create.text == "ifNeeded"
	switch {
	case t.Create && len(f.Families.items) == 0:
		c.add(f.Create.at(0), f.Create.path, "create: ifNeeded needs families")
	case !t.Create && f.Families.given:
		c.add(f.Families.mark, join(path, "families"), "families are here without create: ifNeeded")
	}
	if len(f.Families.items) == 0 {
		return
	}
	t.Families = map[string]*GCRule{}
	for i := range f.Families.items {
		it := &f.Families.items[i]
		if !c.family.ok(it.name) {
			c.add(it.at, it.path, "%q is no column family: %s", it.name, c.family.text)
		}
		t.Families[it.name] = nil
		if it.v.GC != nil {
			t.Families[it.name] = c.gc(it.v.GC, join(it.path, "gc"))
		} else {
			c.warn(it.at, it.path, "has no gc rule: every version of every cell is kept")
		}
	}
	m.declared = t.Families
}

func (c *compiler) gc(f *gcFile, path string) *GCRule {
	rule, given := &GCRule{}, 0
	if n := &f.MaxVersions; n.given {
		given++
		if rule.MaxVersions = n.n; n.n < 1 || int64(n.n) > 1<<31-1 {
			c.add(n.at(0), n.path, "at least 1 is wanted, at most %d", 1<<31-1)
		}
	}
	if w := &f.MaxAge; w.given {
		given++
		d, err := time.ParseDuration(w.text)
		if err != nil {
			c.add(w.at(0), w.path, "a duration with a unit is wanted, like 168h")
		} else if d < time.Millisecond {
			c.add(w.at(0), w.path, "at least 1ms is wanted")
		}
		rule.MaxAge = d
	}
	rule.Union = c.gcList(f.Union, join(path, "union"), f.mark, &given)
	rule.Intersection = c.gcList(f.Intersection, join(path, "intersection"), f.mark, &given)
	if given != 1 {
		c.add(f.mark, path, "one of maxVersions, maxAge, union and intersection is wanted")
	}
	return rule
}

func (c *compiler) gcList(list []gcFile, path string, at mark, given *int) []*GCRule {
	if list == nil {
		return nil
	}
	*given++
	if len(list) < 2 {
		c.add(at, path, "at least two rules are wanted")
	}
	var rules []*GCRule
	for i := range list {
		rules = append(rules, c.gc(&list[i], path+"["+itoa(i)+"]"))
	}
	return rules
}

// familyName compiles a family's name and takes note of it.
func (c *compiler) familyName(f *templateText, sc scope, used map[string]bool, t *BigtableTarget) *name {
	tmpl := c.template(f, sc)
	if tmpl == nil {
		return nil
	}
	fixed, ok := tmpl.static()
	if !ok {
		return &name{template: tmpl}
	}
	if !c.family.ok(fixed) {
		c.add(f.at(0), f.path, "%q is no column family: %s", fixed, c.family.text)
	} else if _, declared := t.Families[fixed]; t.Create && !declared && len(t.Families) > 0 {
		var names []string
		for n := range t.Families {
			names = append(names, n)
		}
		slices.Sort(names)
		c.add(f.at(0), f.path, "%q is not in families%s", fixed, suggest(fixed, names))
	}
	used[fixed] = true
	return &name{fixed: fixed}
}

func (c *compiler) column(f *templateText, sc scope) *template {
	tmpl := c.template(f, sc)
	if tmpl != nil {
		if fixed, ok := tmpl.static(); ok && len(fixed) > MaxQualifier {
			c.add(f.at(0), f.path, "the column is longer than %d bytes", MaxQualifier)
		}
	}
	return tmpl
}

func nullRuleOf(w word) nullRule {
	switch w.text {
	case "delete":
		return nullDelete
	case "empty":
		return nullEmpty
	default:
		return nullSkip
	}
}

func (c *compiler) allCells(f *allFile, path string, m *rowMapping, sc scope, used map[string]bool, t *BigtableTarget) {
	if f == nil {
		return
	}
	if sc.bytes {
		c.add(f.mark, join(path, "all"), "all needs input.format: json")
	}
	m.all = &allMapping{place: "all", family: c.familyName(&f.Family, sc, used, t), null: nullRuleOf(f.Null)}
}

func (c *compiler) cell(f *cellFile, place string, sc scope, used map[string]bool, t *BigtableTarget) cellMapping {
	m := cellMapping{place: place, as: Encoding(f.As.text), null: nullRuleOf(f.Null)}
	m.each, m.eachSrc = c.sourced(&f.Each, sc, wantEach)
	inner := sc
	inner.each = f.Each.given
	m.family = c.familyName(&f.Family, inner, used, t)
	m.column = c.column(&f.Column, inner)
	if m.column != nil {
		m.qual, m.static = m.column.static()
	}
	if m.static && m.family != nil && m.family.template == nil {
		m.place += " " + m.family.fixed + ":" + m.qual
	}
	if _, known := encodings[m.as]; known || !f.As.given {
		m.value, m.source = c.sourced(&f.Value, inner, encodable(m.as))
	}
	if f.Each.given && m.static && m.family != nil && m.family.template == nil {
		c.warn(f.Column.at(0), f.Column.path, "every item goes to one column")
	}
	return m
}

func (c *compiler) deletes(f *bigtableFile, m *rowMapping, sc scope, used map[string]bool, t *BigtableTarget) {
	m.deleteWhen, m.deleteText = c.sourced(&f.DeleteWhen, sc, wantBool)
	switch {
	case f.Delete == nil && !f.DeleteWhen.given:
	case f.Delete == nil || f.Delete.row:
		m.delete = &deleteMapping{row: true}
	default:
		m.delete = &deleteMapping{family: c.familyName(&f.Delete.Family, sc, used, t), column: c.column(&f.Delete.Column, sc)}
	}
}
