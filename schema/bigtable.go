package schema

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A cell's timestamp is from 1971 on and before 2200: seconds or nanoseconds that were
// taken for milliseconds are outside.
var (
	minTimestamp = time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	maxTimestamp = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() // the first that is not allowed
)

// rowMapping makes a row of a record.
type rowMapping struct {
	rules     *rules
	instance  *template // nil = static
	static    string    // static instance; empty = the process's
	allow     []string
	table     *template
	rowKey    *template
	timestamp evaluator // nil = message.publishTime
	source    string    // of timestamp
	declared  map[string]*GCRule
	all       *allMapping
	set       []cellMapping

	deleteWhen evaluator
	deleteText string
	delete     *deleteMapping
}

// nullRule says what a null does to a cell.
type nullRule uint8

const (
	nullSkip nullRule = iota
	nullDelete
	nullEmpty
)

type allMapping struct {
	place  string
	family *name
	null   nullRule
}

type cellMapping struct {
	place   string // like set[0] m:temp
	family  *name
	column  *template
	qual    string // static column
	static  bool
	value   evaluator
	source  string
	as      Encoding
	each    evaluator
	eachSrc string
	null    nullRule
}

type deleteMapping struct {
	row    bool
	family *name
	column *template // nil = the family
}

// name is a family: fixed, or made for each record.
type name struct {
	fixed    string
	template *template // nil = fixed
}

// row is one row in the making.
type row struct {
	m      *rowMapping
	s      *state
	out    *RowMutation
	micros int64
	timed  bool // micros is set
}

func (m *rowMapping) apply(s *state) (Mutation, error) {
	r := &row{m: m, s: s, out: &RowMutation{}}
	s.values = s.values[:0]
	if err := r.place(); err != nil {
		return Mutation{}, err
	}
	only := false
	if m.deleteWhen != nil {
		yes, err := evalBool(s, m.deleteWhen, m.deleteText)
		if err != nil {
			return Mutation{}, within("deleteWhen", err)
		}
		only = yes
	}
	ops := len(m.set)
	if m.delete != nil {
		ops++
	}
	r.out.Ops = make([]Op, 0, ops)
	if m.delete != nil && (only || m.deleteWhen == nil) {
		if err := r.delete(m.delete); err != nil {
			return Mutation{}, within("delete", err)
		}
	}
	if !only {
		if err := r.cells(); err != nil {
			return Mutation{}, err
		}
	}
	if len(r.out.Ops) == 0 {
		return Mutation{Skip: SkippedEmpty}, nil
	}
	r.own()
	return Mutation{Bigtable: r.out}, nil
}

// own gives the mutation its values, which stand side by side in the state's scratch.
func (r *row) own() {
	all := r.s.values
	if len(all) <= keptScratch {
		all = append(make([]byte, 0, len(all)), all...)
	} else {
		r.s.values = nil
	}
	at := 0
	for i := range r.out.Ops {
		if op := &r.out.Ops[i]; op.Kind == SetCell {
			end := at + len(op.Value)
			op.Value, at = all[at:end:end], end
		}
	}
}

// place makes instance, table and row key.
func (r *row) place() (err error) {
	m, s := r.m, r.s
	r.out.Instance = m.static
	if m.instance != nil {
		if r.out.Instance, err = r.text(m.instance); err != nil {
			return within("instance", err)
		}
		if !slices.Contains(m.allow, r.out.Instance) {
			return &Error{Code: NoSuchTable, Detail: "instance: the instance is not in allow"}
		}
	}
	if fixed, ok := m.table.static(); ok {
		r.out.Table = fixed
	} else {
		if r.out.Table, err = r.text(m.table); err != nil {
			return within("table", err)
		}
		if err := m.rules.table.templated(NoSuchTable, "table", r.out.Table); err != nil {
			return within("table", err)
		}
	}
	if s.scratch, err = m.rowKey.append(s, s.scratch[:0]); err != nil {
		return within("rowKey", err)
	}
	if len(s.scratch) == 0 {
		return &Error{Code: KeyPartMissing, Detail: "rowKey: the row key is empty"}
	}
	if len(s.scratch) > MaxRowKey {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("rowKey: the row key is longer than %d bytes", MaxRowKey)}
	}
	r.out.Key = string(s.scratch)
	return nil
}

func (r *row) text(t *template) (string, error) {
	if fixed, ok := t.static(); ok {
		return fixed, nil
	}
	var err error
	r.s.scratch, err = t.append(r.s, r.s.scratch[:0])
	return string(r.s.scratch), err
}

func (r *row) family(n *name) (string, error) {
	if n.template == nil {
		return n.fixed, nil
	}
	family, err := r.text(n.template)
	if err != nil {
		return "", err
	}
	if err := r.m.rules.family.templated(NoSuchFamily, "family", family); err != nil {
		return "", err
	}
	if r.m.declared != nil {
		if _, ok := r.m.declared[family]; !ok {
			return "", &Error{Code: NoSuchFamily, Detail: "the family is not in families"}
		}
	}
	return family, nil
}

func (r *row) column(t *template) (string, error) {
	column, err := r.text(t)
	if err == nil && len(column) > MaxQualifier {
		err = &Error{Code: TooLarge, Detail: fmt.Sprintf("the column is longer than %d bytes", MaxQualifier)}
	}
	return column, err
}

func (r *row) delete(d *deleteMapping) error {
	if d.row {
		return r.add(DeleteRow, "", "")
	}
	family, err := r.family(d.family)
	if err != nil {
		return err
	}
	if d.column == nil {
		return r.add(DeleteFamily, family, "")
	}
	column, err := r.column(d.column)
	if err != nil {
		return err
	}
	return r.add(DeleteColumn, family, column)
}

