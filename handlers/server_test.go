package handlers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/schema"
)

// eachProtocol runs a test over HTTP/1.1 and over cleartext HTTP/2, in a bubble each.
func eachProtocol(t *testing.T, f func(t *testing.T, h2 bool)) {
	for _, h2 := range []bool{false, true} {
		name := "HTTP/1.1"
		if h2 {
			name = "h2c"
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, h2) }) })
	}
}

func post(t *testing.T, path string, body io.Reader, length int64, header ...string) *http.Request {
	r, err := http.NewRequest("POST", "http://pipe"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = length
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// timed sends a request and gives the answer with the time it took.
func (f *fixture) timed(c *http.Client, r *http.Request) (answer, time.Duration) {
	f.t.Helper()
	start := time.Now()
	resp, err := c.Do(r)
	if err != nil {
		f.t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	a := f.read(resp)
	return a, time.Since(start)
}

func TestSRV01SlowHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline)
		p := servePipes(t, f)
		start := time.Now()
		closed := make(chan time.Duration, 100)
		for range 100 {
			go func() {
				c, _ := p.dial(t.Context(), "", "")
				defer c.Close()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					io.Copy(io.Discard, c)
				}()
				for _, b := range []byte("POST /v1/routes/r/push HTTP/1.1\r\nHost: x\r\n") {
					if _, err := c.Write([]byte{b}); err != nil {
						break
					}
					select {
					case <-time.After(time.Second):
					case <-ended:
					}
				}
				<-ended
				closed <- time.Since(start)
			}()
		}
		time.Sleep(2500 * time.Millisecond)
		a, took := f.timed(p.client(false), post(t, "/v1/routes/r/push", strings.NewReader(wrap(`{"id":"a"}`, "m")), -1))
		f.want("SRV-01 a normal request", a, 204, "")
		if took != 0 {
			t.Errorf("SRV-01 a normal request took %v", took)
		}
		for range 100 {
			if d := <-closed; d > f.config.Limits.ReadHeaderTimeout+time.Second {
				t.Fatalf("SRV-01 a connection lived for %v", d)
			}
		}
	})
}

func TestSRV03BodyDeadlineDoesNotEndTheWait(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		f := newFixture(t, offline, func(f *fixture) {
			f.config.Limits.ReadBodyTimeout = time.Second
			f.config.Limits.RequestTimeout = 9 * time.Second
			f.writer.gate = make(chan struct{})
		})
		c := servePipes(t, f).client(h2)
		body := wrap(`{"id":"a"}`, "m")
		for _, length := range []int64{int64(len(body)), -1} {
			// The body comes in pieces, each just in time; then the write takes 3 s.
			r := post(t, "/v1/routes/r/push", newPaced(func(int) time.Duration { return 900 * time.Millisecond }, body[:10], body[10:20], body[20:]), length)
			go func() {
				time.Sleep(5700 * time.Millisecond)
				f.writer.gate <- struct{}{}
			}()
			a, took := f.timed(c, r)
			f.want("SRV-03", a, 204, "")
			if took != 5700*time.Millisecond {
				t.Errorf("SRV-03 took %v", took)
			}
		}
		// The connection serves on.
		go func() { f.writer.gate <- struct{}{} }()
		a, _ := f.timed(c, post(t, "/v1/routes/r/push", strings.NewReader(body), int64(len(body))))
		f.want("SRV-03 next", a, 204, "")
	})
}

func TestRUN03SlowBodies(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		f := newFixture(t, offline, func(f *fixture) {
			f.config.Limits.ReadBodyTimeout = time.Second
			f.config.Limits.RequestTimeout = 4 * time.Second
			f.config.Limits.BatchTimeout = 6 * time.Second
		})
		p := servePipes(t, f)
		stall := func(i int) time.Duration { return time.Duration(i) * time.Hour }
		creep := func(int) time.Duration { return 900 * time.Millisecond }
		lines := strings.Repeat("{\"id\":\"a\"}\n", 3)
		for _, c := range []struct {
			name, path, media string
			pieces            []string
			pause             func(int) time.Duration
			status            int
			took              time.Duration
			written           int
		}{
			{"a stalled push", "push", "", []string{`{"mes`, `sage"`}, stall, 408, time.Second, 0},
			{"a stalled array", "records", "application/json", []string{`[{"id"`, `:"a"}]`}, stall, 408, time.Second, 0},
			{"a stalled stream keeps its lines", "records", "application/x-ndjson", []string{lines, `{"id"`}, stall, 408, time.Second, 3},
			{"an endless push ends with the request", "push", "", strings.Split(strings.Repeat(" ", 100), ""), creep, 503, 4 * time.Second, 0},
			{"an endless stream ends with the request", "records", "application/x-ndjson", strings.SplitAfter(strings.Repeat("{\"id\":\"a\"}\n", 100), "\n"), creep, 503, 6 * time.Second, 6},
		} {
			body := newPaced(c.pause, c.pieces...)
			a, took := f.timed(p.client(h2), post(t, "/v1/routes/r/"+c.path, body, -1, "Content-Type", c.media))
			body.Close()
			if a.status != c.status || a.Code != string(schema.Deadline) || a.Written != c.written {
				t.Errorf("%s: got %d %s", c.name, a.status, a.body)
			}
			if took != c.took {
				t.Errorf("%s: took %v, want %v", c.name, took, c.took)
			}
		}
	})
}

