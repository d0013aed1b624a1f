package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/pushsink/pushsink/bench/reading"
)

func TestTemplateHoldsNewRecordsEachTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		request Request
	}{
		{"wrapped", Request{Path: "/p", Shape: Wrapped}},
		{"unwrapped", Request{Path: "/p", Shape: Unwrapped}},
		{"NDJSON of 3", Request{Path: "/p", Shape: NDJSON, Records: 3}},
		{"NDJSON of 1", Request{Path: "/p", Shape: NDJSON, Records: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmpl := c.request.template("host:1")
			wire := clone(tmpl)
			next := int64(reading.FirstSeq + 7)
			for range 2 {
				first := next
				next = tmpl.number(wire, next)
				if next != first+int64(tmpl.records) {
					t.Fatalf("next is %d after %d with %d records", next, first, tmpl.records)
				}
				r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Fatal(err)
				}
				if r.URL.Path != "/p" || r.Host != "host:1" || r.Header.Get("Accept-Encoding") != "" {
					t.Errorf("request %s of %s with %v", r.URL, r.Host, r.Header)
				}
				for i, record := range recordsOf(t, c.request.Shape, body) {
					if len(record) != reading.Size {
						t.Errorf("record of %d bytes", len(record))
					}
					var got reading.Reading
					if err := json.Unmarshal(record, &got); err != nil {
						t.Fatal(err)
					}
					if got.Seq != first+int64(i) {
						t.Errorf("record %d has number %d, want %d", i, got.Seq, first+int64(i))
					}
				}
			}
		})
	}
}

// recordsOf takes the records out of a request's body.
func recordsOf(t *testing.T, shape Shape, body []byte) [][]byte {
	t.Helper()
	switch shape {
	case Wrapped:
		var push reading.Push
		if err := json.Unmarshal(body, &push); err != nil {
			t.Fatal(err)
		}
		return [][]byte{push.Message.Data}
	case NDJSON:
		return bytes.Split(body, []byte("\n"))
	default:
		return [][]byte{body}
	}
}

func TestParseAnswer(t *testing.T) {
	const more = "HTTP/1.1 "
	for _, c := range []struct {
		in           string
		status, size int
		bad          bool
	}{
		{in: "HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", status: 204, size: 36},
		{in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, size: 40},
		{in: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" + more, status: 200, size: 40},
		{in: "HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 0\r\n\r\n", status: 200, size: 44},
		{in: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"},
		{in: "HTTP/1.1 200 OK\r\nContent-Le"},
		{in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", status: 200, size: 59},
		{in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"},
		{in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", bad: true},
		{in: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", bad: true},
		{in: "HTTP/1.1 200 OK\r\nDate: x\r\n\r\n", bad: true},
		{in: "220 mail.example.com\r\n\r\n", bad: true},
		{in: ""},
	} {
		status, size, err := parseAnswer([]byte(c.in))
		if size == 0 {
			status = 0
		}
		if status != c.status || size != c.size || (err != nil) != c.bad {
			t.Errorf("%q: %d, %d, %v; want %d, %d, an error %t", c.in, status, size, err, c.status, c.size, c.bad)
		}
	}
}
