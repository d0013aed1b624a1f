package acceptance

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/pushsink/pushsink/internal/scripted"
)

// denseValues is nearly as many as a payload may hold, densePayload one of JSON.
const denseValues = 1<<20 - 8

func densePayload() []byte {
	return append(append([]byte("["), bytes.Repeat([]byte("0,"), denseValues-1)...), "0]"...)
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// TestDensePayloadsStayInsideTheirBound: payloads of a million values in 16 KB to 10 MB, 1,000
// of them at once (short: 40), of every format. The server stays below what it is sized for
// (docs/sizing.md), however much they would become together; it writes some, refuses the rest
// as overloaded, and answers all.
func TestDensePayloadsStayInsideTheirBound(t *testing.T) {
	const bound = 512 << 20 // memory of an instance with one sink and default options
	dir := t.TempDir()
	file := func(name string, text []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	repeated := func(name string, n int32, typ descriptorpb.FieldDescriptorProto_Type, of *string) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, JsonName: &name, Number: &n, Type: &typ, TypeName: of,
			Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()}
	}
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("d.proto"), Package: proto.String("d"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{
			repeated("n", 1, descriptorpb.FieldDescriptorProto_TYPE_INT32, nil),
			repeated("m", 2, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, proto.String(".d.M")),
		}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	avro := file("nulls.avsc", []byte(`{"type":"array","items":"null"}`))
	descriptors := file("d.pb", set)
	const target = `, envelope: unwrapped}
    bigtable: {table: dense, rowKey: "{message.id}", set: [{family: f, column: v, value: "1", as: int64}]}`
	routes := "routes:" + `
  json:
    input: {format: json` + target + `
  avro:
    input: {format: avro, avro: {schemaFile: ` + avro + `}` + target + `
  proto:
    input: {format: protobuf, protobuf: {descriptorSet: ` + descriptors + `, message: d.M}` + target + "\n"

	members := []byte("{")
	for i := range denseValues {
		members = fmt.Appendf(members, `"%d":0,`, i)
	}
	members[len(members)-1] = '}'
	nulls := bytes.Repeat(protowire.AppendVarint(nil, protowire.EncodeZigZag(64)), denseValues/64)
	shapes := []struct {
		name, route string
		body        []byte
	}{
		{"zeros", "json", gzipped(densePayload())},
		{"members", "json", gzipped(members)},
		{"nulls", "avro", gzipped(append(nulls, 0))},
		{"packed", "proto", gzipped(protowire.AppendBytes([]byte{1<<3 | 2}, make([]byte, denseValues)))},
		{"messages", "proto", gzipped(bytes.Repeat([]byte{2<<3 | 2, 0}, 1<<17-8))},
	}

	bt := scripted.New(t, scripted.Options{KeysOnly: true, Latency: 5 * time.Millisecond})
	bt.AddTable(tableName("dense"), "f")
	s := startServer(t, plainBinary(t), bt.Addr(), routes, map[string]string{
		"PUSHSINK_READ_HEADER_TIMEOUT": "60s", "PUSHSINK_READ_BODY_TIMEOUT": "60s",
		"PUSHSINK_REQUEST_TIMEOUT": "500s", "PUSHSINK_ACK_DEADLINE": "600s",
	})
	client := newClient(t)
	client.Timeout = 0
	send := func(route, id, coding string, body []byte) answer {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/routes/"+route+"/push", bytes.NewReader(body))
		if err != nil {
			return answer{Err: err}
		}
		if coding != "" {
			r.Header.Set("Content-Encoding", coding)
		}
		r.Header.Set("X-Goog-Pubsub-Message-Id", id)
		r.Header.Set("X-Goog-Pubsub-Publish-Time", published.Format(time.RFC3339Nano))
		resp, err := client.Do(r)
		if err != nil {
			return answer{Err: err}
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return answer{Status: resp.StatusCode, Header: resp.Header, Body: string(text), Err: err}
	}

	n := size(1000, 40)
	answers := make([]answer, n)
	var all sync.WaitGroup
	for i := range n {
		d := shapes[i%len(shapes)]
		all.Go(func() { answers[i] = send(d.route, fmt.Sprintf("%s-%04d", d.name, i), "gzip", d.body) })
	}
	all.Wait()
	statuses := map[string]map[int]int{}
	written := 0
	for i, a := range answers {
		name := shapes[i%len(shapes)].name
		if statuses[name] == nil {
			statuses[name] = map[int]int{}
		}
		statuses[name][a.Status]++
		stored := bt.Has(tableName("dense"), fmt.Sprintf("%s-%04d", name, i))
		switch {
		case a.Status == http.StatusNoContent && stored:
			written++
		case a.Status == http.StatusTooManyRequests && !stored && a.Header.Get("Retry-After") != "" && strings.Contains(a.Body, `"code":"overloaded"`):
		default:
			t.Errorf("%s %d, stored %v: %v", name, i, stored, a)
		}
	}
	if written == 0 {
		t.Error("none was written")
	}
	peak := memory(t, s, "VmHWM")
	if peak > bound {
		t.Errorf("peak RSS %d MiB, bound %d MiB", peak>>20, bound>>20)
	}
	// Each fits when it is alone.
	for _, d := range shapes {
		if a := send(d.route, "alone-"+d.name, "gzip", d.body); a.Status != http.StatusNoContent {
			t.Errorf("%s alone: %v", d.name, a)
		}
	}
	t.Logf("%d payloads of up to %d values: %v; peak RSS %d MiB (bound %d)", n, denseValues, statuses, peak>>20, bound>>20)
}
