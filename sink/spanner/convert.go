package spanner

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pushsink/pushsink/schema"
)

// commitTimestamp is what the service replaces by the commit's time.
const commitTimestamp = "spanner.commit_timestamp()"

// fault is why a value does not go into a column. Its text shows no value.
type fault struct {
	code   schema.Code
	detail string
}

func mismatch(format string, args ...any) *fault {
	return &fault{schema.TypeMismatch, fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) *fault {
	return &fault{schema.TooLarge, fmt.Sprintf(format, args...)}
}

// convert makes the wire value of v for col: exactly, in one spelling per value, or not
// at all.
func (col *column) convert(v *schema.Value, coerce bool) (value, *fault) {
	switch {
	case v.Kind == schema.Null:
		return nullValue(), nil
	case v.Kind == schema.CommitTimestamp:
		if !col.commitTime {
			return value{}, mismatch("the column does not take the commit timestamp")
		}
		return stringValue(commitTimestamp), nil
	case !col.typ.array:
		return col.typ.one(v, coerce)
	}
	if v.Kind != schema.List {
		return value{}, mismatch("%s, want a list", v.Kind)
	}
	if n := col.typ.vector; n > 0 && len(v.Items) != n {
		return value{}, mismatch("a list of %d elements, want %d (vector_length)", len(v.Items), n)
	}
	list := make([]value, len(v.Items))
	for i := range v.Items {
		e := &v.Items[i]
		if e.Kind == schema.Null {
			list[i] = nullValue()
			continue
		}
		one, bad := col.typ.one(e, coerce)
		if bad != nil {
			return value{}, &fault{bad.code, fmt.Sprintf("element %d: %s", i, bad.detail)}
		}
		list[i] = one
	}
	return listValue(list), nil
}

// one converts a value that is not NULL to the column's type, or to its elements'.
func (t columnType) one(v *schema.Value, coerce bool) (value, *fault) {
	switch t.scalar {
	case typeBool:
		return toBool(v, coerce)
	case typeInt64:
		return toInt64(v, coerce)
	case typeFloat64:
		return toFloat(v, coerce, 64)
	case typeFloat32:
		return toFloat(v, coerce, 32)
	case typeNumeric:
		return toNumeric(v, coerce, numericWhole, numericScale)
	case typePGNumeric:
		return toNumeric(v, coerce, pgNumericWhole, pgNumericScale)
	case typeString:
		return toString(v, coerce, t.limit)
	case typeBytes:
		return toBytes(v, t.limit)
	case typeDate:
		return toDate(v, coerce)
	case typeTimestamp:
		return toTimestamp(v)
	case typeJSON, typePGJSONB:
		return toJSON(v)
	case typeUUID:
		return toUUID(v)
	default:
		return value{}, mismatch("columns of this type are not written")
	}
}

func toBool(v *schema.Value, coerce bool) (value, *fault) {
	switch {
	case v.Kind == schema.Bool:
		return boolValue(v.Bits != 0), nil
	case coerce && v.Kind == schema.String && (v.Text == "true" || v.Text == "false"):
		return boolValue(v.Text == "true"), nil
	}
	return value{}, mismatch("%s, want a bool", v.Kind)
}

func toInt64(v *schema.Value, coerce bool) (value, *fault) {
	switch v.Kind {
	case schema.Int:
		return stringValue(strconv.FormatInt(int64(v.Bits), 10)), nil
	case schema.Uint:
		return value{}, mismatch("above the largest INT64")
	case schema.Number:
		return value{}, mismatch("not an integer within INT64")
	case schema.String:
		if !coerce {
			break
		}
		d, ok := parseDecimal(v.Text)
		if !ok || d.scale() > 0 || d.wholeDigits() > 19 {
			return value{}, mismatch("a string that is no integer within INT64")
		}
		n, err := strconv.ParseInt(d.String(), 10, 64)
		if err != nil {
			return value{}, mismatch("a string that is no integer within INT64")
		}
		return stringValue(strconv.FormatInt(n, 10)), nil
	}
	return value{}, mismatch("%s, want an integer", v.Kind)
}

// toFloat gives the nearest number that the type has: that is what the type means.
func toFloat(v *schema.Value, coerce bool, bits int) (value, *fault) {
	var f float64
	switch v.Kind {
	case schema.Int, schema.Uint:
		// Straight to the type: going through a double would round twice.
		switch {
		case v.Kind == schema.Int && bits == 32:
			f = float64(float32(int64(v.Bits)))
		case v.Kind == schema.Int:
			f = float64(int64(v.Bits))
		case bits == 32:
			f = float64(float32(v.Bits))
		default:
			f = float64(v.Bits)
		}
	case schema.Double:
		f = v.Float()
	case schema.String:
		if !coerce {
			return value{}, mismatch("string, want a number")
		}
		switch v.Text {
		case "NaN", "Infinity", "-Infinity":
			return stringValue(v.Text), nil
		}
		if _, ok := parseDecimal(v.Text); !ok {
			return value{}, mismatch("a string that is no number")
		}
		fallthrough
	case schema.Number:
		var err error
		if f, err = strconv.ParseFloat(v.Text, bits); err != nil {
			return value{}, mismatch("outside the range of FLOAT%d", bits)
		}
	default:
		return value{}, mismatch("%s, want a number", v.Kind)
	}
	switch {
	case math.IsNaN(f):
		return stringValue("NaN"), nil
	case math.IsInf(f, 1):
		return stringValue("Infinity"), nil
	case math.IsInf(f, -1):
		return stringValue("-Infinity"), nil
	}
	if bits == 32 {
		narrow := float32(f)
		if math.IsInf(float64(narrow), 0) {
			return value{}, mismatch("outside the range of FLOAT32")
		}
		f = float64(narrow)
	}
	return numberValue(f), nil
}

func toNumeric(v *schema.Value, coerce bool, whole, scale int) (value, *fault) {
	var d decimal
	ok := true
	switch v.Kind {
	case schema.Int:
		d, ok = parseDecimal(strconv.FormatInt(int64(v.Bits), 10))
	case schema.Uint:
		d, ok = parseDecimal(strconv.FormatUint(v.Bits, 10))
	case schema.Number:
		d, ok = parseDecimal(v.Text)
	case schema.Double:
		// A computed 0.1 is no tenth, and writing one would be a guess.
		d, ok = exactDecimal(v.Float())
	case schema.String:
		if !coerce {
			return value{}, mismatch("string, want a number")
		}
		if d, ok = parseDecimal(v.Text); !ok {
			return value{}, mismatch("a string that is no number")
		}
	default:
		return value{}, mismatch("%s, want a number", v.Kind)
	}
	switch {
	case !ok:
		return value{}, mismatch("not a finite number")
	case d.wholeDigits() > whole:
		return value{}, mismatch("%d digits before the point, the type holds %d", d.wholeDigits(), whole)
	case d.scale() > scale:
		return value{}, mismatch("%d digits behind the point, the type holds %d and nothing is rounded", d.scale(), scale)
	}
	return stringValue(d.String()), nil
}

// toString takes text; coerce adds numbers, bools, times and bytes that are UTF-8.
func toString(v *schema.Value, coerce bool, limit int) (value, *fault) {
	text := v.Text
	switch v.Kind {
	case schema.String:
	case schema.Int:
		text = strconv.FormatInt(int64(v.Bits), 10)
	case schema.Uint:
		text = strconv.FormatUint(v.Bits, 10)
	case schema.Number, schema.Bytes:
	case schema.Double:
		text = strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case schema.Bool:
		text = strconv.FormatBool(v.Bits != 0)
	case schema.Timestamp:
		var bad *fault
		if text, bad = formatTime(v.Time); bad != nil {
			return value{}, bad
		}
	default:
		return value{}, mismatch("%s, want a string", v.Kind)
	}
	if v.Kind != schema.String && !coerce {
		return value{}, mismatch("%s, want a string", v.Kind)
	}
	if !utf8.ValidString(text) {
		return value{}, mismatch("not valid UTF-8")
	}
	if limit == 0 {
		limit = maxStringChars
	}
	if len(text) > limit { // else it can't have as many characters
		if n := utf8.RuneCountInString(text); n > limit {
			return value{}, tooLarge("%d characters, the column holds %d", n, limit)
		}
	}
	if len(text) > maxCellBytes {
		return value{}, tooLarge("%d bytes, a column holds %d", len(text), maxCellBytes)
	}
	return stringValue(text), nil
}

// toBytes takes bytes, and strings as base64: standard or URL-safe, padded or not.
func toBytes(v *schema.Value, limit int) (value, *fault) {
	var raw []byte
	switch v.Kind {
	case schema.Bytes:
		raw = []byte(v.Text)
	case schema.String:
		var ok bool
		if raw, ok = decodeBase64(v.Text); !ok {
			return value{}, mismatch("a string that is not base64")
		}
	default:
		return value{}, mismatch("%s, want bytes or a base64 string", v.Kind)
	}
	if limit == 0 {
		limit = maxCellBytes
	}
	if len(raw) > limit {
		return value{}, tooLarge("%d bytes, the column holds %d", len(raw), limit)
	}
	return stringValue(base64.StdEncoding.EncodeToString(raw)), nil
}

func decodeBase64(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") { // the decoder would skip them
		return nil, false
	}
	body := strings.TrimRight(text, "=")
	if pad := len(text) - len(body); pad > 0 && (pad > 2 || len(text)%4 != 0) {
		return nil, false
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(body, "-_") {
		encoding = base64.RawURLEncoding
	}
	raw, err := encoding.Strict().DecodeString(body)
	return raw, err == nil
}

// toDate takes YYYY-MM-DD; coerce adds a timestamp's date in UTC.
func toDate(v *schema.Value, coerce bool) (value, *fault) {
	switch {
	case v.Kind == schema.String:
		if len(v.Text) != len(time.DateOnly) {
			return value{}, mismatch("a string that is no date of the form YYYY-MM-DD")
		}
		day, err := time.Parse(time.DateOnly, v.Text)
		if err != nil || day.Year() < 1 {
			return value{}, mismatch("a string that is no date of the form YYYY-MM-DD")
		}
		return stringValue(v.Text), nil
	case v.Kind == schema.Timestamp && coerce:
		day := v.Time.UTC()
		if y := day.Year(); y < 1 || y > 9999 {
			return value{}, outOfRange()
		}
		return stringValue(day.Format(time.DateOnly)), nil
	}
	return value{}, mismatch("%s, want a date of the form YYYY-MM-DD", v.Kind)
}

func outOfRange() *fault {
	return &fault{schema.TimestampOutOfRange, "outside the years 1 to 9999"}
}

func toTimestamp(v *schema.Value) (value, *fault) {
	at := v.Time
	switch v.Kind {
	case schema.Timestamp:
	case schema.String:
		var bad *fault
		if at, bad = parseTime(v.Text); bad != nil {
			return value{}, bad
		}
	default:
		return value{}, mismatch("%s, want a timestamp or an RFC 3339 string", v.Kind)
	}
	text, bad := formatTime(at)
	if bad != nil {
		return value{}, bad
	}
	return stringValue(text), nil
}

// parseTime reads RFC 3339 with an upper-case T, and Z or an offset. The library's parser
// also takes a comma for the point, an hour of one digit and an offset of a day, which nothing
// else does.
func parseTime(text string) (time.Time, *fault) {
	const shape = "2006-01-02T15:04:05"
	if len(text) < len(shape)+1 || strings.IndexByte(text, 'T') != 10 || text[13] != ':' || text[16] != ':' {
		return time.Time{}, noTimestamp()
	}
	rest := text[len(shape):]
	if frac, ok := strings.CutPrefix(rest, "."); ok {
		n := 0
		for n < len(frac) && '0' <= frac[n] && frac[n] <= '9' {
			n++
		}
		if len(strings.TrimRight(frac[:n], "0")) > 9 {
			return time.Time{}, mismatch("finer than a nanosecond, and nothing is rounded")
		}
		if n == 0 {
			return time.Time{}, noTimestamp()
		}
		rest = frac[n:]
	}
	if rest != "Z" && (len(rest) != 6 || rest[0] != '+' && rest[0] != '-' || rest[1:3] > "23" || rest[4] > '5') {
		return time.Time{}, noTimestamp()
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, noTimestamp()
	}
	return at, nil
}

func noTimestamp() *fault {
	return mismatch("a string that is no RFC 3339 timestamp with upper-case T, and Z or an offset")
}

func formatTime(at time.Time) (string, *fault) {
	at = at.UTC()
	if y := at.Year(); y < 1 || y > 9999 {
		return "", outOfRange()
	}
	return at.Format(time.RFC3339Nano), nil
}

func toUUID(v *schema.Value) (value, *fault) {
	if v.Kind != schema.String {
		return value{}, mismatch("%s, want a UUID", v.Kind)
	}
	text := strings.ToLower(v.Text)
	ok := len(text) == 36
	for i := 0; ok && i < len(text); i++ {
		switch c := text[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			ok = c == '-'
		default:
			ok = '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
		}
	}
	if !ok {
		return value{}, mismatch("a string that is no UUID of the form 8-4-4-4-12 hexadecimal digits")
	}
	return stringValue(text), nil
}

// toJSON takes the value's own text where it has one, so that nothing of it changes.
func toJSON(v *schema.Value) (value, *fault) {
	if f := v.Float(); v.Kind == schema.Double && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return value{}, mismatch("not a finite number, which JSON has no word for")
	}
	if v.Kind == schema.Bytes {
		return value{}, mismatch("bytes, which JSON has no word for")
	}
	text := v.JSON
	if text == "" {
		b, err := v.AppendJSON(nil)
		if err != nil {
			return value{}, mismatch("%s, which JSON has no word for", v.Kind)
		}
		text = string(b)
	}
	if !utf8.ValidString(text) {
		return value{}, mismatch("not valid UTF-8")
	}
	if len(text) > maxCellBytes {
		return value{}, tooLarge("%d bytes, a JSON column holds %d", len(text), maxCellBytes)
	}
	return stringValue(text), nil
}