func (r *row) add(kind OpKind, family, column string) error {
	if len(r.out.Ops) == MaxMutations {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("the record makes more than %d mutations", MaxMutations)}
	}
	r.out.Ops = append(r.out.Ops, Op{Kind: kind, Family: family, Column: column})
	return nil
}

// set adds a cell; its time is known.
func (r *row) set(family, column string, v []byte, as Encoding) error {
	err := r.add(SetCell, family, column)
	if err == nil {
		op := &r.out.Ops[len(r.out.Ops)-1]
		op.Micros, op.Value, op.As = r.micros, v, as
	}
	return err
}

func (r *row) cells() error {
	if r.m.all != nil {
		if err := r.all(r.m.all); err != nil {
			return within(r.m.all.place, err)
		}
	}
	for i := range r.m.set {
		c := &r.m.set[i]
		if err := r.item(c); err != nil {
			return within(c.place, err)
		}
	}
	return nil
}

func (r *row) item(c *cellMapping) error {
	if c.each == nil {
		return r.cell(c)
	}
	v, err := c.each.eval(r.s)
	if err != nil {
		return err
	}
	return r.s.items(v, c.eachSrc, func() error { return r.cell(c) })
}

func (r *row) cell(c *cellMapping) error {
	v, err := c.value.eval(r.s)
	if err != nil {
		return err
	}
	if v.kind == absent || v.kind == null && c.null == nullSkip {
		return nil
	}
	family, err := r.family(c.family)
	if err != nil {
		return err
	}
	column := c.qual
	if !c.static {
		if column, err = r.column(c.column); err != nil {
			return err
		}
	}
	if v.kind == null {
		return r.null(c.null, family, column, c.as)
	}
	return r.write(family, column, v, c.as, c)
}

// named puts the expression before an error that speaks of its value.
func named(err error, source string, s *state, from evaluator) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	return &Error{Code: e.Code, Detail: source + " " + e.Detail, Pointer: pointerOf(s, from)}
}

func (r *row) all(a *allMapping) error {
	s := r.s
	data := s.data()
	switch data.kind {
	case absent:
		return nil
	case object:
	default:
		return &Error{Code: TypeMismatch, Detail: "data is " + data.kind.String() + ", not an object"}
	}
	family, err := r.family(a.family)
	if err != nil {
		return err
	}
	first, count := s.tree.nodes[data.origin-1].children()
	for j := first; j < first+count; j++ {
		v, column := s.tree.value(j), s.tree.nameOf(j)
		if len(column) > MaxQualifier {
			return &Error{Code: TooLarge, Detail: fmt.Sprintf("a field's name is longer than %d bytes", MaxQualifier)}
		}
		as := AsJSON
		switch v.kind {
		case text:
			as = AsString
		case octets:
			as = AsBytes
		case instant:
			v, as = textValue(v.time.Format(time.RFC3339Nano)), AsString
		}
		// The name is a part of the payload, which the mutation must not hold on to.
		column = string([]byte(column))
		if v.kind == null {
			err = r.null(a.null, family, column, as)
		} else {
			err = r.write(family, column, v, as, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *row) null(rule nullRule, family, column string, as Encoding) error {
	switch rule {
	case nullDelete:
		return r.add(DeleteColumn, family, column)
	case nullEmpty:
		if err := r.time(); err != nil {
			return err
		}
		return r.set(family, column, nil, as)
	default:
		return nil
	}
}

// write adds a cell; c is the set item that it comes from, nil for all.
func (r *row) write(family, column string, v value, as Encoding, c *cellMapping) error {
	if err := r.time(); err != nil {
		return err
	}
	start := len(r.s.values)
	values, err := encode(r.s.values, r.s, v, as)
	if err != nil && c != nil {
		return named(err, c.source, r.s, c.value)
	} else if err != nil {
		return err
	}
	if len(values)-start > MaxCell {
		return tooLargeCell()
	}
	r.s.values = values
	return r.set(family, column, values[start:], as)
}

// time sets the cells' timestamp, when the first cell needs it.
func (r *row) time() error {
	if r.timed {
		return nil
	}
	ms, err := r.millis()
	if err != nil {
		return &placed{within("timestamp", err)}
	}
	r.micros, r.timed = ms*1000, true
	return nil
}

func (r *row) millis() (int64, error) {
	v, source := value{}, r.m.source
	if r.m.timestamp == nil {
		source = "message.publishTime"
		if r.s.rec.Published.IsZero() {
			return 0, &Error{Code: MissingField, Detail: source + " is absent or unreadable"}
		}
		v = timeValue(r.s.rec.Published)
	} else {
		var err error
		if v, err = r.m.timestamp.eval(r.s); err != nil {
			return 0, err
		}
	}
	var ms int64
	switch v.kind {
	case absent, null:
		return 0, &Error{Code: MissingField, Detail: source + " is " + v.kind.String(), Pointer: pointerOf(r.s, r.m.timestamp)}
	case instant:
		ms = v.time.UnixMilli()
	case integer:
		ms = v.int()
	case unsigned:
		ms = int64(min(v.bits, math.MaxInt64))
	default:
		return 0, &Error{Code: TypeMismatch, Pointer: pointerOf(r.s, r.m.timestamp),
			Detail: source + " is " + v.kind.String() + ", not a timestamp or an int of milliseconds: timestamp() makes one of a string"}
	}
	if ms < minTimestamp || ms >= maxTimestamp {
		return 0, &Error{Code: TimestampOutOfRange, Pointer: pointerOf(r.s, r.m.timestamp),
			Detail: source + " is not within 1971 and 2200"}
	}
	return ms, nil
}

func tooLargeCell() *Error {
	return &Error{Code: TooLarge, Detail: fmt.Sprintf("the cell is larger than %d bytes", MaxCell)}
}
