package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hamba/avro/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/pushsink/pushsink/internal/scripted"
)

// schemas is the folder with the schemas of the tests.
func schemas(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../schema/testdata/payload", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// shapeRoutes are one mapping for the three formats.
func shapeRoutes(t testing.TB) string {
	const mapping = `
    bigtable:
      table: readings
      rowKey: "{data.device}#{reverseMillis(timestamp(data.taken_at))}#{message.id}"
      timestamp: timestamp(data.taken_at)
      set:
        - {family: m, column: temp, value: data.temp, as: float64}
        - {family: m, column: temp_text, value: data.temp, as: text}
        - {family: m, column: seq, value: data.seq, as: int64}
        - {family: m, column: state, value: data.state, as: string}
        - {family: m, column: humidity, value: data.humidity, as: float64}
        - {family: m, column: blob, value: data.blob, as: bytes}
        - {family: m, column: at, value: string(data.taken_at), as: string}
        - {family: m, column: "tag:{key}", each: data.tags, value: value, as: string}
        - {family: m, column: tenant, value: message.attributes.tenant, as: string}
        - {family: m, column: published, value: string(message.publishTime), as: string}
        - {family: m, column: ordering, value: message.orderingKey, as: string}
        - {family: m, column: subscription, value: message.subscription, as: string}
`
	return "routes:\n" +
		"  json:" + mapping +
		"  avro:\n    input: {format: avro, avro: {schemaFile: " + schemas(t, "reading.avsc") + "}}" + mapping +
		"  protobuf:\n    input: {format: protobuf, protobuf: {descriptorSet: " + schemas(t, "reading.binpb") + ", message: example.Reading}}" + mapping
}

const readingJSON = `{"device":"pump-1","taken_at":"2026-01-02T03:04:05.678901Z","temp":21,"humidity":null,"seq":9007199254740993,"state":"ON","tags":{"floor":"3"},"blob":"+/8="}`

func readingAvro(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile(schemas(t, "reading.avsc"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := avro.ParseBytesWithCache(text, "", &avro.SchemaCache{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := avro.Marshal(s, map[string]any{"device": "pump-1", "taken_at": time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC), "temp": 21.0,
		"humidity": nil, "price": big.NewRat(5, 2), "seq": int64(9007199254740993), "state": "ON", "day": time.Unix(0, 0),
		"tags": map[string]any{"floor": "3"}, "blob": []byte{0xfb, 0xff}, "alarm": nil})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const readingAvroJSON = `{"device":"pump-1","taken_at":1767323045678901,"temp":21.0,"humidity":null,"price":"\u0001","seq":9007199254740993,"state":"ON","day":0,"tags":{"floor":"3"},"blob":"ûÿ","alarm":null}`

const readingProtoJSON = `{"device":"pump-1","takenAt":"2026-01-02T03:04:05.678901Z","temp":21,"seq":"9007199254740993","state":"ON","tags":{"floor":"3"},"blob":"+/8="}`

func readingProtobuf(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile(schemas(t, "reading.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(text, set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	d, err := files.FindDescriptorByName("example.Reading")
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
	if err := protojson.Unmarshal([]byte(readingProtoJSON), m); err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wrapped is a push of data with an attribute that says its encoding, where there is one.
func wrapped(data, encoding string) string {
	attribute := ""
	if encoding != "" {
		attribute = `,"googclient_schemaencoding":"` + encoding + `"`
	}
	return `{"message":{"data":"` + data + `","attributes":{"tenant":"t1"` + attribute + `},"messageId":"8241","publishTime":"2026-01-02T03:04:06.5Z","orderingKey":"k"},"subscription":"projects/p/subscriptions/s"}`
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

// One message in every shape that it can be sent in becomes the same bytes on the way to
// Bigtable.
func TestOneMessageInTwelveShapes(t *testing.T) {
	std, url := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	plain := wrapped(std([]byte(readingJSON)), "")
	snake := `{"subscription":"projects/p/subscriptions/s","message":{"message_id":"8241","publish_time":"2026-01-02T03:04:06.5Z","orderingKey":"k","attributes":{"tenant":"t1"},"data":"` +
		std([]byte(readingJSON)) + `"}}`
	metadata := []string{"x-goog-pubsub-message-id", "8241", "x-goog-pubsub-publish-time", "2026-01-02T03:04:06.5Z",
		"x-goog-pubsub-subscription-name", "projects/p/subscriptions/s", "tenant", "t1"}
	header := func(more ...string) []string { return append(more, metadata...) }
	const event = "google.cloud.pubsub.topic.v1.messagePublished"
	avroBinary, protoBinary := readingAvro(t), readingProtobuf(t)
	shapes := []struct {
		name, route, body string
		header            []string
	}{
		{"wrapped", "json", plain, nil},
		{"wrapped, snake case", "json", snake, nil},
		{"wrapped, URL-safe base64 without padding", "json", wrapped(url([]byte(readingJSON)), ""), nil},
		{"wrapped, gzip", "json", zipped(plain), []string{"Content-Encoding", "gzip"}},
		{"unwrapped, the service's headers", "json", readingJSON, header("x-goog-pubsub-ordering-key", "k")},
		{"unwrapped, the emulator's headers", "json", readingJSON, header("x-goog-ordering-key", "k", "Content-Type", "application/x-www-form-urlencoded")},
		{"binary event", "json", plain, []string{"ce-specversion", "1.0", "ce-id", "e", "ce-source", "s", "ce-type", event}},
		{"structured event", "json", `{"specversion":"1.0","id":"e","source":"s","type":"` + event + `","data":` + plain + `}`, []string{"Content-Type", "application/cloudevents+json; charset=utf-8"}},
		{"avro, binary", "avro", wrapped(std(avroBinary), ""), nil},
		{"avro, JSON", "avro", wrapped(std([]byte(readingAvroJSON)), "JSON"), nil},
		{"protobuf, binary", "protobuf", wrapped(std(protoBinary), "BINARY"), nil},
		{"protobuf, JSON", "protobuf", wrapped(std([]byte(readingProtoJSON)), "JSON"), nil},
		{"avro, unwrapped", "avro", string(avroBinary), header("x-goog-pubsub-ordering-key", "k", "googclient_schemaencoding", "BINARY")},
		{"protobuf JSON, unwrapped", "protobuf", readingProtoJSON, header("x-goog-pubsub-ordering-key", "k", "googclient_schemaencoding", "JSON")},
		{"avro, structured event", "avro", `{"specversion":"1.0","id":"e","source":"s","type":"` + event + `","data":` + wrapped(std(avroBinary), "") + `}`, []string{"Content-Type", "application/cloudevents+json"}},
	}
	var (
		mu      sync.Mutex // guards entries
		entries [][]byte
	)
	record := func(c *scripted.Call) scripted.Plan {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range c.Entries {
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			entries = append(entries, b)
		}
		return scripted.Plan{}
	}
	inBubble(t, setup{routes: shapeRoutes(t), service: scripted.Options{Script: record}}, func(x *rig) {
		for i, s := range shapes {
			got := x.send("/v1/routes/"+s.route+"/push", s.body, s.header)
			if got.status != 204 {
				t.Fatalf("%s: %d %s %v", s.name, got.status, got.body, got.err)
			}
			if len(entries) != i+1 {
				t.Fatalf("%s: %d entries", s.name, len(entries))
			}
			if !bytes.Equal(entries[i], entries[0]) {
				t.Errorf("%s: the entry differs from that of %s:\n%q\n%q", s.name, shapes[0].name, entries[i], entries[0])
			}
		}
	})
	for _, want := range []string{"pump-1#9223370269531730129#8241", "\xfb\xff", "floor", "2026-01-02T03:04:05.678901Z", "projects/p/subscriptions/s", "t1"} {
		if !bytes.Contains(entries[0], []byte(want)) {
			t.Errorf("the entry does not hold %q", want)
		}
	}
}

func (x *rig) send(path, body string, header []string) answer {
	req, err := http.NewRequestWithContext(context.WithoutCancel(x.t.Context()), "POST", "http://server"+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := x.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	return answer{resp.StatusCode, text.String(), resp.Header, err}
}

// Records that are JSON by where they come from are the JSON of the route's format: batches,
// dry runs, events with their data in them. An event's type says how its bytes are encoded.
func TestPayloadsOfTypedRoutesByEveryWay(t *testing.T) {
	ce := func(media string) []string {
		return []string{"ce-specversion", "1.0", "ce-id", "e", "ce-source", "s", "ce-type", "t", "ce-time", "2026-01-02T03:04:06.5Z", "Content-Type", media}
	}
	inside := func(member string) string {
		return `{"specversion":"1.0","id":"e","source":"s","type":"t","time":"2026-01-02T03:04:06.5Z",` + member + `}`
	}
	structured := []string{"Content-Type", "application/cloudevents+json"}
	std := base64.StdEncoding.EncodeToString
	avroBinary, protoBinary := string(readingAvro(t)), string(readingProtobuf(t))
	inBubble(t, setup{routes: shapeRoutes(t), options: []string{"EXPOSE=dryrun"}}, func(x *rig) {
		for _, c := range []struct {
			name, path, body string
			header           []string
			status           int
		}{
			{"avro, NDJSON", "avro/records", strings.ReplaceAll(readingAvroJSON, "\n", "") + "\n", []string{"Content-Type", "application/x-ndjson"}, 200},
			{"protobuf, an array", "protobuf/records", "[" + readingProtoJSON + "]", []string{"Content-Type", "application/json"}, 200},
			{"avro, a dry run", "avro/dryrun", readingAvroJSON, []string{"Content-Type", "application/json"}, 200},
			{"avro, a dry run of a push", "avro/dryrun", wrapped(std([]byte(avroBinary)), ""), []string{"Content-Type", "application/json"}, 200},
			{"avro, a binary event", "avro/push", avroBinary, ce("application/avro"), 204},
			{"avro, a binary event of bytes", "avro/push", avroBinary, ce("application/octet-stream"), 204},
			{"avro, a binary event of JSON", "avro/push", readingAvroJSON, ce("application/json"), 204},
			{"avro, a binary event of avro/json", "avro/push", readingAvroJSON, ce("avro/json"), 204},
			{"protobuf, a binary event", "protobuf/push", protoBinary, ce("application/x-protobuf"), 204},
			{"protobuf, a binary event of JSON", "protobuf/push", readingProtoJSON, ce("application/json"), 204},
			{"avro, data", "avro/push", inside(`"data":` + readingAvroJSON), structured, 204},
			{"protobuf, data", "protobuf/push", inside(`"data":` + readingProtoJSON), structured, 204},
			{"protobuf, data_base64", "protobuf/push", inside(`"data_base64":"` + std([]byte(protoBinary)) + `"`), structured, 204},
			{"protobuf JSON in data_base64", "protobuf/push", inside(`"datacontenttype":"application/json","data_base64":"` + std([]byte(readingProtoJSON)) + `"`), structured, 204},
			{"avro in an event of protobuf", "avro/push", avroBinary, ce("application/protobuf"), 422},
			{"text in an event", "protobuf/push", "x", ce("text/plain"), 422},
			{"no avro", "avro/push", wrapped(std([]byte("no avro")), ""), nil, 422},
			{"no avro, in a batch", "avro/records", `{"device":1}`, []string{"Content-Type", "application/json"}, 422},
		} {
			got := x.send("/v1/routes/"+c.path, c.body, c.header)
			if got.status != c.status {
				t.Errorf("%s: %d %s %v, want %d", c.name, got.status, got.body, got.err, c.status)
			}
			if c.status == 200 && strings.HasSuffix(c.path, "dryrun") && !strings.Contains(got.body, `"data":{"device":"pump-1","taken_at":"2026-01-02T03:04:05.678901Z","temp":21,"humidity":null,"price":`) {
				t.Errorf("%s: %s does not show what was decoded", c.name, got.body)
			}
			if strings.HasPrefix(c.name, "no avro") && !strings.Contains(got.body, `"bad_json"`) {
				t.Errorf("%s: %s", c.name, got.body)
			}
		}
	})
}

// Files are found beside the routes file; what is wrong with one is told with the place in
// the routes file that names it.
func TestCheckReadsSchemasBesideTheRoutesFile(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	schema, err := os.ReadFile(schemas(t, "reading.avsc"))
	if err != nil {
		t.Fatal(err)
	}
	put("reading.avsc", schema)
	const routes = "routes:\n  r:\n    input: {format: avro, avro: {schemaFile: %s}}\n    bigtable: {table: t, rowKey: \"{data.device}\", set: [{family: m, column: temp, value: data.temp, as: float64}]}\n"
	sample := put("sample.ndjson", []byte(readingAvroJSON+"\n"+wrapped(base64.StdEncoding.EncodeToString(readingAvro(t)), "BINARY")+"\n"+wrapped(base64.StdEncoding.EncodeToString([]byte(readingAvroJSON)), "JSON")+"\n"))
	out, err := checked(t, "-routes", put("routes.yaml", fmt.Appendf(nil, routes, "reading.avsc")), "-sample", sample)
	if err != nil || strings.Count(out, `"key":"pump-1"`) != 3 {
		t.Errorf("%q, %v", out, err)
	}
	for name, want := range map[string]string{
		"absent.avsc":   "routes.yaml:3:46: routes.r.input.avro.schemaFile: open " + filepath.Join(dir, "absent.avsc") + ": no such file or directory",
		"sample.ndjson": "routes.yaml:3:46: routes.r.input.avro.schemaFile: sample.ndjson: the file has data after the JSON value",
	} {
		_, err := checked(t, "-routes", put("routes.yaml", fmt.Appendf(nil, routes, name)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", name, err, want)
		}
	}
}
