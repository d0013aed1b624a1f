package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hamba/avro/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// schemaFile is the text of a file of testdata/payload.
func schemaFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/payload/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allocated is how many bytes the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// mayAllocate bounds what decoding size bytes may allocate over all: what is kept is less.
// 65,536 values are free, each costs a node and its text, and slices grow by doubling.
func mayAllocate(size int) uint64 { return 48<<20 + uint64(size)*(16<<10) }

// payloadCodes are the reasons for which a payload may be refused.
var payloadCodes = []Code{BadJSON, TooLarge, TooDeep, TimestampOutOfRange}

// holds checks what has to hold for whatever bytes a payload is, and gives its tree as JSON.
func holds(t *testing.T, p *typed, data []byte) (string, *Error) {
	t.Helper()
	rec := &Record{Data: bytes.Clone(data)}
	before := allocated()
	got, kind, err := decoded(p, rec)
	if used := allocated() - before; used > mayAllocate(len(data)) {
		t.Errorf("%d bytes were allocated for %d, at most %d are allowed", used, len(data), mayAllocate(len(data)))
	}
	if !bytes.Equal(rec.Data, data) {
		t.Error("the payload was changed")
	}
	again, kindAgain, errAgain := decoded(p, rec)
	if got != again || kind != kindAgain || refused(err) != refused(errAgain) {
		t.Errorf("%s %s, and again %s %s", got, refused(err), again, refused(errAgain))
	}
	if err != nil {
		if !slices.Contains(payloadCodes, err.Code) {
			t.Errorf("code %s", err.Code)
		}
		return "", err
	}
	if got != "absent" {
		treeHolds(t, p, rec)
	}
	return got, nil
}

// treeHolds checks every node: its text is the JSON of its value.
func treeHolds(t *testing.T, p *typed, rec *Record) {
	t.Helper()
	s := newState(rec)
	defer s.release()
	if _, err := p.decode(s); err != nil {
		t.Fatal(err)
	}
	tr := &s.tree
	if !jsontext.Value(tr.raw(tr.root())).IsValid() {
		t.Fatalf("the tree's text is no JSON: %q", tr.raw(tr.root()))
	}
	var check func(i int)
	check = func(i int) {
		v, raw := tr.value(i), tr.raw(i)
		ok := true
		switch v.kind {
		case null:
			ok = raw == "null"
		case boolean:
			ok = raw == strconv.FormatBool(v.bits == 1)
		case integer:
			k, bits := parseNumber([]byte(raw))
			ok = k == integer && bits == v.bits
		case unsigned:
			ok = raw == strconv.FormatUint(v.bits, 10)
		case literal:
			ok = raw == v.text
		case double:
			f, err := strconv.ParseFloat(strings.Trim(raw, `"`), 64)
			ok = err == nil && (f == v.float() || math.IsNaN(f) && math.IsNaN(v.float()))
		case text:
			var s string
			ok = json.Unmarshal([]byte(raw), &s) == nil && s == v.text
		case octets:
			ok = raw == `"`+base64.StdEncoding.EncodeToString([]byte(v.text))+`"`
		case instant:
			ok = raw == `"`+v.time.Format(time.RFC3339Nano)+`"`
		case list, object:
			first, count := tr.nodes[i].children()
			for j := first; j < first+count; j++ {
				if v.kind == object && tr.member(i, tr.nameOf(j)) != j {
					t.Fatalf("member %q is not found", tr.nameOf(j))
				}
				check(j)
			}
		default:
			t.Fatalf("a node of kind %s", v.kind)
		}
		if !ok {
			t.Fatalf("%s has the text %q", v.kind, raw)
		}
	}
	check(tr.root())
}

// damaged adds real inputs, whole, cut short and with single bits changed.
func damaged(f *testing.F, inputs ...[]byte) {
	for _, in := range inputs {
		f.Add(in)
		for cut := 1; cut < len(in); cut += 1 + len(in)/16 {
			f.Add(in[:cut])
		}
		for i := 0; i < len(in); i += 1 + len(in)/24 {
			flipped := bytes.Clone(in)
			flipped[i] ^= 1 << (i % 8)
			f.Add(flipped)
		}
	}
}

