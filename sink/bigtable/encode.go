package bigtable

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushsink/pushsink/internal/encoded"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// payload is an encoded MutateRowsRequest.Entry: field by field what the generated
// message would marshal to. The adapter's goroutine that holds the entry's request may
// write failedAt; nothing else changes after Encode.
type payload struct {
	wire  []byte
	muts  int // offset of the first mutation in wire: the row key stands before it
	route *Route
	table *table
	// failedAt is 1 + table.ensures at the entry's first failure for which an Ensure was
	// asked; 0 = none yet.
	failedAt uint64
}

// Encode makes the entry that writes m, the mutation of rec. The error is a
// [*schema.Error], or wraps [ErrTooManyTables]; any other is a fault of the caller's, not
// the record's.
func (r *Route) Encode(rec *schema.Record, m *schema.Mutation) (sink.Entry, error) {
	row := m.Bigtable
	if row == nil {
		return sink.Entry{}, fmt.Errorf("route %s: no Bigtable mutation", r.target.name)
	}
	if err := r.check(row); err != nil {
		return sink.Entry{}, err
	}
	tb, err := r.table(row)
	if err != nil {
		return sink.Entry{}, err
	}
	size := keySize(row.Key)
	p := &payload{muts: size, route: r, table: tb}
	for i := range row.Ops {
		size += encoded.Framed(encoded.Framed(opSize(&row.Ops[i])))
	}
	bytes := encoded.Framed(size)
	if total := bytes + headerSize(tb.dest, r.target.appProfile); total > r.sink.maxRequest {
		return sink.Entry{}, r.refuse(schema.TooLarge, fmt.Sprintf("the row's mutations make a request of %d bytes: the limit of Bigtable is %d (256 MiB)", total, r.sink.maxRequest))
	}
	wire := make([]byte, 0, size)
	wire = encoded.AppendField(wire, entryKey, row.Key)
	for i := range row.Ops {
		wire = appendOp(wire, &row.Ops[i])
	}
	p.wire = wire
	return sink.Entry{
		Dest:    tb.dest,
		Route:   r.writer,
		ID:      rec.ID,
		Key:     row.Key,
		Bytes:   int64(bytes),
		Cost:    len(row.Ops),
		Payload: p,
	}, nil
}

// check holds a row against the service's limits.
func (r *Route) check(row *schema.RowMutation) error {
	switch n := len(row.Key); {
	case n == 0:
		return r.refuse(schema.KeyPartMissing, "rowKey: empty")
	case n > maxKeyBytes:
		return r.refuse(schema.TooLarge, fmt.Sprintf("rowKey: %d bytes, the limit of Bigtable is %d (4 KiB)", n, maxKeyBytes))
	}
	switch n := len(row.Ops); {
	case n == 0:
		return r.refuse(schema.MissingField, "no mutation: nothing to write")
	case n > maxMutations:
		return r.refuse(schema.TooLarge, fmt.Sprintf("%d mutations in one record, the limit of Bigtable is %d", n, maxMutations))
	}
	for i := range row.Ops {
		op := &row.Ops[i]
		switch op.Kind {
		case schema.DeleteRow:
			continue
		case schema.SetCell, schema.DeleteColumn, schema.DeleteFamily:
		default:
			return fmt.Errorf("route %s: mutation of unknown kind %d", r.target.name, op.Kind)
		}
		if !validFamily(op.Family) {
			return r.refuse(schema.NoSuchFamily, "family: no family name (1 to 64 letters, digits, dots, hyphens, underscores)")
		}
		if op.Kind == schema.DeleteFamily {
			continue
		}
		if n := len(op.Column); n > maxQualifierBytes {
			return r.refuse(schema.TooLarge, fmt.Sprintf("column of family %s: a qualifier of %d bytes, the limit of Bigtable is %d (16 KiB)", op.Family, n, maxQualifierBytes))
		}
		if op.Kind == schema.DeleteColumn {
			continue
		}
		if n := len(op.Value); n > maxCellBytes {
			return r.refuse(schema.TooLarge, fmt.Sprintf("cell of family %s: %d bytes, the limit of Bigtable is %d (100 MB)", op.Family, n, maxCellBytes))
		}
		// 0 is a time nobody set and -1 asks for the server's clock, which would make
		// another version of the cell at every redelivery.
		if op.Micros <= 0 || op.Micros%1000 != 0 {
			return r.refuse(schema.TimestampOutOfRange, fmt.Sprintf("cell of family %s: the timestamp is missing, before 1970 or no whole millisecond", op.Family))
		}
	}
	return nil
}

