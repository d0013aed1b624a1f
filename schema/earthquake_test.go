package schema

import (
	"bufio"
	"encoding/json"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hamba/avro/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// quakes are the lines of earthquakes.ndjson.
func quakes(t testing.TB) (lines [][]byte) {
	t.Helper()
	f, err := os.Open("../internal/acceptance/testdata/earthquakes.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		lines = append(lines, []byte(scan.Text()))
	}
	return lines
}

// avroValue makes of JSON what the Avro library encodes by s.
func avroValue(t testing.TB, s avro.Schema, v any) any {
	t.Helper()
	switch s := s.(type) {
	case *avro.RecordSchema:
		in, out := v.(map[string]any), map[string]any{}
		for _, f := range s.Fields() {
			out[f.Name()] = avroValue(t, f.Type(), in[f.Name()])
		}
		return out
	case *avro.ArraySchema:
		out := []any{}
		for _, e := range v.([]any) {
			out = append(out, avroValue(t, s.Items(), e))
		}
		return out
	case *avro.UnionSchema:
		if v == nil {
			return nil
		}
		return avroValue(t, s.Types()[1], v)
	case *avro.PrimitiveSchema:
		n, _ := v.(json.Number)
		i, _ := n.Int64()
		f, _ := n.Float64()
		switch {
		case s.Logical() != nil && s.Logical().Type() == avro.Decimal:
			r, _ := new(big.Rat).SetString(n.String())
			return r
		case s.Logical() != nil:
			return time.UnixMilli(i)
		case s.Type() == avro.Int:
			return int(i)
		case s.Type() == avro.Long:
			return i
		case s.Type() == avro.Double:
			return f
		}
	}
	return v
}

// All 1,707 real records, as JSON, as Avro and as Protobuf, binary and JSON: one mapping makes
// the same mutation of all of them.
func TestEarthquakesInEveryFormat(t *testing.T) {
	routes, err := CompileWith("earthquakes.yaml", []byte(schemaFile(t, "earthquakes.yaml")), schemaFiles)
	if err != nil {
		t.Fatal(err)
	}
	plain, avroRoute, protobuf := routes.List[0].Mapping, routes.List[1].Mapping, routes.List[2].Mapping
	s, err := avro.ParseBytesWithCache([]byte(schemaFile(t, "earthquake.avsc")), "", &avro.SchemaCache{})
	if err != nil {
		t.Fatal(err)
	}
	message := protobuf.typed.payload.(*protobufPayload).message
	lines := quakes(t)
	if len(lines) != 1707 {
		t.Fatalf("%d records", len(lines))
	}
	cells := 0
	for n, line := range lines {
		want, err := plain.Apply(&Record{Data: line})
		if err != nil {
			t.Fatalf("record %d: %v", n, err)
		}
		cells += len(want.Bigtable.Ops)
		dec := json.NewDecoder(strings.NewReader(string(line)))
		dec.UseNumber()
		var v map[string]any
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		binary, err := avro.Marshal(s, avroValue(t, s, v))
		if err != nil {
			t.Fatal(err)
		}
		inJSON, err := json.Marshal(avroInJSON(avro.NewReader(nil, 16).Reset(binary), avroRoute.typed.payload.(*avroPayload).root))
		if err != nil {
			t.Fatal(err)
		}
		// ProtoJSON wants the time in RFC 3339, and is otherwise the feed's own form.
		properties := v["properties"].(map[string]any)
		ms, _ := properties["time"].(json.Number).Int64()
		properties["time"] = time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)
		protoJSON, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		m := message.New().Interface()
		if err := protojson.Unmarshal(protoJSON, m); err != nil {
			t.Fatal(err)
		}
		protoBinary, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name    string
			mapping *Mapping
			rec     Record
		}{
			{"avro binary", avroRoute, Record{Data: binary}},
			{"avro JSON", avroRoute, Record{Data: inJSON, Encoding: JSONEncoding}},
			{"protobuf binary", protobuf, Record{Data: protoBinary}},
			{"protobuf JSON", protobuf, Record{Data: protoJSON, Encoding: JSONEncoding}},
		} {
			got, err := c.mapping.Apply(&c.rec)
			if err != nil {
				t.Fatalf("record %d, %s: %v", n, c.name, err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("record %d, %s:\ngot  %+v\nwant %+v", n, c.name, got.Bigtable, want.Bigtable)
			}
		}
	}
	t.Logf("%d records, %d cells, in four encodings", len(lines), cells)
}
