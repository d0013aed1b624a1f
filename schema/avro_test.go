package schema

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
)

// avroOf is the payload of a route with the schema.
func avroOf(t testing.TB, schema string, encoding PayloadEncoding) *typed {
	t.Helper()
	p, err := newAvro([]byte(schema))
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return &typed{p, encoding}
}

// decoded is what p makes of a record, as JSON; kinds are the tree's, of what JSON does not
// tell.
func decoded(p *typed, rec *Record) (json string, kinds string, fail *Error) {
	s := newState(rec)
	defer s.release()
	found, err := p.decode(s)
	if err != nil {
		return "", "", err
	}
	if !found {
		return "absent", "", nil
	}
	return strings.Clone(s.tree.raw(s.tree.root())), s.tree.value(s.tree.root()).kind.String(), nil
}

func refused(e *Error) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("%s %s %s", e.Code, orDash(e.Pointer), e.Detail)
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bytes are Avro 1.12's own examples where it has some.
var avroBinaryRows = []struct{ name, schema, in, want, kind string }{
	{"null", `"null"`, "", "absent", ""},
	{"false", `"boolean"`, "00", "false", "bool"},
	{"true", `"boolean"`, "01", "true", "bool"},
	{"a boolean of 2", `"boolean"`, "02", "bad_json - payload is not Avro of the schema: a boolean is neither 0 nor 1 at byte 1", ""},
	{"int -64", `"int"`, "7f", "-64", "int"},
	{"int 64", `"int"`, "8001", "64", "int"},
	{"largest int", `"int"`, "feffffff0f", "2147483647", "int"},
	{"smallest int", `"int"`, "ffffffff0f", "-2147483648", "int"},
	{"an int of 33 bits", `"int"`, "8080808010", "bad_json - payload is not Avro of the schema: an int has more than 32 bits at byte 5", ""},
	{"an int of six bytes", `"int"`, "f58280808000", "bad_json - payload is not Avro of the schema: an int has more than 5 bytes at byte 6", ""},
	{"an int of five bytes", `"int"`, "f582808000", "-187", "int"},
	{"largest long", `"long"`, "feffffffffffffffff01", "9223372036854775807", "int"},
	{"smallest long", `"long"`, "ffffffffffffffffff01", "-9223372036854775808", "int"},
	{"a long of 65 bits", `"long"`, "feffffffffffffffff02", "bad_json - payload is not Avro of the schema: an integer has more than 64 bits at byte 9", ""},
	{"a long without end", `"long"`, "ffffffffffffffffffffffff", "bad_json - payload is not Avro of the schema: an integer has more than 64 bits at byte 9", ""},
	{"a longer spelling of a long", `"long"`, "8000", "0", "int"},
	{"a long that ends early", `"long"`, "80", "bad_json - payload is not Avro of the schema: it ends early at byte 1", ""},
	{"float", `"float"`, "0000c03f", "1.5", "double"},
	{"a float keeps its value", `"float"`, "cdcccc3d", "0.10000000149011612", "double"},
	{"an integral double is a double", `"double"`, "0000000000003540", "21", "double"},
	{"a double of NaN", `"double"`, "000000000000f87f", `"NaN"`, "double"},
	{"a double of -infinity", `"double"`, "000000000000f0ff", `"-Infinity"`, "double"},
	{"-0", `"double"`, "0000000000000080", "-0", "double"},
	{"string", `"string"`, "06666f6f", `"foo"`, "string"},
	{"a string with what JSON escapes", `"string"`, "0a220a5ce282ac", "bad_json - payload has a string that is not UTF-8", ""},
	{"a string with escapes", `"string"`, "0c220a5ce282ac", `"\"\n\\€"`, "string"},
	{"a string of bad UTF-8", `"string"`, "04c328", "bad_json - payload has a string that is not UTF-8", ""},
	{"a string of a surrogate", `"string"`, "06eda080", "bad_json - payload has a string that is not UTF-8", ""},
	{"a string that ends early", `"string"`, "06666f", "bad_json - payload is not Avro of the schema: it ends early at byte 1", ""},
	{"a string of negative length", `"string"`, "01", "bad_json - payload is not Avro of the schema: a length is negative at byte 1", ""},
	{"bytes", `"bytes"`, "0600ff41", `"AP9B"`, "bytes"},
	{"no bytes", `"bytes"`, "00", `""`, "bytes"},
	{"bytes after the value", `"int"`, "0202", "bad_json - payload has 1 bytes after the Avro value", ""},
	{"fixed", `{"type":"fixed","name":"F","size":2}`, "ff00", `"/wA="`, "bytes"},
	{"a fixed that ends early", `{"type":"fixed","name":"F","size":2}`, "ff", "bad_json - payload is not Avro of the schema: it ends early at byte 0", ""},
	{"enum", `{"type":"enum","name":"E","symbols":["A","B"]}`, "02", `"B"`, "string"},
	{"an enum's index past the end", `{"type":"enum","name":"E","symbols":["A","B"]}`, "04", "bad_json - payload is not Avro of the schema: an enum has no such symbol at byte 1", ""},
	{"a negative enum", `{"type":"enum","name":"E","symbols":["A","B"]}`, "01", "bad_json - payload is not Avro of the schema: an enum has no such symbol at byte 1", ""},
	{"array", `{"type":"array","items":"long"}`, "04063600", "[3,27]", "list"},
	{"an array in two blocks, one with its size", `{"type":"array","items":"long"}`, "0206 0102 36 00", "[3,27]", "list"},
	{"a block longer than it says", `{"type":"array","items":"long"}`, "0302 06 36 00", "bad_json /2 payload is not Avro of the schema: a block is not as long as it says at byte 4", ""},
	{"a block longer than the payload", `{"type":"array","items":"long"}`, "0140 06 00", "bad_json /0 payload is not Avro of the schema: a block has an impossible size at byte 2", ""},
	{"a block of -2^63 items", `{"type":"array","items":"null"}`, "ffffffffffffffffff01 00 00", "bad_json /0 payload is not Avro of the schema: a block has an impossible size at byte 11", ""},
	{"no items", `{"type":"array","items":"long"}`, "00", "[]", "list"},
	{"array without its end", `{"type":"array","items":"long"}`, "0206", "bad_json /1 payload is not Avro of the schema: it ends early at byte 2", ""},
	{"map", `{"type":"map","values":"long"}`, "02 0261 06 00", `{"a":3}`, "object"},
	{"a map's key with escapes", `{"type":"map","values":"long"}`, "02 0222 06 00", `{"\"":3}`, "object"},
	{"a map's key of bad UTF-8", `{"type":"map","values":"long"}`, "02 02ff 06 00", "bad_json / payload has a key that is not UTF-8", ""},
	{"a map's key twice", `{"type":"map","values":"long"}`, "04 0261 06 0261 06 00", "bad_json /a payload has a duplicate key", ""},
	{"record", `{"type":"record","name":"R","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}`, "3606666f6f", `{"a":27,"b":"foo"}`, "object"},
	{"a record that ends early", `{"type":"record","name":"R","fields":[{"name":"a","type":"long"},{"name":"b","type":{"type":"array","items":"string"}}]}`, "36 04 0261 0a61", "bad_json /b/1 payload is not Avro of the schema: it ends early at byte 5", ""},
	{"a recursive record", `{"type":"record","name":"L","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","L"]}]}`, "02 02 04 00", `{"v":1,"next":{"v":2,"next":null}}`, "object"},
	{"a union's null", `["null","string"]`, "00", "null", "null"},
	{"a union's value", `["null","string"]`, "02 0261", `"a"`, "string"},
	{"a union with null last", `["string","null"]`, "00 0261", `"a"`, "string"},
	{"a union of one", `["string"]`, "00 0261", `"a"`, "string"},
	{"a union of two values says which", `["null","string","int"]`, "04 0e", `{"int":7}`, "object"},
	{"its null", `["null","string","int"]`, "00", "null", "null"},
	{"a union of records", `["null",{"type":"record","name":"A","namespace":"n","fields":[{"name":"x","type":"int"}]},{"type":"record","name":"B","fields":[]}]`, "02 0e", `{"n.A":{"x":7}}`, "object"},
	{"a union's branch past the end", `["null","string"]`, "04", "bad_json - payload is not Avro of the schema: a union has no such branch at byte 1", ""},
	{"a union's branch below 0", `["null","string"]`, "01", "bad_json - payload is not Avro of the schema: a union has no such branch at byte 1", ""},
	{"an array of unions", `{"type":"array","items":["null","long"]}`, "06 00 02 02 02 04 00", "[null,1,2]", "list"},
	{"a nested name is not the payload's", `{"type":"record","name":"R","fields":[{"name":"m","type":{"type":"map","values":{"type":"array","items":"boolean"}}}]}`, "02 0261 04 00 05", "bad_json /m/a/1 payload is not Avro of the schema: a boolean is neither 0 nor 1 at byte 6", ""},

	{"date", `{"type":"int","logicalType":"date"}`, "fabd01", `"2003-04-15"`, "string"},
	{"a date before 1970", `{"type":"int","logicalType":"date"}`, "01", `"1969-12-31"`, "string"},
	{"a date after 9999", `{"type":"int","logicalType":"date"}`, "feffffff0f", "timestamp_out_of_range - payload has a time outside the years 1 to 9999", ""},
	{"time-millis", `{"type":"int","logicalType":"time-millis"}`, "dcacc40a", `"03:04:05.678"`, "string"},
	{"a time of day past its end", `{"type":"int","logicalType":"time-millis"}`, "80f0b252", "timestamp_out_of_range - payload has a time of day outside the day", ""},
	{"a time of day below 0", `{"type":"long","logicalType":"time-micros"}`, "01", "timestamp_out_of_range - payload has a time of day outside the day", ""},
	{"a timestamp after 9999", `{"type":"long","logicalType":"timestamp-millis"}`, "feffffffffffffffff01", "timestamp_out_of_range - payload has a time outside the years 1 to 9999", ""},
	{"a logical type of another type is ignored", `{"type":"string","logicalType":"date"}`, "0261", `"a"`, "string"},
	{"an unknown logical type is ignored", `{"type":"int","logicalType":"beaufort"}`, "02", "1", "int"},
	{"a decimal without precision is bytes", `{"type":"bytes","logicalType":"decimal"}`, "0201", `"AQ=="`, "bytes"},

	{"decimal", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}`, "04 3034", "12.340", "number"},
	{"a decimal that is an integer", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}`, "04 2ee0", "12.000", "int"},
	{"a negative decimal", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}`, "02 ff", "-0.001", "number"},
	{"a decimal of 0", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}`, "02 00", "0.000", "int"},
	{"a decimal without scale", `{"type":"bytes","logicalType":"decimal","precision":10}`, "02 80", "-128", "int"},
	{"a decimal with sign bytes to spare", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":1}`, "0c ffffffffffff", "-0.1", "number"},
	{"a decimal of 30 digits", `{"type":"bytes","logicalType":"decimal","precision":38,"scale":9}`, "1a 018ee90ff6c373e0ee4e3f0ad2", "123456789012345678901.234567890", "number"},
	{"a decimal of more digits than its precision", `{"type":"bytes","logicalType":"decimal","precision":2,"scale":1}`, "02 64", "bad_json - payload is not Avro of the schema: a decimal has more digits than its precision", ""},
	{"a decimal of far more bytes than its precision", `{"type":"bytes","logicalType":"decimal","precision":2,"scale":1}`, "0c 640000000000", "bad_json - payload is not Avro of the schema: a decimal has more digits than its precision", ""},
	{"a decimal of no bytes", `{"type":"bytes","logicalType":"decimal","precision":2}`, "00", "bad_json - payload is not Avro of the schema: a decimal has no bytes", ""},
	{"a fixed decimal", `{"type":"fixed","name":"D","size":4,"logicalType":"decimal","precision":9,"scale":2}`, "fffffb2e", "-12.34", "number"},
	{"uuid as text", `{"type":"string","logicalType":"uuid"}`, "48" + hex.EncodeToString([]byte("dd2e4c04-e593-5743-9ce6-22da286ec187")), `"dd2e4c04-e593-5743-9ce6-22da286ec187"`, "string"},
	{"uuid as a fixed", `{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}`, "dd2e4c04e59357439ce622da286ec187", `"dd2e4c04-e593-5743-9ce6-22da286ec187"`, "string"},
	{"duration", `{"type":"fixed","name":"P","size":12,"logicalType":"duration"}`, "01000000 02000000 ffffffff", `{"months":1,"days":2,"millis":4294967295}`, "object"},
}

