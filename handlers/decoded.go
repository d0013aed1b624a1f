package handlers

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

// appendDecoded appends a cell's value as the JSON it was made of; ok is false when the bytes
// are not of that encoding. Numbers that JSON has no literal for (NaN, infinities) are strings.
func appendDecoded(b []byte, as schema.Encoding, v []byte) (_ []byte, ok bool) {
	switch as {
	case schema.AsString, schema.AsText:
		if !utf8.Valid(v) {
			return b, false
		}
		return appendString(b, v), true
	case schema.AsBytes:
		return appendBase64(b, v), true
	case schema.AsJSON:
		j := jsontext.Value(v)
		if !j.IsValid(jsontext.AllowDuplicateNames(true)) {
			return b, false
		}
		// One line per row: line breaks inside the text go.
		return compacted(b, v), true
	case schema.AsInt64:
		if len(v) != 8 {
			return b, false
		}
		return strconv.AppendInt(b, int64(binary.BigEndian.Uint64(v)), 10), true
	case schema.AsInt32:
		if len(v) != 4 {
			return b, false
		}
		return strconv.AppendInt(b, int64(int32(binary.BigEndian.Uint32(v))), 10), true
	case schema.AsFloat64:
		if len(v) != 8 {
			return b, false
		}
		return appendFloat(b, math.Float64frombits(binary.BigEndian.Uint64(v)), 64), true
	case schema.AsFloat32:
		if len(v) != 4 {
			return b, false
		}
		return appendFloat(b, float64(math.Float32frombits(binary.BigEndian.Uint32(v))), 32), true
	case schema.AsBool:
		if len(v) != 1 || v[0] != 0 && v[0] != 0xFF {
			return b, false
		}
		return strconv.AppendBool(b, v[0] == 0xFF), true
	default:
		return b, false
	}
}

func appendFloat(b []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		b = append(b, '"')
		b = strconv.AppendFloat(b, f, 'g', -1, bits)
		return append(b, '"')
	}
	// 'g' keeps the sign of zero and is valid JSON: 1e+06 has digits on both sides.
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

// compacted appends JSON text without the white space between its tokens; every literal stays
// as it was written.
func compacted(b, text []byte) []byte {
	out, err := jsontext.AppendFormat(b, text, jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return appendString(b, text)
	}
	return out
}
