package acceptance

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/pushsink/pushsink/internal/emulator"
)

// sameRoutes are routes that map alike, each to a table of its name.
func sameRoutes(names ...string) string {
	var b strings.Builder
	b.WriteString("routes:\n")
	for _, name := range names {
		envelope := "auto"
		if name == "unwrapped" {
			envelope = name
		}
		fmt.Fprintf(&b, `  %s:
    input: {format: json, envelope: %s}
    bigtable:
      table: %s
      rowKey: "{message.id}"
      set:
        - {family: f, column: temp, value: data.temp, as: text}
        - {family: f, column: site, value: message.attributes.site, as: string}
        - {family: f, column: raw, value: raw, as: bytes}
`, name, envelope, name)
	}
	return b.String()
}

// curl runs curl and gives the status of the answer and its HTTP version.
func curl(t *testing.T, stdin []byte, args ...string) (status, version string) {
	t.Helper()
	file, err := exec.LookPath("curl")
	if err != nil {
		if os.Getenv(emulator.RequireEnv) == "1" {
			t.Fatalf("%s=1 and curl is absent: %v", emulator.RequireEnv, err)
		}
		t.Skip("SKIPPED, NOT TESTED: curl is absent")
	}
	cmd := exec.CommandContext(t.Context(), file, append([]string{"--silent", "--show-error", "--max-time", "60",
		"--output", filepath.Join(t.TempDir(), "answer"), "--write-out", "%{http_code} %{http_version}"}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir()} // no .curlrc, no proxy
	cmd.Stdin = bytes.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("curl %q: %v %s", args, err, errs.String())
	}
	status, version, _ = strings.Cut(string(out), " ")
	return status, version
}