func TestAvroBinary(t *testing.T) {
	for _, row := range avroBinaryRows {
		if row.want == "" {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			got, kind, err := decoded(avroOf(t, row.schema, ""), &Record{Data: unhex(t, row.in)})
			if err != nil {
				got = refused(err)
			}
			if got != row.want || kind != row.kind {
				t.Errorf("got  %s, a %s\nwant %s, a %s", got, kind, row.want, row.kind)
			}
		})
	}
}

// Timestamps are instants to their own precision, and local ones no instants at all.
func TestAvroTimestamps(t *testing.T) {
	const sec = 1767323045
	for _, row := range []struct {
		logical string
		n       int64
		want    string
		kind    string
	}{
		{"timestamp-millis", sec*1000 + 678, `"2026-01-02T03:04:05.678Z"`, "timestamp"},
		{"timestamp-micros", sec*1e6 + 678_901, `"2026-01-02T03:04:05.678901Z"`, "timestamp"},
		{"timestamp-nanos", sec*1e9 + 678_901_234, `"2026-01-02T03:04:05.678901234Z"`, "timestamp"},
		{"timestamp-millis", -1, `"1969-12-31T23:59:59.999Z"`, "timestamp"},
		{"timestamp-nanos", math.MinInt64, `"1677-09-21T00:12:43.145224192Z"`, "timestamp"},
		{"local-timestamp-millis", sec*1000 + 678, `"2026-01-02T03:04:05.678"`, "string"},
		{"local-timestamp-micros", sec*1e6 + 678_901, `"2026-01-02T03:04:05.678901"`, "string"},
		{"local-timestamp-nanos", sec*1e9 + 678_901_234, `"2026-01-02T03:04:05.678901234"`, "string"},
		{"time-micros", 11045_678_901, `"03:04:05.678901"`, "string"},
		{"time-micros", 86_400_000_000 - 1, `"23:59:59.999999"`, "string"},
		{"time-micros", 0, `"00:00:00"`, "string"},
	} {
		schema := `{"type":"long","logicalType":"` + row.logical + `"}`
		got, kind, err := decoded(avroOf(t, schema, BinaryEncoding), &Record{Data: binary.AppendVarint(nil, row.n)})
		if err != nil || got != row.want || kind != row.kind {
			t.Errorf("%s %d: %s, a %s, %v, want %s, a %s", row.logical, row.n, got, kind, err, row.want, row.kind)
		}
		inJSON, kind, err := decoded(avroOf(t, schema, JSONEncoding), &Record{Data: fmt.Append(nil, row.n)})
		if err != nil || inJSON != row.want || kind != row.kind {
			t.Errorf("%s %d as JSON: %s, a %s, %v, want %s, a %s", row.logical, row.n, inJSON, kind, err, row.want, row.kind)
		}
	}
}

