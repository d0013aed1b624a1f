package spanner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// explain settles the refused groups. A code says too little in three cases, and a strong
// read says the rest:
//
//	any refusal, with dedup     the dedup row is there: an earlier attempt or delivery was
//	                            applied, and its answer was lost
//	ALREADY_EXISTS, ignore      the row is there and equal: likewise
//	NOT_FOUND                   the row to update, the parent row, or the table
func (a *attempt) explain(ctx context.Context) {
	var refusals []int
	for i, s := range a.refused {
		if meaningOf(s.Code()) == refusal {
			refusals = append(refusals, i)
		} else {
			a.settle(i, a.items[i].route.groupOutcome(s))
		}
	}
	slices.Sort(refusals)
	a.settleDuplicates(ctx, refusals)

	var exist, absent []int
	for _, i := range refusals {
		s := a.refused[i]
		switch {
		case s == nil:
		case s.Code() == codes.AlreadyExists && a.items[i].route.target.ignoreDuplicates:
			exist = append(exist, i)
		case s.Code() == codes.NotFound:
			absent = append(absent, i)
		}
	}
	a.settleEqual(ctx, exist)
	a.settleAbsent(ctx, absent)
	for _, i := range refusals {
		if s := a.refused[i]; s != nil {
			o := a.items[i].route.groupOutcome(s)
			if s.Code() == codes.AlreadyExists {
				o = a.items[i].alreadyExists(s)
			}
			a.settle(i, o)
		}
	}
}

// sentRow is one row of a group, as it was sent.
type sentRow struct {
	table   *table
	op      schema.Operation
	columns []*column // without the primary key
	values  []*structpb.Value
	key     []*structpb.Value // nil when the service makes a part of it
}