func TestACK03AnsweredBeforeTheDeadline(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		f := newFixture(t, offline, func(f *fixture) { f.writer.gate = make(chan struct{}) })
		c := servePipes(t, f).client(h2)
		body := wrap(`{"id":"a"}`, "m")
		a, took := f.timed(c, post(t, "/v1/routes/r/push", strings.NewReader(body), int64(len(body))))
		f.want("ACK-03 push", a, 503, schema.Deadline)
		if took != f.config.Limits.RequestTimeout {
			t.Errorf("ACK-03 push took %v", took)
		}
		a, took = f.timed(c, post(t, "/v1/routes/r/records", strings.NewReader(`{"id":"a"}`), -1, "Content-Type", "application/json"))
		f.want("ACK-03 batch", a, 504, schema.Deadline)
		if took != f.config.Limits.BatchTimeout {
			t.Errorf("ACK-03 batch took %v", took)
		}
	})
}

func TestSRV04WriteTimeoutIsDerived(t *testing.T) {
	for _, l := range []Limits{{RequestTimeout: time.Second, BatchTimeout: time.Millisecond}, {RequestTimeout: time.Millisecond, BatchTimeout: time.Hour}, DefaultLimits()} {
		if s := NewServer(nil, l); s.WriteTimeout <= l.RequestTimeout || s.WriteTimeout <= l.BatchTimeout {
			t.Errorf("SRV-04 %+v: write timeout %v", l, s.WriteTimeout)
		}
	}
	eachProtocol(t, func(t *testing.T, h2 bool) {
		f := newFixture(t, offline, func(f *fixture) {
			f.writer.gate = make(chan struct{})
			f.config.Limits.RequestTimeout = 100 * time.Second
		})
		c := servePipes(t, f).client(h2)
		go func() {
			time.Sleep(99 * time.Second)
			close(f.writer.gate)
		}()
		body := wrap(`{"id":"a"}`, "m")
		a, took := f.timed(c, post(t, "/v1/routes/r/push", strings.NewReader(body), -1))
		f.want("SRV-04", a, 204, "")
		if took != 99*time.Second {
			t.Errorf("SRV-04 took %v", took)
		}
	})
}

func TestRUN03BothProtocolsOnOnePort(t *testing.T) {
	f := newFixture(t, small)
	for _, h2 := range []bool{false, true} {
		p := new(http.Protocols)
		p.SetHTTP1(!h2)
		p.SetUnencryptedHTTP2(h2)
		tr := &http.Transport{Protocols: p, DisableCompression: true}
		defer tr.CloseIdleConnections()
		c := &http.Client{Transport: tr}
		send := func(body string, header ...string) answer {
			resp, err := c.Do(f.request("POST", "/v1/routes/r/push", body, header...))
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int{false: 1, true: 2}[h2]; resp.ProtoMajor != want {
				t.Fatalf("answered in %s", resp.Proto)
			}
			return f.read(resp)
		}
		f.want("RUN-03", send(wrap(`{"id":"a"}`, "m")), 204, "")
		f.want("RUN-03 cap", send(sized(4*kib+1)), 413, schema.TooLarge)
		f.want("RUN-03 encoding", send(sized(100+len(wrap(``, ``))), "Content-Encoding", "br"), 415, schema.UnsupportedContentType)
		f.want("RUN-03 after", send(wrap(`{"id":"a"}`, "m")), 204, "")
	}
}

func TestRUN04CapAbovePlatformLimit(t *testing.T) {
	f := newFixture(t, func(f *fixture) {
		f.config.Limits.MaxBodyBytes = 64 << 20
		f.config.Limits.MaxRecordBytes = 64 << 20
		f.mapper.raw = true
	})
	f.want("RUN-04 above the platform's limit, below ours", f.push(wrap(strings.Repeat("x", 25<<20), "m")), 204, "")
	r := f.request("POST", "/v1/routes/r/push", "")
	r.Body, r.ContentLength = io.NopCloser(io.LimitReader(endless{' '}, 64<<20+1)), 64<<20+1
	f.want("RUN-04 above ours", f.do(r), 413, schema.TooLarge)
}

