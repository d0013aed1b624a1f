package handlers

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

// checkEnvelope compares a decoded envelope with what a reflecting decoder makes of the body.
func checkEnvelope(t *testing.T, body []byte, rec schema.Record, err *schema.Error) {
	t.Helper()
	var o struct {
		Message *struct {
			Data         *string            `json:"data"`
			Attributes   map[string]*string `json:"attributes"`
			ID           *string            `json:"messageId"`
			IDAlt        *string            `json:"message_id"`
			Published    *string            `json:"publishTime"`
			PublishedAlt *string            `json:"publish_time"`
			OrderingKey  *string            `json:"orderingKey"`
		} `json:"message"`
		Subscription *string        `json:"subscription"`
		Attempt      jsontext.Value `json:"deliveryAttempt"`
	}
	wrong := json.Unmarshal(body, &o)
	if err != nil {
		if err.Code != schema.BadEnvelope && err.Code != schema.TooDeep || err.Detail == "" {
			t.Fatalf("refused as %v", err)
		}
		if wrong != nil || o.Message == nil {
			return
		}
		// Stricter than the oracle only in these.
		switch d := err.Detail; {
		case strings.Contains(d, "base64"), strings.Contains(d, "deliveryAttempt"), strings.Contains(d, "of an attribute"), strings.Contains(d, "message has no"):
			return
		}
		t.Fatalf("refused what decodes: %v: %q", err, body)
	}
	if wrong != nil {
		t.Fatalf("accepted what does not decode: %v: %q", wrong, body)
	}
	text := func(first, second *string) string {
		if first != nil && *first != "" || second == nil {
			if first == nil {
				return ""
			}
			return *first
		}
		return *second
	}
	m := o.Message
	if rec.ID != text(m.ID, m.IDAlt) || rec.OrderingKey != text(m.OrderingKey, nil) || rec.Subscription != text(o.Subscription, nil) {
		t.Fatalf("got %+v of %q", rec, body)
	}
	if len(rec.Attributes) != len(m.Attributes) {
		t.Fatalf("attributes %v of %q", rec.Attributes, body)
	}
	for k, v := range m.Attributes {
		if got, ok := rec.Attributes[k]; !ok || v == nil || got != *v {
			t.Fatalf("attribute %q of %q", k, body)
		}
	}
	if m.Data == nil {
		if rec.Data != nil {
			t.Fatalf("data out of nothing: %q", body)
		}
		return
	}
	s := strings.NewReplacer("-", "+", "_", "/", "=", "", "\n", "", "\r", "").Replace(*m.Data)
	want, bad := base64.RawStdEncoding.DecodeString(s)
	if bad != nil || !bytes.Equal(rec.Data, want) {
		t.Fatalf("data %q of %q: %v", rec.Data, body, bad)
	}
}