// TestCurl: what the documentation tells people to type, and what curl does by itself.
func TestCurl(t *testing.T) {
	bt := emulator.Bigtable(t)
	db := openStore(t, bt)
	db.create(t, "json", "f")
	db.create(t, "lines", "f")
	s := startServer(t, serverBinary(t), bt, `
routes:
  json:
    bigtable:
      table: json
      rowKey: "{data.id}"
      set:
        - {family: f, column: id, value: data.id, as: string}
`, nil)
	base := s.URL + "/v1/routes/json/"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, "{\"id\":\"gzip-1\"}\n{\"id\":\"gzip-2\"}")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var many strings.Builder
	want := []string{"gzip-1", "gzip-2", "push", "push-h2", "expect", "object", "array-1", "array-2"}
	for i := range 3000 {
		id := fmt.Sprintf("line-%05d", i)
		want = append(want, id)
		fmt.Fprintf(&many, "{\"id\":%q,\"padding\":%q}\n", id, strings.Repeat("x", 200))
	}
	pushOf := func(id string) []byte { return numbered(id).body(t) }
	const h2 = "--http2-prior-knowledge"
	for _, c := range []struct {
		name            string
		stdin           []byte
		args            []string
		status, version string
	}{
		{"a push as a form, which curl says by itself", pushOf("push"), []string{"--data-binary", "@-", base + "push"}, "204", "1.1"},
		{"a push over HTTP/2", pushOf("push-h2"), []string{h2, "--data-binary", "@-", base + "push"}, "204", "2"},
		{"the default route", pushOf("push"), []string{"--data-binary", "@-", s.URL}, "204", "1.1"},
		{"Expect: 100-continue", pushOf("expect"), []string{"-H", "Expect: 100-continue", "--data-binary", "@-", base + "push"}, "204", "1.1"},
		{"an object", []byte(`{"id":"object"}`), []string{"--json", "@-", base + "records"}, "200", "1.1"},
		{"an array over HTTP/2", []byte(`[{"id":"array-1"},{"id":"array-2"}]`), []string{h2, "--json", "@-", base + "records"}, "200", "2"},
		{"gzip", zipped.Bytes(), []string{"-H", "Content-Type: application/x-ndjson", "-H", "Content-Encoding: gzip", "--data-binary", "@-", base + "records"}, "200", "1.1"},
		{"a stream from a pipe", []byte(many.String()), []string{"-X", "POST", "-T", "-", "-H", "Content-Type: application/x-ndjson", base + "records"}, "200", "1.1"},
		{"a stream from a pipe over HTTP/2", []byte(many.String()), []string{h2, "-X", "POST", "-T", "-", "-H", "Content-Type: application/x-ndjson", base + "records"}, "200", "2"},
		{"an upload without a method", []byte(`{"id":"x"}`), []string{"-T", "-", base + "records"}, "405", "1.1"},
		{"a form of files", nil, []string{"-F", "file=x", base + "records"}, "415", "1.1"},
		{"a probe's headers", nil, []string{"-I", s.URL + "/health/live"}, "405", "1.1"},
		{"a probe", nil, []string{s.URL + "/health/live"}, "200", "1.1"},
		{"the contract", nil, []string{h2, "--compressed", s.URL + "/openapi.yaml"}, "200", "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if status, version := curl(t, c.stdin, c.args...); status != c.status || version != c.version {
				t.Errorf("%s over HTTP/%s, want %s over HTTP/%s", status, version, c.status, c.version)
			}
		})
	}
	var got []string
	for key, row := range db.rows(t, "json") {
		got = append(got, key)
		if cells := row["f:id"]; len(cells) == 0 || cells[0].Value != key {
			t.Errorf("row %q is %v", key, row)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

// TestPubSubEmulatorEnvelopes: one message comes wrapped to one route and unwrapped with its
// metadata to another, and becomes the same row.
func TestPubSubEmulatorEnvelopes(t *testing.T) {
	bt := emulator.Bigtable(t)
	broker := emulator.PubSub(t)
	db := openStore(t, bt)
	names := []string{"wrapped", "unwrapped", "metadata"}
	for _, name := range names {
		db.create(t, name, "f")
	}
	s := startServer(t, serverBinary(t), bt, sameRoutes(names...), nil)
	topic := broker.Topic(t, project, "readings")
	broker.PushTo(t, project, "wrapped", topic, s.URL+"/v1/routes/wrapped/push")
	for _, name := range names[1:] { // one route is told, the other finds out by the header
		broker.Subscribe(t, &pubsubpb.Subscription{
			Name: "projects/" + project + "/subscriptions/" + name, Topic: topic, AckDeadlineSeconds: 10,
			PushConfig: &pubsubpb.PushConfig{PushEndpoint: s.URL + "/v1/routes/" + name + "/push",
				Wrapper: &pubsubpb.PushConfig_NoWrapper_{NoWrapper: &pubsubpb.PushConfig_NoWrapper{WriteMetadata: true}}},
		})
	}
	var messages []*pubsubpb.PubsubMessage
	for i := range 20 {
		messages = append(messages, &pubsubpb.PubsubMessage{
			Data: fmt.Appendf(nil, "{\"temp\": %d.25, \"é\": \"\\u00e9\" }", i), Attributes: map[string]string{"site": fmt.Sprint("north-", i)}})
	}
	ids := broker.Publish(t, topic, messages...)
	for _, name := range names {
		eventually(t, "the rows of "+name, 2*patience, func() bool { return db.count(t, name) == len(ids) })
	}
	wrapped := db.rows(t, "wrapped")
	for i, id := range ids {
		row := wrapped[id]
		if len(row["f:temp"]) != 1 || row["f:temp"][0].Value != fmt.Sprintf("%d.25", i) ||
			row["f:site"][0].Value != messages[i].Attributes["site"] || row["f:raw"][0].Value != string(messages[i].Data) {
			t.Errorf("message %s became %v", id, row)
		}
		if at := time.UnixMicro(row["f:raw"][0].Micros); time.Since(at) > time.Hour || time.Until(at) > time.Hour {
			t.Errorf("message %s has the time %v, want its publish time", id, at)
		}
	}
	for _, name := range names[1:] {
		if rows := db.rows(t, name); !reflect.DeepEqual(rows, wrapped) {
			t.Errorf("%s: %v\nwrapped: %v", name, rows, wrapped)
		}
	}
}

// TestCloudEventsSDK: the CloudEvents SDK sends an event in both modes, and takes the answer
// for what it is.
func TestCloudEventsSDK(t *testing.T) {
	bt := emulator.Bigtable(t)
	db := openStore(t, bt)
	for _, name := range []string{"binary", "structured"} {
		db.create(t, name, "f")
	}
	s := startServer(t, serverBinary(t), bt, sameRoutes("binary", "structured"), nil)
	sender, err := cloudevents.NewClientHTTP()
	if err != nil {
		t.Fatal(err)
	}
	event := func(id, kind string, data any) cloudevents.Event {
		e := cloudevents.NewEvent()
		e.SetID(id)
		e.SetType(kind)
		e.SetSource("//pubsub.googleapis.com/projects/p/topics/t")
		e.SetTime(published)
		e.SetExtension("site", "north")
		if err := e.SetData(cloudevents.ApplicationJSON, data); err != nil {
			t.Fatal(err)
		}
		return e
	}
	message := map[string]any{"subscription": "projects/p/subscriptions/s", "message": map[string]any{
		"data": []byte(`{"temp":21.25}`), "attributes": map[string]string{"site": "north"}, "messageId": "m-1", "publishTime": published.Format(time.RFC3339Nano)}}
	events := []cloudevents.Event{
		event("e-1", "com.example.reading", map[string]any{"temp": 21.5}),
		event("ignored", "google.cloud.pubsub.topic.v1.messagePublished", message),
	}
	for _, mode := range []string{"binary", "structured"} {
		ctx := cloudevents.ContextWithTarget(t.Context(), s.URL+"/v1/routes/"+mode+"/push")
		if mode == "structured" {
			ctx = cloudevents.WithEncodingStructured(ctx)
		} else {
			ctx = cloudevents.WithEncodingBinary(ctx)
		}
		for _, e := range events {
			if result := sender.Send(ctx, e); !cloudevents.IsACK(result) {
				t.Errorf("%s %s: %v", mode, e.Type(), result)
			}
		}
		if result := sender.Send(ctx, event("bad", "com.example.reading", "no object")); cloudevents.IsACK(result) {
			t.Errorf("%s: an event that is no reading is acknowledged", mode)
		}
	}
	at := published.Truncate(time.Millisecond).UnixMicro()
	want := map[string]map[string][]cell{
		"e-1": {"f:temp": {{at, "21.5"}}, "f:site": {{at, "north"}}, "f:raw": {{at, `{"temp":21.5}`}}},
		"m-1": {"f:temp": {{at, "21.25"}}, "f:site": {{at, "north"}}, "f:raw": {{at, `{"temp":21.25}`}}},
	}
	for _, mode := range []string{"binary", "structured"} {
		if rows := db.rows(t, mode); !reflect.DeepEqual(rows, want) {
			t.Errorf("%s: %v\nwant %v", mode, rows, want)
		}
	}
}
