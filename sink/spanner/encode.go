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
	"google.golang.org/protobuf/types/known/structpb"

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
	dedup *structpb.Value // the dedup row's key; nil = the route has no dedup
	// unsent is why the record can't be encoded now, for no fault of its own: the outcome
	// that Write gives it. Then nothing else but route is set.
	unsent *sink.Outcome
}

// encoder builds one record's group.
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
}

func (e *encoder) refuse(code schema.Code, format string, args ...any) *schema.Error {
	return &schema.Error{Code: code, Detail: "route " + e.route.target.name + ": " + fmt.Sprintf(format, args...)}
}

// group encodes g, the main row first.
func (e *encoder) group(g *schema.GroupMutation, dedup *structpb.Value) *schema.Error {
	if dedup != nil {
		d := e.plan.dedup
		e.add(&sppb.Mutation{Operation: &sppb.Mutation_Insert{Insert: &sppb.Mutation_Write{
			Table:   d.table.wire,
			Columns: []string{d.key.name, d.time.name},
			Values:  []*structpb.ListValue{{Values: []*structpb.Value{dedup, structpb.NewStringValue(commitTimestamp)}}},
		}}}, d.key.cells()+d.time.cells())
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
	key := rowKey{table: f.table, parts: make([]*structpb.Value, len(f.table.key))}
	var err *schema.Error
	if w.Operation == schema.Delete {
		err = e.delete(w, f, &key)
	} else {
		err = e.write(w, f, &key)
	}
	switch {
	case err != nil:
		return err
	case len(e.wire) > e.limit:
		// Early, so that no record makes much more than what is refused.
		return e.refuse(schema.TooLarge, "more than %d bytes of mutations, the most in one commit of Spanner", e.limit)
	}
	if use == 0 {
		e.key = key.text()
	}
	return nil
}

// write encodes an insert, update, insertOrUpdate or replace of one row.
func (e *encoder) write(w *schema.RowChange, f *fitted, key *rowKey) *schema.Error {
	n := len(w.Columns) + len(w.Rest)
	r := &rowWriter{encoder: e, table: f.table, key: key,
		names: make([]string, 0, n), values: make([]*structpb.Value, 0, n)}
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
	m := &sppb.Mutation_Write{Table: f.table.wire, Columns: r.names, Values: []*structpb.ListValue{{Values: r.values}}}
	out := &sppb.Mutation{}
	switch w.Operation {
	case schema.InsertOrUpdate:
		out.Operation = &sppb.Mutation_InsertOrUpdate{InsertOrUpdate: m}
	case schema.Insert:
		out.Operation = &sppb.Mutation_Insert{Insert: m}
	case schema.Update:
		out.Operation = &sppb.Mutation_Update{Update: m}
	case schema.Replace:
		out.Operation = &sppb.Mutation_Replace{Replace: m}
	default:
		return e.refuse(schema.Internal, "table %s: operation %q", f.table.wire, w.Operation)
	}
	e.add(out, r.cells)
	return nil
}

// rowWriter gathers the columns of one row.
type rowWriter struct {
	*encoder
	table  *table
	key    *rowKey
	names  []string
	values []*structpb.Value
	cells  int
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
	r.names = append(r.names, col.name)
	r.values = append(r.values, v)
	r.cells += col.cells()
	if col.keyPart > 0 && c.Value.Kind != schema.CommitTimestamp {
		r.key.parts[col.keyPart-1] = v
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
func (e *encoder) value(tb *table, col *column, c *schema.Column) (*structpb.Value, *schema.Error) {
	if c.Err != nil {
		return nil, c.Err
	}
	v, bad := col.convert(c.Value, e.route.target.coerce)
	if bad != nil {
		err := e.refuse(bad.code, "table %s: column %s (%s): %s", tb.wire, col.name, col.typ, bad.detail)
		err.Pointer = c.Pointer
		return nil, err
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
func (e *encoder) delete(w *schema.RowChange, f *fitted, key *rowKey) *schema.Error {
	tb := f.table
	set := func(col *column, c *schema.Column) *schema.Error {
		if col == nil || col.keyPart == 0 || key.parts[col.keyPart-1] != nil {
			return nil
		}
		if c.Value.Kind == schema.CommitTimestamp {
			return e.refuse(schema.TypeMismatch, "table %s: column %s: a commit timestamp names no row to delete", tb.wire, col.name)
		}
		v, err := e.value(tb, col, c)
		key.parts[col.keyPart-1] = v
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
	for i, v := range key.parts {
		if v == nil {
			return e.refuse(schema.KeyPartMissing, "table %s: column %s, part of the primary key, has no value: nothing to delete by", tb.wire, tb.key[i].name)
		}
	}
	e.add(&sppb.Mutation{Operation: &sppb.Mutation_Delete_{Delete: &sppb.Mutation_Delete{
		Table: tb.wire, KeySet: &sppb.KeySet{Keys: []*structpb.ListValue{{Values: key.parts}}},
	}}}, tb.deleteCells())
	return nil
}

// Field numbers of google.spanner.v1; each fits a tag of one byte.
const (
	groupMutations = 1 // BatchWriteRequest.MutationGroup.mutations
	requestGroups  = 4 // BatchWriteRequest.mutation_groups
	commitMutation = 4 // CommitRequest.mutations
)

// add appends one mutation to the group.
func (e *encoder) add(m *sppb.Mutation, cells int) {
	e.wire = protowire.AppendTag(e.wire, groupMutations, protowire.BytesType)
	e.wire = protowire.AppendVarint(e.wire, uint64(proto.Size(m)))
	// It can't fail: texts are checked to be UTF-8, names come from the schema.
	e.wire, _ = proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(e.wire, m)
	e.cells += max(1, cells)
	e.count++
}

// rowKey gathers the primary key of the main row, as the key that orders entries.
type rowKey struct {
	table *table
	parts []*structpb.Value
}

// text is the key; "" when a part is missing, because the service makes it. Parts carry
// their length, so that no two keys look the same.
func (k *rowKey) text() string {
	b := append(make([]byte, 0, 64), k.table.wire...)
	for i, v := range k.parts {
		if v == nil || k.table.key[i].generated {
			return ""
		}
		b = appendKeyPart(b, v)
	}
	return string(b)
}

func appendKeyPart(b []byte, v *structpb.Value) []byte {
	b = append(b, 0)
	switch x := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		b = binary.AppendUvarint(append(b, 's'), uint64(len(x.StringValue)))
		return append(b, x.StringValue...)
	case *structpb.Value_NumberValue:
		return strconv.AppendFloat(append(b, 'n'), x.NumberValue+0, 'g', -1, 64) // -0 is 0
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(append(b, 'b'), x.BoolValue)
	default:
		return append(b, '0')
	}
}

// dedupKeySize is the size of a dedup table's key in bytes: the front of a SHA-256.
const dedupKeySize = 16

// dedupKey hashes what makes a record the same record. The route is part of it: another
// route that happens to use the same keys in the same table writes something else.
func dedupKey(route string, parts ...string) *structpb.Value {
	h := sha256.New()
	for _, p := range append([]string{route}, parts...) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	return structpb.NewStringValue(base64.StdEncoding.EncodeToString(h.Sum(nil)[:dedupKeySize]))
}

// decode gives the group's mutations back, without the dedup insert. Used where a
// request failed.
func (p *payload) decode() ([]*sppb.Mutation, error) {
	var g sppb.BatchWriteRequest_MutationGroup
	if err := proto.Unmarshal(p.wire, &g); err != nil {
		return nil, err
	}
	if p.dedup != nil {
		return g.Mutations[1:], nil
	}
	return g.Mutations, nil
}

// appendGroup appends the group as a field of a BatchWriteRequest.
func (p *payload) appendGroup(b []byte) []byte {
	b = protowire.AppendTag(b, requestGroups, protowire.BytesType)
	return protowire.AppendBytes(b, p.wire)
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
		b = protowire.AppendTag(b, commitMutation, protowire.BytesType)
		b = protowire.AppendBytes(b, m)
	}
	return b
}

// requestBytes is what the group weighs in a request of the process's write method.
func (p *payload) requestBytes(m WriteMethod) int64 {
	if m == Commit {
		return int64(len(p.wire))
	}
	return int64(1 + protowire.SizeBytes(len(p.wire)))
}
