package schema

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// protobufOf is the payload of a route with a message of a set of testdata/payload.
func protobufOf(t testing.TB, set, message string, encoding PayloadEncoding) *typed {
	t.Helper()
	text, err := os.ReadFile("testdata/payload/" + set + ".binpb")
	if err != nil {
		t.Fatal(err)
	}
	files, err := descriptors(text)
	if err != nil {
		t.Fatal(err)
	}
	md, err := files.FindDescriptorByName(protoreflect.FullName(message))
	if err != nil {
		t.Fatal(err)
	}
	return &typed{&protobufPayload{dynamicpb.NewMessageType(md.(protoreflect.MessageDescriptor)), dynamicpb.NewTypes(files)}, encoding}
}

// wire is the binary form of a message in Protobuf's text format.
func wire(t testing.TB, p *typed, text string) []byte {
	t.Helper()
	m := p.payload.(*protobufPayload).message.New()
	if err := (prototext.UnmarshalOptions{Resolver: p.payload.(*protobufPayload).types, AllowPartial: true}).Unmarshal([]byte(text), m.Interface()); err != nil {
		t.Fatal(err)
	}
	b, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// member is one member of an object's JSON.
func member(t testing.TB, json, name string) string {
	t.Helper()
	var d tree
	if err := d.decode([]byte(json)); err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	j := d.member(d.root(), name)
	if j < 0 {
		return "absent"
	}
	return strings.Clone(d.raw(j))
}

// unset is the tree of a message of which nothing was sent.
const unsetKinds = `{"b":false,"i32":0,"i64":0,"u32":0,"u64":0,"s32":0,"s64":0,"f32":0,"f64":0,"sf32":0,"sf64":0,"fl":0,"db":0,` +
	`"user_name":"","raw_bytes":"","color":"COLOR_UNSPECIFIED","packed":[],"unpacked":[],"names":[],"counts":{},"by_number":{},` +
	`"by_bool":{},"by_u64":{},"children":[],"colors":[],"null_value":null}`

func TestProtobufPresence(t *testing.T) {
	p := protobufOf(t, "kinds", "pushsink.test.Kinds", "")
	if got, _, err := decoded(p, &Record{}); err != nil || got != unsetKinds {
		t.Errorf("no bytes: %s, %v\nwant %s", got, err, unsetKinds)
	}
	if got, _, err := decoded(p, &Record{Data: []byte("{}"), Encoding: JSONEncoding}); err != nil || got != unsetKinds {
		t.Errorf("no members: %s, %v", got, err)
	}
	if got, _, err := decoded(p, &Record{Encoding: JSONEncoding}); err != nil || got != "absent" {
		t.Errorf("no JSON: %s, %v", got, err)
	}
}

// One field set, in binary and in ProtoJSON: the same value, spelled exactly, in both.
func TestProtobufValues(t *testing.T) {
	p := protobufOf(t, "kinds", "pushsink.test.Kinds", "")
	for _, row := range []struct{ name, text, json, field, want, kind string }{
		{"bool", `b: true`, `{"b":true}`, "b", "true", "bool"},
		{"int32", `i32: -2147483648`, `{"i32":-2147483648}`, "i32", "-2147483648", "int"},
		{"int64", `i64: 9007199254740993`, `{"i64":"9007199254740993"}`, "i64", "9007199254740993", "int"},
		{"int64 as a number", `i64: -9223372036854775808`, `{"i64":-9223372036854775808}`, "i64", "-9223372036854775808", "int"},
		{"uint64", `u64: 18446744073709551615`, `{"u64":"18446744073709551615"}`, "u64", "18446744073709551615", "uint"},
		{"a small uint64", `u64: 7`, `{"u64":7}`, "u64", "7", "int"},
		{"sint64", `s64: -1`, `{"s64":"-1"}`, "s64", "-1", "int"},
		{"fixed64", `f64: 1`, `{"f64":"1"}`, "f64", "1", "int"},
		{"sfixed32", `sf32: -1`, `{"sf32":-1}`, "sf32", "-1", "int"},
		{"float", `fl: 0.1`, `{"fl":0.1}`, "fl", "0.10000000149011612", "double"},
		{"double", `db: 0.1`, `{"db":0.1}`, "db", "0.1", "double"},
		{"an integral double", `db: 21`, `{"db":21}`, "db", "21", "double"},
		{"a large double", `db: 1e300`, `{"db":1e300}`, "db", "1e+300", "double"},
		{"NaN", `db: nan`, `{"db":"NaN"}`, "db", `"NaN"`, "double"},
		{"-infinity", `fl: -inf`, `{"fl":"-Infinity"}`, "fl", `"-Infinity"`, "double"},
		{"string", `user_name: "a\"€"`, `{"userName":"a\"€"}`, "user_name", `"a\"€"`, "string"},
		{"its name as written", `user_name: "a"`, `{"user_name":"a"}`, "user_name", `"a"`, "string"},
		{"bytes", `raw_bytes: "\377\000A"`, `{"rawBytes":"/wBB"}`, "raw_bytes", `"/wBB"`, "bytes"},
		{"bytes, URL-safe", `raw_bytes: "\377\000A"`, `{"rawBytes":"_wBB"}`, "raw_bytes", `"/wBB"`, "bytes"},
		{"enum", `color: RED`, `{"color":"RED"}`, "color", `"RED"`, "string"},
		{"an enum by its number", `color: RED`, `{"color":1}`, "color", `"RED"`, "string"},
		{"an enum that has no name", `color: 9`, `{"color":9}`, "color", "9", "int"},
		{"optional, set to 0", `maybe: 0`, `{"maybe":0}`, "maybe", "0", "int"},
		{"optional, null", ``, `{"maybe":null}`, "maybe", "absent", ""},
		{"implicit, null", ``, `{"i32":null}`, "i32", "0", "int"},
		{"packed", `packed: [1, -1]`, `{"packed":[1,-1]}`, "packed", "[1,-1]", "list"},
		{"unpacked", `unpacked: [1, -1]`, `{"unpacked":[1,-1]}`, "unpacked", "[1,-1]", "list"},
		{"names", `names: ["b", ""]`, `{"names":["b",""]}`, "names", `["b",""]`, "list"},
		{"enums", `colors: [GREEN, RED]`, `{"colors":["GREEN","RED"]}`, "colors", `["GREEN","RED"]`, "list"},
		{"map", `counts {key:"b" value:2} counts {key:"a" value:1}`, `{"counts":{"b":"2","a":1}}`, "counts", `{"a":1,"b":2}`, "object"},
		{"a map by number", `by_number {key:10 value{}} by_number {key:-2 value{i32:1}}`, `{"byNumber":{"10":{},"-2":{"i32":1}}}`, "by_number",
			`{"-2":` + strings.Replace(unsetKinds, `"i32":0`, `"i32":1`, 1) + `,"10":` + unsetKinds + `}`, "object"},
		{"a map by bool", `by_bool {key:true value:"t"} by_bool {key:false value:"f"}`, `{"byBool":{"true":"t","false":"f"}}`, "by_bool", `{"false":"f","true":"t"}`, "object"},
		{"a map of enums", `by_u64 {key:18446744073709551615 value:RED} by_u64 {key:9 value:GREEN}`, `{"byU64":{"18446744073709551615":"RED","9":"GREEN"}}`, "by_u64", `{"9":"GREEN","18446744073709551615":"RED"}`, "object"},
		{"oneof, set to its zero", `number: 0`, `{"number":"0"}`, "number", "0", "int"},
		{"oneof, the others", `number: 0`, `{"number":"0"}`, "text", "absent", ""},
		{"a message", `child {maybe: 1}`, `{"child":{"maybe":1}}`, "child", strings.Replace(unsetKinds, `"packed"`, `"maybe":1,"packed"`, 1), "object"},
		{"an empty message", `child {}`, `{"child":{}}`, "child", unsetKinds, "object"},
		{"no message", ``, `{}`, "child", "absent", ""},
		{"messages", `children {} children {i32: 1}`, `{"children":[{},{"i32":1}]}`, "children", `[` + unsetKinds + `,` + strings.Replace(unsetKinds, `"i32":0`, `"i32":1`, 1) + `]`, "list"},
		{"timestamp", `at {seconds: 1767323045 nanos: 678901234}`, `{"at":"2026-01-02T04:04:05.678901234+01:00"}`, "at", `"2026-01-02T03:04:05.678901234Z"`, "timestamp"},
		{"the timestamp of 1970", `at {}`, `{"at":"1970-01-01T00:00:00Z"}`, "at", `"1970-01-01T00:00:00Z"`, "timestamp"},
		{"a timestamp before 1970", `at {seconds: -1 nanos: 500000000}`, `{"at":"1969-12-31T23:59:59.5Z"}`, "at", `"1969-12-31T23:59:59.5Z"`, "timestamp"},
		{"duration", `took {seconds: 3 nanos: 500000000}`, `{"took":"3.5s"}`, "took", `"3.500s"`, "string"},
		{"a whole duration", `took {seconds: 100}`, `{"took":"100s"}`, "took", `"100s"`, "string"},
		{"a negative duration", `took {nanos: -1}`, `{"took":"-0.000000001s"}`, "took", `"-0.000000001s"`, "string"},
		{"struct", `doc {fields{key:"b" value{list_value{values{null_value:NULL_VALUE} values{number_value:1.5}}}} fields{key:"a" value{struct_value{}}}}`, `{"doc":{"b":[null,1.5],"a":{}}}`, "doc", `{"a":{},"b":[null,1.5]}`, "object"},
		{"value", `any_value {bool_value: true}`, `{"anyValue":true}`, "any_value", "true", "bool"},
		{"a value of null", `any_value {null_value: NULL_VALUE}`, `{"anyValue":null}`, "any_value", "null", "null"},
		{"a value of a number", `any_value {number_value: 3}`, `{"anyValue":3}`, "any_value", "3", "double"},
		{"list", `any_list {values{string_value:"x"}}`, `{"anyList":["x"]}`, "any_list", `["x"]`, "list"},
		{"wrapped int64", `wrapped_i64 {value: 9007199254740993}`, `{"wrappedI64":"9007199254740993"}`, "wrapped_i64", "9007199254740993", "int"},
		{"wrapped uint64", `wrapped_u64 {value: 18446744073709551615}`, `{"wrappedU64":"18446744073709551615"}`, "wrapped_u64", "18446744073709551615", "uint"},
		{"a wrapped zero", `wrapped_double {}`, `{"wrappedDouble":0}`, "wrapped_double", "0", "double"},
		{"a wrapped false", `wrapped_bool {}`, `{"wrappedBool":false}`, "wrapped_bool", "false", "bool"},
		{"wrapped text", `wrapped_text {value: "x"}`, `{"wrappedText":"x"}`, "wrapped_text", `"x"`, "string"},
		{"wrapped bytes", `wrapped_bytes {value: "x"}`, `{"wrappedBytes":"eA=="}`, "wrapped_bytes", `"eA=="`, "bytes"},
		{"nothing wrapped", ``, `{"wrappedText":null}`, "wrapped_text", "absent", ""},
		{"any", `any {[type.googleapis.com/pushsink.test.Kinds] {maybe: 1}}`, `{"any":{"@type":"type.googleapis.com/pushsink.test.Kinds","maybe":1}}`, "any",
			`{"@type":"type.googleapis.com/pushsink.test.Kinds",` + strings.Replace(unsetKinds, `"packed"`, `"maybe":1,"packed"`, 1)[1:], "object"},
		{"any of a well-known type", `any {[type.googleapis.com/google.protobuf.Duration] {seconds: 1}}`, `{"any":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}}`, "any",
			`{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}`, "object"},
		{"an empty any", `any {}`, `{"any":{}}`, "any", "{}", "object"},
		{"a field mask", `mask {paths: ["a.b", "c_d"]}`, `{"mask":"a.b,cD"}`, "mask", `{"paths":["a.b","c_d"]}`, "object"},
		{"empty", `nothing {}`, `{"nothing":{}}`, "nothing", "{}", "object"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, rec := range []*Record{
				{Data: wire(t, p, row.text), Encoding: BinaryEncoding},
				{Data: []byte(row.json), Encoding: JSONEncoding},
			} {
				s := newState(rec)
				if _, err := p.decode(s); err != nil {
					t.Fatalf("%s: %v", rec.Encoding, err)
				}
				got, kind := "absent", ""
				if j := s.tree.member(s.tree.root(), row.field); j >= 0 {
					got, kind = strings.Clone(s.tree.raw(j)), s.tree.value(j).kind.String()
				}
				s.release()
				if got != row.want || kind != row.kind {
					t.Errorf("%s: got  %s, a %s\nwant %s, a %s", rec.Encoding, got, kind, row.want, row.kind)
				}
			}
		})
	}
}