func validFamily(f string) bool {
	if f == "" || len(f) > 64 {
		return false
	}
	for i := 0; i < len(f); i++ {
		switch c := f[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// Field numbers of google.bigtable.v2: MutateRowsRequest, its Entry, Mutation, and the
// members of the mutations. All are below 16, so a tag is one byte.
const (
	requestTable   = 1
	requestEntries = 2
	requestProfile = 3

	entryKey       = 1
	entryMutations = 2

	mutationSetCell      = 1
	mutationDeleteColumn = 2
	mutationDeleteFamily = 3
	mutationDeleteRow    = 4

	opFamily    = 1
	opQualifier = 2
	opMicros    = 3
	opValue     = 4
)

func keySize(key string) int { return encoded.Framed(len(key)) }

// opSize is the size of what stands inside the mutation's one member. Fields with a zero
// value are left out, as proto3 does.
func opSize(op *schema.Op) int {
	size := 0
	if op.Kind == schema.DeleteRow {
		return size
	}
	size += encoded.Framed(len(op.Family))
	if op.Kind == schema.DeleteFamily {
		return size
	}
	if op.Column != "" {
		size += encoded.Framed(len(op.Column))
	}
	if op.Kind == schema.DeleteColumn {
		return size
	}
	size += 1 + protowire.SizeVarint(uint64(op.Micros))
	if len(op.Value) > 0 {
		size += encoded.Framed(len(op.Value))
	}
	return size
}

func appendOp(b []byte, op *schema.Op) []byte {
	inner := opSize(op)
	b = encoded.AppendFrame(b, entryMutations, encoded.Framed(inner))
	var member protowire.Number
	switch op.Kind {
	case schema.SetCell:
		member = mutationSetCell
	case schema.DeleteColumn:
		member = mutationDeleteColumn
	case schema.DeleteFamily:
		member = mutationDeleteFamily
	case schema.DeleteRow:
		member = mutationDeleteRow
	}
	b = encoded.AppendFrame(b, member, inner)
	if op.Kind == schema.DeleteRow {
		return b
	}
	b = encoded.AppendField(b, opFamily, op.Family)
	if op.Kind == schema.DeleteFamily {
		return b
	}
	if op.Column != "" {
		b = encoded.AppendField(b, opQualifier, op.Column)
	}
	if op.Kind == schema.DeleteColumn {
		return b
	}
	b = protowire.AppendVarint(append(b, opMicros<<3|byte(protowire.VarintType)), uint64(op.Micros))
	if len(op.Value) > 0 {
		b = encoded.AppendField(b, opValue, op.Value)
	}
	return b
}

// headerSize is what a request to d weighs without entries: table and app profile.
func headerSize(d sink.Dest, appProfile string) int {
	size := encoded.Framed(len(d.Instance) + len(tablesInfix) + len(d.Table))
	if appProfile != "" {
		size += encoded.Framed(len(appProfile))
	}
	return size
}

// fields calls f with every length-delimited field of a message encoded here.
func fields(b []byte, f func(num protowire.Number, inner []byte)) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		if typ == protowire.BytesType {
			inner, n := protowire.ConsumeBytes(b)
			if n < 0 {
				return
			}
			f(num, inner)
			b = b[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return
		}
		b = b[n:]
	}
}

// each calls f with the family, qualifier and value of every mutation of the entry; nil
// where it has none. Used where a request failed.
func (p *payload) each(f func(family, qualifier, value []byte)) {
	fields(p.wire[p.muts:], func(_ protowire.Number, mutation []byte) {
		fields(mutation, func(_ protowire.Number, op []byte) {
			var family, qualifier, value []byte
			fields(op, func(num protowire.Number, inner []byte) {
				switch num {
				case opFamily:
					family = inner
				case opQualifier:
					qualifier = inner
				case opValue:
					value = inner
				}
			})
			f(family, qualifier, value)
		})
	})
}

// families lists those the entry's mutations name, each once, in order.
func (p *payload) families() []string {
	var fs []string
	seen := make(map[string]bool)
	p.each(func(family, _, _ []byte) {
		if family != nil && !seen[string(family)] {
			seen[string(family)] = true
			fs = append(fs, string(family))
		}
	})
	return fs
}
