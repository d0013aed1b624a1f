package schema

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"
)

// encodings says which static types an encoding takes.
var encodings = map[Encoding]wanted{
	AsString:  {[]types.Kind{types.StringKind}, "a string"},
	AsText:    {[]types.Kind{types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind}, "a number or a bool"},
	AsBytes:   {[]types.Kind{types.BytesKind, types.StringKind}, "bytes, or a string in base64"},
	AsJSON:    wantAny,
	AsInt64:   {numeric, "a number"},
	AsInt32:   {numeric, "a number"},
	AsFloat64: {numeric, "a number"},
	AsFloat32: {numeric, "a number"},
	AsBool:    {[]types.Kind{types.BoolKind}, "a bool"},
}

var numeric = []types.Kind{types.IntKind, types.UintKind, types.DoubleKind}

// encodable is encodings with null allowed: each cell has a rule for it.
func encodable(as Encoding) wanted {
	w := encodings[as]
	if w.kinds != nil {
		w.kinds = append(slices.Clone(w.kinds), types.NullTypeKind)
	}
	return w
}

// encode appends v as a cell's value. v is neither absent nor null.
func encode(dst []byte, s *state, v value, as Encoding) ([]byte, error) {
	switch as {
	case AsString:
		if v.kind == instant {
			return dst, &Error{Code: TypeMismatch, Detail: "is timestamp, not string: string() makes text of it"}
		}
		if v.kind != text {
			return dst, mismatch(v, "string")
		}
		if v.origin == 0 && !utf8.ValidString(v.text) { // an attribute that came as a header
			return dst, &Error{Code: TypeMismatch, Detail: "is text that is not UTF-8"}
		}
		return append(dst, v.text...), nil
	case AsText:
		return appendText(dst, v)
	case AsBytes:
		return appendBytes(dst, v)
	case AsJSON:
		return appendJSON(dst, s, v)
	case AsInt64:
		i, err := asInt(v, 64)
		return binary.BigEndian.AppendUint64(dst, uint64(i)), err
	case AsInt32:
		i, err := asInt(v, 32)
		return binary.BigEndian.AppendUint32(dst, uint32(i)), err
	case AsFloat64:
		f, err := asFloat(v, 64)
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(f)), err
	case AsFloat32:
		f, err := asFloat(v, 32)
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(f))), err
	case AsBool:
		if v.kind != boolean {
			return dst, mismatch(v, "bool")
		}
		return append(dst, byte(-int8(v.bits))), nil
	default:
		panic("schema: no encoding " + string(as))
	}
}

func mismatch(v value, want string) *Error {
	if v.kind == opaque {
		return &Error{Code: TypeMismatch, Detail: "is " + v.kind.String()}
	}
	return &Error{Code: TypeMismatch, Detail: fmt.Sprintf("is %s, not %s", v.kind, want)}
}

func appendText(dst []byte, v value) ([]byte, error) {
	ok := true
	switch v.kind {
	case boolean:
		return strconv.AppendBool(dst, v.bits == 1), nil
	case integer, unsigned:
		return appendInt(dst, v), nil
	case literal:
		dst, ok = appendPlain(dst, v.text)
	case double:
		dst, ok = appendDouble(dst, v.float())
	default:
		return dst, mismatch(v, "a number or bool")
	}
	if !ok {
		return dst, &Error{Code: TypeMismatch, Detail: fmt.Sprintf("is a number that plain decimal cannot show in %d characters", MaxNumberText)}
	}
	return dst, nil
}

// appendBytes takes bytes as they are and a string as base64, standard or URL-safe, with
// or without padding.
func appendBytes(dst []byte, v value) ([]byte, error) {
	switch v.kind {
	case octets:
		return append(dst, v.text...), nil
	case text:
		enc := base64.RawStdEncoding
		if strings.ContainsAny(v.text, "-_") {
			enc = base64.RawURLEncoding
		}
		digits := v.text
		if len(digits)%4 == 0 {
			digits = strings.TrimSuffix(strings.TrimSuffix(digits, "="), "=")
		}
		// The decoder skips line breaks, which are no base64 of a JSON producer.
		out, err := enc.Strict().AppendDecode(dst, []byte(digits))
		if err != nil || strings.ContainsAny(digits, "\r\n") {
			return dst, &Error{Code: TypeMismatch, Detail: "is not base64"}
		}
		return out, nil
	default:
		return dst, mismatch(v, "a base64 string or bytes")
	}
}

