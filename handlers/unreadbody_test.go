package handlers

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that is refused and never sends the rest of its body holds its connection for no
// longer than READ_BODY_TIMEOUT: net/http reads on in what a handler leaves.
func TestUnreadBodiesDoNotHoldTheirConnection(t *testing.T) {
	for _, c := range []struct{ name, request string }{
		{"no such path", "POST /nope HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"},
		{"no such route", "POST /v1/routes/nope/push HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"},
		{"a method that is not allowed", "PUT /v1/routes/r/push HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"a probe with a body", "GET /health/live HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"},
		{"an unknown media type", "POST /v1/routes/r/records HTTP/1.1\r\nHost: h\r\nContent-Type: image/png\r\nContent-Length: 100\r\n\r\n{"},
		{"an unknown encoding", "POST /v1/routes/r/push HTTP/1.1\r\nHost: h\r\nContent-Encoding: br\r\nContent-Length: 100\r\n\r\n{"},
		{"a body above its cap", "POST /v1/routes/r/push HTTP/1.1\r\nHost: h\r\nContent-Length: 2000\r\n\r\n{"},
		{"a stream above its cap", "POST /v1/routes/r/records HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"44c\r\n" + strings.Repeat("\n", 1100) + "\r\n"},
		{"broken compression", "POST /v1/routes/r/push HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 100\r\n\r\nthis is no gzip"},
		{"a push that stalls", "POST /v1/routes/r/push HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, offline, func(f *fixture) {
					f.config.Limits.ReadBodyTimeout = 3 * time.Second
					f.config.Limits.MaxBodyBytes, f.config.Limits.BatchMaxBodyBytes = 1024, 1024
				})
				start := time.Now()
				conn, err := servePipes(t, f).dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, c.request); err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(conn)
				if err := conn.SetReadDeadline(start.Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("no answer after %v: %v", time.Since(start), err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
				if probe := strings.HasPrefix(c.request, "GET"); (resp.StatusCode == 200) != probe {
					t.Errorf("status %d", resp.StatusCode)
				}
				if _, err := in.ReadByte(); err != io.EOF {
					t.Errorf("the connection goes on: %v", err)
				}
				// net/http waits half a second more for a client that it refused to notice.
				if took := time.Since(start); took > 3*time.Second+500*time.Millisecond {
					t.Errorf("the connection ended after %v", took)
				}
			})
		})
	}
}

// The bound is the request's: neither a long wait for the write nor a pause before the next
// request on the connection runs into it.
func TestReadDeadlineEndsWithTheBody(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		f := newFixture(t, offline, func(f *fixture) { f.config.Limits.ReadBodyTimeout = time.Second })
		c := servePipes(t, f).client(h2)
		for range 3 {
			if a, _ := f.timed(c, post(t, "/v1/routes/r/push", strings.NewReader(wrap(`{"id":"a"}`, "m")), -1)); a.status != 204 {
				t.Errorf("push: %d %s", a.status, a.body)
			}
			time.Sleep(time.Minute)
		}
	})
}
