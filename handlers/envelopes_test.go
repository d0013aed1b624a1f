package handlers

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/schema"
)

// received is the only record that a route saw.
func (f *fixture) received() schema.Record {
	f.t.Helper()
	rs := f.mapper.records()
	if len(rs) != 1 {
		f.t.Fatalf("%d records", len(rs))
	}
	return rs[0]
}

func withEnvelope(e schema.Envelope) func(*fixture) {
	return func(f *fixture) { f.route.Envelope = e }
}

var metadata = []string{"x-goog-pubsub-message-id", "7", "x-goog-pubsub-publish-time", "2026-01-02T03:04:05Z",
	"x-goog-pubsub-subscription-name", "projects/p/subscriptions/s"}

func TestRAW01ContentTypes(t *testing.T) {
	for _, media := range []string{"application/x-www-form-urlencoded", "", "application/json", "text/plain"} {
		f := newFixture(t, withEnvelope(schema.UnwrappedEnvelope))
		f.want("RAW-01 "+media, f.push(`{"id":"a"}`, "Content-Type", media), 204, "")
		if r := f.received(); string(r.Data) != `{"id":"a"}` || r.ID != "" || !r.Published.IsZero() {
			t.Errorf("RAW-01 %q: %+v", media, r)
		}
	}
}

func TestRAW03OrderingKeyNames(t *testing.T) {
	for _, name := range []string{"x-goog-pubsub-ordering-key", "x-goog-ordering-key"} {
		f := newFixture(t)
		f.want("RAW-03 "+name, f.push(`{"id":"a"}`, append([]string{name, "k1"}, metadata...)...), 204, "")
		if r := f.received(); r.OrderingKey != "k1" || r.ID != "7" || r.Subscription != "projects/p/subscriptions/s" || r.Published.Year() != 2026 {
			t.Errorf("RAW-03 %s: %+v", name, r)
		}
	}
}

func TestRAW04AttributesOnly(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.mapper.raw = true; f.route.Format = "bytes" })
	f.want("RAW-04", f.push("", append([]string{"tenant", "t1"}, metadata...)...), 204, "")
	if r := f.received(); r.Attributes["tenant"] != "t1" || len(r.Data) != 0 {
		t.Errorf("RAW-04 %+v", r)
	}
}

func TestRAW06AttributeNames(t *testing.T) {
	f := newFixture(t)
	f.want("RAW-06", f.push(`{"id":"a"}`, append([]string{"userId", "a", "user_id", "b"}, metadata...)...), 204, "")
	r := f.received()
	if r.Attributes["userid"] != "a" || r.Attributes["user_id"] != "b" || !r.FoldAttributes {
		t.Errorf("RAW-06 %+v", r)
	}
}

func TestCredentialsAreNoAttributes(t *testing.T) {
	f := newFixture(t)
	f.want("push", f.push(`{"id":"a"}`, append([]string{"Authorization", "Bearer secret", "X-Serverless-Authorization", "Bearer secret", "Cookie", "secret",
		"Traceparent", "secret", "X-Forwarded-For", "secret", "tenant", "t"}, metadata...)...), 204, "")
	for name, v := range f.received().Attributes {
		if strings.Contains(v, "secret") {
			t.Errorf("%s became an attribute", name)
		}
	}
}

const structured = `{"specversion":"1.0","id":"e1","source":"//s","type":"t","time":"2026-01-02T03:04:05Z"`

func TestCE01MediaTypes(t *testing.T) {
	for _, media := range []string{"application/cloudevents+json", "application/cloudevents+json; charset=UTF-8", "Application/CloudEvents+JSON"} {
		f := newFixture(t)
		f.want("CE-01 "+media, f.push(structured+`,"data":{"id" : "a"}}`, "Content-Type", media), 204, "")
		r := f.received()
		if string(r.Data) != `{"id" : "a"}` || r.ID != "e1" || r.Attributes["source"] != "//s" || r.Published.Year() != 2026 {
			t.Errorf("CE-01 %s: %+v", media, r)
		}
	}
}

