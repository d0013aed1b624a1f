package deadletter

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pushsink/pushsink/schema"
)

// numbered makes n attributes of the given value size; the last ones are the smallest.
func numbered(n, size int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("key-%04d", i)] = strings.Repeat("v", max(size-i, 1))
	}
	return m
}

// withinLimits fails when the service would refuse the message.
func withinLimits(t *testing.T, attributes map[string]string) {
	t.Helper()
	if len(attributes) > 100 {
		t.Errorf("%d attributes", len(attributes))
	}
	for k, v := range attributes {
		if k == "" || len(k) > 256 || len(v) > 1024 || strings.HasPrefix(k, "goog") || !utf8.ValidString(k) || !utf8.ValidString(v) {
			t.Errorf("attribute %.40q (%d bytes) of %d bytes is outside the limits", k, len(k), len(v))
		}
	}
}

func TestLetterRoundTrip(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC)
	full := schema.Record{ID: "42", OrderingKey: "o", Subscription: "projects/p/subscriptions/s", Published: at, Attempt: 7}
	with := func(data string, attributes map[string]string) schema.Record {
		r := full
		r.Data, r.Attributes = []byte(data), attributes
		return r
	}
	invalid := "a\xff\x00b"
	tests := []struct {
		name   string
		record schema.Record
		// appended: the record's attributes do not fit, so the data ends with them.
		appended, packed bool
	}{
		{name: "plain", record: with("hello", map[string]string{"a": "b"})},
		{name: "bytes", record: with("\x00\xff\xfe{", nil)},
		{name: "no data", record: with("", nil)},
		{name: "nothing known", record: schema.Record{Data: []byte("x")}},
		{name: "91 attributes are the most that fit beside ours", record: with("x", numbered(91, 5))},
		{name: "one more", record: with("x", numbered(92, 5)), packed: true},
		{name: "100 attributes", record: with("x", numbered(100, 40)), packed: true},
		{name: "101 attributes", record: with("x", numbered(101, 40)), packed: true},
		{name: "101 attributes of the largest size", record: with("x", numbered(101, 1024+101)), appended: true},
		{name: "2000 attributes", record: with("{}", numbered(2000, 2500)), appended: true},
		{name: "empty value", record: with("x", map[string]string{"a": ""})},
		{name: "empty key", record: with("x", map[string]string{"": "v"}), packed: true},
		{name: "key of 256", record: with("x", map[string]string{strings.Repeat("k", 256): "v"})},
		{name: "key of 257", record: with("x", map[string]string{strings.Repeat("k", 257): "v"}), packed: true},
		{name: "value of 1024", record: with("x", map[string]string{"k": strings.Repeat("v", 1024)})},
		{name: "value of 1025", record: with("x", map[string]string{"k": strings.Repeat("v", 1025)}), appended: true},
		{name: "the service's own prefix", record: with("x", map[string]string{"googclient_schemaencoding": "JSON"}), packed: true},
		{name: "ours", record: with("x", map[string]string{"pushsink-route": "other", "pushsink-data-size": "0", "pushsink-attributes": "{"}), packed: true},
		{name: "not UTF-8", record: with("x", map[string]string{"k": invalid, invalid: "v"}), packed: true},
		{name: "ours not UTF-8 or too long", record: schema.Record{Data: []byte("x"), ID: strings.Repeat("i", 3000), OrderingKey: invalid, Subscription: "s"}, appended: true},
		{name: "data that looks packed", record: with(`{"attributes":{"a":"b"}}`, map[string]string{"k": strings.Repeat("v", 5000)}), appended: true},
		{name: "no data and too much", record: with("", map[string]string{"k": strings.Repeat("v", 5000)}), appended: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := string(tt.record.Data)
			attributesBefore := maps.Clone(tt.record.Attributes)
			l := Letter{Record: &tt.record, Route: "r", Destination: "d", Code: schema.TypeMismatch, Err: errors.New("why")}
			data, attributes, err := l.pack()
			if err != nil {
				t.Fatal(err)
			}
			withinLimits(t, attributes)
			if string(tt.record.Data) != before || !maps.Equal(tt.record.Attributes, attributesBefore) {
				t.Error("the record was changed")
			}
			if _, got := attributes["pushsink-attributes"]; got != tt.packed {
				t.Errorf("packed into an attribute: %t, want %t", got, tt.packed)
			}
			if _, got := attributes["pushsink-data-size"]; got != tt.appended {
				t.Errorf("appended: %t, want %t", got, tt.appended)
			}
			if !tt.appended && string(data) != before {
				t.Error("data is not the record's")
			}
			if !strings.HasPrefix(string(data), before) {
				t.Error("data does not begin with the record's")
			}
			got, err := Restore(data, attributes)
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Record.Data) != before {
				t.Errorf("data of %d bytes came back as %d", len(before), len(got.Record.Data))
			}
			got.Record.Data = tt.record.Data // nil or empty
			if !reflect.DeepEqual(got.Record, &tt.record) {
				t.Errorf("got  %+v\nwant %+v", got.Record, &tt.record)
			}
			if got.Route != "r" || got.Destination != "d" || got.Code != schema.TypeMismatch || got.Err.Error() != "why" || got.Envelope != "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The service delivers a letter with attributes of its own.
func TestRestoreLeavesTheTransportsAttributesOut(t *testing.T) {
	l := Letter{Record: &schema.Record{Attributes: map[string]string{"googclient_traceparent": "mine"}}, Route: "r"}
	data, attributes, err := l.pack()
	if err != nil {
		t.Fatal(err)
	}
	attributes["googclient_traceparent"] = "the letter's"
	attributes["googclient_schemaencoding"] = "JSON"
	got, err := Restore(data, attributes)
	if err != nil {
		t.Fatal(err)
	}
	if want := l.Record.Attributes; !maps.Equal(got.Record.Attributes, want) {
		t.Errorf("attributes %v, want %v", got.Record.Attributes, want)
	}
}

func TestEnvelopeIsKeptWhereARedriveNeedsIt(t *testing.T) {
	tests := []struct {
		envelope schema.Envelope
		fold     bool
		want     schema.Envelope
	}{
		{schema.AutoEnvelope, false, ""},
		{schema.WrappedEnvelope, false, ""},
		{schema.CloudEventsEnvelope, false, schema.CloudEventsEnvelope},
		{schema.UnwrappedEnvelope, true, schema.UnwrappedEnvelope},
		{schema.UnwrappedEnvelope, false, schema.UnwrappedEnvelope},
		{schema.AutoEnvelope, true, schema.UnwrappedEnvelope},
	}
	for _, tt := range tests {
		l := Letter{Record: &schema.Record{FoldAttributes: tt.fold}, Route: "r", Envelope: tt.envelope}
		data, attributes, err := l.pack()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Restore(data, attributes)
		if err != nil {
			t.Fatal(err)
		}
		if got.Envelope != tt.want || got.Record.FoldAttributes != (tt.want == schema.UnwrappedEnvelope) {
			t.Errorf("%s, folded %t: came back as %q, folded %t", tt.envelope, tt.fold, got.Envelope, got.Record.FoldAttributes)
		}
	}
}

func TestErrorTextIsCutOnACharacter(t *testing.T) {
	for _, c := range []string{"a", "é", "€", "😀"} {
		for shift := range 5 {
			text := strings.Repeat("a", shift) + strings.Repeat(c, 2000)
			l := Letter{Record: &schema.Record{}, Route: "r", Err: errors.New(text)}
			_, attributes, err := l.pack()
			if err != nil {
				t.Fatal(err)
			}
			got := attributes["pushsink-error"]
			if !strings.HasPrefix(text, got) || !utf8.ValidString(got) || len(got) > 1024 || len(got) <= 1024-len(c) {
				t.Errorf("%s shifted by %d: cut at %d bytes, valid %t", c, shift, len(got), utf8.ValidString(got))
			}
		}
	}
	l := Letter{Record: &schema.Record{}, Route: "r", Err: errors.New("bad \xff" + strings.Repeat("x", 1020))}
	_, attributes, _ := l.pack()
	withinLimits(t, attributes)
	if got := attributes["pushsink-error"]; !strings.HasPrefix(got, "bad \uFFFDx") {
		t.Errorf("got %.20q", got)
	}
}

func TestRestoreRefusesWhatIsNoLetter(t *testing.T) {
	tests := map[string]map[string]string{
		"no attributes":    nil,
		"others":           {"a": "b"},
		"bad size":         {"pushsink-route": "r", "pushsink-data-size": "x"},
		"size beyond":      {"pushsink-route": "r", "pushsink-data-size": "5"},
		"negative size":    {"pushsink-route": "r", "pushsink-data-size": "-1"},
		"appended no JSON": {"pushsink-route": "r", "pushsink-data-size": "2"},
		"packed no JSON":   {"pushsink-route": "r", "pushsink-attributes": "{"},
		"packed twice":     {"pushsink-route": "r", "pushsink-attributes": `{"attributes":{"a":"1","a":"2"}}`},
		"packed no base64": {"pushsink-route": "r", "pushsink-attributes": `{"attributesBase64":{"?":"?"}}`},
		"bad time":         {"pushsink-route": "r", "pushsink-publish-time": "soon"},
		"bad attempt":      {"pushsink-route": "r", "pushsink-attempt": "often"},
	}
	for name, attributes := range tests {
		if l, err := Restore([]byte("data"), attributes); !errors.Is(err, ErrNotLetter) || l != nil {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
}

// Whatever a record holds, its letter is within the limits and gives it back.
func FuzzLetterRoundTrip(f *testing.F) {
	f.Add([]byte("data"), "key", "value", "id", "order", uint16(3))
	f.Add([]byte(nil), "pushsink-route", "\xff", strings.Repeat("i", 1025), "", uint16(120))
	f.Add([]byte("{"), "goog", strings.Repeat("v", 2000), "", "\x80", uint16(89))
	f.Fuzz(func(t *testing.T, data []byte, key, value, id, order string, n uint16) {
		attributes := map[string]string{key: value}
		for i := range n % 300 {
			attributes[fmt.Sprint(key, i)] = value
		}
		r := &schema.Record{Data: data, Attributes: attributes, ID: id, OrderingKey: order}
		l := Letter{Record: r, Route: "r", Err: errors.New(value)}
		d, a, err := l.pack()
		if err != nil {
			t.Fatal(err)
		}
		withinLimits(t, a)
		got, err := Restore(d, a)
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Record.Data) != string(data) || !maps.Equal(got.Record.Attributes, attributes) ||
			got.Record.ID != id || got.Record.OrderingKey != order {
			t.Errorf("got %+v, want %+v", got.Record, r)
		}
	})
}

// Anybody may publish to a topic.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`x{"attributes":{}}`), "pushsink-data-size", "1", "{}")
	f.Add([]byte(`x`), "pushsink-publish-time", "2026-01-02T03:04:05Z", `{"recordBase64":{"YQ==":"Yg=="}}`)
	f.Fuzz(func(t *testing.T, data []byte, key, value, packed string) {
		l, err := Restore(data, map[string]string{"pushsink-route": "r", key: value, "pushsink-attributes": packed})
		if (l == nil) != (err != nil) || err != nil && !errors.Is(err, ErrNotLetter) {
			t.Errorf("%v, %v", l, err)
		}
		if l != nil && len(l.Record.Data) > len(data) {
			t.Error("data grew")
		}
	})
}