// asInt is v as an integer of so many bits, exactly.
func asInt(v value, size int) (int64, error) {
	var i int64
	switch v.kind {
	case integer:
		i = v.int()
	case unsigned:
		if v.bits > math.MaxInt64 {
			return 0, outside(size)
		}
		i = int64(v.bits)
	case literal:
		digits, ok := appendPlain(nil, v.text)
		if ok && strings.IndexByte(string(digits), '.') >= 0 {
			return 0, &Error{Code: TypeMismatch, Detail: "is not an integer"}
		}
		if string(digits) != "0" {
			return 0, outside(size)
		}
	case double:
		f := v.float()
		if f != math.Trunc(f) {
			return 0, &Error{Code: TypeMismatch, Detail: "is not an integer"}
		}
		if f < -1<<63 || f >= 1<<63 {
			return 0, outside(size)
		}
		i = int64(f)
	default:
		return 0, mismatch(v, "an integer")
	}
	if size == 32 && int64(int32(i)) != i {
		return 0, outside(size)
	}
	return i, nil
}

func outside(size int) *Error {
	return &Error{Code: TypeMismatch, Detail: fmt.Sprintf("is an integer outside int%d", size)}
}

// asFloat is the float of so many bits that is nearest to v. What it cannot hold at all
// is refused.
func asFloat(v value, size int) (float64, error) {
	var f float64
	switch v.kind {
	case integer:
		f = float64(v.int())
		if size == 32 {
			f = float64(float32(v.int()))
		}
	case unsigned:
		f = float64(v.bits)
		if size == 32 {
			f = float64(float32(v.bits))
		}
	case literal:
		f, _ = strconv.ParseFloat(v.text, size)
	case double:
		f = v.float()
		if v.origin > 0 && (math.IsInf(f, 0) || math.IsNaN(f)) {
			return f, nil // what was sent, not what a computation ran into
		}
		if size == 32 {
			f = float64(float32(f))
		}
	default:
		return 0, mismatch(v, "a number")
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, &Error{Code: TypeMismatch, Detail: fmt.Sprintf("is a number outside float%d", size)}
	}
	return f, nil
}

// appendJSON appends v as JSON: the input's own text where it is a part of the payload.
func appendJSON(dst []byte, s *state, v value) ([]byte, error) {
	if v.origin > 0 {
		return append(dst, s.tree.raw(v.origin-1)...), nil
	}
	switch v.kind {
	case null:
		return append(dst, "null"...), nil
	case boolean:
		return strconv.AppendBool(dst, v.bits == 1), nil
	case integer, unsigned:
		return appendInt(dst, v), nil
	case literal:
		return append(dst, v.text...), nil
	case double:
		if f := v.float(); math.IsInf(f, 0) || math.IsNaN(f) {
			return dst, &Error{Code: TypeMismatch, Detail: "is not a finite number, so no JSON"}
		}
		return appendJSONFloat(dst, v.float(), 64), nil
	case text:
		return appendJSONString(dst, v.text)
	case octets:
		return appendJSONString(dst, base64.StdEncoding.EncodeToString([]byte(v.text)))
	case instant:
		return appendJSONString(dst, v.time.UTC().Format(time.RFC3339Nano))
	case list, object:
		return appendJSONRef(dst, v.ref)
	default:
		return dst, mismatch(v, "a value with a form in JSON")
	}
}

func appendJSONFloat(dst []byte, f float64, size int) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, size)
}

func appendJSONString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, &Error{Code: TypeMismatch, Detail: "is text that is not UTF-8, so no JSON"}
	}
	return jsontext.AppendQuote(dst, s)
}

// appendJSONRef appends a value of the expression language as JSON. Members of maps that
// an expression made go in the order of their names.
func appendJSONRef(dst []byte, v ref.Val) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case treeObject:
		return appendMade(dst, v.s.tree.raw(v.node))
	case treeList:
		return appendMade(dst, v.s.tree.raw(v.node))
	case *types.Optional:
		if !v.HasValue() {
			return append(dst, "null"...), nil
		}
		return appendJSONRef(dst, v.GetValue())
	case traits.Mapper:
		dst = append(dst, '{')
		names, err := memberNames(v)
		if err != nil {
			return dst, err
		}
		for i, name := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSONString(dst, name); err != nil {
				return dst, err
			}
			if dst, err = appendJSONRef(append(dst, ':'), v.Get(types.String(name))); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case traits.Lister:
		dst = append(dst, '[')
		for it, first := v.Iterator(), true; it.HasNext() == types.True; first = false {
			if !first {
				dst = append(dst, ',')
			}
			if dst, err = appendJSONRef(dst, it.Next()); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	default:
		if len(dst) > maxText {
			return dst, tooLong("json")
		}
		return appendJSON(dst, nil, fromRef(v))
	}
}

// appendMade adds a part of the payload to JSON that an expression made, which may hold
// the part many times.
func appendMade(dst []byte, raw string) ([]byte, error) {
	if len(dst) > 0 && len(dst)+len(raw) > maxText {
		return dst, tooLong("json")
	}
	return append(dst, raw...), nil
}

// memberNames are the names of a map that an expression made, sorted.
func memberNames(m traits.Mapper) ([]string, error) {
	var names []string
	for it := m.Iterator(); it.HasNext() == types.True; {
		name, ok := it.Next().(types.String)
		if !ok {
			return nil, &Error{Code: TypeMismatch, Detail: "is a map with keys that are no strings"}
		}
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names, nil
}
