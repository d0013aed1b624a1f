package schema

import "slices"

func (c *compiler) spannerRoute(f *routeFile, path string, sc scope) (*SpannerTarget, *groupMapping) {
	sp := f.Spanner
	t := &SpannerTarget{Database: sp.Database.text, Table: sp.Table.text, Operation: InsertOrUpdate,
		Coerce: sp.Coerce.on, RetryConstraints: f.ConstraintViolations.text == "retry"}
	c.name(&sp.Database.scalar, "database", c.database)
	c.name(&sp.Table.scalar, "table", c.spanner)
	if sp.Operation.given {
		t.Operation = Operation(sp.Operation.text)
	}
	m := &groupMapping{table: t.Table, operation: t.Operation, names: map[string]bool{}}
	m.deleteWhen, m.deleteText = c.sourced(&sp.DeleteWhen, sc, wantBool)
	if t.DeleteWhen = sp.DeleteWhen.given; t.DeleteWhen && t.Operation == Delete {
		c.add(sp.DeleteWhen.at(0), sp.DeleteWhen.path, "operation: delete deletes always")
	}
	m.columns = c.columns(&sp.Columns, sc)
	for _, col := range m.columns {
		t.Columns = append(t.Columns, col.name)
		m.names[col.name] = true
	}
	c.columnsFrom(sp, t, m, sc)
	if len(sp.Columns.items) == 0 && !sp.ColumnsFrom.given {
		c.add(sp.mark, path, "the mapping writes nothing: columns or columnsFrom is wanted")
	}
	c.duplicates(sp, t, m, path, sc)
	c.childRows(sp, t, m, path, sc)
	return t, m
}

func (c *compiler) columns(f *ordered[expression], sc scope) []columnMapping {
	sc.spanner = true
	var list []columnMapping
	for i := range f.items {
		it := &f.items[i]
		if !c.rules.column.ok(it.name) {
			c.add(it.at, it.path, "%q is no column: %s", it.name, c.rules.column.text)
		}
		col := columnMapping{name: it.name}
		col.value, col.source = c.sourced(&it.v, sc, wantAny)
		if p, ok := col.value.(*path); ok && p.root == rootData {
			col.pointer = p.pointer(nil)
		}
		list = append(list, col)
	}
	return list
}

func (c *compiler) columnsFrom(sp *spannerFile, t *SpannerTarget, m *groupMapping, sc scope) {
	e := &sp.ColumnsFrom
	m.from, m.fromSource = c.sourced(e, sc, wanted{wantEach.kinds[1:], "an object"})
	t.ColumnsFrom, t.RejectUnknown = e.given, sp.UnknownFields.text == "reject"
	if w := &sp.UnknownFields; w.given && !e.given {
		c.add(w.at(0), w.path, "unknownFields is here without columnsFrom")
	}
}

// duplicates: a lost answer of an insert must not make a durable record a refused one, so
// an insert says what it does about a row that is there.
func (c *compiler) duplicates(sp *spannerFile, t *SpannerTarget, m *groupMapping, path string, sc scope) {
	t.OnDuplicate = sp.OnDuplicate.text
	switch w := &sp.OnDuplicate; {
	case t.Operation != Insert && w.given:
		c.add(w.at(0), w.path, "onDuplicate is for operation: insert")
	case t.Operation == Insert && !w.given && sp.Dedup == nil:
		c.add(sp.Operation.at(0), path, "operation: insert needs onDuplicate (ignore or reject) or dedup")
	case w.given && sp.Dedup != nil:
		c.add(w.at(0), w.path, "one of onDuplicate and dedup is wanted")
	}
	if sp.Dedup == nil {
		return
	}
	t.DedupTable = sp.Dedup.Table.text
	c.name(&sp.Dedup.Table.scalar, "table", c.spanner)
	key := sp.Dedup.Key
	if !key.given {
		key = templateText{scalar{text: "{message.id}", given: true, path: join(path, "dedup.key")}}
	}
	before := c.idReads
	m.dedup = c.template(&key, sc)
	t.DedupByID = c.idReads > before
	if m.dedup != nil {
		if _, fixed := m.dedup.static(); fixed {
			c.add(key.at(0), key.path, "the key is the same for every record")
		}
	}
}

func (c *compiler) childRows(sp *spannerFile, t *SpannerTarget, m *groupMapping, path string, sc scope) {
	if len(sp.Children) > 0 && t.Operation == Delete {
		c.add(sp.Children[0].mark, join(path, "children"), "operation: delete has no children: delete the parent's row")
	}
	for i := range sp.Children {
		f := &sp.Children[i]
		c.name(&f.Table.scalar, "table", c.spanner)
		inner := sc
		inner.each = true
		child := childMapping{place: "children[" + itoa(i) + "]", table: f.Table.text, columns: c.columns(&f.Columns, inner)}
		child.each, child.source = c.sourced(&f.Each, sc, wantEach)
		if f.Columns.given && len(f.Columns.items) == 0 {
			c.add(f.Columns.mark, join(path, child.place), "columns are wanted")
		}
		names := ChildTarget{Table: child.table}
		for _, col := range child.columns {
			names.Columns = append(names.Columns, col.name)
		}
		if child.table == t.Table || slices.ContainsFunc(t.Children, func(o ChildTarget) bool { return o.Table == child.table }) {
			c.add(f.Table.at(0), f.Table.path, "table %q is written to twice", child.table)
		}
		t.Children = append(t.Children, names)
		m.children = append(m.children, child)
	}
}
