package schema

func explainGroup(w *writer, m *GroupMutation) {
	w.open('{')
	if m.DedupKey != "" {
		w.text("dedupKey", m.DedupKey)
	}
	w.member("mutations").open('[')
	explainChange(w.element(), &m.Row)
	for i := range m.Children {
		explainChange(w.element(), &m.Children[i])
	}
	w.close(']')
	w.close('}')
}

func explainChange(w *writer, r *RowChange) {
	w.open('{')
	w.member(string(r.Operation)).open('{')
	w.member("table").str(r.Table)
	explainColumns(w.member("columns"), r.Columns)
	if len(r.Rest) > 0 {
		explainColumns(w.member("columnsFrom"), r.Rest)
	}
	w.close('}')
	w.close('}')
}

func explainColumns(w *writer, columns []Column) {
	w.open('{')
	for _, c := range columns {
		if c.Err != nil {
			continue // a deletion does not need it
		}
		b, err := c.Value.AppendJSON(nil)
		if err != nil {
			b = []byte(`"` + c.Value.Kind.String() + `"`)
		}
		w.member(c.Name).raw(string(b))
	}
	w.close('}')
}
