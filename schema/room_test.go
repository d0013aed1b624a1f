package schema

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// lender lends up to most bytes, and notes what it was asked for.
type lender struct {
	most  int64
	asked []int64
}

func (l *lender) Most() int64 { return l.most }

func (l *lender) Reserve(n int64) *Error {
	l.asked = append(l.asked, n)
	if n > l.most {
		return &Error{Code: Overloaded, Detail: "not lent"}
	}
	return nil
}

// dense is a payload that becomes many times its size.
type dense struct {
	name    string
	mapping *Mapping
	rec     Record
	most    int // times that it may ask for memory
}

// denses holds n values each.
func denses(t testing.TB, n int) []dense {
	members := func(format string) []byte {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ","+format, i)
		}
		return []byte("{" + b.String()[1:] + "}")
	}
	list := func(item string) []byte {
		return []byte("[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]")
	}
	files, err := descriptors(setOf(t, `file {name: "d.proto" package: "d" syntax: "proto3" message_type {name: "M"
		field {name: "n" json_name: "n" number: 1 type: TYPE_INT32 label: LABEL_REPEATED}
		field {name: "m" json_name: "m" number: 2 type: TYPE_MESSAGE type_name: ".d.M" label: LABEL_REPEATED}}}`))
	if err != nil {
		t.Fatal(err)
	}
	md, err := files.FindDescriptorByName("d.M")
	if err != nil {
		t.Fatal(err)
	}
	text := &Mapping{json: true}
	proto := &Mapping{typed: &typed{&protobufPayload{dynamicpb.NewMessageType(md.(protoreflect.MessageDescriptor)), dynamicpb.NewTypes(files)}, BinaryEncoding}}
	avro := func(schema string) *Mapping { return &Mapping{typed: avroOf(t, schema, BinaryEncoding)} }
	count := protowire.AppendVarint(nil, uint64(2*n)) // zig-zag
	enum := `{"type":"array","items":{"type":"enum","name":"E","symbols":["` + strings.Repeat("A", 200) + `"]}}`
	return []dense{
		{"list", text, Record{Data: list("0")}, 1},
		{"objects", text, Record{Data: list("{}")}, 1},
		{"members", text, Record{Data: members(`"%d":0`)}, 1},
		{"escaped names", text, Record{Data: members(`"\u0041%d":0`)}, 2},
		{"commas in strings", text, Record{Data: list(`","`)}, 1},
		{"Avro nulls", avro(`{"type":"array","items":"null"}`), Record{Data: append(append(count, 0), make([]byte, 0)...)}, 5},
		{"Avro enum", avro(enum), Record{Data: append(append(count, make([]byte, n)...), 0)}, 5},
		{"Avro in JSON", avro(`{"type":"array","items":"int"}`), Record{Data: list("0"), Encoding: JSONEncoding}, 4},
		{"packed", proto, Record{Data: protowire.AppendBytes([]byte{1<<3 | 2}, make([]byte, n))}, 3},
		{"messages", proto, Record{Data: []byte(strings.Repeat("\x12\x00", n))}, 3},
		{"messages in JSON", proto, Record{Data: []byte(`{"m":` + string(list("{}")) + `}`), Encoding: JSONEncoding}, 4},
	}
}

// What a payload becomes is asked for, all of it, in few steps; it becomes the same as where
// there is memory for all.
func TestRoomCoversDecoding(t *testing.T) {
	const n = 60_000
	for _, d := range denses(t, n) {
		t.Run(d.name, func(t *testing.T) {
			plenty := newState(&d.rec)
			if err := d.mapping.decode(plenty); err != nil {
				t.Fatal(err)
			}
			want, text := append([]node(nil), plenty.tree.nodes...), strings.Clone(plenty.tree.src)
			plenty.release()

			l := &lender{most: 1 << 40}
			rec := d.rec
			rec.Memory = l
			live := func() int64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			before := live()
			s := newState(&rec)
			defer s.release()
			if err := d.mapping.decode(s); err != nil {
				t.Fatal(err)
			}
			held := live() - before
			if len(l.asked) == 0 || len(l.asked) > d.most {
				t.Fatalf("it asked %d times, for %v; want 1 to %d times", len(l.asked), l.asked, d.most)
			}
			if asked := l.asked[len(l.asked)-1]; held > asked || asked > 8*held {
				t.Errorf("%d bytes are held, %d were asked for", held, asked)
			}
			if len(want) < n || !reflect.DeepEqual(s.tree.nodes, want) || s.tree.src != text {
				t.Error("it became something else")
			}
			t.Logf("%d bytes became %d; asked for %v", len(rec.Data), held, l.asked)
		})
	}
}

// A record that gets no memory is refused as the lender says, whichever time it asks, and the
// next one finds nothing of it.
func TestRoomRefused(t *testing.T) {
	for _, d := range denses(t, 60_000) {
		t.Run(d.name, func(t *testing.T) {
			for most := int64(1); ; most = 4 * most {
				l := &lender{most: most}
				rec := d.rec
				rec.Memory = l
				s := newState(&rec)
				err := d.mapping.decode(s)
				s.release()
				if err == nil {
					return
				}
				if err.Code != Overloaded {
					t.Fatalf("%v with %d bytes", err, most)
				}
				if next := newState(jsonRecord(`{"a":1}`)); next.tree.decode(next.rec.Data) != nil || len(next.tree.nodes) != 2 {
					t.Fatal("the next record's state is not its own")
				}
			}
		})
	}
}

// Payloads of few values ask for nothing, however they are encoded.
func TestSmallPayloadsAskForNothing(t *testing.T) {
	for _, d := range denses(t, 250) {
		l := &lender{}
		d.rec.Memory = l
		s := newState(&d.rec)
		if err := d.mapping.decode(s); err != nil || len(l.asked) > 0 {
			t.Errorf("%s: %v, asked for %v", d.name, err, l.asked)
		}
		s.release()
	}
}

// What stands in strings is text, whatever it looks like, and takes a payload's room from none.
func TestTextInStringsTakesNoRoom(t *testing.T) {
	values := strings.Repeat("0,", 5000)
	for name, data := range map[string]string{
		"names as they stand": `{"a":[` + values + `0],"b":"` + strings.Repeat(`,[{:\"`, 100_000) + `"}`,
		"escaped names":       `{"\u0061":[` + values + `0],"b":"` + strings.Repeat(`,[{:\\`, 100_000) + `"}`,
	} {
		l := &lender{most: 4 << 20}
		rec := Record{Data: []byte(data), Memory: l}
		s := newState(&rec)
		if err := (&Mapping{json: true}).decode(s); err != nil || len(l.asked) == 0 {
			t.Errorf("%s: %v, asked for %v", name, err, l.asked)
		}
		s.release()
	}
}

// A key's text is asked for before it is written.
func TestKeysTakeRoom(t *testing.T) {
	key := strings.Repeat("\x01", 40_000) // six characters each, as JSON
	data := append(protowire.AppendVarint(nil, 2), protowire.AppendVarint(nil, uint64(2*len(key)))...)
	data = append(append(append(data, key...), 2), 0)
	l := &lender{}
	rec := Record{Data: data, Memory: l}
	s := newState(&rec)
	defer s.release()
	m := &Mapping{typed: avroOf(t, `{"type":"map","values":"int"}`, BinaryEncoding)}
	if err := m.decode(s); err == nil || err.Code != Overloaded || len(l.asked) != 1 || cap(s.builder.text) > 6*len(key) {
		t.Errorf("%v, asked for %v, %d bytes of text", err, l.asked, cap(s.builder.text))
	}
}
