package handlers

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/schema"
)

// decodeOne decodes an envelope as a push does.
func decodeOne(t testing.TB, body string) (schema.Record, *schema.Error) {
	t.Helper()
	var e envelope
	var rec schema.Record
	_, err := e.decode([]byte(body), new(buffers), &rec)
	return rec, err
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// wrap makes a push of a payload.
func wrap(payload, id string) string {
	return `{"message":{"data":"` + b64(payload) + `","messageId":"` + id + `","publishTime":"2026-01-02T03:04:05Z"},"subscription":"projects/p/subscriptions/s"}`
}

func TestENV01AttributesAbsent(t *testing.T) {
	f := newFixture(t)
	for _, attributes := range []string{``, `,"attributes":null`, `,"attributes":{}`} {
		a := f.push(`{"message":{"data":"` + b64(`{"id":"a"}`) + `","messageId":"7","publishTime":"2026-01-02T03:04:05Z"` + attributes + `},"subscription":"projects/p/subscriptions/s"}`)
		f.want("ENV-01 "+attributes, a, 204, "")
	}
	for _, r := range f.mapper.records() {
		if len(r.Attributes) != 0 || r.ID != "7" || r.Subscription != "projects/p/subscriptions/s" {
			t.Errorf("got %+v", r)
		}
	}
}

func TestEnvelopeSpellings(t *testing.T) {
	const at1, at2 = "2026-01-02T03:04:05Z", "2027-01-02T03:04:05Z"
	for _, c := range []struct {
		name, members, id, published string
	}{
		{"ENV-03 only messageId", `"messageId":"1"`, "1", ""},
		{"ENV-03 only message_id", `"message_id":"1"`, "1", ""},
		{"ENV-03 both equal", `"messageId":"1","message_id":"1"`, "1", ""},
		{"ENV-03 both different", `"message_id":"2","messageId":"1"`, "1", ""},
		{"ENV-03 camelCase null", `"messageId":null,"message_id":"2"`, "2", ""},
		{"ENV-03 camelCase empty", `"messageId":"","message_id":"2"`, "2", ""},
		{"ENV-03 only publishTime", `"messageId":"1","publishTime":"` + at1 + `"`, "1", at1},
		{"ENV-03 only publish_time", `"messageId":"1","publish_time":"` + at1 + `"`, "1", at1},
		{"ENV-03 both times", `"messageId":"1","publish_time":"` + at2 + `","publishTime":"` + at1 + `"`, "1", at1},
		{"ENV-04 every spelling", `"messageId":"9","message_id":"9","publishTime":"` + at1 + `","publish_time":"` + at1 + `"`, "9", at1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := decodeOne(t, `{"message":{`+c.members+`}}`)
			if err != nil {
				t.Fatal(err)
			}
			var want time.Time
			if c.published != "" {
				want, _ = time.Parse(time.RFC3339, c.published)
			}
			if r.ID != c.id || !r.Published.Equal(want) {
				t.Errorf("got id %q published %v, want %q %v", r.ID, r.Published, c.id, want)
			}
		})
	}
}

func TestENV06DecodedOnce(t *testing.T) {
	f := newFixture(t)
	twice := `{"message":{"data":"` + b64(b64(`{"id":"1"}`)) + `","messageId":"1"}}`
	f.want("ENV-06 json", f.push(twice), 422, schema.BadJSON)
	if n := len(f.writer.entries()); n != 0 {
		t.Errorf("%d entries written", n)
	}
	raw := newFixture(t, func(f *fixture) { f.mapper.raw = true; f.route.Format = "bytes" })
	raw.want("ENV-06 raw", raw.push(twice), 204, "")
	if v, _ := raw.writer.row("1"); v != b64(`{"id":"1"}`) {
		t.Errorf("stored %q", v)
	}
}

func TestENV07PayloadIsNotReinterpreted(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.mapper.raw = true; f.route.Format = "bytes" })
	for _, payload := range []string{`123`, `"str"`, `true`, ` {"b":1 , "a":2} `, "\x00\xff", ""} {
		f.want("ENV-07", f.push(wrap(payload, "k")), 204, "")
		if v, _ := f.writer.row("k"); v != payload {
			t.Errorf("ENV-07 got %q, want %q", v, payload)
		}
	}
}

func TestENV09NamesAreExact(t *testing.T) {
	r, err := decodeOne(t, `{"message":{"data":"aGk=","DATA":"eW8=","messageid":"X","messageId":"1"},"MESSAGE":{"data":"eW8="}}`)
	if err != nil || string(r.Data) != "hi" || r.ID != "1" {
		t.Errorf("got %q %q %v", r.Data, r.ID, err)
	}
	if _, err := decodeOne(t, `{"message":{"data":[104,105],"messageId":"1"}}`); err == nil || err.Code != schema.BadEnvelope {
		t.Errorf("data as an array: %v", err)
	}
	// A name spelled with escapes is the same name.
	r, err = decodeOne(t, `{"mess\u0061ge":{"d\u0061ta":"aGk=","messageId":"1"}}`)
	if err != nil || string(r.Data) != "hi" {
		t.Errorf("escaped name: got %q %v", r.Data, err)
	}
}

