package schema

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/hamba/avro/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// BenchmarkPayload maps the first earthquake, some 700 bytes of JSON, from each format and
// encoding; decode is that part of it.
func BenchmarkPayload(b *testing.B) {
	routes, err := CompileWith("earthquakes.yaml", []byte(schemaFile(b, "earthquakes.yaml")), schemaFiles)
	if err != nil {
		b.Fatal(err)
	}
	plain, avroRoute, protobuf := routes.List[0].Mapping, routes.List[1].Mapping, routes.List[2].Mapping
	line := quakes(b)[0]
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		b.Fatal(err)
	}
	s, err := avro.ParseBytesWithCache([]byte(schemaFile(b, "earthquake.avsc")), "", &avro.SchemaCache{})
	if err != nil {
		b.Fatal(err)
	}
	avroBinary, err := avro.Marshal(s, avroValue(b, s, v))
	if err != nil {
		b.Fatal(err)
	}
	inJSON, err := json.Marshal(avroInJSON(avro.NewReader(nil, 16).Reset(avroBinary), avroRoute.typed.payload.(*avroPayload).root))
	if err != nil {
		b.Fatal(err)
	}
	properties := v["properties"].(map[string]any)
	ms, _ := properties["time"].(json.Number).Int64()
	properties["time"] = time.UnixMilli(ms).UTC().Format(time.RFC3339Nano)
	protoJSON, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	m := protobuf.typed.payload.(*protobufPayload).message.New().Interface()
	if err := protojson.Unmarshal(protoJSON, m); err != nil {
		b.Fatal(err)
	}
	protoBinary, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		mapping *Mapping
		rec     Record
	}{
		{"json", plain, Record{Data: line}},
		{"avro/binary", avroRoute, Record{Data: avroBinary}},
		{"avro/json", avroRoute, Record{Data: inJSON, Encoding: JSONEncoding}},
		{"protobuf/binary", protobuf, Record{Data: protoBinary}},
		{"protobuf/json", protobuf, Record{Data: protoJSON, Encoding: JSONEncoding}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.rec.Data)))
			for b.Loop() {
				if _, err := c.mapping.Apply(&c.rec); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decode/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := newState(&c.rec)
				var err *Error
				if c.mapping.typed != nil {
					_, err = c.mapping.typed.decode(s)
				} else {
					err = s.tree.decode(c.rec.Data)
				}
				if err != nil {
					b.Fatal(err)
				}
				s.release()
			}
		})
	}
}