// avroKinds is a value of kinds.avsc as the library takes it; next is a further one or nil.
func avroKinds(u any, next any) map[string]any {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	v := map[string]any{
		"nothing": nil, "flag": true, "i": -7, "l": int64(9007199254740993), "f": float32(0.1), "d": math.Inf(1),
		"s": "é\"\n", "b": []byte{0, 0xff}, "e": "B", "fx": [4]byte{1, 2, 3, 4}, "arr": []any{int64(1), int64(-1)},
		"m": map[string]any{"k": 1.5, "n": nil}, "u": u, "next": nil, "nulls": []any{nil, nil}, "empties": []any{map[string]any{}},
		"dec": big.NewRat(1234, 100), "fdec": big.NewRat(-1, 100), "day": at, "tms": 3 * time.Hour, "tus": 3*time.Hour + time.Microsecond,
		"ms": at, "us": at, "ns": at.UnixNano(), "lms": at, "id": "dd2e4c04-e593-5743-9ce6-22da286ec187",
		"fid": [16]byte{0xdd}, "span": avro.LogicalDuration{Months: 1, Days: 2, Milliseconds: 3},
	}
	if next != nil {
		v["next"] = map[string]any{"pushsink.test.Kinds": next}
	}
	return v
}

func avroKindsInputs(t testing.TB) (inputs [][]byte) {
	t.Helper()
	s, err := avro.ParseBytesWithCache([]byte(schemaFile(t, "kinds.avsc")), "", &avro.SchemaCache{})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []any{nil, map[string]any{"string": "x"}, map[string]any{"long": int64(5)}, map[string]any{"bytes": []byte("x")},
		map[string]any{"pushsink.test.Pair": map[string]any{"x": 1, "y": 2}}} {
		b, err := avro.Marshal(s, avroKinds(u, avroKinds(nil, nil)))
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, b)
	}
	return inputs
}

// avroInJSON gives the JSON encoding of a binary payload that the decoder took, read with the
// library's reader: what the two encodings make has to be the same.
func avroInJSON(r *avro.Reader, t *avroType) any {
	latin := func(p []byte) string {
		var b strings.Builder
		for _, c := range p {
			b.WriteRune(rune(c))
		}
		return b.String()
	}
	float := func(f float64) any {
		switch {
		case math.IsNaN(f):
			return "NaN"
		case math.IsInf(f, 1):
			return "Infinity"
		case math.IsInf(f, -1):
			return "-Infinity"
		}
		return f
	}
	switch t.kind {
	case avro.Null:
		return nil
	case avro.Boolean:
		return r.ReadBool()
	case avro.Int:
		return r.ReadInt()
	case avro.Long:
		return r.ReadLong()
	case avro.Float:
		f := r.ReadFloat()
		if v := float(float64(f)); v != float64(f) {
			return v
		}
		return f
	case avro.Double:
		return float(r.ReadDouble())
	case avro.String:
		return r.ReadString()
	case avro.Bytes:
		return latin(r.ReadBytes())
	case avro.Fixed:
		p := make([]byte, t.size)
		r.Read(p)
		return latin(p)
	case avro.Enum:
		return t.symbols[r.ReadInt()]
	case avro.Union:
		branch := t.branches[r.ReadLong()]
		v := avroInJSON(r, branch)
		if branch.kind == avro.Null {
			return v
		}
		return map[string]any{branch.name: v}
	case avro.Record:
		m := map[string]any{}
		for _, f := range t.fields {
			m[f.name] = avroInJSON(r, f.typ)
		}
		return m
	}
	items, members := []any{}, map[string]any{}
	for {
		n, _ := r.ReadBlockHeader()
		for range n {
			if t.kind == avro.Map {
				key := r.ReadString()
				members[key] = avroInJSON(r, t.items)
			} else {
				items = append(items, avroInJSON(r, t.items))
			}
		}
		if n == 0 {
			break
		}
	}
	if t.kind == avro.Map {
		return members
	}
	return items
}

func FuzzAvroBinary(f *testing.F) {
	p := avroOf(f, schemaFile(f, "kinds.avsc"), BinaryEncoding)
	inJSON := avroOf(f, schemaFile(f, "kinds.avsc"), JSONEncoding)
	root := p.payload.(*avroPayload).root
	damaged(f, avroKindsInputs(f)...)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := holds(t, p, data)
		if err != nil || len(data) == 0 {
			return
		}
		header := p.payload.(*avroPayload).header
		data = bytes.TrimPrefix(data, header[:])
		text, jsonErr := json.Marshal(avroInJSON(avro.NewReader(nil, 16).Reset(data), root))
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		other, err := holds(t, inJSON, text)
		// json.Marshal sorts a map's keys; the values are the same ones.
		if err != nil || canonicalJSON(t, other) != canonicalJSON(t, got) {
			t.Errorf("binary %s\nJSON %s: %s %s", got, text, other, refused(err))
		}
	})
}

