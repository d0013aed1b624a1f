package spanner

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pushsink/pushsink/schema"
)

// routes compiles a routes file. The placeholder @db stands for a database path.
func routes(t testing.TB, text string) []*schema.Route {
	t.Helper()
	text = strings.ReplaceAll(text, "@db", "projects/test/instances/test/databases/db1")
	rs, err := schema.Compile("routes.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return rs.List
}

// values maps payloads' field v as the routes file does, so that the conversions see
// exactly what they see in the product.
type valueMaker struct{ m *schema.Mapping }

func newValueMaker(t testing.TB, expression string) valueMaker {
	r := routes(t, fmt.Sprintf("routes: {r: {spanner: {database: @db, table: T, columns: {V: '%s'}}}}", expression))
	return valueMaker{r[0].Mapping}
}

func (m valueMaker) value(t testing.TB, payload string) schema.Value {
	t.Helper()
	mut, err := m.m.Apply(&schema.Record{Data: []byte(payload)})
	if err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	if len(mut.Spanner.Row.Columns) != 1 {
		t.Fatalf("%s: no value", payload)
	}
	return mut.Spanner.Row.Columns[0].Value
}

func TestConvert(t *testing.T) {
	long := strings.Repeat("x", maxStringChars)
	makers := make(map[string]valueMaker)
	for _, tt := range []struct {
		name    string
		dialect Dialect
		typ     string
		expr    string // default data.v
		json    string // the value of data.v
		coerce  bool
		want    string // the wire value as JSON; "" = refused
		code    schema.Code
		text    string // in the refusal
	}{
		{name: "null", typ: "BOOL", json: `null`, want: `null`},
		{name: "bool", typ: "BOOL", json: `true`, want: `true`},
		{name: "bool from text", typ: "BOOL", json: `"true"`, code: schema.TypeMismatch, text: "string, want a bool"},
		{name: "bool from text, coerced", typ: "BOOL", json: `"false"`, coerce: true, want: `false`},
		{name: "bool from other text, coerced", typ: "BOOL", json: `"yes"`, coerce: true, code: schema.TypeMismatch},
		{name: "bool from int, coerced", typ: "BOOL", json: `1`, coerce: true, code: schema.TypeMismatch},

		{name: "JNUM-01 above 2^53", typ: "INT64", json: `9007199254740993`, want: `"9007199254740993"`},
		{name: "JNUM-01 smallest", typ: "INT64", json: `-9223372036854775808`, want: `"-9223372036854775808"`},
		{name: "largest", typ: "INT64", json: `9223372036854775807`, want: `"9223372036854775807"`},
		{name: "one above the largest", typ: "INT64", json: `9223372036854775808`, code: schema.TypeMismatch, text: "largest INT64"},
		{name: "one below the smallest", typ: "INT64", json: `-9223372036854775809`, code: schema.TypeMismatch},
		{name: "JNUM-03 1.0", typ: "INT64", json: `1.0`, want: `"1"`},
		{name: "JNUM-03 1e3", typ: "INT64", json: `1e3`, want: `"1000"`},
		{name: "JNUM-03 12E-1", typ: "INT64", json: `12E-1`, code: schema.TypeMismatch, text: "not an integer"},
		{name: "JNUM-03 1.5", typ: "INT64", json: `1.5`, code: schema.TypeMismatch, text: "not an integer"},
		{name: "SPVAL-07 text into INT64", typ: "INT64", json: `"12"`, code: schema.TypeMismatch, text: "string, want an integer"},
		{name: "SPVAL-07 text into INT64, coerced", typ: "INT64", json: `"12"`, coerce: true, want: `"12"`},
		{name: "SPVAL-07 word into INT64, coerced", typ: "INT64", json: `"x"`, coerce: true, code: schema.TypeMismatch},
		{name: "text 1e3 into INT64, coerced", typ: "INT64", json: `"1e3"`, coerce: true, want: `"1000"`},
		{name: "text with a space into INT64, coerced", typ: "INT64", json: `" 12"`, coerce: true, code: schema.TypeMismatch},
		{name: "text too large for INT64, coerced", typ: "INT64", json: `"9223372036854775808"`, coerce: true, code: schema.TypeMismatch},
		{name: "text of an enormous exponent, coerced", typ: "INT64", json: `"1e999999999999"`, coerce: true, code: schema.TypeMismatch},
		{name: "empty text into INT64, coerced", typ: "INT64", json: `""`, coerce: true, code: schema.TypeMismatch},
		{name: "computed double into INT64", typ: "INT64", expr: "double(data.v)", json: `1`, code: schema.TypeMismatch, text: "double, want an integer"},
		{name: "bool into INT64", typ: "INT64", json: `true`, code: schema.TypeMismatch},
		{name: "bigint", dialect: PostgreSQL, typ: "bigint", json: `5`, want: `"5"`},

		{name: "JNUM-07 integer into FLOAT64", typ: "FLOAT64", json: `7`, want: `7`},
		{name: "JNUM-07 -0 into FLOAT64", typ: "FLOAT64", json: `-0`, want: `-0`},
		{name: "decimal into FLOAT64", typ: "FLOAT64", json: `0.1`, want: `0.1`},
		{name: "large integer into FLOAT64", typ: "FLOAT64", json: `18446744073709551615`, want: `18446744073709552000`},
		{name: "too large for FLOAT64", typ: "FLOAT64", json: `1e400`, code: schema.TypeMismatch, text: "range of FLOAT64"},
		{name: "text into FLOAT64", typ: "FLOAT64", json: `"1.5"`, code: schema.TypeMismatch},
		{name: "text into FLOAT64, coerced", typ: "FLOAT64", json: `"1.5"`, coerce: true, want: `1.5`},
		{name: "NaN as text, coerced", typ: "FLOAT64", json: `"NaN"`, coerce: true, want: `"NaN"`},
		{name: "hex as text, coerced", typ: "FLOAT64", json: `"0x1p4"`, coerce: true, code: schema.TypeMismatch},
		{name: "computed infinity", typ: "FLOAT64", expr: "1.0 / double(data.v)", json: `0`, want: `"Infinity"`},
		{name: "computed minus infinity", typ: "FLOAT64", expr: "-1.0 / double(data.v)", json: `0`, want: `"-Infinity"`},
		{name: "computed NaN", typ: "FLOAT64", expr: "0.0 / double(data.v)", json: `0`, want: `"NaN"`},
		{name: "double precision", dialect: PostgreSQL, typ: "double precision", json: `1.5`, want: `1.5`},
		{name: "FLOAT32", typ: "FLOAT32", json: `0.1`, want: `0.10000000149011612`},
		{name: "FLOAT32 rounds once", typ: "FLOAT32", json: `9007199791611905`, want: `9007200328482816`},
		{name: "too large for FLOAT32", typ: "FLOAT32", json: `3.5e38`, code: schema.TypeMismatch, text: "range of FLOAT32"},
		{name: "computed, too large for FLOAT32", typ: "FLOAT32", expr: "double(data.v) * 1e30", json: `1e10`, code: schema.TypeMismatch},
		{name: "real", dialect: PostgreSQL, typ: "real", json: `1.5`, want: `1.5`},

		{name: "SPVAL-01 ten decimals", typ: "NUMERIC", json: `1.1234567891`, code: schema.TypeMismatch, text: "nothing is rounded"},
		{name: "SPVAL-01 ten decimals as text", typ: "NUMERIC", json: `"1.1234567891"`, coerce: true, code: schema.TypeMismatch, text: "nothing is rounded"},
		{name: "SPVAL-01 a tenth", typ: "NUMERIC", json: `0.1`, want: `"0.1"`},
		{name: "SPVAL-01 30 integer digits", typ: "NUMERIC", json: `123456789012345678901234567890`, code: schema.TypeMismatch, text: "30 digits before the point"},
		{name: "29 and 9 digits", typ: "NUMERIC", json: `-99999999999999999999999999999.999999999`, want: `"-99999999999999999999999999999.999999999"`},
		{name: "zeros that say nothing", typ: "NUMERIC", json: `1.500000000000`, want: `"1.5"`},
		{name: "exponent", typ: "NUMERIC", json: `15e-1`, want: `"1.5"`},
		{name: "small exponent", typ: "NUMERIC", json: `1e-9`, want: `"0.000000001"`},
		{name: "smaller exponent", typ: "NUMERIC", json: `1e-10`, code: schema.TypeMismatch},
		{name: "zero with an exponent", typ: "NUMERIC", json: `0e99`, want: `"0"`},
		{name: "minus zero", typ: "NUMERIC", json: `-0.0`, want: `"0"`},
		{name: "enormous exponent", typ: "NUMERIC", json: `1e999999999`, code: schema.TypeMismatch},
		{name: "enormous negative exponent", typ: "NUMERIC", json: `1e-99999999999999999999`, code: schema.TypeMismatch},
		{name: "uint64 into NUMERIC", typ: "NUMERIC", json: `18446744073709551615`, want: `"18446744073709551615"`},
		{name: "text into NUMERIC", typ: "NUMERIC", json: `"1.5"`, code: schema.TypeMismatch, text: "string, want a number"},
		{name: "text into NUMERIC, coerced", typ: "NUMERIC", json: `"1.5"`, coerce: true, want: `"1.5"`},
		{name: "computed half", typ: "NUMERIC", expr: "double(data.v) / 2.0", json: `1`, want: `"0.5"`},
		{name: "computed tenth is none", typ: "NUMERIC", expr: "double(data.v) / 10.0", json: `1`, code: schema.TypeMismatch, text: "nothing is rounded"},
		{name: "computed NaN into NUMERIC", typ: "NUMERIC", expr: "0.0 / double(data.v)", json: `0`, code: schema.TypeMismatch, text: "finite"},
		{name: "numeric keeps many decimals", dialect: PostgreSQL, typ: "numeric", json: `1.12345678910111213`, want: `"1.12345678910111213"`},
		{name: "numeric, large exponent stays short", dialect: PostgreSQL, typ: "numeric", json: `1.5e100000`, want: `"1.5e100000"`},
		{name: "numeric, small exponent stays short", dialect: PostgreSQL, typ: "numeric", json: `-1e-16383`, want: `"-1e-16383"`},
		{name: "numeric, 131,073 digits", dialect: PostgreSQL, typ: "numeric", json: `1e131072`, code: schema.TypeMismatch},
		{name: "numeric, 16,384 decimals", dialect: PostgreSQL, typ: "numeric", json: `1e-16384`, code: schema.TypeMismatch},

		{name: "SPVAL-06 five characters of two bytes", typ: "STRING(5)", json: `"ééééé"`, want: `"ééééé"`},
		{name: "SPVAL-06 six characters", typ: "STRING(5)", json: `"abcdef"`, code: schema.TooLarge, text: "6 characters, the column holds 5"},
		{name: "SPVAL-06 nine characters", dialect: PostgreSQL, typ: "character varying(8)", json: `"123456789"`, code: schema.TooLarge},
		{name: "STRING(MAX), as long as can be", typ: "STRING(MAX)", json: `"` + long + `"`, want: `"` + long + `"`},
		{name: "STRING(MAX), one more", typ: "STRING(MAX)", json: `"` + long + `x"`, code: schema.TooLarge},
		{name: "varchar", dialect: PostgreSQL, typ: "character varying", json: `"a"`, want: `"a"`},
		{name: "empty text", typ: "STRING(MAX)", json: `""`, want: `""`},
		{name: "JSTR-07 surrogate pair", typ: "STRING(1)", json: `"\ud83d\ude00"`, want: `"😀"`},
		{name: "SPVAL-07 number into STRING", typ: "STRING(MAX)", json: `5`, code: schema.TypeMismatch, text: "int, want a string"},
		{name: "SPVAL-07 number into STRING, coerced", typ: "STRING(MAX)", json: `5`, coerce: true, want: `"5"`},
		{name: "literal into STRING, coerced", typ: "STRING(MAX)", json: `1.10`, coerce: true, want: `"1.10"`},
		{name: "uint into STRING, coerced", typ: "STRING(MAX)", json: `18446744073709551615`, coerce: true, want: `"18446744073709551615"`},
		{name: "bool into STRING, coerced", typ: "STRING(MAX)", json: `true`, coerce: true, want: `"true"`},
		{name: "object into STRING, coerced", typ: "STRING(MAX)", json: `{}`, coerce: true, code: schema.TypeMismatch},
		{name: "list into STRING", typ: "STRING(MAX)", json: `[]`, code: schema.TypeMismatch},
		{name: "computed time into STRING, coerced", typ: "STRING(MAX)", expr: "timestamp(data.v)", json: `"2024-01-01T00:00:00+02:00"`, coerce: true, want: `"2023-12-31T22:00:00Z"`},

		{name: "base64", typ: "BYTES(4)", json: `"AAEC/w=="`, want: `"AAEC/w=="`},
		{name: "base64 without padding", typ: "BYTES(4)", json: `"AAEC/w"`, want: `"AAEC/w=="`},
		{name: "base64, URL-safe", typ: "BYTES(4)", json: `"AAEC_w"`, want: `"AAEC/w=="`},
		{name: "base64 of half a kind", typ: "BYTES(MAX)", json: `"+_+_"`, code: schema.TypeMismatch},
		{name: "base64 with a line feed", typ: "BYTES(MAX)", json: `"AAEC\n"`, code: schema.TypeMismatch, text: "not base64"},
		{name: "base64 with stray bits", typ: "BYTES(MAX)", json: `"AB"`, code: schema.TypeMismatch},
		{name: "base64 with too much padding", typ: "BYTES(MAX)", json: `"AAEC===="`, code: schema.TypeMismatch},
		{name: "base64 with odd padding", typ: "BYTES(MAX)", json: `"AA="`, code: schema.TypeMismatch},
		{name: "no base64", typ: "BYTES(MAX)", json: `"hello world"`, code: schema.TypeMismatch, text: "not base64"},
		{name: "SPVAL-06 five bytes", typ: "BYTES(4)", json: `"AAECAwQ="`, code: schema.TooLarge, text: "5 bytes, the column holds 4"},
		{name: "bytea", dialect: PostgreSQL, typ: "bytea", json: `""`, want: `""`},
		{name: "raw bytes", typ: "BYTES(MAX)", expr: "raw", json: `0`, want: `"eyJ2IjowfQ=="`},
		{name: "raw bytes into STRING", typ: "STRING(MAX)", expr: "raw", json: `0`, code: schema.TypeMismatch, text: "bytes, want a string"},
		{name: "raw bytes into STRING, coerced", typ: "STRING(MAX)", expr: "raw", json: `0`, coerce: true, want: `"{\"v\":0}"`},
		{name: "number into BYTES", typ: "BYTES(MAX)", json: `1`, code: schema.TypeMismatch},

		{name: "date", typ: "DATE", json: `"2024-02-29"`, want: `"2024-02-29"`},
		{name: "no leap year", typ: "DATE", json: `"2023-02-29"`, code: schema.TypeMismatch},
		{name: "first date", typ: "DATE", json: `"0001-01-01"`, want: `"0001-01-01"`},
		{name: "year 0", typ: "DATE", json: `"0000-12-31"`, code: schema.TypeMismatch},
		{name: "last date", typ: "DATE", json: `"9999-12-31"`, want: `"9999-12-31"`},
		{name: "short date", typ: "DATE", json: `"2024-2-9"`, code: schema.TypeMismatch},
		{name: "timestamp text into DATE", typ: "DATE", json: `"2024-02-29T00:00:00Z"`, code: schema.TypeMismatch},
		{name: "time into DATE", typ: "DATE", expr: "timestamp(data.v)", json: `"2024-02-29T23:00:00-02:00"`, code: schema.TypeMismatch, text: "timestamp, want a date"},
		{name: "time into DATE, coerced", typ: "DATE", expr: "timestamp(data.v)", json: `"2024-02-29T23:00:00-02:00"`, coerce: true, want: `"2024-03-01"`},

		{name: "SPVAL-10 offset", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00+02:00"`, want: `"2023-12-31T22:00:00Z"`},
		{name: "the largest offset", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00-23:59"`, want: `"2024-01-01T23:59:00Z"`},
		{name: "an offset of a day", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00+24:00"`, code: schema.TypeMismatch},
		{name: "an offset of 60 minutes", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00+01:60"`, code: schema.TypeMismatch},
		{name: "SPVAL-10 Z", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00Z"`, want: `"2024-01-01T00:00:00Z"`},
		{name: "SPVAL-10 no zone", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00"`, code: schema.TypeMismatch},
		{name: "SPVAL-10 lower case", typ: "TIMESTAMP", json: `"2024-01-01t00:00:00z"`, code: schema.TypeMismatch},
		{name: "lower-case z", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00z"`, code: schema.TypeMismatch},
		{name: "SPVAL-10 year 10000", typ: "TIMESTAMP", json: `"10000-01-01T00:00:00Z"`, code: schema.TypeMismatch},
		{name: "SPVAL-10 leap second", typ: "TIMESTAMP", json: `"2016-12-31T23:59:60Z"`, code: schema.TypeMismatch},
		{name: "SPVAL-10 nine decimals", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00.123456789Z"`, want: `"2024-01-01T00:00:00.123456789Z"`},
		{name: "ten decimals", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00.1234567891Z"`, code: schema.TypeMismatch, text: "nothing is rounded"},
		{name: "ten decimals, the last a zero", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00.1234567890Z"`, want: `"2024-01-01T00:00:00.123456789Z"`},
		{name: "comma", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00,5Z"`, code: schema.TypeMismatch},
		{name: "point without decimals", typ: "TIMESTAMP", json: `"2024-01-01T00:00:00.Z"`, code: schema.TypeMismatch},
		{name: "hour of one digit", typ: "TIMESTAMP", json: `"2024-01-01T1:00:00Z"`, code: schema.TypeMismatch},
		{name: "hour 24", typ: "TIMESTAMP", json: `"2024-01-01T24:00:00Z"`, code: schema.TypeMismatch},
		{name: "first time", typ: "TIMESTAMP", json: `"0001-01-01T00:00:00Z"`, want: `"0001-01-01T00:00:00Z"`},
		{name: "before the first by its offset", typ: "TIMESTAMP", json: `"0001-01-01T00:00:00+01:00"`, code: schema.TimestampOutOfRange},
		{name: "last time", typ: "TIMESTAMP", json: `"9999-12-31T23:59:59.999999999Z"`, want: `"9999-12-31T23:59:59.999999999Z"`},
		{name: "behind the last by its offset", typ: "TIMESTAMP", json: `"9999-12-31T23:59:59-00:01"`, code: schema.TimestampOutOfRange},
		{name: "number into TIMESTAMP", typ: "TIMESTAMP", json: `1700000000`, code: schema.TypeMismatch},
		{name: "the placeholder as text", typ: "TIMESTAMP", json: `"spanner.commit_timestamp()"`, code: schema.TypeMismatch},
		{name: "timestamptz", dialect: PostgreSQL, typ: "timestamp with time zone", json: `"2024-01-01T00:00:00.5Z"`, want: `"2024-01-01T00:00:00.5Z"`},

		{name: "SPVAL-03 literals", typ: "JSON", json: `{"v":145688415796432520,"w":0.39240506000000003}`, want: `"{\"v\":145688415796432520,\"w\":0.39240506000000003}"`},
		{name: "JSON as the input has it", dialect: PostgreSQL, typ: "jsonb", json: `{"b":1 , "a":[ 2 ]}`, want: `"{\"b\":1 , \"a\":[ 2 ]}"`},
		{name: "JSON text", typ: "JSON", json: `"a\u0041"`, want: `"\"a\\u0041\""`},
		{name: "JSON number", typ: "JSON", json: `1.50`, want: `"1.50"`},
		{name: "computed JSON text", typ: "JSON", expr: "data.v + \"!\"", json: `"<a>"`, want: `"\"<a>!\""`},
		{name: "computed JSON list", typ: "JSON", expr: "[data.v, 2]", json: `1`, want: `"[1,2]"`},
		{name: "computed NaN into JSON", typ: "JSON", expr: "0.0 / double(data.v)", json: `0`, code: schema.TypeMismatch, text: "no word for"},
		{name: "bytes into JSON", typ: "JSON", expr: "raw", json: `0`, code: schema.TypeMismatch, text: "no word for"},

		{name: "UUID", typ: "UUID", json: `"6BA7B810-9dad-11d1-80b4-00c04fd430c8"`, want: `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`},
		{name: "UUID without hyphens", typ: "UUID", json: `"6ba7b8109dad11d180b400c04fd430c8"`, code: schema.TypeMismatch},
		{name: "UUID with a letter too far", typ: "UUID", json: `"6ba7b810-9dad-11d1-80b4-00c04fd430cg"`, code: schema.TypeMismatch},
		{name: "uuid", dialect: PostgreSQL, typ: "uuid", json: `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, want: `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`},

		{name: "array", typ: "ARRAY<INT64>", json: `[1,null,3.0]`, want: `["1",null,"3"]`},
		{name: "empty array", typ: "ARRAY<INT64>", json: `[]`, want: `[]`},
		{name: "null array", typ: "ARRAY<NUMERIC>", json: `null`, want: `null`},
		{name: "array of a wrong element", typ: "ARRAY<INT64>", json: `[1,"2"]`, code: schema.TypeMismatch, text: "element 1: string, want an integer"},
		{name: "array of a long element", typ: "ARRAY<STRING(1)>", json: `["a","bb"]`, code: schema.TooLarge, text: "element 1"},
		{name: "array of arrays", typ: "ARRAY<INT64>", json: `[[1]]`, code: schema.TypeMismatch, text: "list, want an integer"},
		{name: "scalar into an array", typ: "ARRAY<INT64>", json: `1`, code: schema.TypeMismatch, text: "int, want a list"},
		{name: "list into a scalar", typ: "INT64", json: `[1]`, code: schema.TypeMismatch},
		{name: "object into an array", typ: "ARRAY<JSON>", json: `{}`, code: schema.TypeMismatch},
		{name: "array of JSON", typ: "ARRAY<JSON>", json: `[{"a": 1},2]`, want: `["{\"a\": 1}","2"]`},
		{name: "computed array", typ: "ARRAY<INT64>", expr: "[data.v, 2]", json: `1`, want: `["1","2"]`},
		{name: "PostgreSQL array", dialect: PostgreSQL, typ: "numeric[]", json: `[1.5,null]`, want: `["1.5",null]`},
		{name: "vector", typ: "ARRAY<FLOAT32>(vector_length=>2)", json: `[1,2]`, want: `[1,2]`},
		{name: "vector of another length", typ: "ARRAY<FLOAT32>(vector_length=>2)", json: `[1]`, code: schema.TypeMismatch, text: "want 2 (vector_length)"},

		{name: "SPCON-12 commit timestamp", typ: "TIMESTAMP", expr: "commitTimestamp()", json: `0`, code: schema.TypeMismatch, text: "does not take the commit timestamp"},
		{name: "commit timestamp column", dialect: PostgreSQL, typ: "spanner.commit_timestamp", expr: "commitTimestamp()", json: `0`, want: `"spanner.commit_timestamp()"`},
		{name: "a time for a commit timestamp column", dialect: PostgreSQL, typ: "spanner.commit_timestamp", json: `"2024-01-01T00:00:00Z"`, want: `"2024-01-01T00:00:00Z"`},
		{name: "SPVAL-12 PROTO", typ: "PROTO<a.B>", json: `"x"`, code: schema.TypeMismatch, text: "not written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expr := tt.expr
			if expr == "" {
				expr = "data.v"
			}
			if _, ok := makers[expr]; !ok {
				makers[expr] = newValueMaker(t, expr)
			}
			v := makers[expr].value(t, `{"v":`+tt.json+`}`)
			col := &column{name: "V", typ: parseType(tt.dialect, tt.typ)}
			col.commitTime = col.typ.pending
			got, bad := convertProto(t, col, v, tt.coerce)
			if tt.want == "" {
				if bad == nil {
					t.Fatalf("got %v, want a refusal", got)
				}
				if bad.code != tt.code || !strings.Contains(bad.detail, tt.text) {
					t.Errorf("refused as %s: %s; want %s: …%s…", bad.code, bad.detail, tt.code, tt.text)
				}
				if s := strings.Trim(tt.json, `"`); len(s) > 3 && strings.Contains(bad.detail, s) {
					t.Errorf("the refusal shows the value: %s", bad.detail)
				}
				return
			}
			if bad != nil {
				t.Fatalf("refused as %s: %s; want %.100s", bad.code, bad.detail, tt.want)
			}
			var want structpb.Value
			if err := protojson.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if !sameWire(got, &want) {
				t.Errorf("got %.200v, want %.200v", got, &want)
			}
		})
	}
}

// convertProto is convert's value as the service reads it.
func convertProto(t testing.TB, col *column, v schema.Value, coerce bool) (*structpb.Value, *fault) {
	t.Helper()
	got, bad := col.convert(&v, coerce)
	if bad != nil {
		return nil, bad
	}
	m, err := asProto(got)
	if err != nil {
		t.Fatal(err)
	}
	return m, nil
}

func asProto(v value) (*structpb.Value, error) {
	wire := v.append(nil)
	if len(wire) != v.size() {
		return nil, fmt.Errorf("%d bytes where %d were announced", len(wire), v.size())
	}
	m := new(structpb.Value)
	return m, proto.Unmarshal(wire, m)
}

// sameWire tells -0 from 0, which comparing numbers does not.
func sameWire(a, b *structpb.Value) bool {
	return fmt.Sprint(a.AsInterface()) == fmt.Sprint(b.AsInterface()) && fmt.Sprintf("%T", a.GetKind()) == fmt.Sprintf("%T", b.GetKind())
}

func TestSPVAL04TypedNulls(t *testing.T) {
	null := newValueMaker(t, "data.v").value(t, `{"v":null}`)
	for d, types := range map[Dialect]map[string]scalar{GoogleSQL: googleTypes, PostgreSQL: pgTypes} {
		for name := range types {
			array := "ARRAY<" + name + ">"
			if d == PostgreSQL {
				array = name + "[]"
			}
			for _, spelled := range []string{name, array} {
				typ := parseType(d, spelled)
				if typ.scalar == unsupported {
					t.Errorf("%v type %s is not known", d, spelled)
				}
				got, bad := convertProto(t, &column{typ: typ}, null, false)
				if bad != nil || !isNull(got) {
					t.Errorf("%v type %s: NULL becomes %v, %v", d, spelled, got, bad)
				}
			}
		}
	}
}

func TestParseTypeRefusesWhatItDoesNotKnow(t *testing.T) {
	for spelled, d := range map[string]Dialect{
		"PROTO<a.B>": GoogleSQL, "ENUM<a.B>": GoogleSQL, "ARRAY<PROTO<a.B>>": GoogleSQL, "ARRAY<ENUM<a.B>>": GoogleSQL,
		"TOKENLIST": GoogleSQL, "STRUCT<a INT64>": GoogleSQL, "INTERVAL": GoogleSQL, "STRING(": GoogleSQL, "STRING(-1)": GoogleSQL,
		"ARRAY<INT64": GoogleSQL, "ARRAY<FLOAT32>(x)": GoogleSQL, "bigint": GoogleSQL,
		"oid": PostgreSQL, "interval": PostgreSQL, "INT64": PostgreSQL, "spanner.tokenlist": PostgreSQL, "bigint[][]": PostgreSQL,
	} {
		if typ := parseType(d, spelled); typ.scalar != unsupported || typ.spelled != spelled {
			t.Errorf("%v type %s is read as %+v", d, spelled, typ)
		}
	}
}
