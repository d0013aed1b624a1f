package spanner

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pushsink/pushsink/internal/encoded"
)

// value is a google.protobuf.Value on its way to the wire. The zero value is none at all.
type value struct {
	kind member
	bits uint64 // the double's, or 1 = true
	text string // the string; the encoded ListValue
}

// member says which field of google.protobuf.Value is set; it is the field's number.
type member protowire.Number

const (
	nullMember   member = 1
	numberMember member = 2
	stringMember member = 3
	boolMember   member = 4
	listMember   member = 6
)

// listValues is ListValue.values.
const listValues = 1

func nullValue() value            { return value{kind: nullMember} }
func numberValue(f float64) value { return value{kind: numberMember, bits: math.Float64bits(f)} }
func stringValue(s string) value  { return value{kind: stringMember, text: s} }
func boolValue(b bool) value      { return value{kind: boolMember, bits: protowire.EncodeBool(b)} }
func (v value) number() float64   { return math.Float64frombits(v.bits) }

// size is that of the message.
func (v value) size() int {
	switch v.kind {
	case numberMember:
		return 1 + 8
	case stringMember, listMember:
		return encoded.Framed(len(v.text))
	default:
		return 2
	}
}

// append appends the message.
func (v value) append(b []byte) []byte {
	switch v.kind {
	case numberMember:
		return protowire.AppendFixed64(append(b, byte(v.kind)<<3|byte(protowire.Fixed64Type)), v.bits)
	case stringMember, listMember:
		return encoded.AppendField(b, protowire.Number(v.kind), v.text)
	default:
		return append(b, byte(v.kind)<<3|byte(protowire.VarintType), byte(v.bits))
	}
}

// listSize is the size of a ListValue of list.
func listSize(list []value) int {
	size := 0
	for i := range list {
		size += encoded.Framed(list[i].size())
	}
	return size
}

// appendList appends the ListValue of list.
func appendList(b []byte, list []value) []byte {
	for i := range list {
		b = list[i].append(encoded.AppendFrame(b, listValues, list[i].size()))
	}
	return b
}

// listValue is list as one value.
func listValue(list []value) value {
	return value{kind: listMember, text: string(appendList(make([]byte, 0, listSize(list)), list))}
}

// scalarOf is v, which is no list, as it is sent.
func scalarOf(v *structpb.Value) value {
	switch x := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		return stringValue(x.StringValue)
	case *structpb.Value_NumberValue:
		return numberValue(x.NumberValue)
	case *structpb.Value_BoolValue:
		return boolValue(x.BoolValue)
	default:
		return nullValue()
	}
}