func TestENV10PublishTime(t *testing.T) {
	for in, want := range map[string]time.Time{
		`"2026-01-02T03:04:05Z"`:             time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		`"2026-01-02T03:04:05.1Z"`:           time.Date(2026, 1, 2, 3, 4, 5, 100_000_000, time.UTC),
		`"2026-01-02T03:04:05.123456789Z"`:   time.Date(2026, 1, 2, 3, 4, 5, 123_456_789, time.UTC),
		`"1970-01-01T00:00:00Z"`:             time.Unix(0, 0).UTC(),
		`"2026-01-02T05:04:05+02:00"`:        time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		`"2026-01-02T03:04:05.1234567891Z"`:  {},
		`"soon"`:                             {},
		`""`:                                 {},
		`null`:                               {},
		`"2026-01-02"`:                       {},
		`"2026-01-02t03:04:05z"`:             {},
		`"2026-01-02T05:04:05\u002B02:00"`:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		`"2026-01-02T05:04:05.5\u002b02:00"`: time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC),
		`"2026-01-02T03:04:05,5Z"`:           {},
		`"2026-01-02T3:04:05Z"`:              {},
		`"2026-01-02T03:04:05"`:              {},
		`"2026-01-02T03:04:05+24:00"`:        {},
		`"2026-01-02T03:04:05+23:60"`:        {},
		`"2026-01-02T03:04:05+23:59"`:        time.Date(2026, 1, 1, 3, 5, 5, 0, time.UTC),
		`"\""`:                               {},
	} {
		r, err := decodeOne(t, `{"message":{"messageId":"1","publishTime":`+in+`}}`)
		if err != nil || r.Published != want {
			t.Errorf("ENV-10 %s: got %v %v, want %v", in, r.Published, err, want)
		}
	}
	if r, err := decodeOne(t, `{"message":{"messageId":"1"}}`); err != nil || !r.Published.IsZero() {
		t.Errorf("ENV-10 missing: got %v %v", r.Published, err)
	}

	uses := newFixture(t, func(f *fixture) { f.mapper.usesTime = true })
	for _, published := range []string{``, `,"publishTime":"soon"`} {
		body := `{"message":{"data":"` + b64(`{"id":"a"}`) + `","messageId":"1"` + published + `}}`
		a := uses.push(body)
		uses.want("ENV-10 used", a, 422, schema.MissingField)
		if !strings.Contains(a.Detail, "publishTime") {
			t.Errorf("ENV-10 the field is not named: %s", a.body)
		}
		ignores := newFixture(t)
		ignores.want("ENV-10 not used", ignores.push(body), 204, "")
	}
}

// badEnvelopes are bodies that are no push.
var badEnvelopes = map[string]string{
	"empty object":            `{}`,
	"array":                   `[]`,
	"null":                    `null`,
	"string":                  `"x"`,
	"number":                  `1`,
	"message null":            `{"message":null}`,
	"message array":           `{"message":[]}`,
	"message string":          `{"message":"x"}`,
	"message empty":           `{"message":{}}`,
	"message of nulls":        `{"message":{"data":null,"attributes":null,"messageId":null}}`,
	"attribute number":        `{"message":{"attributes":{"a":1},"data":"aGk="}}`,
	"attribute null":          `{"message":{"attributes":{"a":null},"data":"aGk="}}`,
	"attributes array":        `{"message":{"attributes":[],"data":"aGk="}}`,
	"data number":             `{"message":{"data":1}}`,
	"data array":              `{"message":{"data":[104,105],"messageId":"1"}}`,
	"data no base64":          `{"message":{"data":"a*b"}}`,
	"data one char":           `{"message":{"data":"a"}}`,
	"data mixed alphabets":    `{"message":{"data":"+_+_"}}`,
	"data padded too much":    `{"message":{"data":"aGk=="}}`,
	"id number":               `{"message":{"messageId":7}}`,
	"time number":             `{"message":{"messageId":"7","publishTime":7}}`,
	"subscription number":     `{"message":{"messageId":"7"},"subscription":7}`,
	"attempt string":          `{"message":{"messageId":"7"},"deliveryAttempt":"1"}`,
	"attempt negative":        `{"message":{"messageId":"7"},"deliveryAttempt":-1}`,
	"attempt fraction":        `{"message":{"messageId":"7"},"deliveryAttempt":1.5}`,
	"duplicate message":       `{"message":{"messageId":"7"},"message":{"messageId":"8"}}`,
	"duplicate id":            `{"message":{"messageId":"7","messageId":"8"}}`,
	"duplicate attribute":     `{"message":{"attributes":{"a":"1","a":"2"}}}`,
	"duplicate by escape":     `{"message":{"messageId":"7","message\u0049d":"8"}}`,
	"duplicate unknown":       `{"message":{"messageId":"7"},"x":1,"x":2}`,
	"trailing value":          `{"message":{"messageId":"7"}} {}`,
	"trailing brace":          `{"message":{"messageId":"7"}}}`,
	"cut":                     `{"message":{"messageId":"7"`,
	"invalid UTF-8":           "{\"message\":{\"messageId\":\"a\xff\"}}",
	"invalid UTF-8 unknown":   "{\"message\":{\"messageId\":\"7\"},\"x\":\"\xff\"}",
	"lone surrogate":          `{"message":{"messageId":"\ud800"}}`,
	"empty body":              ``,
	"blank body":              " \n",
	"control character":       "{\"message\":{\"messageId\":\"a\nb\"}}",
	"unknown member is wrong": `{"message":{"messageId":"7"},"x":tru}`,
}