func TestSRV07Headers(t *testing.T) {
	f := newFixture(t)
	attributes := make([]string, 100)
	for i := range attributes {
		attributes[i] = fmt.Sprintf(`"attribute-%d":"%s"`, i, strings.Repeat("v", 1024))
	}
	f.want("SRV-07 wrapped", f.push(`{"message":{"attributes":{`+strings.Join(attributes, ",")+`},"messageId":"1","data":"`+b64(`{"id":"a"}`)+`"}}`), 204, "")
	if got := f.mapper.records()[0].Attributes; len(got) != 100 || len(got["attribute-99"]) != 1024 {
		t.Errorf("SRV-07 %d attributes", len(got))
	}
	for _, h2 := range []bool{false, true} {
		p := new(http.Protocols)
		p.SetHTTP1(!h2)
		p.SetUnencryptedHTTP2(h2)
		tr := &http.Transport{Protocols: p, DisableCompression: true}
		defer tr.CloseIdleConnections()
		c := &http.Client{Transport: tr}
		raw := newFixture(t)
		r := raw.request("POST", "/v1/routes/r/push", `{"id":"a"}`, metadata...)
		for i := range 100 {
			r.Header.Set(fmt.Sprintf("attribute-%d", i), strings.Repeat("v", 1024))
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw.want(fmt.Sprintf("SRV-07 unwrapped h2=%v", h2), raw.read(resp), 204, "")
		got := raw.received().Attributes
		for i := range 100 {
			if v := got[fmt.Sprintf("attribute-%d", i)]; len(v) != 1024 {
				t.Fatalf("SRV-07 unwrapped h2=%v: attribute %d has %d bytes", h2, i, len(v))
			}
		}
	}
	// 2 MiB: 431 on the wire. A client that sends on may see the connection reset instead.
	conn, err := net.Dial("tcp", f.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		fmt.Fprintf(conn, "POST /v1/routes/r/push HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n")
		for i := range 64 {
			fmt.Fprintf(conn, "h%d: %s\r\n", i, strings.Repeat("v", 32<<10))
		}
		fmt.Fprintf(conn, "\r\n")
	}()
	first := make([]byte, 64)
	n, _ := io.ReadAtLeast(conn, first, 12)
	if !strings.HasPrefix(string(first[:n]), "HTTP/1.1 431") {
		t.Errorf("SRV-07 2 MiB of headers: %q", first[:n])
	}
	f.want("SRV-07 after", f.push(wrap(`{"id":"a"}`, "m")), 204, "")
}

func TestSRV06CallerLeaves(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		// The writer sees the caller's context end, so that it can withdraw what is not sent.
		f := newFixture(t, offline, func(f *fixture) { f.writer.gate = make(chan struct{}) })
		c := servePipes(t, f).client(h2)
		r := post(t, "/v1/routes/r/push", strings.NewReader(wrap(`{"id":"a"}`, "m")), -1)
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		go func() {
			time.Sleep(time.Second)
			cancel()
		}()
		if _, err := c.Do(r.WithContext(ctx)); err == nil {
			t.Error("the request went on")
		}
		synctest.Wait()
		if d := time.Since(start); d != time.Second {
			t.Errorf("left after %v", d)
		}
		if n := f.counts.of(func(c *counts) map[string]int { return c.records }, "deadline deadline"); n != 1 {
			t.Errorf("the wait did not end: %v", f.counts.records)
		}
	})
}

// One HTTP/2 connection carries as many waiting requests as the platform sends an instance
// at most, 1,000: all of them reach the writer before any is answered.
func TestRUN03OneConnectionCarriesTheWholeConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline, func(f *fixture) { f.writer.gate = make(chan struct{}) })
		p := servePipes(t, f)
		c := p.client(true)
		var dialled atomic.Int64
		c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled.Add(1)
			return p.dial(ctx, network, addr)
		}
		f.timed(c, post(t, "/v1/routes/r/records", strings.NewReader("[]"), -1, "Content-Type", "application/json")) // the server's settings are known
		statuses := make(chan int, 1000)
		for i := range 1000 {
			go func() {
				a, _ := f.timed(c, post(t, "/v1/routes/r/push", strings.NewReader(wrap(fmt.Sprintf(`{"id":"%d"}`, i), "m")), -1))
				statuses <- a.status
			}()
		}
		synctest.Wait()
		if n := len(f.writer.entries()); n != 1000 {
			t.Errorf("RUN-03: %d of 1,000 requests reached the writer", n)
		}
		close(f.writer.gate)
		for range 1000 {
			if s := <-statuses; s != 204 {
				t.Errorf("RUN-03: answered %d", s)
			}
		}
		if n := dialled.Load(); n != 1 {
			t.Errorf("RUN-03: %d connections, want one", n)
		}
	})
}