// The same message in every shape makes the same record.
func TestCE03OneMessageManyShapes(t *testing.T) {
	data := b64(`{"id":"a"}`)
	message := `{"message":{"data":"` + data + `","attributes":{"tenant":"t1"},"messageId":"7","message_id":"7","publishTime":"2026-01-02T03:04:05Z","orderingKey":"k"},"subscription":"projects/p/subscriptions/s"}`
	snake := `{"subscription":"projects/p/subscriptions/s","message":{"message_id":"7","publish_time":"2026-01-02T03:04:05Z","orderingKey":"k","attributes":{"tenant":"t1"},"data":"` + strings.TrimRight(data, "=") + `"}}`
	ce := []string{"ce-specversion", "1.0", "ce-id", "e", "ce-source", "s", "ce-type", pubsubEvent, "Content-Type", "application/json"}
	event := `{"specversion":"1.0","id":"e","source":"s","type":"` + pubsubEvent + `","data":` + message + `}`
	raw := append([]string{"tenant", "t1", "x-goog-pubsub-ordering-key", "k"}, metadata...)
	for _, c := range []struct {
		name, body string
		envelope   schema.Envelope
		header     []string
	}{
		{"wrapped, auto", message, schema.AutoEnvelope, nil},
		{"wrapped, named", message, schema.WrappedEnvelope, nil},
		{"wrapped, snake case, unpadded", snake, schema.AutoEnvelope, nil},
		{"wrapped, gzip", gz(message), schema.AutoEnvelope, []string{"Content-Encoding", "gzip"}},
		{"wrapped, named, beside ce headers", message, schema.WrappedEnvelope, ce},
		{"binary event, auto", message, schema.AutoEnvelope, ce},
		{"binary event, named", message, schema.CloudEventsEnvelope, ce},
		{"structured event, auto", event, schema.AutoEnvelope, []string{"Content-Type", cloudEventType}},
		{"structured event, named", event, schema.CloudEventsEnvelope, []string{"Content-Type", cloudEventType + "; charset=utf-8"}},
		{"structured event, zstd", zst(t, event), schema.AutoEnvelope, []string{"Content-Type", cloudEventType, "Content-Encoding", "zstd"}},
		{"unwrapped, auto", `{"id":"a"}`, schema.AutoEnvelope, raw},
		{"unwrapped, named", `{"id":"a"}`, schema.UnwrappedEnvelope, raw},
	} {
		t.Run("CE-03 "+c.name, func(t *testing.T) {
			f := newFixture(t, withEnvelope(c.envelope))
			f.want(c.name, f.push(c.body, c.header...), 204, "")
			r := f.received()
			if r.FoldAttributes {
				maps.DeleteFunc(r.Attributes, func(name, _ string) bool { return name != "tenant" })
			}
			if string(r.Data) != `{"id":"a"}` || r.ID != "7" || r.OrderingKey != "k" || r.Subscription != "projects/p/subscriptions/s" ||
				r.Published.UnixMilli() != 1767323045000 || len(r.Attributes) != 1 || r.Attributes["tenant"] != "t1" {
				t.Errorf("got %+v", r)
			}
			if v, ok := f.writer.row("a"); !ok || v != `{"id":"a"}` {
				t.Errorf("row %q", v)
			}
		})
	}
}

func TestCE04AttributesThatLookLikeEvents(t *testing.T) {
	f := newFixture(t)
	f.want("CE-04", f.push(`{"message":{"data":"`+b64(`{"id":"a"}`)+`","attributes":{"ce-type":"t","ce-id":"9","ce-specversion":"1.0","Content-Type":"application/json"},"messageId":"1"}}`), 204, "")
	if r := f.received(); r.Attributes["ce-id"] != "9" || r.ID != "1" {
		t.Errorf("CE-04 %+v", r)
	}
}

func TestCE06Data(t *testing.T) {
	raw := func(f *fixture) { f.mapper.raw = true; f.route.Format = "bytes" }
	for _, c := range []struct{ name, member, want string }{
		{"data_base64", `,"data_base64":"/+8="`, "\xff\xef"},
		{"data_base64 escaped", `,"data_base64":"\/+8\u003d"`, "\xff\xef"},
		{"object", `,"data":{"a": 1}`, `{"a": 1}`},
		{"JSON string", `,"data":"x"`, `"x"`},
		{"text", `,"datacontenttype":"text/plain","data":"x\ny"`, "x\ny"},
		{"null", `,"data":null`, `null`},
		{"no data", ``, ``},
	} {
		f := newFixture(t, raw)
		f.want("CE-06 "+c.name, f.push(structured+c.member+`}`, "Content-Type", cloudEventType), 204, "")
		if r := f.received(); !bytes.Equal(r.Data, []byte(c.want)) {
			t.Errorf("CE-06 %s: %q, want %q", c.name, r.Data, c.want)
		}
	}
	ce := []string{"ce-specversion", "1.0", "ce-id", "e", "ce-source", "s", "ce-type", "t", "Content-Type", "application/protobuf"}
	for policy, status := range map[schema.Policy]int{schema.Fail: 422, schema.Drop: 204, schema.DeadLetter: 204} {
		f := newFixture(t, func(f *fixture) { f.route.OnReject = policy })
		a := f.push(`{"id":"a"}`, ce...)
		if a.status != status || status == 422 && a.Code != string(schema.UnsupportedContentType) {
			t.Errorf("CE-06 protobuf, %s: %d %s", policy, a.status, a.body)
		}
		if len(f.mapper.records()) != 0 {
			t.Errorf("CE-06 %s: the payload was parsed", policy)
		}
	}
	f := newFixture(t, raw)
	f.want("CE-06 any type as bytes", f.push("\x08\x01", ce...), 204, "")
}

