package handlers

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/schema"
)

// bothWays decodes body with readPlain before it and by read alone, and reports that readPlain
// took it.
func bothWays(t *testing.T, body string) (plain bool) {
	t.Helper()
	rec, err := decodeOne(t, body)
	var e envelope
	var want schema.Record
	e.reset([]byte(body))
	bad := e.read()
	if bad == nil {
		_, bad = e.fill(new(buffers), &want)
	}
	if !reflect.DeepEqual(err, bad) || bad == nil && !reflect.DeepEqual(rec, want) {
		t.Errorf("%q: %+v %v\nread says %+v %v", body, rec, err, want, bad)
	}
	e.reset([]byte(body))
	return e.readPlain()
}

// What readPlain takes, read takes and makes the same of, with any byte of it changed, left
// out or put in.
func TestPlainEnvelopesAreReadTheSame(t *testing.T) {
	for _, body := range []string{
		`{"message":{"data":"` + b64(strings.Repeat("x", 20)) + `","messageId":"7","message_id":"7","publishTime":"2026-01-02T03:04:05.678Z","publish_time":"2026-01-02T03:04:05.678Z","orderingKey":"k","attributes":{"a":"1","b":""}},"subscription":"s","deliveryAttempt":10}`,
		" {\n\t\"message\" : { \"attributes\" : { } , \"data\" : \"\" } ,\r\n \"subscription\" : \"s\" } ",
		`{"deliveryAttempt":0,"message":{"messageId":"a long text with ~ and DEL ` + "\x7f" + `"}}`,
		`{"message":{"message_id":"` + strings.Repeat("8 bytes.", 3) + `"}}`,
	} {
		if !bothWays(t, body) {
			t.Errorf("not plain: %q", body)
		}
		for i := range len(body) + 1 {
			bothWays(t, body[:i])
			for _, c := range []byte("\x00\x1f \"\\{}[],:/019-.enuatm_\x7f\x80\xff\n") {
				put := string([]byte{c})
				bothWays(t, body[:i]+put+body[i:])
				if i < len(body) {
					bothWays(t, body[:i]+put+body[i+1:])
				}
			}
			if i < len(body) {
				bothWays(t, body[:i]+body[i+1:])
			}
		}
	}
}

// Everything else is read's.
func TestOtherEnvelopesAreNotPlain(t *testing.T) {
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `{"message":{}}`, `{"message":null}`, `{"message":{"messageId":null}}`,
		`{"message":{"messageId":"1"}}x`, `{"message":{"messageId":"1"}}{}`, `{"message":{"messageId":"1",}}`, `{"message":{"messageId":"1"},}`,
		`{"message":{"messageId":"1"},"message":{"messageId":"1"}}`,
		`{"message":{"messageId":"1","messageId":"1"}}`,
		`{"message":{"messageId":"1","attributes":{},"attributes":{}}}`,
		`{"message":{"messageId":"1","attributes":{"a":"1","a":"1"}}}`,
		`{"message":{"messageId":"1","attributes":{"a":1}}}`,
		`{"message":{"messageId":"1","attributes":{"a":"\u0031"}}}`,
		`{"message":{"messageId":"1","attributes":{"ä":"1"}}}`,
		`{"message":{"messageId":"1","attributes":{"\u0061":"1"}}}`,
		`{"message":{"messageId":"1","unknown":"1"}}`, `{"message":{"messageId":"1"},"unknown":1}`,
		`{"message":{"messageId":"1"},"deliveryAttempt":01}`, `{"message":{"messageId":"1"},"deliveryAttempt":-1}`,
		`{"message":{"messageId":"1"},"deliveryAttempt":1.0}`, `{"message":{"messageId":"1"},"deliveryAttempt":1e1}`,
		`{"message":{"messageId":"1"},"deliveryAttempt":2147483648}`, `{"message":{"messageId":"1"},"deliveryAttempt":}`,
		`{"message":{"messageId":"1"},"deliveryAttempt":0,"deliveryAttempt":0}`,
		`{"message":{"messageId":"1"},"subscription":"s","subscription":"s"}`,
		`{"message":{"messageId":"1"},"subscription":"` + strings.Repeat("x", 30) + "\n" + `"}`,
		`{"message":{"messageId":"1"},"subscription":"` + strings.Repeat("x", 30) + "é" + `"}`,
		"\ufeff" + `{"message":{"messageId":"1"}}`, "\v" + `{"message":{"messageId":"1"}}`,
	} {
		if bothWays(t, body) {
			t.Errorf("plain: %q", body)
		}
	}
}

// An envelope that is kept for the next record keeps no memory of the size of a body.
func TestEnvelopesKeepLittle(t *testing.T) {
	var e envelope
	var rec schema.Record
	body := `{"message":{"data":"` + strings.Repeat(`\u0041`, 4*keptText) + `","attributes":{"a":"1"}}}`
	if _, bad := e.decode([]byte(body), new(buffers), &rec); bad != nil || len(rec.Data) != 3*keptText {
		t.Fatalf("%d bytes, %v", len(rec.Data), bad)
	}
	e.forget()
	if cap(e.text) > keptText {
		t.Errorf("%d bytes are kept", cap(e.text))
	}
}