func TestAvroJSON(t *testing.T) {
	const record = `{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"},{"name":"u","type":["null","string","bytes","R"]}]}`
	for _, row := range []struct{ name, schema, in, want string }{
		{"fields in any order", record, ` {"u":null, "a":1} `, `{"a":1,"u":null}`},
		{"a branch by its name", record, `{"a":1,"u":{"string":"x"}}`, `{"a":1,"u":{"string":"x"}}`},
		{"a branch by its full name", record, `{"a":1,"u":{"n.R":{"a":2,"u":null}}}`, `{"a":1,"u":{"n.R":{"a":2,"u":null}}}`},
		{"a branch by its short name", record, `{"a":1,"u":{"R":{"a":2,"u":null}}}`, `bad_json /u payload is not Avro of the schema: a union has no branch "R"`},
		{"a value without its branch", record, `{"a":1,"u":"x"}`, `bad_json /u payload is not Avro of the schema: a union wants null or {"TYPE": VALUE}`},
		{"two branches", record, `{"a":1,"u":{"string":"x","bytes":"y"}}`, `bad_json /u payload is not Avro of the schema: a union wants null or {"TYPE": VALUE}`},
		{"null as a branch", record, `{"a":1,"u":{"null":null}}`, `bad_json /u payload is not Avro of the schema: a union has no branch "null"`},
		{"a field is missing", record, `{"a":1}`, "bad_json - payload is not Avro of the schema: field u is missing"},
		{"a field too many", record, `{"a":1,"u":null,"b":2}`, "bad_json - payload is not Avro of the schema: there is a field that the record does not have"},
		{"a field twice", record, `{"a":1,"a":2,"u":null}`, `bad_json /a payload has a duplicate key "a" at byte 7`},
		{"a union without null", `["string","int"]`, `null`, "bad_json - payload is not Avro of the schema: a union has no null"},
		{"one value beside null has a branch too", `["null","string"]`, `{"string":"x"}`, `"x"`},
		{"but not as itself", `["null","string"]`, `"x"`, `bad_json - payload is not Avro of the schema: a union wants null or {"TYPE": VALUE}`},
		{"a map is no branch", `["null",{"type":"map","values":"int"}]`, `{"map":{"a":1}}`, `{"a":1}`},
		{"a logical type's branch has the type's name", `["null",{"type":"long","logicalType":"timestamp-millis"}]`, `{"long":0}`, `"1970-01-01T00:00:00Z"`},
		{"bytes", `"bytes"`, `"\u0000ÿA"`, `"AP9B"`},
		{"bytes above 255", `"bytes"`, `"€"`, "bad_json - payload is not Avro of the schema: bytes have a character above U+00FF"},
		{"fixed", `{"type":"fixed","name":"F","size":2}`, `"ÿ\u0000"`, `"/wA="`},
		{"a fixed of another length", `{"type":"fixed","name":"F","size":2}`, `"ÿ"`, "bad_json - payload is not Avro of the schema: a fixed of 1 bytes, not of 2"},
		{"enum", `{"type":"enum","name":"E","symbols":["A","B"]}`, `"B"`, `"B"`},
		{"no symbol", `{"type":"enum","name":"E","symbols":["A","B"]}`, `"C"`, "bad_json - payload is not Avro of the schema: an enum has no such symbol"},
		{"an enum by its number", `{"type":"enum","name":"E","symbols":["A","B"]}`, `1`, "bad_json - payload is not Avro of the schema: int, not a symbol"},
		{"int", `"int"`, `2147483647`, "2147483647"},
		{"an int of 33 bits", `"int"`, `2147483648`, "bad_json - payload is not Avro of the schema: int, not of type int"},
		{"long", `"long"`, `-9223372036854775808`, "-9223372036854775808"},
		{"a long of 65 bits", `"long"`, `9223372036854775808`, "bad_json - payload is not Avro of the schema: uint, not of type long"},
		{"a long with a fraction", `"long"`, `1.5`, "bad_json - payload is not Avro of the schema: number, not of type long"},
		{"a long in quotes", `"long"`, `"1"`, "bad_json - payload is not Avro of the schema: string, not of type long"},
		{"double", `"double"`, `21`, "21"},
		{"a double by its name", `"double"`, `"NaN"`, `"NaN"`},
		{"a double out of range", `"double"`, `1e400`, "bad_json - payload is not Avro of the schema: a number is outside double"},
		{"a float keeps its value", `"float"`, `0.1`, "0.10000000149011612"},
		{"a float out of range", `"float"`, `1e39`, "bad_json - payload is not Avro of the schema: a number is outside float"},
		{"decimal", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}`, `"04"`, "12.340"},
		{"array", `{"type":"array","items":{"type":"map","values":"boolean"}}`, `[{},{"a":true}]`, `[{},{"a":true}]`},
		{"where in an array", `{"type":"array","items":{"type":"map","values":"boolean"}}`, `[{},{"a":1}]`, "bad_json /1/a payload is not Avro of the schema: int, not a boolean"},
		{"an object is no array", `{"type":"array","items":"int"}`, `{}`, "bad_json - payload is not Avro of the schema: object, not an array"},
		{"no JSON", `"int"`, `1 2`, "bad_json - payload has data after the JSON value at byte 2"},
		{"no payload", `"int"`, ``, "absent"},
		{"null", `"null"`, `null`, "null"},
		{"a string for null", `"null"`, `""`, "bad_json - payload is not Avro of the schema: string, not null"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, _, err := decoded(avroOf(t, row.schema, JSONEncoding), &Record{Data: []byte(row.in)})
			if err != nil {
				got = refused(err)
			}
			if got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// What says how a payload is encoded: the envelope, the topic's schema, the route, binary.
func TestPayloadEncodingIsDecided(t *testing.T) {
	binary, text := []byte{0x36}, []byte("27")
	attribute := func(v string) map[string]string { return map[string]string{encodingAttribute: v} }
	for _, row := range []struct {
		name  string
		route PayloadEncoding
		rec   Record
		json  bool
	}{
		{"nothing said", "", Record{}, false},
		{"the route", JSONEncoding, Record{}, true},
		{"the topic", "", Record{Attributes: attribute("JSON")}, true},
		{"the topic, as binary", "", Record{Attributes: attribute("BINARY")}, false},
		{"the topic before the route", BinaryEncoding, Record{Attributes: attribute("JSON")}, true},
		{"the topic before the route, as binary", JSONEncoding, Record{Attributes: attribute("BINARY")}, false},
		{"a topic that says nothing", JSONEncoding, Record{Attributes: attribute("ENCODING_UNSPECIFIED")}, true},
		{"the topic in a header", "", Record{FoldAttributes: true, Attributes: map[string]string{"Googclient_Schemaencoding": "JSON"}}, true},
		{"the envelope before the topic", BinaryEncoding, Record{Encoding: JSONEncoding, Attributes: attribute("BINARY")}, true},
		{"the envelope before the topic, as binary", JSONEncoding, Record{Encoding: BinaryEncoding, Attributes: attribute("JSON")}, false},
	} {
		p := avroOf(t, `"long"`, row.route)
		row.rec.Data = binary
		if row.json {
			row.rec.Data = text
		}
		if got, _, err := decoded(p, &row.rec); got != "27" {
			t.Errorf("%s: %s, %v", row.name, got, err)
		}
	}
}

// The fingerprints are those of Avro's own tests (share/test/data/schema-tests.txt).
func TestAvroFingerprint(t *testing.T) {
	for schema, want := range map[string]int64{
		`"null"`: 7195948357588979594, `"boolean"`: -6970731678124411036, `"int"`: 8247732601305521295,
		`"long"`: -3434872931120570953, `"string"`: -8142146995180207161,
		`{"type":"long","logicalType":"timestamp-millis"}`:                                        -3434872931120570953,
		` {"fields":[{"type":"boolean", "name":"f1"}], "name":"foo", "type":"record", "doc":"x"}`: 7843277075252814651,
	} {
		p := avroOf(t, schema, "").payload.(*avroPayload)
		if got := int64(binary.LittleEndian.Uint64(p.header[2:])); got != want {
			t.Errorf("%s: %d, want %d", schema, got, want)
		}
	}
	const names = `{"type":"record","name":"R","namespace":"n","fields":[
		{"name":"a","type":{"type":"enum","name":"E","symbols":["X"],"default":"X"},"default":"X"},{"name":"b","type":["null","E"],"default":null},
		{"name":"c","type":{"type":"fixed","name":"other.F","size":2}},{"name":"d","type":{"type":"map","values":{"type":"array","items":"R"}}}]}`
	const canonical = `{"name":"n.R","type":"record","fields":[{"name":"a","type":{"name":"n.E","type":"enum","symbols":["X"]}},` +
		`{"name":"b","type":["null","n.E"]},{"name":"c","type":{"name":"other.F","type":"fixed","size":2}},` +
		`{"name":"d","type":{"type":"map","values":{"type":"array","items":"n.R"}}}]}`
	if got := string(avroOf(t, names, "").payload.(*avroPayload).root.canonical(nil, map[string]bool{})); got != canonical {
		t.Errorf("canonical form\n%s, want\n%s", got, canonical)
	}
}

// The single-object header is taken off where it names the route's schema.
func TestAvroSingleObject(t *testing.T) {
	p := avroOf(t, `"long"`, "")
	header := p.payload.(*avroPayload).header
	if got, _, err := decoded(p, &Record{Data: append(header[:], 0x36)}); err != nil || got != "27" {
		t.Errorf("%s, %v", got, err)
	}
	other := header
	other[9]++
	_, _, err := decoded(p, &Record{Data: append(other[:], 0x36)})
	if want := "bad_json - payload has 9 bytes after the Avro value (a single-object header of another schema?)"; refused(err) != want {
		t.Errorf("another schema: %s, want %s", refused(err), want)
	}
	// Without a header the same two bytes are a payload's own.
	if got, _, err := decoded(p, &Record{Data: []byte{0xC3, 0x01}}); err != nil || got != "-98" {
		t.Errorf("a value like the header's first bytes: %s, %v", got, err)
	}
}

func TestAvroSchemaRefused(t *testing.T) {
	for name, row := range map[string]struct{ schema, want string }{
		"no JSON":        {`{"type":`, "the file is not JSON: it ends early"},
		"a bare word":    {`string`, "the file is not JSON"},
		"unknown type":   {`"strnig"`, "unknown type"},
		"no field":       {`{"type":"record","name":"R"}`, "fields"},
		"same name":      {`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"record","name":"R","fields":[]}}]}`, "duplicate"},
		"empty union":    {`[]`, "no branch"},
		"vast precision": {`{"type":"bytes","logicalType":"decimal","precision":100000}`, "precision of 100000, at most 4092"},
	} {
		if _, err := newAvro([]byte(row.schema)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q in it", name, err, row.want)
		}
	}
}