func canonicalJSON(t *testing.T, text string) string {
	t.Helper()
	v := jsontext.Value(text)
	if err := v.Format(jsontext.ReorderRawObjects(true)); err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func FuzzAvroJSON(f *testing.F) {
	p := avroOf(f, schemaFile(f, "kinds.avsc"), JSONEncoding)
	var inputs [][]byte
	for _, binary := range avroKindsInputs(f) {
		text, err := json.Marshal(avroInJSON(avro.NewReader(nil, 16).Reset(binary), p.payload.(*avroPayload).root))
		if err != nil {
			f.Fatal(err)
		}
		inputs = append(inputs, text)
	}
	damaged(f, inputs...)
	f.Fuzz(func(t *testing.T, data []byte) { holds(t, p, data) })
}

var protobufTexts = []string{
	`b: true i32: -1 i64: 9007199254740993 u64: 18446744073709551615 fl: 0.1 db: nan user_name: "é\"" raw_bytes: "\377" color: RED maybe: 0`,
	`packed: [1, -1] unpacked: [1, 2] names: ["a", ""] counts {key: "a" value: 1} counts {key: "b" value: 2} by_number {key: -1 value {i32: 1}}
	 by_bool {key: true value: "t"} by_u64 {key: 9 value: GREEN} colors: [GREEN, RED] children {} children {child {text: "x"}}`,
	`at {seconds: 1767323045 nanos: 678901234} took {seconds: -3 nanos: -500000000} doc {fields {key: "a" value {list_value {values {null_value: NULL_VALUE}
	 values {number_value: 1.5} values {string_value: "x"}}}}} any_value {bool_value: true} any_list {values {string_value: "x"}} wrapped_i64 {value: 1}
	 wrapped_u64 {} wrapped_text {value: "x"} wrapped_bytes {value: "x"} wrapped_bool {} wrapped_double {value: 1.5} mask {paths: "a.b"} nothing {}`,
	`any {[type.googleapis.com/pushsink.test.Kinds] {maybe: 1 any {[type.googleapis.com/google.protobuf.Duration] {seconds: 1}}}} nested {nested {number: 1}}`,
}

func FuzzProtobufBinary(f *testing.F) {
	p := protobufOf(f, "kinds", "pushsink.test.Kinds", BinaryEncoding)
	inJSON := protobufOf(f, "kinds", "pushsink.test.Kinds", JSONEncoding)
	for _, text := range protobufTexts {
		damaged(f, wire(f, p, text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := holds(t, p, data)
		if err != nil {
			return
		}
		// What the library writes as ProtoJSON gives the same tree.
		pb := p.payload.(*protobufPayload)
		m := pb.message.New().Interface()
		if err := (proto.UnmarshalOptions{DiscardUnknown: true, AllowPartial: true}).Unmarshal(data, m); err != nil {
			t.Fatalf("the library refuses what was taken: %v", err)
		}
		text, jsonErr := protojson.MarshalOptions{Resolver: pb.types, UseProtoNames: true, AllowPartial: true}.Marshal(m)
		if jsonErr != nil {
			return // an Any of an unknown type, a Value of NaN or of nothing, a path no JSON has
		}
		other, err := holds(t, inJSON, text)
		if err != nil && err.Code != BadJSON || err == nil && other != got {
			t.Errorf("binary %s\nJSON %s: %s %s", got, text, other, refused(err))
		}
		if err != nil && !unreadable(inJSON, text) {
			t.Errorf("JSON %s: %s", text, refused(err))
		}
	})
}

// unreadable: the library does not read its own JSON.
func unreadable(p *typed, text []byte) bool {
	pb := p.payload.(*protobufPayload)
	return (protojson.UnmarshalOptions{Resolver: pb.types, DiscardUnknown: true}).Unmarshal(text, pb.message.New().Interface()) != nil
}

func FuzzProtobufJSON(f *testing.F) {
	p := protobufOf(f, "kinds", "pushsink.test.Kinds", JSONEncoding)
	pb := p.payload.(*protobufPayload)
	for _, text := range protobufTexts {
		m := pb.message.New().Interface()
		if err := proto.Unmarshal(wire(f, p, text), m); err != nil {
			f.Fatal(err)
		}
		in, err := protojson.MarshalOptions{Resolver: pb.types}.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		damaged(f, in)
	}
	f.Fuzz(func(t *testing.T, data []byte) { holds(t, p, data) })
}

// Payloads made to cost: each is refused, or taken, within the bound of what it may allocate.
// Time is not measured: what takes it either takes bytes of the payload or makes a value.
func TestPayloadsThatCost(t *testing.T) {
	varint := func(n int64) []byte {
		var b []byte
		for u := uint64(n<<1) ^ uint64(n>>63); ; u >>= 7 {
			if u < 0x80 {
				return append(b, byte(u))
			}
			b = append(b, byte(u)|0x80)
		}
	}
	nulls := avroOf(t, `{"type":"array","items":"null"}`, "")
	empties := avroOf(t, `{"type":"array","items":{"type":"record","name":"E","fields":[]}}`, "")
	wide := `{"type":"array","items":{"type":"record","name":"W","fields":[` + strings.TrimSuffix(strings.Repeat(`{"name":"%s","type":"null"},`, 400), ",") + `]}}`
	for i := range 400 {
		wide = strings.Replace(wide, "%s", "field_with_a_long_name_"+strconv.Itoa(i), 1)
	}
	booleans := avroOf(t, `{"type":"array","items":"boolean"}`, "")
	deep := avroOf(t, `{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}`, "")
	kinds := protobufOf(t, "kinds", "pushsink.test.Kinds", "")
	nested := func(number, depth int) []byte {
		var b []byte
		for range depth {
			b = tagged(number, b)
		}
		return b
	}
	for _, row := range []struct {
		name string
		p    *typed
		in   []byte
		want Code // empty = taken
	}{
		{"a billion nulls", nulls, append(varint(1<<30), 0), TooLarge},
		{"2^62 nulls", nulls, append(varint(1<<62), 0), TooLarge},
		{"a billion nulls in a block of no bytes", nulls, append(append(varint(-1<<30), 0), 0), TooLarge},
		{"blocks and blocks of nulls", nulls, append(bytes.Repeat(varint(60000), 40), 0), TooLarge},
		{"60,000 nulls", nulls, append(varint(60000), 0), ""},
		{"a billion empty records", empties, append(varint(1<<30), 0), TooLarge},
		{"a billion records of nulls with long names", avroOf(t, wide, ""), append(varint(1<<30), 0), TooLarge},
		{"a billion booleans in three", booleans, append(varint(1<<30), 1, 0, 1), BadJSON},
		{"100,000 booleans", booleans, append(append(varint(100_000), make([]byte, 100_000)...), 0), ""},
		{"two million booleans", booleans, append(append(varint(2<<20), make([]byte, 2<<20)...), 0), TooLarge},
		{"a string of 2^62 bytes", avroOf(t, `"string"`, ""), append(varint(1<<62), 'a'), BadJSON},
		{"a list of 64", deep, append(bytes.Repeat([]byte{2}, 63), 0), ""},
		{"a list of 65", deep, append(bytes.Repeat([]byte{2}, 64), 0), TooDeep},
		{"a list of a million", deep, append(bytes.Repeat([]byte{2}, 1<<20), 0), TooDeep},
		{"a string of a million zeros", avroOf(t, `"string"`, ""), append(varint(1<<20), make([]byte, 1<<20)...), ""},
		{"a decimal of a million bytes", avroOf(t, `{"type":"bytes","logicalType":"decimal","precision":4000}`, ""), append(varint(1<<20), bytes.Repeat([]byte{1}, 1<<20)...), BadJSON},
		{"a decimal of 4000 digits", avroOf(t, `{"type":"bytes","logicalType":"decimal","precision":4000}`, ""), append(varint(1660), bytes.Repeat([]byte{1}, 1660)...), ""},

		{"100,000 packed bools", kinds, tagged(18, make([]byte, 100_000)), ""},
		{"two million packed bools", kinds, tagged(18, make([]byte, 2<<20)), TooLarge},
		{"a million unknown fields", kinds, bytes.Repeat([]byte{0xf8, 0x3e, 0}, 1<<20+1), TooLarge},
		{"200,000 empty messages", kinds, bytes.Repeat(tagged(29, nil), 200_000), TooLarge},
		{"5,000 empty messages of 28 values", kinds, bytes.Repeat(tagged(29, nil), 5_000), ""},
		{"200,000 entries", kinds, bytes.Repeat(tagged(21, nil), 200_000), TooLarge},
		{"62 messages within one", kinds, nested(28, 62), ""},
		{"64 messages within one", kinds, nested(28, 64), TooDeep},
		{"a thousand messages", kinds, nested(28, 1000), TooDeep},
		{"unknown groups", kinds, append(bytes.Repeat([]byte{0xfb, 0x3e}, 9000), bytes.Repeat([]byte{0xfc, 0x3e}, 9000)...), ""},
		{"unknown groups without bound", kinds, bytes.Repeat([]byte{0xfb, 0x3e}, 1<<20), BadJSON},
		{"any in any", kinds, anyInAny(nil, 100), TooDeep},
		{"60 anys within one another", kinds, anyInAny(nil, 60), ""},
		{"a million bytes in 8 anys", kinds, anyInAny(tagged(14, bytes.Repeat([]byte("a"), 1e6)), 8), ""},
		{"a million bytes in 10 anys", kinds, anyInAny(tagged(14, bytes.Repeat([]byte("a"), 1e6)), 10), TooLarge},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := allocated()
			_, _, err := decoded(row.p, &Record{Data: row.in})
			if used, most := allocated()-before, mayAllocate(len(row.in)); used > most {
				t.Errorf("%d bytes were allocated for %d, at most %d are allowed", used, len(row.in), most)
			}
			code := Code("")
			if err != nil {
				code = err.Code
			}
			if code != row.want {
				t.Errorf("got %s, want %q", refused(err), row.want)
			}
		})
	}
	text := `{"children":[` + strings.TrimSuffix(strings.Repeat("{},", 200_000), ",") + `]}`
	if _, _, err := decoded(kinds, &Record{Data: []byte(text), Encoding: JSONEncoding}); err == nil || err.Code != TooLarge {
		t.Errorf("200,000 messages in JSON: %v", err)
	}
	for depth, want := range map[int]Code{8: "", 10: TooLarge} {
		text := `{"user_name":"` + strings.Repeat("a", 1e6) + `"}`
		for range depth {
			text = `{"any":` + strings.TrimSuffix(text, "}") + `,"@type":"x/pushsink.test.Kinds"}}`
		}
		_, _, err := decoded(kinds, &Record{Data: []byte(text), Encoding: JSONEncoding})
		if err == nil && want != "" || err != nil && err.Code != want {
			t.Errorf("a million bytes in %d anys in JSON: %s, want %q", depth, refused(err), want)
		}
	}
}

