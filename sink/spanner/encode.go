package spanner

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/internal/encoded"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// payload is an encoded record. It does not change.
type payload struct {
	route *Route
	plan  *plan
	// wire is the record's MutationGroup as the generated message marshals to; with
	// dedup its first mutation inserts the dedup key.
	wire  []byte
	dedup string // the dedup row's key; "" = the route has no dedup
	// unsent is why the record can't be encoded now, for no fault of its own: the outcome
	// that Write gives it. Then nothing else but route is set.
	unsent *sink.Outcome
}

// encoder builds one record's group, and then another one's.
type encoder struct {
	route *Route
	plan  *plan
	limit int // the most bytes of mutations
	wire  []byte
	cells int
	count int
	key   string // of the main row; "" = generated or incomplete
	// unknown: the record names a column that this schema does not have.
	unknown bool
	// misfit is what the mapping itself gives that the schema can't take; "" = nothing.
	misfit string
	// columns, values and parts are of the row that is being encoded.
	columns []*column
	values  []value
	parts   []value // of its primary key
}

// reset leaves of an encoder what the next record's rows are gathered in.
func (e *encoder) reset() {
	clear(e.values[:cap(e.values)]) // their texts may be a whole payload
	clear(e.parts[:cap(e.parts)])
	*e = encoder{columns: e.columns[:0], values: e.values[:0], parts: e.parts[:0]}
}

func (e *encoder) refuse(code schema.Code, format string, args ...any) *schema.Error {
	return &schema.Error{Code: code, Detail: "route " + e.route.target.name + ": " + fmt.Sprintf(format, args...)}
}

// group encodes g, the main row first.
func (e *encoder) group(g *schema.GroupMutation, dedup string) *schema.Error {
	if dedup != "" {
		d := e.plan.dedup
		e.columns = append(e.columns[:0], d.key, d.time)
		e.values = append(e.values[:0], stringValue(dedup), stringValue(commitTimestamp))
		e.addWrite(writeField(schema.Insert), d.table, d.key.cells()+d.time.cells())
	}
	if err := e.row(&g.Row, 0); err != nil {
		return err
	}
	for i := range g.Children {
		if err := e.row(&g.Children[i], e.route.target.use(g.Children[i].Table, 1)); err != nil {
			return err
		}
	}
	if e.cells > maxCells {
		return e.refuse(schema.TooLarge, "%d cells, secondary indexes counted: the most in one commit of Spanner is %d", e.cells, maxCells)
	}
	return nil
}

// row encodes one row of the route's table number use; 0 is the main row's.
func (e *encoder) row(w *schema.RowChange, use int) *schema.Error {
	if use < 0 {
		return e.refuse(schema.Internal, "a row of a table that the route does not name")
	}
	f := &e.plan.uses[use]
	e.columns, e.values, e.parts = e.columns[:0], e.values[:0], e.parts[:0]
	for range f.table.key {
		e.parts = append(e.parts, value{})
	}
	var err *schema.Error
	if w.Operation == schema.Delete {
		err = e.delete(w, f)
	} else {
		err = e.write(w, f)
	}
	switch {
	case err != nil:
		return err
	case len(e.wire) > e.limit:
		// Early, so that no record makes much more than what is refused.
		return e.refuse(schema.TooLarge, "more than %d bytes of mutations, the most in one commit of Spanner", e.limit)
	}
	if use == 0 {
		e.key = keyOf(f.table, e.parts)
	}
	return nil
}

// write encodes an insert, update, insertOrUpdate or replace of one row.
func (e *encoder) write(w *schema.RowChange, f *fitted) *schema.Error {
	r := rowWriter{encoder: e, table: f.table}
	for i := range w.Columns {
		c := &w.Columns[i]
		col := f.columns[c.Name]
		if col == nil {
			return e.refuse(schema.Internal, "table %s: a column that the route does not name", f.table.wire)
		}
		if err := r.set(col, c); err != nil {
			return err
		}
	}
	if err := r.rest(w, f); err != nil {
		return err
	}
	if len(r.values) == 0 {
		return e.refuse(schema.MissingField, "table %s: no column has a value", f.table.wire)
	}
	field := writeField(w.Operation)
	if field == 0 {
		return e.refuse(schema.Internal, "table %s: operation %q", f.table.wire, w.Operation)
	}
	e.addWrite(field, f.table, r.cells)
	return nil
}

// rowWriter gathers the columns of one row.
type rowWriter struct {
	*encoder
	table *table
	cells int
}

func (r *rowWriter) set(col *column, c *schema.Column) *schema.Error {
	if c.Value.Kind == schema.CommitTimestamp && !col.commitTime {
		// No record asks for that, only a mapping does.
		r.misfit = fmt.Sprintf("table %s: column %s (%s): %s", r.table.wire, col.name, col.typ, noCommitTime)
	}
	v, err := r.value(r.table, col, c)
	if err != nil {
		return err
	}
	r.columns = append(r.columns, col)
	r.values = append(r.values, v)
	r.cells += col.cells()
	if col.keyPart > 0 && c.Value.Kind != schema.CommitTimestamp {
		r.parts[col.keyPart-1] = v
	}
	return nil
}