func TestENV12WrongShape(t *testing.T) {
	f := newFixture(t)
	n := 0
	for name, body := range badEnvelopes {
		t.Run("ENV-12 "+name, func(t *testing.T) {
			a := f.push(body)
			f.want(name, a, 400, schema.BadEnvelope)
			if a.Detail == "" || a.Received != 0 {
				t.Errorf("got %s", a.body)
			}
		})
		n++
	}
	if got := f.counts.of(func(c *counts) map[string]int { return c.records }, "malformed bad_envelope"); got != n {
		t.Errorf("malformed counter is %d, want %d", got, n)
	}
	if len(f.writer.entries()) != 0 || len(f.mapper.records()) != 0 {
		t.Error("something was enqueued")
	}
}

func TestENV13TenMegabytesFit(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.mapper.raw = true; f.route.Format = "bytes" })
	payload := strings.Repeat("0123456789", 1_000_000)
	f.want("ENV-13", f.push(wrap(payload, "k")), 204, "")
	if v, _ := f.writer.row("k"); v != payload {
		t.Error("ENV-13 the payload changed")
	}
	small := newFixture(t, func(f *fixture) { f.mapper.raw = true; f.config.Limits.MaxRecordBytes = 9_999_999 })
	a := small.push(wrap(payload, "k"))
	small.want("ENV-13 over the record limit", a, 422, schema.TooLarge)
	if !strings.Contains(a.Detail, "WRITER_MAX_RECORD_SIZE_BYTES") || !strings.Contains(a.Detail, "9999999") {
		t.Errorf("ENV-13 the option is not named: %s", a.Detail)
	}
}

func TestEnvelopeTextAndData(t *testing.T) {
	for _, data := range []string{"", "a", "ab", "abc", "\xff\xef\xfe", strings.Repeat("\xfb\xff", 1000)} {
		for name, enc := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.URLEncoding, "raw std": base64.RawStdEncoding, "raw url": base64.RawURLEncoding} {
			text := enc.EncodeToString([]byte(data))
			for _, written := range []string{text, strings.ReplaceAll(text, "/", `\/`), strings.ReplaceAll(text, "=", `\u003d`)} {
				r, err := decodeOne(t, `{"message":{"data":"`+written+`"}}`)
				if err != nil || string(r.Data) != data {
					t.Errorf("%s %q: got %q %v", name, written, r.Data, err)
				}
			}
		}
	}
	r, err := decodeOne(t, `{"deliveryAttempt":3,"subscription":"projects\/p\/subscriptions\/s","message":{"orderingKey":"ö\n","attributes":{"Weird Key":"v\"1","ключ":"\ud83d\ude00","":""},"messageId":"1"},"more":{"x":[1,{"message":1}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Weird Key": `v"1`, "ключ": "😀", "": ""}
	if r.Attempt != 3 || r.Subscription != "projects/p/subscriptions/s" || r.OrderingKey != "ö\n" || !maps.Equal(r.Attributes, want) || r.Data != nil {
		t.Errorf("got %+v", r)
	}
}

// FuzzEnvelope holds the decoder to encoding/json/v2 on what it accepts, and to never reading
// outside its body.
func FuzzEnvelope(f *testing.F) {
	damaged(f, wrap(`{"id":"a"}`, "7"),
		`{"subscription":"projects\/p\/subscriptions\/s","message":{"publishTime":"2026-11-29T22:12:13.287Z","data":"eyJpZCI6MSwibmFtZSI6IsO2In0=","publish_time":"2026-11-29T22:12:13.287Z","messageId":"1","attributes":{"googclient_schemaencoding":"JSON","Weird Key":"v\"1","event-type":"x"},"message_id":"1"}}`)
	for _, b := range badEnvelopes {
		f.Add([]byte(b))
	}
	pool := &buffers{scribble: true}
	var e envelope
	f.Fuzz(func(t *testing.T, body []byte) {
		var rec schema.Record
		var buf *buffer
		var err *schema.Error
		boundedBy(t, len(body), func() { buf, err = e.decode(body, pool, &rec) })
		checkEnvelope(t, body, rec, err)
		pool.put(buf)
	})
}