// tagged is a length-delimited field.
func tagged(number int, inner []byte) []byte {
	var b []byte
	for _, n := range []uint64{uint64(number)<<3 | 2, uint64(len(inner))} {
		for ; n >= 0x80; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		b = append(b, byte(n))
	}
	return append(b, inner...)
}

// anyInAny is a message with an Any that holds one, and so on, down to b.
func anyInAny(b []byte, depth int) []byte {
	for range depth {
		b = tagged(45, append(tagged(1, []byte("x/pushsink.test.Kinds")), tagged(2, b)...))
	}
	return b
}

// A mutation holds nothing of the memory in which its payload was decoded: that is used again
// by the next record.
func TestMutationsOwnWhatTheyHold(t *testing.T) {
	const routes = `routes:
  bigtable:
    input: {format: avro, avro: {schemaFile: reading.avsc, encoding: json}}
    bigtable: {table: "{data.state}", rowKey: "{data.device}", timestamp: data.taken_at, all: {family: m}, set: [
      {family: tags, each: data.tags, column: "{key}", value: value, as: string}, {family: m, column: json, value: json(data), as: string},
      {family: m, column: blob, value: data.blob, as: bytes}]}
  spanner:
    input: {format: avro, avro: {schemaFile: reading.avsc, encoding: json}}
    spanner: {table: T, columns: {Device: data.device, List: "[data.blob, data.tags]"}, columnsFrom: data}
`
	compiled, err := CompileWith("routes.yaml", []byte(routes), schemaFiles)
	if err != nil {
		t.Fatal(err)
	}
	record := func(c string) *Record {
		return &Record{ID: "7", Data: []byte(`{"device":"` + strings.Repeat(c, 50) + `","taken_at":1767323045678901,"temp":21,"humidity":null,"price":"\u0001","seq":7,"state":"ON","day":0,"tags":{"` +
			c + `":"` + c + `"},"blob":"` + c + c + c + `","alarm":{"string":"` + c + `"}}`)}
	}
	for _, r := range compiled.List {
		mutation, err := r.Mapping.Apply(record("a"))
		if err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprintf("%+v %+v", mutation.Bigtable, mutation.Spanner)
		for range 100 {
			if _, err := r.Mapping.Apply(record("b")); err != nil {
				t.Fatal(err)
			}
		}
		if after := fmt.Sprintf("%+v %+v", mutation.Bigtable, mutation.Spanner); after != before {
			t.Errorf("%s: the mutation changed:\n%s\n%s", r.Name, before, after)
		}
	}
}
