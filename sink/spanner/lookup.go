package spanner

import (
	"context"
	"strings"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// lookup reads rows by primary key: several tables, each with the columns asked for.
type lookup struct {
	reads map[string]*tableRead
}

// tableRead is one read: of one table, and one list of columns after the primary key.
type tableRead struct {
	table   *table
	columns []*column
	keys    []*structpb.ListValue
	asked   map[string]bool
	rows    map[string][]*structpb.Value // by key; the values of columns
	err     error
}

// want asks for a row, and returns the read that will have it. A key that is nil asks
// for no row, only whether table and columns are there.
func (l *lookup) want(tb *table, columns []*column, key []*structpb.Value) *tableRead {
	var id strings.Builder
	id.WriteString(tb.wire)
	for _, c := range columns {
		id.WriteByte(0)
		id.WriteString(c.name)
	}
	if l.reads == nil {
		l.reads = make(map[string]*tableRead)
	}
	r := l.reads[id.String()]
	if r == nil {
		r = &tableRead{table: tb, columns: columns, asked: make(map[string]bool), rows: make(map[string][]*structpb.Value)}
		l.reads[id.String()] = r
	}
	if key == nil {
		return r
	}
	if text := keyText(tb, key); !r.asked[text] {
		r.asked[text] = true
		r.keys = append(r.keys, &structpb.ListValue{Values: key})
	}
	return r
}

// row is the row of key, nil when it is not there.
func (r *tableRead) row(key []*structpb.Value) []*structpb.Value {
	return r.rows[keyText(r.table, key)]
}

// run makes the reads, each strong and on its own.
func (l *lookup) run(ctx context.Context, c *client) {
	for _, r := range l.reads {
		r.err = c.readTable(ctx, r)
	}
}

func (c *client) readTable(ctx context.Context, r *tableRead) error {
	width := len(r.table.key) + len(r.columns)
	names := make([]string, 0, width)
	for _, col := range append(r.table.key[:len(r.table.key):len(r.table.key)], r.columns...) {
		names = append(names, col.name)
	}
	return c.inSession(ctx, func(session string) error {
		clear(r.rows)
		ctx, cancel := context.WithCancel(c.outgoing(ctx, session))
		defer cancel()
		stream, err := c.stub.StreamingRead(ctx, &sppb.ReadRequest{
			Session: session, Table: r.table.wire, Columns: names, KeySet: &sppb.KeySet{Keys: r.keys},
			RequestOptions: &sppb.RequestOptions{Priority: priorities[c.cfg.Priority]},
			// Strong, which is also the default: said because everything rests on it.
			Transaction: &sppb.TransactionSelector{Selector: &sppb.TransactionSelector_SingleUse{SingleUse: &sppb.TransactionOptions{
				Mode: &sppb.TransactionOptions_ReadOnly_{ReadOnly: &sppb.TransactionOptions_ReadOnly{
					TimestampBound: &sppb.TransactionOptions_ReadOnly_Strong{Strong: true},
				}},
			}}},
		})
		if err != nil {
			return err
		}
		n := len(r.table.key)
		return readRows(stream, width, func(v []*structpb.Value) {
			r.rows[keyText(r.table, v[:n])] = v[n:]
		})
	})
}

// keyText is a primary key as text, the same for what was sent and what is read.
func keyText(tb *table, key []*structpb.Value) string {
	var b []byte
	for i, v := range key {
		b = appendKeyPart(b, scalarOf(tb.key[i].typ.canonical(v)))
	}
	return string(b)
}

// canonical spells a value that was read the way convert does.
func (t columnType) canonical(v *structpb.Value) *structpb.Value {
	text, ok := v.GetKind().(*structpb.Value_StringValue)
	if !ok || t.array {
		return v
	}
	switch t.scalar {
	case typeNumeric, typePGNumeric:
		if d, ok := parseDecimal(text.StringValue); ok {
			return structpb.NewStringValue(d.String())
		}
	case typeTimestamp:
		if at, err := time.Parse(time.RFC3339Nano, text.StringValue); err == nil {
			return structpb.NewStringValue(at.UTC().Format(time.RFC3339Nano))
		}
	case typeUUID:
		return structpb.NewStringValue(strings.ToLower(text.StringValue))
	}
	return v
}

// same reports whether a column holds what was sent to it.
func (t columnType) same(sent, read *structpb.Value) bool {
	if t.array {
		a, isA := sent.GetKind().(*structpb.Value_ListValue)
		b, isB := read.GetKind().(*structpb.Value_ListValue)
		if !isA || !isB {
			return isNull(sent) && isNull(read)
		}
		x, y := a.ListValue.GetValues(), b.ListValue.GetValues()
		if len(x) != len(y) {
			return false
		}
		element := t
		element.array = false
		for i := range x {
			if !element.same(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	if isNull(sent) || isNull(read) {
		return isNull(sent) && isNull(read)
	}
	if t.scalar == typeJSON || t.scalar == typePGJSONB {
		return sameJSON(sent.GetStringValue(), read.GetStringValue())
	}
	sent, read = t.canonical(sent), t.canonical(read)
	switch a := sent.GetKind().(type) {
	case *structpb.Value_StringValue:
		b, ok := read.GetKind().(*structpb.Value_StringValue)
		return ok && a.StringValue == b.StringValue
	case *structpb.Value_BoolValue:
		b, ok := read.GetKind().(*structpb.Value_BoolValue)
		return ok && a.BoolValue == b.BoolValue
	case *structpb.Value_NumberValue:
		b, ok := read.GetKind().(*structpb.Value_NumberValue)
		return ok && (a.NumberValue == b.NumberValue || t.scalar == typeFloat32 && float32(a.NumberValue) == float32(b.NumberValue))
	}
	return false
}

func isNull(v *structpb.Value) bool {
	_, null := v.GetKind().(*structpb.Value_NullValue)
	return null
}
