package schema

import (
	"fmt"
	"math"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
)

// ValueKind is what a Value is.
type ValueKind uint8

const (
	Absent          ValueKind = iota // no value: the column is left alone
	Null                             // JSON null
	Bool                             // Bits 0 or 1
	Int                              // Bits as int64
	Uint                             // Bits as uint64, above the largest int64
	Number                           // Text: the literal of any other JSON number
	Double                           // Bits as float64, computed; may be NaN or infinite
	String                           // Text
	Bytes                            // Text holds the bytes
	Timestamp                        // Time
	List                             // Items
	Object                           // JSON alone
	CommitTimestamp                  // the commit's time, where the column allows it
)

// Value is a column's value, exact, before it has the column's type.
type Value struct {
	Kind  ValueKind
	Bits  uint64
	Text  string
	Time  time.Time
	Items []Value
	// JSON is the value's JSON: the input's own text where it is a part of the payload.
	// Empty for the computed scalars, which have only one spelling.
	JSON string
}

func (v Value) Int() int64     { return int64(v.Bits) }
func (v Value) Float() float64 { return math.Float64frombits(v.Bits) }

// String names the kind as messages call it.
func (k ValueKind) String() string {
	return [...]string{"absent", "null", "bool", "int", "uint", "number", "double", "string", "bytes",
		"timestamp", "list", "object", "commit timestamp"}[k]
}

var valueKinds = [...]ValueKind{
	absent: Absent, null: Null, boolean: Bool, integer: Int, unsigned: Uint, literal: Number, double: Double,
	text: String, octets: Bytes, instant: Timestamp, list: List, object: Object, commitTS: CommitTimestamp,
}

// export makes out of v, for a mutation. Parts of the payload need no copy: a Spanner mapping reads
// a payload of its own (Mapping.Apply).
func (s *state) export(v value, out *Value) error {
	if v.kind == opaque {
		return mismatch(v, "a value that a column can hold")
	}
	if s.exported++; s.exported > MaxValues {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("makes a list of more than %d values", MaxValues)}
	}
	out.Kind, out.Bits, out.Text, out.Time = valueKinds[v.kind], v.bits, v.text, v.time
	if v.kind == octets {
		out.Text = string([]byte(v.text))
	}
	if v.origin > 0 {
		out.JSON = s.tree.raw(v.origin - 1)
	}
	switch v.kind {
	case list:
		return s.exportList(v, out)
	case object:
		if v.origin == 0 {
			b, err := appendJSONRef(nil, v.ref)
			out.JSON = string(b)
			return err
		}
	}
	return nil
}

func (s *state) exportList(v value, out *Value) error {
	if v.origin > 0 {
		first, count := s.tree.nodes[v.origin-1].children()
		out.Items = make([]Value, count)
		for i := range count {
			if err := s.export(s.tree.value(first+i), &out.Items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	b, err := appendJSONRef(nil, v.ref)
	if err != nil {
		return err
	}
	out.JSON = string(b)
	for it := v.ref.(traits.Lister).Iterator(); it.HasNext() == types.True; {
		var item Value
		if err := s.export(fromRef(it.Next()), &item); err != nil {
			return err
		}
		out.Items = append(out.Items, item)
	}
	return nil
}

// AppendJSON appends v as JSON.
func (v Value) AppendJSON(dst []byte) ([]byte, error) {
	if v.JSON != "" {
		return append(dst, v.JSON...), nil
	}
	switch v.Kind {
	case CommitTimestamp:
		return appendJSONString(dst, "spanner.commit_timestamp()")
	case Double:
		return append(dst, floatJSON(v.Float(), 64)...), nil
	default:
		for k, exported := range valueKinds {
			if exported == v.Kind {
				return appendJSON(dst, nil, value{kind: kind(k), bits: v.Bits, text: v.Text, time: v.Time})
			}
		}
		return dst, mismatch(value{}, "a value")
	}
}
