package spanner

import (
	"fmt"
	"strings"

	"github.com/pushsink/pushsink/schema"
)

// plan is a route fitted to one reading of its database's schema. It does not change.
type plan struct {
	cat  *catalog
	uses []fitted // as target.uses
	// dedup is where dedup keys go; nil = the route has none.
	dedup *dedupTable
	// problems are why the route can't be served with this schema; empty = it can.
	problems []string
}

type fitted struct {
	table   *table
	columns map[string]*column // those that the mapping names, by its spelling
	named   map[*column]bool   // the same, by column
}

type dedupTable struct {
	table *table
	key   *column // BYTES
	time  *column // the commit timestamp
}

// fit holds a route against a schema and lists everything that does not fit, by table,
// column and both types.
func (t *target) fit(cat *catalog) *plan {
	p := &plan{cat: cat, uses: make([]fitted, len(t.uses))}
	for i := range t.uses {
		u := &t.uses[i]
		p.uses[i] = p.fitTable(t, u)
	}
	if t.dedupTable != "" {
		p.fitDedup(t)
	}
	return p
}

func (p *plan) problem(table, format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf("table %s: %s", table, fmt.Sprintf(format, args...)))
}

// find looks a table up and says why it is not there.
func (p *plan) find(name string) *table {
	tb := p.cat.table(name)
	if tb != nil {
		return tb
	}
	if near := p.cat.nearTable(name); len(near) > 0 {
		p.problem(name, "no such table; there is %s (%s names are case-sensitive)", strings.Join(near, ", "), p.cat.dialect)
	} else {
		p.problem(name, "no such table")
	}
	return nil
}

func (p *plan) fitTable(t *target, u *use) fitted {
	f := fitted{table: p.find(u.table), columns: make(map[string]*column, len(u.columns)), named: make(map[*column]bool, len(u.columns))}
	if f.table == nil {
		return f
	}
	by := make(map[*column]string, len(u.columns))
	for _, use := range u.columns {
		col := p.cat.column(f.table, use.name)
		if col == nil {
			if near := f.table.nearColumn(use.name); len(near) > 0 {
				p.problem(u.table, "column %s: no such column; there is %s (%s names are case-sensitive)", use.name, strings.Join(near, ", "), p.cat.dialect)
			} else {
				p.problem(u.table, "column %s: no such column", use.name)
			}
			continue
		}
		f.columns[use.name] = col
		if other, twice := by[col]; twice {
			p.problem(u.table, "columns %s and %s are the same column", other, use.name)
		}
		by[col], f.named[col] = use.name, true
		p.fitColumn(t, u, use, col)
	}
	p.fitKey(t, u, f.table, by)
	return f
}

func (p *plan) fitColumn(t *target, u *use, use columnUse, col *column) {
	bad := func(format string, args ...any) {
		p.problem(u.table, "column %s (%s): %s", use.name, col.typ, fmt.Sprintf(format, args...))
	}
	switch {
	case col.generated:
		bad("generated columns are not writable")
	case col.typ.scalar == unsupported:
		bad("columns of this type are not supported")
	case use.kind == schema.CommitTimestamp && !col.commitTime:
		bad("%s", noCommitTime)
	case !col.accepts(use.kind, t.coerce):
		bad("the mapping gives %s for a record without data", use.kind)
	}
}

const noCommitTime = "the mapping gives commitTimestamp(), which needs the column's option allow_commit_timestamp (PostgreSQL: the type spanner.commit_timestamp)"

// accepts reports whether some value of kind k fits the column's type.
func (col *column) accepts(k schema.ValueKind, coerce bool) bool {
	if k == schema.Absent || k == schema.Null || k == schema.CommitTimestamp {
		return true
	}
	if col.typ.array {
		return k == schema.List
	}
	switch col.typ.scalar {
	case typeBool:
		return k == schema.Bool || coerce && k == schema.String
	case typeInt64:
		return k == schema.Int || k == schema.Uint || coerce && k == schema.String
	case typeFloat32, typeFloat64, typeNumeric, typePGNumeric:
		return k == schema.Int || k == schema.Uint || k == schema.Number || k == schema.Double || coerce && k == schema.String
	case typeString:
		return k == schema.String || coerce && k != schema.List && k != schema.Object
	case typeBytes:
		return k == schema.Bytes || k == schema.String
	case typeDate:
		return k == schema.String || coerce && k == schema.Timestamp
	case typeTimestamp:
		return k == schema.String || k == schema.Timestamp
	case typeJSON, typePGJSONB:
		return k != schema.Bytes
	case typeUUID:
		return k == schema.String
	default:
		return true // refused for its type already
	}
}

// fitKey checks that the mapping can give what the operation needs.
func (p *plan) fitKey(t *target, u *use, tb *table, named map[*column]string) {
	for _, col := range tb.key {
		if _, ok := named[col]; ok || u.rest {
			continue
		}
		switch {
		case inserts(u.op) && (col.generated || col.filled) && !u.deletes:
		case inserts(u.op) && (col.generated || col.filled):
			p.problem(u.table, "column %s (%s): part of the primary key; deleteWhen can't delete a row without it", col.name, col.typ)
		case u.op == schema.Update && col.generated && !u.deletes:
		default:
			p.problem(u.table, "column %s (%s): part of the primary key, which %s needs and the mapping does not give", col.name, col.typ, u.op)
		}
	}
	if !inserts(u.op) || u.rest {
		return
	}
	for _, col := range tb.order {
		if _, ok := named[col]; !ok && col.keyPart == 0 && !col.nullable && !col.generated && !col.filled {
			p.problem(u.table, "column %s (%s): NOT NULL without a default, which %s needs and the mapping does not give", col.name, col.typ, u.op)
		}
	}
}

func (p *plan) fitDedup(t *target) {
	tb := p.find(t.dedupTable)
	if tb == nil {
		return
	}
	const shape = "a dedup table has a primary key of one BYTES column (at least 16) and a NOT NULL commit timestamp; server ddl prints its statement"
	d := &dedupTable{table: tb}
	if len(tb.key) == 1 && tb.key[0].typ.scalar == typeBytes && !tb.key[0].typ.array && !tb.key[0].generated &&
		(tb.key[0].typ.limit == 0 || tb.key[0].typ.limit >= dedupKeySize) {
		d.key = tb.key[0]
	}
	for _, col := range tb.order {
		switch {
		case col.commitTime && !col.generated && d.time == nil:
			d.time = col
		case col != d.key && !col.commitTime && !col.nullable && !col.generated && !col.filled:
			p.problem(t.dedupTable, "column %s (%s): NOT NULL without a default; %s", col.name, col.typ, shape)
		}
	}
	if d.key == nil || d.time == nil {
		p.problem(t.dedupTable, "%s", shape)
		return
	}
	for i := range p.uses {
		if p.uses[i].table == tb {
			p.problem(t.dedupTable, "the dedup table is one of the route's own tables")
		}
	}
	p.dedup = d
}