// rest takes the columns that come by their names from the record.
func (r *rowWriter) rest(w *schema.RowChange, f *fitted) *schema.Error {
	if len(w.Rest) == 0 {
		return nil
	}
	seen := make(map[*column]string, len(w.Columns)+len(w.Rest))
	for i := range w.Rest {
		c := &w.Rest[i]
		col, err := r.known(w, f, c)
		switch {
		case err != nil:
			return err
		case col == nil, f.named[col]: // the mapping itself says what goes there
			continue
		case seen[col] != "":
			return r.refuse(schema.UnknownField, "table %s: fields %s and %s are the same column", f.table.wire, quoteName(seen[col]), quoteName(c.Name))
		}
		seen[col] = c.Name
		if err := r.set(col, c); err != nil {
			return err
		}
	}
	return nil
}

// known finds the column of a field; nil = the field is left out.
func (r *rowWriter) known(w *schema.RowChange, f *fitted, c *schema.Column) (*column, *schema.Error) {
	col := r.plan.cat.column(f.table, c.Name)
	reject := r.route.target.rejectUnknown
	switch {
	case col == nil:
		r.unknown = true
		// A spelling that differs in case only would lose data without a word.
		if near := f.table.nearColumn(c.Name); len(near) > 0 && !names(w, near) {
			return nil, r.refuse(schema.UnknownField, "table %s: field %s is no column; there is %s (%s names are case-sensitive)",
				f.table.wire, quoteName(c.Name), strings.Join(near, ", "), r.plan.cat.dialect)
		}
		if reject {
			return nil, r.refuse(schema.UnknownField, "table %s: field %s is no column", f.table.wire, quoteName(c.Name))
		}
	case col.generated && reject:
		return nil, r.refuse(schema.UnknownField, "table %s: field %s is a generated column", f.table.wire, quoteName(c.Name))
	case col.generated:
		return nil, nil
	case col.typ.scalar == unsupported:
		return nil, r.refuse(schema.TypeMismatch, "table %s: column %s (%s): columns of this type are not supported", f.table.wire, col.name, col.typ)
	}
	return col, nil
}

// names reports whether the row has a column or field of exactly one of the names.
func names(w *schema.RowChange, list []string) bool {
	is := func(c schema.Column) bool { return slices.Contains(list, c.Name) }
	return slices.ContainsFunc(w.Columns, is) || slices.ContainsFunc(w.Rest, is)
}

// value converts a value to its column's type.
func (e *encoder) value(tb *table, col *column, c *schema.Column) (value, *schema.Error) {
	if c.Err != nil {
		return value{}, c.Err
	}
	v, bad := col.convert(&c.Value, e.route.target.coerce)
	if bad != nil {
		err := e.refuse(bad.code, "table %s: column %s (%s): %s", tb.wire, col.name, col.typ, bad.detail)
		err.Pointer = c.Pointer
		return value{}, err
	}
	return v, nil
}

// quoteName quotes a field's name for a message, cut so that a message stays short.
func quoteName(name string) string {
	const limit = 64 // characters
	if r := []rune(name); len(r) > limit {
		name = string(r[:limit]) + "…"
	}
	return strconv.Quote(name)
}

// delete encodes the deletion of one row by its primary key. The other columns do not
// matter then, not even whether they have a value.
func (e *encoder) delete(w *schema.RowChange, f *fitted) *schema.Error {
	tb := f.table
	set := func(col *column, c *schema.Column) *schema.Error {
		if col == nil || col.keyPart == 0 || e.parts[col.keyPart-1].kind != 0 {
			return nil
		}
		if c.Value.Kind == schema.CommitTimestamp {
			return e.refuse(schema.TypeMismatch, "table %s: column %s: a commit timestamp names no row to delete", tb.wire, col.name)
		}
		v, err := e.value(tb, col, c)
		e.parts[col.keyPart-1] = v
		return err
	}
	for i := range w.Columns {
		if err := set(f.columns[w.Columns[i].Name], &w.Columns[i]); err != nil {
			return err
		}
	}
	for i := range w.Rest {
		if err := set(e.plan.cat.column(tb, w.Rest[i].Name), &w.Rest[i]); err != nil {
			return err
		}
	}
	for i := range e.parts {
		if e.parts[i].kind == 0 {
			return e.refuse(schema.KeyPartMissing, "table %s: column %s, part of the primary key, has no value: nothing to delete by", tb.wire, tb.key[i].name)
		}
	}
	e.addDelete(tb)
	return nil
}

// Field numbers of google.spanner.v1.
const (
	groupMutations = 1 // BatchWriteRequest.MutationGroup.mutations
	requestGroups  = 4 // BatchWriteRequest.mutation_groups
	commitMutation = 4 // CommitRequest.mutations

	mutationDelete = 5 // Mutation.delete
	writeTable     = 1 // Mutation.Write
	writeColumns   = 2
	writeValues    = 3
	deleteTable    = 1 // Mutation.Delete
	deleteKeySet   = 2
	keySetKeys     = 1
)

