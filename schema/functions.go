package schema

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
)

// ReverseMillis is 9223372036854775807 - Unix milliseconds, in 19 digits: row keys made
// with it sort the newest first.
func reverseMillis(ms int64) (string, error) {
	if ms < 0 {
		return "", &Error{Code: TimestampOutOfRange, Detail: "reverseMillis: the time is before 1970"}
	}
	digits := strconv.FormatInt(math.MaxInt64-ms, 10)
	return "0000000000000000000"[len(digits):] + digits, nil
}

// date is YYYYMMDD in UTC.
func date(t time.Time) (string, error) {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return "", &Error{Code: TimestampOutOfRange, Detail: "date: the year is not within 0 and 9999"}
	}
	return t.Format("20060102"), nil
}

// hash is xxHash64 (seed 0) of the UTF-8 or the bytes, modulo buckets.
func hash(s string, buckets int64) (int64, error) {
	if buckets < 1 {
		return 0, &Error{Code: TypeMismatch, Detail: "hash: buckets must be at least 1"}
	}
	return int64(xxhash.Sum64String(s) % uint64(buckets)), nil
}

// pad is a number with zeros in front up to width characters; a longer one stays whole.
func pad(digits string, width int64) (string, error) {
	if strings.HasPrefix(digits, "-") {
		return "", &Error{Code: TypeMismatch, Detail: "pad: the number is negative"}
	}
	if width < 0 || width > MaxRowKey {
		return "", &Error{Code: TypeMismatch, Detail: fmt.Sprintf("pad: width must be within 0 and %d", MaxRowKey)}
	}
	if n := int(width) - len(digits); n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	return digits, nil
}

// uuidOf is the UUIDv5 of s in the OID namespace (RFC 9562, 6.6), in lower case.
func uuidOf(s string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(s)).String()
}

func celResult[T any](wrap func(T) ref.Val, v T, err error) ref.Val {
	if err != nil {
		return types.WrapErr(err)
	}
	return wrap(v)
}

func celString(s string) ref.Val { return types.String(s) }
func celInt(i int64) ref.Val     { return types.Int(i) }

// functions declares what the expression language has beyond CEL's own libraries. Where
// a time is wanted, an int means milliseconds since 1970.
func functions() []cel.EnvOption {
	millis := func(v ref.Val) int64 { return int64(v.(types.Int)) }
	return []cel.EnvOption{
		cel.Function("reverseMillis",
			cel.Overload("reverse_millis_timestamp", []*cel.Type{cel.TimestampType}, cel.StringType,
				cel.UnaryBinding(func(v ref.Val) ref.Val {
					s, err := reverseMillis(v.(types.Timestamp).UnixMilli())
					return celResult(celString, s, err)
				})),
			cel.Overload("reverse_millis_int", []*cel.Type{cel.IntType}, cel.StringType,
				cel.UnaryBinding(func(v ref.Val) ref.Val {
					s, err := reverseMillis(millis(v))
					return celResult(celString, s, err)
				}))),
		cel.Function("date",
			cel.Overload("date_timestamp", []*cel.Type{cel.TimestampType}, cel.StringType,
				cel.UnaryBinding(func(v ref.Val) ref.Val {
					s, err := date(v.(types.Timestamp).Time)
					return celResult(celString, s, err)
				})),
			cel.Overload("date_int", []*cel.Type{cel.IntType}, cel.StringType,
				cel.UnaryBinding(func(v ref.Val) ref.Val {
					s, err := date(time.UnixMilli(millis(v)))
					return celResult(celString, s, err)
				}))),
		cel.Function("hash",
			cel.Overload("hash_string", []*cel.Type{cel.StringType, cel.IntType}, cel.IntType,
				cel.BinaryBinding(func(v, buckets ref.Val) ref.Val {
					n, err := hash(string(v.(types.String)), millis(buckets))
					return celResult(celInt, n, err)
				})),
			cel.Overload("hash_bytes", []*cel.Type{cel.BytesType, cel.IntType}, cel.IntType,
				cel.BinaryBinding(func(v, buckets ref.Val) ref.Val {
					n, err := hash(alias(v.(types.Bytes)), millis(buckets))
					return celResult(celInt, n, err)
				}))),
		cel.Function("pad",
			cel.Overload("pad_int", []*cel.Type{cel.IntType, cel.IntType}, cel.StringType,
				cel.BinaryBinding(func(v, width ref.Val) ref.Val {
					s, err := pad(strconv.FormatInt(millis(v), 10), millis(width))
					return celResult(celString, s, err)
				})),
			cel.Overload("pad_uint", []*cel.Type{cel.UintType, cel.IntType}, cel.StringType,
				cel.BinaryBinding(func(v, width ref.Val) ref.Val {
					s, err := pad(strconv.FormatUint(uint64(v.(types.Uint)), 10), millis(width))
					return celResult(celString, s, err)
				}))),
		cel.Function("uuid",
			cel.Overload("uuid_string", []*cel.Type{cel.StringType}, cel.StringType,
				cel.UnaryBinding(func(v ref.Val) ref.Val { return types.String(uuidOf(string(v.(types.String)))) }))),
		cel.Function("json",
			cel.Overload("json_dyn", []*cel.Type{cel.DynType}, cel.StringType,
				cel.UnaryBinding(func(v ref.Val) ref.Val {
					b, err := appendJSONRef(nil, v)
					return celResult(celString, string(b), err)
				}))),
		cel.Function(isNullFunction,
			cel.Overload(isNullFunction, []*cel.Type{cel.DynType, cel.StringType}, cel.BoolType,
				cel.BinaryBinding(isNull))),
	}
}

// isNullFunction answers x.name == null where x is a variable of an expression's own
// (in data.list.exists(x, x.name == null)). Expressions cannot call it by this name.
const isNullFunction = "@isNull"

func isNull(object, name ref.Val) ref.Val {
	o, ok := object.(treeObject)
	if !ok {
		return types.NewErr("no such overload")
	}
	j := o.s.tree.member(o.node, string(name.(types.String)))
	if j < 0 {
		return types.WrapErr(&Error{Code: MissingField, Detail: "member " + quoteShort(string(name.(types.String))) + " is absent"})
	}
	return types.Bool(o.s.tree.nodes[j].kind == null)
}