// What only the wire has.
func TestProtobufWire(t *testing.T) {
	p := protobufOf(t, "kinds", "pushsink.test.Kinds", BinaryEncoding)
	varint := func(number protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
	}
	bytesOf := func(number protowire.Number, v ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), v)
	}
	group := func(number protowire.Number, inner ...byte) []byte {
		return protowire.AppendTag(append(protowire.AppendTag(nil, number, protowire.StartGroupType), inner...), number, protowire.EndGroupType)
	}
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for _, row := range []struct {
		name        string
		in          []byte
		field, want string
	}{
		{"the last of a field counts", join(varint(2, 1), varint(2, 2)), "i32", "2"},
		{"messages of a field are merged", join(bytesOf(28, varint(2, 1)...), bytesOf(28, varint(17, 2)...)), "child",
			strings.Replace(strings.Replace(unsetKinds, `"i32":0`, `"i32":1`, 1), `"packed"`, `"maybe":2,"packed"`, 1)},
		{"the last of a oneof counts", join(bytesOf(25, 'x'), varint(26, 7)), "text", "absent"},
		{"the last key of a map counts", join(bytesOf(21, join(bytesOf(1, 'a'), varint(2, 1))...), bytesOf(21, join(varint(2, 2), bytesOf(1, 'a'))...)), "counts", `{"a":2}`},
		{"an entry without key and value", bytesOf(21), "counts", `{"":0}`},
		{"packed sent one by one", join(varint(18, 1), varint(18, 2)), "packed", "[1,2]"},
		{"unpacked sent packed", bytesOf(19, 1, 2), "unpacked", "[1,2]"},
		{"unknown fields are passed over", join(varint(1000, 1), bytesOf(1001, 1, 2), group(1002, varint(1, 1)...), varint(2, 5)), "i32", "5"},
		{"an int32 keeps its low bits", varint(2, 1<<32|7), "i32", "7"},
		{"an unknown type in an any keeps its bytes", bytesOf(45, join(bytesOf(1, []byte("x.y/z.Unknown")...), bytesOf(2, 0xff, 1))...), "any", `{"@type":"x.y/z.Unknown","value":"/wE="}`},

		{"a string of bad UTF-8", bytesOf(14, 0xff), "", "bad_json - payload is not the message pushsink.test.Kinds: a field is not UTF-8, or its length or type is wrong"},
		{"a tag that ends early", []byte{0x80}, "", "bad_json - payload is not the message pushsink.test.Kinds: its bytes are no protobuf message"},
		{"field 0", varint(0, 1), "", "bad_json - payload is not the message pushsink.test.Kinds: its bytes are no protobuf message"},
		{"a length past the end", []byte{0x72, 0x05, 'a'}, "", "bad_json - payload is not the message pushsink.test.Kinds: its bytes are no protobuf message"},
		{"a group that is not closed", protowire.AppendTag(nil, 1002, protowire.StartGroupType), "", "bad_json - payload is not the message pushsink.test.Kinds: its bytes are no protobuf message"},
		{"a group that was not open", protowire.AppendTag(nil, 1002, protowire.EndGroupType), "", "bad_json - payload is not the message pushsink.test.Kinds: its bytes are no protobuf message"},
		{"wire type 7", []byte{0x0f}, "", "bad_json - payload is not the message pushsink.test.Kinds: its bytes are no protobuf message"},
		{"bad bytes in a message within", bytesOf(28, 0x80), "", "bad_json - payload is not the message pushsink.test.Kinds: its bytes are no protobuf message"},
		{"bad bytes in an any", bytesOf(45, join(bytesOf(1, []byte("x/pushsink.test.Kinds")...), bytesOf(2, 0x80))...), "", "bad_json - payload is not the message pushsink.test.Kinds: its bytes are no protobuf message"},
		{"text for an int", join(bytesOf(2, 1, 2, 3), varint(3, 5)), "", "bad_json - payload is not the message pushsink.test.Kinds: field i32 is of another type"},
		{"an int for text", varint(14, 1), "", "bad_json - payload is not the message pushsink.test.Kinds: field user_name is of another type"},
		{"an int for a message", varint(28, 1), "", "bad_json - payload is not the message pushsink.test.Kinds: field child is of another type"},
		{"a group for a message", group(28, varint(2, 1)...), "", "bad_json - payload is not the message pushsink.test.Kinds: field child is of another type"},
		{"a list in a message within, of another type", bytesOf(28, protowire.AppendFixed32(protowire.AppendTag(nil, 18, protowire.Fixed32Type), 1)...), "", "bad_json - payload is not the message pushsink.test.Kinds: field packed is of another type"},
		{"a map's key of another type", bytesOf(21, varint(1, 1)...), "", "bad_json - payload is not the message pushsink.test.Kinds.CountsEntry: field key is of another type"},
		{"packed that ends early", bytesOf(18, 0x80), "", "bad_json - payload is not the message pushsink.test.Kinds: a field is not UTF-8, or its length or type is wrong"},
		{"a timestamp of negative nanos", wire(t, p, "at {nanos: -1}"), "", "bad_json /at payload is not the message google.protobuf.Timestamp: its nanos are outside the second"},
		{"a timestamp after 9999", wire(t, p, "child {at {seconds: 253402300800}}"), "", "timestamp_out_of_range /child/at payload has a time outside the years 1 to 9999"},
		{"a duration of two signs", wire(t, p, "children {} children {took {seconds: 1 nanos: -1}}"), "", "bad_json /children/1/took payload is not the message google.protobuf.Duration: its seconds or nanos are out of range"},
		{"a duration too long", wire(t, p, "took {seconds: 315576000001}"), "", "bad_json /took payload is not the message google.protobuf.Duration: its seconds or nanos are out of range"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, _, err := decoded(p, &Record{Data: row.in})
			switch {
			case err != nil:
				got = refused(err)
			case row.field != "":
				got = member(t, got, row.field)
			}
			if got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestProtobufJSONRefused(t *testing.T) {
	p := protobufOf(t, "kinds", "pushsink.test.Kinds", JSONEncoding)
	const not = "bad_json - payload is not the JSON of pushsink.test.Kinds"
	for _, row := range []struct{ name, in, want string }{
		{"a text for a number", `{"i32":"secret"}`, not + ": a name or a value does not fit at byte 7"},
		{"where in lines", "{\n \"i32\": 1,\n \"i64\": \"secret\"}", not + ": a name or a value does not fit at byte 21"},
		{"an int32 out of range", `{"i32":2147483648}`, not + ": a name or a value does not fit at byte 7"},
		{"a fraction", `{"i64":1.5}`, not + ": a name or a value does not fit at byte 7"},
		{"a vast exponent", `{"i64":1e999999999}`, not + ": a name or a value does not fit at byte 7"},
		{"a double out of range", `{"db":1e400}`, not + ": a name or a value does not fit at byte 6"},
		{"an enum without such a name", `{"color":"secret"}`, "bad_json /color payload is not the JSON of pushsink.test.Kinds: an enum has no such name"},
		{"in a list", `{"children":[{},{"colors":["RED","secret"]}]}`, "bad_json /children/1/colors/1 payload is not the JSON of pushsink.test.Kinds: an enum has no such name"},
		{"in a map", `{"byNumber":{"1":{"by_u64":{"2":"secret"}}}}`, "bad_json /byNumber/1/by_u64/2 payload is not the JSON of pushsink.test.Kinds: an enum has no such name"},
		{"in an any", `{"any":{"@type":"x/pushsink.test.Kinds","color":"secret"}}`, "bad_json /any/color payload is not the JSON of pushsink.test.Kinds: an enum has no such name"},
		{"a field by both names", `{"userName":"a","user_name":"b"}`, not + ": a name or a value does not fit at byte 16"},
		{"two of a oneof", `{"text":"a","number":1}`, not + ": a name or a value does not fit at byte 12"},
		{"a type that the set does not have", `{"any":{"@type":"x/secret","a":1}}`, not + ": a name or a value does not fit at byte 16"},
		{"a list", `[]`, not + ": a name or a value does not fit at byte 0"},
		{"not base64", `{"rawBytes":"*"}`, not + ": a name or a value does not fit at byte 12"},
		{"a key twice", `{"b":true,"b":true}`, `bad_json /b payload has a duplicate key "b" at byte 10`},
		{"after the value", `{} {}`, "bad_json - payload has data after the JSON value at byte 3"},
		{"a lone surrogate", `{"userName":"\ud800"}`, "bad_json - payload has an unpaired surrogate or a bad escape at byte 13"},
	} {
		_, _, err := decoded(p, &Record{Data: []byte(row.in)})
		if refused(err) != row.want {
			t.Errorf("%s: %s\nwant %s", row.name, refused(err), row.want)
		}
	}
	// A newer sender's members are passed over, as its fields are in binary.
	got, _, err := decoded(p, &Record{Data: []byte(`{"fromALaterVersion":{"a":[1]},"i32":5}`)})
	if err != nil || member(t, got, "i32") != "5" {
		t.Errorf("unknown members: %s, %v", got, err)
	}
}

func TestProtobufProto2(t *testing.T) {
	p := protobufOf(t, "legacy", "pushsink.test.Legacy", "")
	for _, row := range []struct{ name, text, want string }{
		{"defaults are the reader's", `id: "a"`, `{"id":"a","result":[]}`},
		{"set", `id: "a" with_default: 0 closed: TWO`, `{"id":"a","with_default":0,"closed":"TWO","result":[]}`},
		{"groups", `id: "a" Result {url: "u"} Result {url: "v" inner {id: "b"}}`, `{"id":"a","result":[{"url":"u"},{"url":"v","inner":{"id":"b","result":[]}}]}`},
		{"extensions are passed over", `id: "a" [pushsink.test.note]: "x"`, `{"id":"a","result":[]}`},
		{"required", `closed: ONE`, "bad_json - payload is not the message pushsink.test.Legacy: required field id is missing"},
		{"required within", `id: "a" Result {url: "u"} Result {}`, "bad_json /result/1 payload is not the message pushsink.test.Legacy.Result: required field url is missing"},
	} {
		got, _, err := decoded(p, &Record{Data: wire(t, p, row.text)})
		if err != nil {
			got = refused(err)
		}
		if got != row.want {
			t.Errorf("%s: %s\nwant %s", row.name, got, row.want)
		}
	}
	// A number that a closed enum does not have is kept, as in proto3.
	in := append(wire(t, p, `id: "a"`), protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 9)...)
	if got, _, err := decoded(p, &Record{Data: in}); err != nil || got != `{"id":"a","closed":9,"result":[]}` {
		t.Errorf("a number that the enum does not have: %s, %v", got, err)
	}
	// Strings of proto2 are not checked by the library.
	in = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{0xff})
	if _, _, err := decoded(p, &Record{Data: in}); err == nil || err.Code != BadJSON {
		t.Errorf("bad UTF-8 in proto2: %v", err)
	}
	if _, _, err := decoded(p, &Record{Data: []byte(`{"result":[]}`), Encoding: JSONEncoding}); err == nil || !strings.Contains(err.Detail, "required field id is missing") {
		t.Errorf("required, in JSON: %v", err)
	}
}

func TestProtobufDescriptorsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		set  []byte
		want string
	}{
		"no set":  {[]byte("syntax = \"proto3\";"), "no FileDescriptorSet"},
		"empty":   {nil, "no FileDescriptorSet"},
		"imports": {setOf(t, `file {name: "a.proto" dependency: "b.proto" syntax: "proto3"}`), "a.proto imports b.proto, which is not in the set: make it with protoc --include_imports"},
		"a bad Timestamp": {setOf(t, `file {name: "google/protobuf/timestamp.proto" package: "google.protobuf" syntax: "proto3"
			message_type {name: "Timestamp" field {name: "seconds" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL}}}`), "its google.protobuf.Timestamp is not Google's"},
	} {
		if _, err := descriptors(row.set); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q in it", name, err, row.want)
		}
	}
}

// setOf is a FileDescriptorSet in Protobuf's text format.
func setOf(t testing.TB, text string) []byte {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	if err := prototext.Unmarshal([]byte(text), set); err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
