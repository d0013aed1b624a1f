package acceptance

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/scripted"
)

// shape is a request whose end two servers may see at different places. Behind it stands a
// push of its own, which a front end may have taken for the first one's body.
type shape struct {
	name string
	// head stands before the blank line, body behind it.
	head, body string
	// statuses the first answer may have.
	statuses []int
	// next: RFC 9112 says that what follows is a request of its own, or lets the connection
	// end.
	next bool
}

// request is the shape, sent to a route, with a push of key behind it.
func (s shape) request(route, key string) string {
	body := fmt.Sprintf(`{"message":{"messageId":"1","publishTime":"2026-01-02T03:04:05Z","attributes":{"id":%q}}}`, key)
	hidden := fmt.Sprintf("POST /v1/routes/"+route+"/push HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return "POST /v1/routes/" + route + "/push HTTP/1.1\r\n" + s.head + "\r\n\r\n" + s.body + hidden
}

var refused = []int{400, 501}

// smuggling are the shapes of the known attacks. {} in chunks is a push that is no record.
var smuggling = []shape{
	// The second one's connection should be closed after the answer (RFC 9112, 6.1), but net/http
	// takes the Content-Length away before a handler could see that there was one. It goes by
	// Transfer-Encoding, which is the reading that the RFC asks for.
	{"two requests", "Host: h\r\nContent-Length: 2", "{}", []int{400}, true},
	{"Content-Length and Transfer-Encoding", "Host: h\r\nContent-Length: 400\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n", []int{400}, true},
	{"two lengths", "Host: h\r\nContent-Length: 2\r\nContent-Length: 400", "{}", refused, false},
	{"two lengths in one field", "Host: h\r\nContent-Length: 2, 400", "{}", refused, false},
	{"a length with a sign", "Host: h\r\nContent-Length: +2", "{}", refused, false},
	{"a negative length", "Host: h\r\nContent-Length: -2", "{}", refused, false},
	{"a length in hexadecimal", "Host: h\r\nContent-Length: 0x2", "{}", refused, false},
	{"a length with a space inside", "Host: h\r\nContent-Length: 2 2", "{}", refused, false},
	{"an empty length", "Host: h\r\nContent-Length: ", "{}", refused, false},
	{"two encodings", "Host: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity", "0\r\n\r\n", refused, false},
	{"a list of encodings", "Host: h\r\nTransfer-Encoding: chunked, identity", "0\r\n\r\n", refused, false},
	{"an unknown encoding", "Host: h\r\nTransfer-Encoding: xchunked", "0\r\n\r\n", refused, false},
	{"an encoding in quotes", "Host: h\r\nTransfer-Encoding: \"chunked\"", "0\r\n\r\n", refused, false},
	{"a vertical tab before the encoding", "Host: h\r\nTransfer-Encoding: \x0bchunked", "0\r\n\r\n", refused, false},
	{"a space before the colon", "Host: h\r\nTransfer-Encoding : chunked", "0\r\n\r\n", refused, false},
	{"a space before the name", "Host: h\r\n Transfer-Encoding: chunked\r\nContent-Length: 2", "{}", []int{400}, true}, // folded into Host, or refused
	{"a folded encoding", "Host: h\r\nTransfer-Encoding:\r\n chunked", "2\r\n{}\r\n0\r\n\r\n", []int{400}, true},
	{"NUL in a value", "Host: h\r\nX: a\x00b\r\nContent-Length: 2", "{}", refused, false},
	{"CR in a value", "Host: h\r\nX: a\rTransfer-Encoding: chunked\r\nContent-Length: 2", "{}", refused, false},
	{"a name with a space", "Host: h\r\nContent Length: 2", "{}", refused, false},
	{"a name with NUL", "Host: h\r\nContent-Length\x00: 2", "{}", refused, false},
	{"a line without a colon", "Host: h\r\nContent-Length", "{}", refused, false},
	{"no Host", "Content-Length: 2", "{}", refused, false},
	{"two Hosts", "Host: h\r\nHost: i\r\nContent-Length: 2", "{}", refused, false},
	{"a chunk's size with a sign", "Host: h\r\nTransfer-Encoding: chunked", "+2\r\n{}\r\n0\r\n\r\n", refused, false},
	{"a chunk's size with 0x", "Host: h\r\nTransfer-Encoding: chunked", "0x2\r\n{}\r\n0\r\n\r\n", refused, false},
	{"a chunk's size past 64 bits", "Host: h\r\nTransfer-Encoding: chunked", "10000000000000002\r\n{}\r\n0\r\n\r\n", refused, false},
	{"a chunk's size ended by a bare LF", "Host: h\r\nTransfer-Encoding: chunked", "2;\n{}\r\n0\r\n\r\n", refused, false},
	{"a chunk longer than it says", "Host: h\r\nTransfer-Encoding: chunked", "2\r\n{}xx\r\n0\r\n\r\n", refused, false},
	{"no end of the last chunk", "Host: h\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\nX", refused, false},
	{"an upgrade to HTTP/2", "Host: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 2", "{}", []int{400}, true},
	{"the preface of HTTP/2 in the middle", "Host: h\r\nContent-Length: 2", "{}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400}, false},
}

// TestSRVRequestSmuggling: what is hidden behind a request is read as a request only where
// RFC 9112 leaves no doubt, and otherwise the connection ends with the refusal.
func TestSRVRequestSmuggling(t *testing.T) {
	bt := scripted.New(t, scripted.Options{KeysOnly: true})
	bt.AddTable(tableName("byid"), "f")
	s := startServer(t, serverBinary(t), bt.Addr(), byIDRoutes, nil)
	for i, shape := range smuggling {
		t.Run(shape.name, func(t *testing.T) {
			key := fmt.Sprintf("hidden-%d", i)
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, shape.request("byid", key)); err != nil {
				t.Fatal(err)
			}
			var statuses []int
			for in := bufio.NewReader(conn); ; {
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				statuses = append(statuses, resp.StatusCode)
			}
			if len(statuses) == 0 || !slices.Contains(shape.statuses, statuses[0]) {
				t.Errorf("answers %v, want the first of %v", statuses, shape.statuses)
			}
			written := bt.Has(tableName("byid"), key)
			if written && !shape.next || slices.Contains(statuses, 204) != written {
				t.Errorf("answers %v; the hidden push was written: %v, may be: %v", statuses, written, shape.next)
			}
			if i == 0 && !written {
				t.Error("the test's own push behind a request cannot be written")
			}
			t.Logf("answers %v, the hidden push was written: %v", statuses, written)
		})
	}
	// The server takes a good push after all that.
	if a := push(t.Context(), newClient(t), s.URL, "byid", message{ID: "1", Attributes: map[string]string{"id": "good"}}.body(t)); a.Status != 204 {
		t.Errorf("a good push: %v", a)
	}
}
