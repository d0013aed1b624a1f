package schema

import (
	"errors"
	"fmt"
)

// Operation is what is done with a Spanner row.
type Operation string

const (
	InsertOrUpdate Operation = "insertOrUpdate"
	Insert         Operation = "insert"
	Update         Operation = "update"
	Replace        Operation = "replace"
	Delete         Operation = "delete"
)

// MaxCells is how many column values one record may make: Spanner's bound for one commit
// (https://cloud.google.com/spanner/quotas). The sink counts indexes too.
const MaxCells = 80_000

// SpannerTarget is what the adapter has to know of a route before any record, and has to
// check against the live schema.
type SpannerTarget struct {
	Database    string // projects/P/instances/I/databases/D; empty = the process's
	Table       string // as the file spells it, with its schema where it has one
	Operation   Operation
	DeleteWhen  bool     // a record may delete the row instead
	Columns     []string // written by name, in the order of the file
	ColumnsFrom bool     // the fields of an object give more columns
	// RejectUnknown: a field of columnsFrom without a column rejects the record;
	// otherwise it is ignored.
	RejectUnknown bool
	Coerce        bool
	// OnDuplicate is ignore or reject for operation insert; empty = not said.
	OnDuplicate string
	DedupTable  string // empty = none
	// DedupByID: the key for DedupTable reads message.id, so a record needs an id that is
	// the same when it is sent again.
	DedupByID bool
	// RetryConstraints: a violated constraint is tried again instead of rejected.
	RetryConstraints bool
	Children         []ChildTarget
}

// ChildTarget is an interleaved table that a record also writes to.
type ChildTarget struct {
	Table   string
	Columns []string
}

// GroupMutation changes one Spanner row and rows of its interleaved tables, atomically.
type GroupMutation struct {
	Row      RowChange
	Children []RowChange
	// DedupKey is the key for SpannerTarget.DedupTable; empty without one.
	DedupKey string
}

// RowChange is one row. An absent value is no column of it.
type RowChange struct {
	Table     string
	Operation Operation
	Columns   []Column // those of the file, in its order
	// Rest are the fields of columnsFrom that none of Columns is named like, exactly, in
	// the order of the input. Which of them are columns, the live schema says.
	Rest []Column
}

// Column is one value by the name of its column.
type Column struct {
	Name    string
	Value   Value
	Pointer string // JSON pointer of the value in the payload; empty = computed
	// Err is set, in a row to delete alone, when the value could not be made: only the
	// key's columns are needed then.
	Err *Error
}

// groupMapping makes a mutation group of a record.
type groupMapping struct {
	table      string
	operation  Operation
	columns    []columnMapping
	names      map[string]bool // of columns
	from       evaluator       // nil = none
	fromSource string
	deleteWhen evaluator
	deleteText string
	dedup      *template // nil = none
	children   []childMapping
}

type columnMapping struct {
	name    string
	value   evaluator
	source  string
	pointer string // of a plain path into data
}

type childMapping struct {
	place   string
	table   string
	each    evaluator
	source  string
	columns []columnMapping
}

// group is one group in the making.
type group struct {
	m     *groupMapping
	s     *state
	out   *GroupMutation
	cells int
}

func (m *groupMapping) apply(s *state) (Mutation, error) {
	g := &group{m: m, s: s, out: &GroupMutation{}}
	g.out.Row = RowChange{Table: m.table, Operation: m.operation}
	if m.deleteWhen != nil {
		yes, err := evalBool(s, m.deleteWhen, m.deleteText)
		if err != nil {
			return Mutation{}, within("deleteWhen", err)
		}
		if yes {
			g.out.Row.Operation = Delete
		}
	}
	if err := g.dedup(); err != nil {
		return Mutation{}, within("dedup.key", err)
	}
	var err error
	if g.out.Row.Columns, err = g.columns(m.columns, g.out.Row.Operation == Delete); err != nil {
		return Mutation{}, within("columns", err)
	}
	if err := g.rest(); err != nil {
		return Mutation{}, within("columnsFrom", err)
	}
	if g.out.Row.Operation != Delete {
		for i := range m.children {
			if err := g.child(&m.children[i]); err != nil {
				return Mutation{}, within(m.children[i].place, err)
			}
		}
	}
	return Mutation{Spanner: g.out}, nil
}

func (g *group) dedup() error {
	if g.m.dedup == nil {
		return nil
	}
	key, err := g.m.dedup.append(g.s, nil)
	if err != nil {
		var e *Error
		if errors.As(err, &e) && e.Code == KeyPartMissing {
			return &Error{Code: DedupIDMissing, Detail: e.Detail, Pointer: e.Pointer}
		}
		return err
	}
	if len(key) > MaxRowKey {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("the key is longer than %d bytes", MaxRowKey)}
	}
	g.out.DedupKey = string(key)
	return nil
}

func (g *group) columns(list []columnMapping, deletes bool) ([]Column, error) {
	out := make([]Column, 0, len(list))
	for i := range list {
		c := &list[i]
		out = append(out, Column{Name: c.name, Pointer: c.pointer})
		col := &out[len(out)-1]
		if err := g.value(c, &col.Value); err != nil {
			e, ok := within(c.name, err).(*Error)
			if !ok || !deletes {
				return nil, within(c.name, err)
			}
			col.Value, col.Err = Value{}, e
		} else if col.Value.Kind == Absent {
			out[len(out)-1] = Column{}
			out = out[:len(out)-1]
			continue
		}
		if err := g.count(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (g *group) value(c *columnMapping, out *Value) error {
	v, err := c.value.eval(g.s)
	if err != nil {
		return err
	}
	if err := g.s.export(v, out); err != nil {
		return named(err, c.source, g.s, c.value)
	}
	return nil
}

func (g *group) count() error {
	if g.cells++; g.cells > MaxCells {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("the record makes more than %d cells", MaxCells)}
	}
	return nil
}

// rest takes the remaining columns from an object.
func (g *group) rest() error {
	if g.m.from == nil {
		return nil
	}
	s := g.s
	v, err := g.m.from.eval(s)
	if err != nil {
		return err
	}
	if v.kind != object && v.kind != absent && v.kind != null {
		return &Error{Code: TypeMismatch, Pointer: pointerOf(s, g.m.from),
			Detail: fmt.Sprintf("%s is %s, not an object", g.m.fromSource, v.kind)}
	}
	prefix := ""
	if v.origin > 0 {
		prefix = s.tree.pointer(v.origin - 1)
	}
	return s.items(v, g.m.fromSource, func() error {
		name := s.key.text
		if g.m.names[name] {
			return nil
		}
		col := Column{Name: name}
		if err := s.export(s.item, &col.Value); err != nil {
			return within(quoteShort(name), err)
		}
		if v.origin > 0 {
			col.Pointer = prefix + "/" + pointerToken(name)
		}
		if err := g.count(); err != nil {
			return err
		}
		g.out.Row.Rest = append(g.out.Row.Rest, col)
		return nil
	})
}

func (g *group) child(c *childMapping) error {
	v, err := c.each.eval(g.s)
	if err != nil {
		return err
	}
	return g.s.items(v, c.source, func() error {
		columns, err := g.columns(c.columns, false)
		if err != nil {
			return &placed{within(c.place+"["+itoa(g.s.index)+"]", err)}
		}
		for i := range columns {
			columns[i].Pointer = ""
		}
		g.out.Children = append(g.out.Children, RowChange{Table: c.table, Operation: g.m.operation, Columns: columns})
		return nil
	})
}
