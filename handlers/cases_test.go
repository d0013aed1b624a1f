package handlers

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// withRoute is a fixture with a compiled route instead of the mapper that stands in for one:
// its target keeps the whole mutation.
func withRoute(t testing.TB, inside string) func(*fixture) {
	t.Helper()
	routes, err := schema.Compile("routes.yaml", []byte("routes:\n  r:\n    "+strings.ReplaceAll(strings.TrimSpace(inside), "\n", "\n    ")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return func(f *fixture) {
		f.route.Route, f.route.Mapper, f.route.Target = routes.Default, nil, wholeTarget{}
	}
}

// wholeTarget encodes a row as text: key, then cells.
type wholeTarget struct{}

func (wholeTarget) Encode(r *schema.Record, m *schema.Mutation) (sink.Entry, error) {
	var b strings.Builder
	for _, op := range m.Bigtable.Ops {
		fmt.Fprintf(&b, "%s:%s@%d=%q ", op.Family, op.Column, op.Micros, op.Value)
	}
	row := *m.Bigtable
	row.Ops = []schema.Op{{Kind: schema.SetCell, Family: "f", Column: "raw", Value: []byte(strings.TrimSpace(b.String())), As: schema.AsString}}
	return fakeTarget{}.Encode(r, &schema.Mutation{Bigtable: &row})
}

func (f *fixture) wantRow(what, key, want string) {
	f.t.Helper()
	if got, ok := f.writer.row(key); !ok || got != want {
		f.t.Errorf("%s: row %q is %q, want %q", what, key, got, want)
	}
}

func TestENV01AttributesInAMapping(t *testing.T) {
	const cell = `bigtable: {table: t, rowKey: "{data.id}", set: [
  {family: m, column: id, value: message.id, as: string},
  {family: m, column: tenant, value: message.attributes.tenant, as: string}]}`
	const key = `bigtable: {table: t, rowKey: "{message.attributes.tenant}#{data.id}", set: [{family: m, column: id, value: message.id, as: string}]}`
	for _, attributes := range []string{``, `,"attributes":null`, `,"attributes":{}`} {
		body := `{"message":{"data":"` + b64(`{"id":"a"}`) + `","messageId":"7","publishTime":"2026-01-02T03:04:05Z"` + attributes + `}}`
		f := newFixture(t, withRoute(t, cell))
		f.want("ENV-01 a cell"+attributes, f.push(body), 204, "")
		f.wantRow("ENV-01"+attributes, "a", `m:id@1767323045000000="7"`)
		f = newFixture(t, withRoute(t, key))
		f.want("ENV-01 a key"+attributes, f.push(body), 422, schema.KeyPartMissing)
		if len(f.writer.entries()) != 0 {
			t.Error("ENV-01 a row with an empty key part was written")
		}
	}
}

func TestENV10PublishTimeInAMapping(t *testing.T) {
	const uses = `bigtable: {table: t, rowKey: "{data.id}", set: [{family: m, column: id, value: data.id, as: string}]}`
	const not = `bigtable: {table: t, rowKey: "{data.id}", timestamp: timestamp(data.at), set: [{family: m, column: id, value: data.id, as: string}]}`
	for _, c := range []struct {
		published string
		micros    string // empty = refused with code
		code      schema.Code
	}{
		{`,"publishTime":"2026-01-02T03:04:05Z"`, "1767323045000000", ""},
		{`,"publishTime":"2026-01-02T03:04:05.1Z"`, "1767323045100000", ""},
		{`,"publishTime":"2026-01-02T03:04:05.123456789Z"`, "1767323045123000", ""},
		{`,"publishTime":"1970-01-01T00:00:00Z"`, "", schema.TimestampOutOfRange},
		{``, "", schema.MissingField},
		{`,"publishTime":"soon"`, "", schema.MissingField},
	} {
		body := `{"message":{"data":"` + b64(`{"id":"a","at":"2026-01-01T00:00:00Z"}`) + `","messageId":"7"` + c.published + `}}`
		f := newFixture(t, withRoute(t, uses))
		if a := f.push(body); c.micros != "" {
			f.want("ENV-10"+c.published, a, 204, "")
			f.wantRow("ENV-10"+c.published, "a", `m:id@`+c.micros+`="a"`)
		} else {
			f.want("ENV-10"+c.published, a, 422, c.code)
			if c.code == schema.MissingField && !strings.Contains(a.Detail, "message.publishTime") {
				t.Errorf("ENV-10%s: %q does not name the field", c.published, a.Detail)
			}
		}
		f = newFixture(t, withRoute(t, not))
		f.want("ENV-10 not used"+c.published, f.push(body), 204, "")
		f.wantRow("ENV-10 not used"+c.published, "a", `m:id@1767225600000000="a"`)
	}
}

// A number in a key has one spelling, whatever it came in, and never that of a float.
func TestJNUM04OneKeyOnEveryRoute(t *testing.T) {
	const mapping = `bigtable: {table: t, rowKey: "k#{data.id}", timestamp: "1767323045000", set: [{family: m, column: v, value: "1", as: int64}]}`
	for number, key := range map[string]string{
		"1000000": "k#1000000", "1e6": "k#1000000", "1.0E+6": "k#1000000",
		"123456789012345678": "k#123456789012345678", "-9007199254740993": "k#-9007199254740993",
	} {
		body := `{"id":` + number + `}`
		for name, send := range map[string]func(*fixture) answer{
			"wrapped":   func(f *fixture) answer { return f.push(wrap(body, "m")) },
			"unwrapped": func(f *fixture) answer { return f.push(body, metadata...) },
			"event":     func(f *fixture) answer { return f.push(structured+`,"data":`+body+`}`, "Content-Type", cloudEventType) },
			"json":      func(f *fixture) answer { return f.records("json", body) },
			"ndjson":    func(f *fixture) answer { return f.records("x-ndjson", body+"\n") },
		} {
			f := newFixture(t, withRoute(t, mapping))
			if a := send(f); a.status != 204 && a.status != 200 {
				t.Errorf("JNUM-04 %s %s: %d %s", name, number, a.status, a.body)
			}
			if es := f.writer.entries(); len(es) != 1 || es[0].Key != key {
				t.Errorf("JNUM-04 %s %s: entries %v, want one of key %s", name, number, es, key)
			}
		}
	}
}

// Integers above 2^53 are exact, in a key and in the eight bytes of a cell.
func TestJNUM01IntegersAreExact(t *testing.T) {
	for id, n := range map[string]string{"9007199254740993": "-9223372036854775808", "9223372036854775807": "9007199254740993"} {
		const mapping = `bigtable: {table: t, rowKey: "u#{data.id}", timestamp: timestamp("2026-01-02T03:04:05Z"), set: [
  {family: m, column: n, value: data.n, as: int64}]}`
		want, _ := strconv.ParseInt(n, 10, 64)
		cell := fmt.Sprintf("m:n@1767323045000000=%q", binary.BigEndian.AppendUint64(nil, uint64(want)))
		body := `{"id":` + id + `,"n":` + n + `}`
		f := newFixture(t, withRoute(t, mapping))
		f.want("JNUM-01 push", f.push(wrap(body, "m")), 204, "")
		f.wantRow("JNUM-01 push", "u#"+id, cell)
		f = newFixture(t, withRoute(t, mapping))
		f.want("JNUM-01 lines", f.records("x-ndjson", body+"\n"), 200, "")
		f.wantRow("JNUM-01 lines", "u#"+id, cell)
	}
}

func TestRAW01EveryContentTypeIsTheSameRow(t *testing.T) {
	for _, header := range [][]string{{"Content-Type", "application/x-www-form-urlencoded"}, nil, {"Content-Type", "application/json"}} {
		f := newFixture(t, withRoute(t, `input: {envelope: unwrapped}
bigtable: {table: t, rowKey: "{data.id}", timestamp: timestamp(data.at), set: [{family: m, column: all, value: data, as: json}]}`))
		f.want("RAW-01", f.push(`{"id":1,"at":"2026-01-02T03:04:05Z"}`, header...), 204, "")
		f.wantRow("RAW-01", "1", `m:all@1767323045000000="{\"id\":1,\"at\":\"2026-01-02T03:04:05Z\"}"`)
	}
}

// An attributes-only message is the same row wrapped and unwrapped.
func TestRAW04AttributesOnlyIsTheSameRow(t *testing.T) {
	const mapping = `bigtable: {table: t, rowKey: "{message.attributes.tenant}#{message.id}", set: [
  {family: m, column: tenant, value: message.attributes.tenant, as: string},
  {family: m, column: data, value: data.id, as: string}]}`
	want := `m:tenant@1767323045000000="t1"`
	f := newFixture(t, withRoute(t, mapping))
	f.want("RAW-04 unwrapped", f.push("", append([]string{"tenant", "t1"}, metadata...)...), 204, "")
	f.wantRow("RAW-04 unwrapped", "t1#7", want)
	for _, data := range []string{``, `,"data":""`, `,"data":null`} {
		f = newFixture(t, withRoute(t, mapping))
		f.want("RAW-04 wrapped", f.push(`{"message":{"attributes":{"tenant":"t1"},"messageId":"7","publishTime":"2026-01-02T03:04:05Z"`+data+`}}`), 204, "")
		f.wantRow("RAW-04 wrapped"+data, "t1#7", want)
	}
}

// Attributes that came as headers are found without regard to case, wrapped ones are not.
func TestRAW06CaseOfAttributes(t *testing.T) {
	const mapping = `bigtable: {table: t, rowKey: "{data.id}", set: [
  {family: m, column: a, value: message.attributes.userId, as: string},
  {family: m, column: b, value: message.attributes.user_id, as: string}]}`
	f := newFixture(t, withRoute(t, mapping))
	f.want("RAW-06 unwrapped", f.push(`{"id":"k"}`, append([]string{"userId", "a", "user_id", "b"}, metadata...)...), 204, "")
	f.wantRow("RAW-06 unwrapped", "k", `m:a@1767323045000000="a" m:b@1767323045000000="b"`)
	f = newFixture(t, withRoute(t, mapping))
	f.want("RAW-06 wrapped", f.push(`{"message":{"data":"`+b64(`{"id":"k"}`)+`","attributes":{"USERID":"x","userid":"y","user_id":"b"},"messageId":"7","publishTime":"2026-01-02T03:04:05Z"}}`), 204, "")
	f.wantRow("RAW-06 wrapped", "k", `m:b@1767323045000000="b"`)
}

// The order in which auto tells envelopes apart: a message id's header, an event, a wrapped
// push, and nothing else. A named envelope is not second-guessed.
func TestEnvelopesAreToldApartInOrder(t *testing.T) {
	const mapping = `input: {format: bytes, envelope: %s}
bigtable: {table: t, rowKey: "{message.id}", timestamp: "1767323045000", set: [{family: m, column: data, value: data, as: bytes}]}`
	push := `{"message":{"data":"aGk=","messageId":"wrapped"}}`
	ce := []string{"ce-specversion", "1.0", "ce-id", "event", "ce-source", "s", "ce-type", "t"}
	event := `{"specversion":"1.0","id":"event","source":"s","type":"t","message":{"data":"aGk=","messageId":"wrapped"},"data":"x","datacontenttype":"text/plain"}`
	id := []string{"x-goog-pubsub-message-id", "unwrapped"}
	structuredType := []string{"Content-Type", cloudEventType}
	for _, c := range []struct {
		name, body string
		header     []string
		want       string // the record's id, or empty = 400
		data       string
	}{
		{"metadata before an event and a push", push, append(append([]string{}, id...), ce...), "unwrapped", push},
		{"metadata before a structured event", event, append(append([]string{}, id...), structuredType...), "unwrapped", event},
		{"an event before a push", push, ce, "event", push},
		{"a lone header of an event", push, []string{"ce-id", "event"}, "", ""},
		{"a push", push, nil, "wrapped", "hi"},
		{"a push of any type", push, []string{"Content-Type", "text/plain"}, "wrapped", "hi"},
		{"a push beside other metadata", push, []string{"x-goog-pubsub-subscription-name", "s"}, "wrapped", "hi"},
		{"a payload", `{"id":1}`, nil, "", ""},
		{"a message that is none", `{"message":{"text":"hi"}}`, nil, "", ""},
		{"a message in a list", `[` + push + `]`, nil, "", ""},
	} {
		f := newFixture(t, withRoute(t, fmt.Sprintf(mapping, "auto")))
		a := f.push(c.body, c.header...)
		if c.want == "" {
			f.want(c.name, a, 400, schema.BadEnvelope)
			continue
		}
		f.want(c.name, a, 204, "")
		f.wantRow(c.name, c.want, fmt.Sprintf("m:data@1767323045000000=%q", c.data))
	}
	both := append(append([]string{}, id...), ce...)
	for envelope, row := range map[string][2]string{"wrapped": {"wrapped", "hi"}, "unwrapped": {"unwrapped", push}, "cloudevents": {"event", push}} {
		f := newFixture(t, withRoute(t, fmt.Sprintf(mapping, envelope)))
		f.want(envelope, f.push(push, both...), 204, "")
		f.wantRow(envelope, row[0], fmt.Sprintf("m:data@1767323045000000=%q", row[1]))
	}
}

// What said how a batch's record is encoded is an attribute of its dead letter, by which a
// redrive's push says it again.
func TestDeadLetterKeepsTheEncodingOfARecord(t *testing.T) {
	for _, c := range []struct {
		format, want string
	}{{"avro", "JSON"}, {"protobuf", "JSON"}, {"json", ""}, {"bytes", ""}} {
		letters := &keptLetters{}
		f := newFixture(t, func(f *fixture) {
			f.route.OnReject, f.route.Format = schema.DeadLetter, c.format
			f.config.DeadLetters = letters
		})
		f.want(c.format, f.records("json", `{"id":"a","do":"mismatch"}`), 200, "")
		if len(letters.got) != 1 || letters.got[0].Attributes["googclient_schemaencoding"] != c.want {
			t.Errorf("%s: %+v", c.format, letters.got)
		}
	}
}

// keptLetters keeps the records of dead letters.
type keptLetters struct{ got []*schema.Record }

func (k *keptLetters) Publish(_ context.Context, _ *schema.Route, r *schema.Record, _ sink.Dest, _ *schema.Error) error {
	k.got = append(k.got, r)
	return nil
}

// allocatedBy is how many bytes do allocates, and whatever runs beside it.
func allocatedBy(do func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	do()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// boundedBy fails when do allocates more than an envelope of size bytes may.
func boundedBy(t *testing.T, size int, do func()) {
	t.Helper()
	if used, most := allocatedBy(do), uint64(4<<20+64*size); used > most {
		t.Errorf("%d bytes were allocated for %d, at most %d are allowed", used, size, most)
	}
}

// damaged adds real inputs, whole, cut short and with single bits changed.
func damaged(f *testing.F, inputs ...string) {
	for _, text := range inputs {
		in := []byte(text)
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

// headersOf reads lines of headers as the server gives them: canonical names, no line breaks.
// What is behind an empty line is the body.
func headersOf(text []byte) (http.Header, []byte) {
	head, body, _ := bytes.Cut(text, []byte("\n\n"))
	h := http.Header{}
	for line := range bytes.Lines(head) {
		name, v, ok := strings.Cut(strings.Trim(string(line), " \r\n"), ":")
		if v = strings.TrimSpace(v); ok && httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(v) {
			h.Add(name, v)
		}
	}
	return h, body
}

// FuzzUnwrapped: the body is the payload, every attribute stands under a lower-case name, and
// what belongs to the delivery is none of them.
func FuzzUnwrapped(f *testing.F) {
	damaged(f,
		"X-Goog-Pubsub-Message-Id: 23\nX-Goog-Pubsub-Publish-Time: 2026-11-29T22:13:39.480Z\nX-Goog-Pubsub-Subscription-Name: projects/p/subscriptions/s\nX-Goog-Ordering-Key: k1\ntenant: t1\nContent-Type: application/x-www-form-urlencoded\n\n{\"id\":1}",
		"x-goog-pubsub-message-id: 7\nx-goog-pubsub-ordering-key: k\nx-goog-pubsub-delivery-attempt: 3\nauthorization: Bearer x\ncookie: a\ngoogclient_schemaencoding: JSON\nuserId: \u00e9\n\n")
	f.Fuzz(func(t *testing.T, text []byte) {
		h, body := headersOf(text)
		var rec, again schema.Record
		var bad *schema.Error
		boundedBy(t, len(text), func() { bad = unwrapped(h, body, &rec) })
		badAgain := unwrapped(h, body, &again)
		if (bad == nil) != (badAgain == nil) || bad == nil && (rec.ID != again.ID || !maps.Equal(rec.Attributes, again.Attributes) || !rec.Published.Equal(again.Published)) {
			t.Fatalf("%+v, and again %+v", rec, again)
		}
		if bad != nil {
			if bad.Code != schema.BadEnvelope {
				t.Errorf("refused as %v", bad)
			}
			return
		}
		if !bytes.Equal(rec.Data, body) || rec.ID != h.Get("X-Goog-Pubsub-Message-Id") || rec.Attempt < 0 {
			t.Errorf("got %+v", rec)
		}
		for name := range rec.Attributes {
			if name != strings.ToLower(name) || name == "authorization" || name == "cookie" || strings.HasPrefix(name, "x-goog-") {
				t.Errorf("attribute %q", name)
			}
		}
	})
}

// FuzzBinaryEvent: an event in headers is taken with its four attributes or refused.
func FuzzBinaryEvent(f *testing.F) {
	damaged(f,
		"ce-specversion: 1.0\nce-id: e\nce-source: //s\nce-type: t\nce-time: 2026-01-02T03:04:05Z\nce-tenant: %C3%A9\nContent-Type: application/json\n\n{\"id\":1}",
		"ce-specversion: 1.0\nce-id: e\nce-source: s\nce-type: "+pubsubEvent+"\nContent-Type: application/json\n\n"+wrap(`{"id":"a"}`, "7"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, body := headersOf(text)
		decode := func(pool *buffers) (rec schema.Record, refused, bad *schema.Error) {
			b := pool.get(len(body))
			b.b = append(b.b, body...)
			_, refused, bad = new(delivery).cloudEvent(h, b, pool, "json", &rec)
			return rec, refused, bad
		}
		var rec schema.Record
		var refused, bad *schema.Error
		boundedBy(t, len(text), func() { rec, refused, bad = decode(&buffers{scribble: true}) })
		again, _, badAgain := decode(new(buffers))
		if (bad == nil) != (badAgain == nil) || bad == nil && (!bytes.Equal(rec.Data, again.Data) || !maps.Equal(rec.Attributes, again.Attributes)) {
			t.Fatalf("%+v, and again %+v", rec, again)
		}
		switch {
		case bad != nil:
			if bad.Code != schema.BadEnvelope && bad.Code != schema.TooDeep {
				t.Errorf("refused as %v", bad)
			}
		case refused != nil:
			if refused.Code != schema.UnsupportedContentType {
				t.Errorf("refused as %v", refused)
			}
		case isStructured(h):
		case h.Get("Ce-Specversion") != "1.0" || h.Get("Ce-Id") == "" || h.Get("Ce-Source") == "" || h.Get("Ce-Type") == "":
			t.Errorf("taken: %v", h)
		}
	})
}