func TestCE07RequiredAttributes(t *testing.T) {
	ce := map[string]string{"specversion": "1.0", "id": "e", "source": "s", "type": "t"}
	for _, missing := range required {
		var header []string
		members := []string{`"data":{"id":"a"}`}
		for name, v := range ce {
			if name != missing {
				header = append(header, "ce-"+name, v)
				members = append(members, `"`+name+`":"`+v+`"`)
			}
		}
		f := newFixture(t)
		a := f.push(`{"id":"a"}`, append(header, "Content-Type", "application/json")...)
		f.want("CE-07 binary without "+missing, a, 400, schema.BadEnvelope)
		b := f.push("{"+strings.Join(members, ",")+"}", "Content-Type", cloudEventType)
		f.want("CE-07 structured without "+missing, b, 400, schema.BadEnvelope)
		if !strings.Contains(a.Detail, missing) || !strings.Contains(b.Detail, missing) {
			t.Errorf("CE-07 %s is not named: %q %q", missing, a.Detail, b.Detail)
		}
	}
	f := newFixture(t)
	for name, body := range map[string]string{
		"specversion 0.3":    `{"specversion":"0.3","id":"1","source":"s","type":"t"}`,
		"both data":          structured + `,"data":1,"data_base64":"/+8="}`,
		"bad base64":         structured + `,"data_base64":"a*b"}`,
		"base64 number":      structured + `,"data_base64":1}`,
		"attribute object":   structured + `,"x":{}}`,
		"array":              `[]`,
		"trailing":           structured + `} {}`,
		"duplicate":          structured + `,"id":"2"}`,
		"cut":                structured,
		"pubsub without any": `{"specversion":"1.0","id":"1","source":"s","type":"` + pubsubEvent + `"}`,
	} {
		f.want("CE-07 "+name, f.push(body, "Content-Type", cloudEventType), 400, schema.BadEnvelope)
	}
	if len(f.writer.entries()) != 0 {
		t.Error("something was written")
	}
}

func FuzzCloudEvent(f *testing.F) {
	damaged(f, structured+`,"data":{"id":"a"}}`, structured+`,"data_base64":"/+8="}`,
		`{"specversion":"1.0","id":"e","source":"s","type":"`+pubsubEvent+`","data":{"message":{"data":"aGk="}}}`,
		structured+`,"datacontenttype":"text/plain","data":"\ud83d\ude00"}`)
	h := map[string][]string{"Content-Type": {cloudEventType}}
	decode := func(pool *buffers, body []byte) (data string, buf *buffer, bad *schema.Error) {
		var rec schema.Record
		b := pool.get(len(body))
		b.b = append(b.b, body...)
		buf, _, bad = new(delivery).cloudEvent(h, b, pool, "bytes", &rec)
		return string(rec.Data), buf, bad
	}
	scribbled := &buffers{scribble: true}
	f.Fuzz(func(t *testing.T, body []byte) {
		var (
			got string
			buf *buffer
			bad *schema.Error
		)
		boundedBy(t, len(body), func() { got, buf, bad = decode(scribbled, body) })
		want, _, _ := decode(new(buffers), body)
		if bad != nil {
			if bad.Code != schema.BadEnvelope && bad.Code != schema.TooDeep {
				t.Fatalf("refused as %v", bad)
			}
			return
		}
		// A buffer that went back too early would show as overwritten.
		if got != want {
			t.Fatalf("got %q, want %q of %q", got, want, body)
		}
		scribbled.put(buf)
	})
}