// writeField is the field of Mutation that holds op's Write; 0 = it has none.
func writeField(op schema.Operation) protowire.Number {
	switch op {
	case schema.Insert:
		return 1
	case schema.Update:
		return 2
	case schema.InsertOrUpdate:
		return 3
	case schema.Replace:
		return 4
	default:
		return 0
	}
}

// addWrite appends a mutation of the row to the group. Texts are UTF-8: values are checked,
// names come from the schema.
func (e *encoder) addWrite(field protowire.Number, tb *table, cells int) {
	list := listSize(e.values)
	size := encoded.Framed(len(tb.wire)) + encoded.Framed(list)
	for _, col := range e.columns {
		size += encoded.Framed(len(col.name))
	}
	b := e.begin(field, size, cells)
	b = encoded.AppendField(b, writeTable, tb.wire)
	for _, col := range e.columns {
		b = encoded.AppendField(b, writeColumns, col.name)
	}
	e.wire = appendList(encoded.AppendFrame(b, writeValues, list), e.values)
}

// addDelete appends the deletion of the row to the group.
func (e *encoder) addDelete(tb *table) {
	list := listSize(e.parts)
	b := e.begin(mutationDelete, encoded.Framed(len(tb.wire))+encoded.Framed(encoded.Framed(list)), tb.deleteCells())
	b = encoded.AppendField(b, deleteTable, tb.wire)
	b = encoded.AppendFrame(b, deleteKeySet, encoded.Framed(list))
	e.wire = appendList(encoded.AppendFrame(b, keySetKeys, list), e.parts)
}

// begin makes room in the group for a mutation whose one field has size bytes, and appends
// what stands before them.
func (e *encoder) begin(field protowire.Number, size, cells int) []byte {
	e.cells += max(1, cells)
	e.count++
	b := e.wire
	if whole := encoded.Framed(encoded.Framed(size)); b == nil {
		b = make([]byte, 0, whole) // the only one, as a rule: with no room to spare
	} else {
		b = slices.Grow(b, whole)
	}
	b = encoded.AppendFrame(b, groupMutations, encoded.Framed(size))
	return encoded.AppendFrame(b, field, size)
}

// keyOf is a row's primary key, as the key that orders entries; "" when a part is missing,
// because the service makes it. Parts carry their length, so that no two keys look the same.
func keyOf(tb *table, parts []value) string {
	b := append(make([]byte, 0, 64), tb.wire...)
	for i := range parts {
		if parts[i].kind == 0 || tb.key[i].generated {
			return ""
		}
		b = appendKeyPart(b, parts[i])
	}
	return string(b)
}

func appendKeyPart(b []byte, v value) []byte {
	b = append(b, 0)
	switch v.kind {
	case stringMember:
		b = binary.AppendUvarint(append(b, 's'), uint64(len(v.text)))
		return append(b, v.text...)
	case numberMember:
		return strconv.AppendFloat(append(b, 'n'), v.number()+0, 'g', -1, 64) // -0 is 0
	case boolMember:
		return strconv.AppendBool(append(b, 'b'), v.bits != 0)
	default:
		return append(b, '0')
	}
}

// dedupKeySize is the size of a dedup table's key in bytes: the front of a SHA-256.
const dedupKeySize = 16

// dedupKey hashes what makes a record the same record. The route is part of it: another
// route that happens to use the same keys in the same table writes something else.
func dedupKey(route string, parts ...string) string {
	h := sha256.New()
	for _, p := range append([]string{route}, parts...) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)[:dedupKeySize])
}

// decode gives the group's mutations back, without the dedup insert. Used where a
// request failed.
func (p *payload) decode() ([]*sppb.Mutation, error) {
	var g sppb.BatchWriteRequest_MutationGroup
	if err := proto.Unmarshal(p.wire, &g); err != nil {
		return nil, err
	}
	if p.dedup != "" {
		return g.Mutations[1:], nil
	}
	return g.Mutations, nil
}

// appendGroup appends the group as a field of a BatchWriteRequest.
func (p *payload) appendGroup(b []byte) []byte {
	return encoded.AppendField(b, requestGroups, p.wire)
}

// appendMutations appends the group's mutations as fields of a CommitRequest.
func (p *payload) appendMutations(b []byte) []byte {
	for rest := p.wire; len(rest) > 0; {
		_, _, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return b
		}
		m, size := protowire.ConsumeBytes(rest[n:])
		if size < 0 {
			return b
		}
		rest = rest[n+size:]
		b = encoded.AppendField(b, commitMutation, m)
	}
	return b
}

// requestBytes is what the group weighs in a request of the process's write method.
func (p *payload) requestBytes(m WriteMethod) int64 {
	if m == Commit {
		return int64(len(p.wire))
	}
	return int64(encoded.Framed(len(p.wire)))
}