// rows are the group's rows, without the dedup row.
func (p *payload) rows() ([]sentRow, error) {
	mutations, err := p.decode()
	if err != nil {
		return nil, err
	}
	rows := make([]sentRow, 0, len(mutations))
	for _, m := range mutations {
		var w *sppb.Mutation_Write
		var op schema.Operation
		switch x := m.GetOperation().(type) {
		case *sppb.Mutation_InsertOrUpdate:
			w, op = x.InsertOrUpdate, schema.InsertOrUpdate
		case *sppb.Mutation_Insert:
			w, op = x.Insert, schema.Insert
		case *sppb.Mutation_Update:
			w, op = x.Update, schema.Update
		case *sppb.Mutation_Replace:
			w, op = x.Replace, schema.Replace
		case *sppb.Mutation_Delete_:
			d := x.Delete
			rows = append(rows, sentRow{table: p.plan.cat.table(d.Table), op: schema.Delete, key: d.KeySet.Keys[0].Values})
			continue
		}
		r := sentRow{table: p.plan.cat.table(w.Table), op: op}
		key := make([]*structpb.Value, len(r.table.key))
		for i, v := range w.Values[0].Values {
			col := p.plan.cat.column(r.table, w.Columns[i])
			pending := col.commitTime && v.GetStringValue() == commitTimestamp
			switch {
			case col.keyPart > 0 && !pending:
				key[col.keyPart-1] = v
			case col.keyPart == 0:
				r.columns, r.values = append(r.columns, col), append(r.values, v)
			}
		}
		if !slices.Contains(key, nil) {
			r.key = key
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// dedupID is the dedup row the entry writes, as text.
func (p *payload) dedupID() (string, bool) {
	if p.dedup == "" {
		return "", false
	}
	return p.plan.dedup.table.wire + "\x00" + p.dedup, true
}

// dedupKey is the primary key of that row.
func (p *payload) dedupKey() []*structpb.Value {
	return []*structpb.Value{structpb.NewStringValue(p.dedup)}
}

// settleDuplicates settles as Applied those entries whose dedup row is in the database:
// it is written in one transaction with the record's own rows.
func (a *attempt) settleDuplicates(ctx context.Context, entries []int) {
	var l lookup
	reads := make(map[int]*tableRead)
	for _, i := range entries {
		if p := a.items[i]; p.dedup != "" {
			reads[i] = l.want(p.plan.dedup.table, nil, p.dedupKey())
		}
	}
	l.run(ctx, a.c)
	for i, r := range reads {
		switch {
		case r.err != nil:
			a.settle(i, a.readFailed(ctx, i, r))
		case r.row(a.items[i].dedupKey()) != nil:
			a.duplicate(i)
		}
	}
}

func (a *attempt) duplicate(i int) {
	a.sink.duplicate(a.items[i].route)
	a.settle(i, sink.Outcome{Kind: sink.Applied})
}

// settleEqual settles as Applied those of entries whose inserts are all in the database,
// with equal values in the columns they write. The rest keeps its status.
func (a *attempt) settleEqual(ctx context.Context, entries []int) {
	var l lookup
	type wanted struct {
		row  sentRow
		read *tableRead
	}
	asked := make(map[int][]wanted)
	for _, i := range entries {
		p := a.items[i]
		if !p.route.target.ignoreDuplicates {
			continue
		}
		rows, err := p.rows()
		if err != nil || slices.ContainsFunc(rows, func(r sentRow) bool { return r.op != schema.Insert || r.key == nil }) {
			continue
		}
		for _, r := range rows {
			asked[i] = append(asked[i], wanted{r, l.want(r.table, r.columns, r.key)})
		}
	}
	l.run(ctx, a.c)
	for i, all := range asked {
		equal, differs := true, false
		var failed *tableRead
		for _, w := range all {
			if w.read.err != nil {
				failed = w.read
				break
			}
			got := w.read.row(w.row.key)
			if got == nil {
				equal = false
				continue
			}
			for n, col := range w.row.columns {
				sent := w.row.values[n]
				if col.commitTime && sent.GetStringValue() == commitTimestamp {
					continue
				}
				if !col.typ.same(sent, got[n]) {
					equal, differs = false, true
				}
			}
		}
		s := a.refused[i]
		switch {
		case failed != nil:
			a.settle(i, a.readFailed(ctx, i, failed))
		case equal:
			a.duplicate(i)
		case s == nil: // refused with others: the writer isolates it
		case differs:
			a.settle(i, a.items[i].route.rejected(schema.AlreadyExists,
				"%s: a row with this primary key is there, with other values", codeName(s.Code())))
		}
	}
}

// settleAbsent finds out what a NOT_FOUND did not find.
func (a *attempt) settleAbsent(ctx context.Context, entries []int) {
	var l lookup
	type wanted struct {
		row  sentRow
		read *tableRead
	}
	asked := make(map[int][]wanted)
	for _, i := range entries {
		rows, err := a.items[i].rows()
		if err != nil {
			continue
		}
		for _, r := range rows {
			asked[i] = append(asked[i], wanted{r, l.want(r.table, r.columns, r.key)})
		}
	}
	l.run(ctx, a.c)
	for i, all := range asked {
		r := a.items[i].route
		var failed *tableRead
		var updated, parent string
		raced := false
		for _, w := range all {
			switch {
			case w.read.err != nil:
				failed = w.read
			case w.row.op == schema.Update && w.row.key != nil && w.read.row(w.row.key) == nil:
				updated = w.row.table.wire
			case w.row.op == schema.Update:
				raced = true
			case inserts(w.row.op) && w.row.table.parent != "":
				parent = fmt.Sprintf("table %s: the parent row in %s is not there yet", w.row.table.wire, w.row.table.parent)
			}
		}
		switch {
		case failed != nil:
			a.settle(i, a.readFailed(ctx, i, failed))
		case updated != "":
			a.settle(i, r.rejected(schema.Constraint, "table %s: update of a row that is not there", updated))
		case parent != "":
			a.settle(i, sink.Outcome{Kind: sink.Transient, Err: fmt.Errorf("route %s: %s", r.target.name, parent)})
		case raced:
			a.settle(i, sink.Outcome{Kind: sink.Transient, Err: fmt.Errorf("route %s: the row to update was not there, and is now", r.target.name)})
		default:
			a.settle(i, a.schemaChanged(ctx, i))
		}
	}
}

// readFailed is the outcome of an entry about which nothing could be read.
func (a *attempt) readFailed(ctx context.Context, i int, r *tableRead) sink.Outcome {
	if status.Code(r.err) == codes.NotFound && missingResource(r.err) == "" {
		return a.schemaChanged(ctx, i)
	}
	o := callOutcome("Read", a.db.path, r.err)
	if o.Kind == sink.Rejected {
		// No fault of the record: it was the read that the service did not take.
		o.Kind, o.Scope, o.MaxAttempts = sink.Transient, sink.ScopeEntry, wholeCallAttempts
	}
	return o
}

// schemaChanged is the outcome where the service does not know a table or column that
// the schema, when it was read, had: it is read again, so that the next record is
// encoded by the new one.
func (a *attempt) schemaChanged(ctx context.Context, i int) sink.Outcome {
	p := a.items[i]
	o := sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeRoute}
	cat := a.db.reread(ctx, p.plan.cat)
	if now := p.route.plan(cat); len(now.problems) > 0 {
		o.Err = p.route.misfit(now.problems...)
		return o
	}
	o.Err = p.route.misfit("the service does not know a table or column that its schema has (NOT_FOUND)")
	return o
}

// alreadyExists is the rejection of a record whose row, or whose values of a UNIQUE
// index, are there. It names the index where that is certain enough to help.
func (p *payload) alreadyExists(s *status.Status) sink.Outcome {
	rows, err := p.rows()
	if err != nil {
		return p.route.groupOutcome(s)
	}
	var unique, named []string
	inserts := false
	for _, r := range rows {
		inserts = inserts || r.op == schema.Insert
		for _, name := range r.table.uniqueIndexes() {
			unique = append(unique, name)
			if strings.Contains(s.Message(), name) {
				named = append(named, name)
			}
		}
	}
	const code = "ALREADY_EXISTS"
	switch {
	case len(named) > 0:
		return p.route.rejected(schema.AlreadyExists, "%s: UNIQUE index %s has another row with these values", code, strings.Join(named, ", "))
	case !inserts && len(unique) > 0:
		return p.route.rejected(schema.AlreadyExists, "%s: a UNIQUE index has another row with these values (%s)", code, strings.Join(unique, ", "))
	case len(unique) > 0:
		return p.route.rejected(schema.AlreadyExists, "%s: a row with this primary key is there, or a UNIQUE index has another row with these values (%s)", code, strings.Join(unique, ", "))
	default:
		return p.route.rejected(schema.AlreadyExists, "%s: a row with this primary key is there", code)
	}
}
