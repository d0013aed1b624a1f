package handlers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/pushsink/pushsink/schema"
)

// kib is a small cap, so that the tests at a bound stay small.
const kib = 1 << 10

func small(f *fixture) {
	f.config.Limits.MaxBodyBytes = 4 * kib
	f.config.Limits.BatchMaxBodyBytes = 8 * kib
	f.config.Limits.BodyBytesInFlight = 64 * kib
}

// sized is a push of exactly n bytes.
func sized(n int) string {
	s := wrap(`{"id":"a"}`, "m")
	return s + strings.Repeat(" ", n-len(s))
}

// padded is a JSON object of exactly n bytes.
func padded(n int) string { return `{"id":"a"}` + strings.Repeat(" ", n-10) }

func TestBODY07CapsAreExactAnd413(t *testing.T) {
	f := newFixture(t, small)
	line := `{"id":"a"}` + "\n"
	lines := func(n int) string { return strings.Repeat(line, n/len(line)) + strings.Repeat(" ", n%len(line)) }
	for _, c := range []struct {
		name   string
		a      func() answer
		status int
		limit  string
	}{
		{"push at the cap", func() answer { return f.push(sized(4 * kib)) }, 204, ""},
		{"push one over", func() answer { return f.push(sized(4*kib + 1)) }, 413, "4096"},
		{"json at the cap", func() answer { return f.records("json", padded(4*kib)) }, 200, ""},
		{"json one over", func() answer { return f.records("json", padded(4*kib+1)) }, 413, "4096"},
		{"ndjson at the cap", func() answer { return f.records("x-ndjson", lines(8*kib)) }, 200, ""},
		{"ndjson one over", func() answer { return f.records("x-ndjson", lines(8*kib+1)) }, 413, "8192"},
		{"gzip at the cap", func() answer { return f.records("json", gz(padded(4*kib)), "Content-Encoding", "gzip") }, 200, ""},
		{"gzip expanding to one over", func() answer { return f.records("json", gz(padded(4*kib+1)), "Content-Encoding", "gzip") }, 413, "4096"},
		{"zstd at the cap", func() answer { return f.records("json", zst(t, padded(4*kib)), "Content-Encoding", "zstd") }, 200, ""},
		{"zstd expanding to one over", func() answer { return f.records("json", zst(t, padded(4*kib+1)), "Content-Encoding", "zstd") }, 413, "4096"},
		{"gzip push expanding to one over", func() answer { return f.push(gz(sized(4*kib+1)), "Content-Encoding", "gzip") }, 413, "4096"},
	} {
		t.Run("BODY-07 "+c.name, func(t *testing.T) {
			a := c.a()
			code := schema.Code("")
			if c.status == 413 {
				code = schema.TooLarge
			}
			f.want(c.name, a, c.status, code)
			if !strings.Contains(a.Detail, c.limit) {
				t.Errorf("the limit is not named: %s", a.Detail)
			}
		})
		// The same without a Content-Length.
	}
	for name, body := range map[string]string{"push": sized(4*kib + 1), "records": padded(4*kib + 1)} {
		r := f.request("POST", "/v1/routes/r/"+name, body, "Content-Type", "application/json")
		r.ContentLength = -1
		f.want("BODY-07 chunked "+name, f.do(r), 413, schema.TooLarge)
	}
	// A stream keeps what came before.
	r := f.request("POST", "/v1/routes/r/records", lines(16*kib), "Content-Type", "application/x-ndjson")
	r.ContentLength = -1
	a := f.do(r)
	if a.status != 413 || !a.Truncated || a.Written == 0 || a.Written != a.Received || a.Failed != 0 {
		t.Errorf("BODY-07 stream: %s", a.body)
	}
}

// counting counts what is read of a body.
type counting struct {
	r io.Reader
	n atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// endless gives one byte for ever.
type endless struct{ b byte }

func (e endless) Read(p []byte) (int, error) {
	p[0] = e.b
	for n := 1; n < len(p); n *= 2 {
		copy(p[n:], p[:n])
	}
	return len(p), nil
}

// heapPeak runs f and gives how far the heap grew over what it was.
func heapPeak(t *testing.T, f func()) uint64 {
	t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.Sys
	f()
	runtime.ReadMemStats(&m)
	return m.Sys - before
}

func TestBODY03Bombs(t *testing.T) {
	// 832 MiB inside, in parts of 8 MiB.
	var g, z bytes.Buffer
	gw, _ := gzip.NewWriterLevel(&g, gzip.BestSpeed)
	io.CopyN(gw, endless{}, 8<<20)
	gw.Close()
	zw, _ := zstd.NewWriter(&z, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	io.CopyN(zw, endless{}, 8<<20)
	zw.Close()
	gzipBomb, zstdBomb := strings.Repeat(g.String(), 104), strings.Repeat(z.String(), 104)
	for _, c := range []struct{ encoding, media, body string }{
		{"gzip", "json", gzipBomb}, {"gzip", "x-ndjson", gzipBomb}, {"zstd", "json", zstdBomb}, {"zstd", "x-ndjson", zstdBomb},
	} {
		t.Run("BODY-03 "+c.encoding+" "+c.media, func(t *testing.T) {
			f := newFixture(t)
			grown := heapPeak(t, func() {
				f.want(c.encoding, f.records(c.media, c.body, "Content-Encoding", c.encoding), 413, schema.TooLarge)
			})
			if grown > 112<<20 { // the client and the race detector's shadow are in it; the bomb is 832 MiB
				t.Errorf("memory grew by %d MiB", grown>>20)
			}
		})
	}
	f := newFixture(t)
	f.want("BODY-03 push", f.push(gzipBomb, "Content-Encoding", "gzip"), 413, schema.TooLarge)
}

// The cap holds on what travels too: members and frames that hold nothing never reach it
// decompressed. No Content-Length gives them away.
func TestBODY03CompressedBytesAreCapped(t *testing.T) {
	for encoding, empty := range map[string]string{"gzip": gz(""), "zstd": zst(t, "")} {
		for _, c := range []struct {
			path, media, whole string
			limit              int
		}{
			{"push", "", wrap(`{"id":"a"}`, "m"), 4 * kib},
			{"records", "json", `{"id":"a"}`, 4 * kib},
			{"records", "x-ndjson", `{"id":"a"}` + "\n", 8 * kib},
			{"dryrun", "json", `{"id":"a"}`, 4 * kib},
		} {
			body := gz(c.whole)
			if encoding == "zstd" {
				body = zst(t, c.whole)
			}
			for n, status := range map[int]int{(c.limit - len(body)) / len(empty): 0, (c.limit-len(body))/len(empty) + 1: 413} {
				f := newFixture(t, small)
				r := f.request("POST", "/v1/routes/r/"+c.path, body+strings.Repeat(empty, n), "Content-Type", "application/"+c.media, "Content-Encoding", encoding)
				r.ContentLength = -1
				a := f.do(r)
				if a.status != status && (status != 0 || a.status > 204) {
					t.Errorf("BODY-03 %s %s %s, %d empty parts: %d %s", encoding, c.path, c.media, n, a.status, a.body)
				}
				if status == 413 && !strings.Contains(a.Detail, fmt.Sprint(c.limit)) {
					t.Errorf("BODY-03 %s %s: the limit is not named: %s", encoding, c.path, a.Detail)
				}
			}
		}
	}
}

func TestBODY06DecoderStopsEarly(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.config.Limits.MaxBodyBytes = 4 << 20; f.config.Limits.BatchMaxBodyBytes = 4 << 20 })
	for _, path := range []string{"push", "records", "dryrun"} {
		body := &counting{r: io.MultiReader(strings.NewReader("1"), io.LimitReader(endless{'z'}, 1<<30))}
		r, _ := http.NewRequest("POST", f.server.URL+"/v1/routes/r/"+path, body)
		r.Header.Set("Content-Type", "application/json")
		resp, err := f.client.Do(r)
		if err != nil {
			// The server answers and closes while we send: the answer may be lost, never a 2xx.
			t.Logf("%s: %v", path, err)
		} else {
			resp.Body.Close()
			if resp.StatusCode != 413 && resp.StatusCode != 400 {
				t.Errorf("BODY-06 %s: %d", path, resp.StatusCode)
			}
		}
		if n := body.n.Load(); n > 64<<20 {
			t.Errorf("BODY-06 %s: %d bytes were taken", path, n)
		}
	}
}

func TestBODY09GzipMembers(t *testing.T) {
	f := newFixture(t, func(f *fixture) {
		f.config.Limits.BatchMaxBodyBytes = 16 << 20
		f.config.Limits.MaxRecordBytes = 1 << 20
	})
	a := f.records("x-ndjson", gz("{\"id\":\"a\"}\n", "{\"id\":\"b\"}\n"), "Content-Encoding", "gzip")
	if a.status != 200 || a.Written != 2 {
		t.Errorf("BODY-09 two members: %s", a.body)
	}
	a = f.records("x-ndjson", zst(t, "{\"id\":\"a\"}\n", "{\"id\":\"b\"}\n"), "Content-Encoding", "zstd")
	if a.status != 200 || a.Written != 2 {
		t.Errorf("BODY-09 two frames: %s", a.body)
	}
	member := gz(strings.Repeat("\x00", 1<<20))
	f.want("BODY-09 100 members", f.records("x-ndjson", strings.Repeat(member, 100), "Content-Encoding", "gzip"), 413, schema.TooLarge)
}

func TestBODY10Encodings(t *testing.T) {
	f := newFixture(t)
	body := `{"id":"a"}`
	for _, c := range []struct {
		encoding []string
		body     string
		status   int
	}{
		{[]string{"br"}, body, 415},
		{[]string{"zstd"}, zst(t, body), 200},
		{[]string{"gzip, gzip"}, gz(body), 415},
		{[]string{"gzip", "gzip"}, gz(body), 415},
		{[]string{"identity"}, body, 200},
		{[]string{"GZIP"}, gz(body), 200},
		{[]string{"x-gzip"}, gz(body), 200},
		{[]string{""}, body, 200},
		{[]string{"deflate"}, body, 415},
		{[]string{"gzip"}, body, 400},
		{[]string{"gzip"}, "", 400},
		{[]string{"gzip"}, gz(body)[:12], 400},
		{[]string{"gzip"}, gz(body) + "junk", 400},
		{[]string{"zstd"}, body, 400},
		{[]string{"zstd"}, zst(t, body)[:12], 400},
		{[]string{"zstd"}, zst(t, body) + "junk", 400},
	} {
		for _, media := range []string{"json", "x-ndjson"} {
			r := f.request("POST", "/v1/routes/r/records", c.body, "Content-Type", "application/"+media)
			for _, e := range c.encoding {
				r.Header.Add("Content-Encoding", e)
			}
			a := f.do(r)
			if a.status != c.status {
				t.Errorf("BODY-10 %q %s: got %d, want %d: %s", c.encoding, media, a.status, c.status, a.body)
			}
			if a.status == 415 && a.header.Get("Accept-Encoding") == "" {
				t.Errorf("BODY-10 %q: no Accept-Encoding", c.encoding)
			}
		}
	}
}

func TestBrokenCompressionKeepsWhatWasAdmitted(t *testing.T) {
	f := newFixture(t)
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "{\"id\":\"%d\",\"x\":\"%x\"}\n", i, i*i*7919)
	}
	for name, body := range map[string][2]string{"gzip": {gz(b.String()), "gzip"}, "zstd": {zst(t, b.String()), "zstd"}} {
		cut := body[0][:len(body[0])/2] + "\xff\xff\xff\xff\xff" + body[0][len(body[0])/2+5:]
		a := f.records("x-ndjson", cut, "Content-Encoding", body[1])
		f.want(name, a, 400, schema.BadJSON)
		// The decompressor may give wrong bytes before it notices: bad lines are theirs.
		if !a.Truncated || a.Received == 20_000 || a.Written == 0 || a.Written+a.Failed != a.Received {
			t.Errorf("%s: %.300s", name, a.body)
		}
	}
}

func TestBodyBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline, small, func(f *fixture) {
			f.config.Limits.BodyBytesInFlight = 6 * kib
			f.writer.gate = make(chan struct{})
		})
		held := func(when string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := f.api.budget.used.Load(); got != want {
				t.Errorf("%s: %d bytes are held, want %d", when, got, want)
			}
		}
		// A body that is still arriving holds what came of it.
		pr, pw := io.Pipe()
		first := make(chan answer, 1)
		go func() {
			r := f.request("POST", "/v1/routes/r/push", "")
			r.Body, r.ContentLength = pr, -1
			first <- f.do(r)
		}()
		head := sized(4 * kib)
		pw.Write([]byte(head[:3*kib]))
		held("half of a body", 3*kib)

		a := f.push(sized(4 * kib))
		f.want("full", a, 429, schema.Overloaded)
		if !strings.Contains(a.Detail, "BODY_BYTES_IN_FLIGHT") || a.header.Get("Retry-After") == "" {
			t.Errorf("got %v %s", a.header, a.body)
		}
		f.want("full, json", f.records("json", padded(4*kib)), 429, schema.Overloaded)
		held("after the refusals", 3*kib)

		// What fits passes, and once it is admitted its bytes are free although it is not written.
		second := make(chan answer, 1)
		go func() { second <- f.push(sized(2 * kib)) }()
		held("another is admitted", 3*kib)
		pw.Write([]byte(head[3*kib:]))
		pw.Close()
		held("both are admitted", 0)
		if n := len(f.writer.entries()); n != 2 {
			t.Errorf("%d entries", n)
		}
		close(f.writer.gate)
		f.want("first", <-first, 204, "")
		f.want("second", <-second, 204, "")
		if f.counts.body != 0 {
			t.Errorf("observed %d bytes held", f.counts.body)
		}
	})
}

func TestBudgetCountsDecompressedBytes(t *testing.T) {
	f := newFixture(t, small, func(f *fixture) {
		f.config.Limits.MaxBodyBytes = 32 * kib
		f.config.Limits.BatchMaxBodyBytes = 1 << 20
		f.config.Limits.BodyBytesInFlight = 16 * kib
	})
	body := gz(padded(20 * kib))
	if len(body) > kib {
		t.Fatal("not compressed")
	}
	f.want("json", f.records("json", body, "Content-Encoding", "gzip"), 429, schema.Overloaded)
	// A stream holds only what is not admitted, so it may be longer than the budget; and
	// it is read in pieces that fit.
	f.want("stream", f.records("x-ndjson", gz(strings.Repeat(padded(100)+"\n", 1000)), "Content-Encoding", "gzip"), 200, "")
}

func TestStreamMemoryDoesNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("streams 128 MiB")
	}
	f := newFixture(t, func(f *fixture) {
		f.config.Limits.BatchMaxBodyBytes = 1 << 30
		f.config.Limits.BodyBytesInFlight = 16 << 20
		f.route.Mapper = discardMapper{}
		f.route.Writer = discardWriter{}
	})
	line := []byte(`{"id":"a","x":"` + strings.Repeat("y", 4000) + "\"}\n")
	const total = 128 << 20
	sent := 0
	r, _ := http.NewRequest("POST", f.server.URL+"/v1/routes/r/records", readerFunc(func(p []byte) (int, error) {
		if sent >= total {
			return 0, io.EOF
		}
		n := copy(p, line[sent%len(line):])
		sent += n
		return n, nil
	}))
	r.Header.Set("Content-Type", "application/x-ndjson")
	grown := heapPeak(t, func() {
		if a := f.do(r); a.status != 200 || a.Written < total/len(line) {
			t.Errorf("got %d %.200s", a.status, a.body)
		}
	})
	if grown > 96<<20 { // the client is in it
		t.Errorf("memory grew by %d MiB for a stream of 128 MiB", grown>>20)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A frame's window is charged before the decoder takes the memory, in whatever frame it comes.
func TestZstdWindowsAreCharged(t *testing.T) {
	frame := func(window int, content string) string {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(z, content)
		z.Flush() // without it a short frame has the content's size as its window
		z.Close()
		return b.String()
	}
	skippable := "\x50\x2a\x4d\x18\x05\x00\x00\x00hello"
	const line = "{\"id\":\"a\"}\n"
	f := newFixture(t, func(f *fixture) { f.config.Limits.BodyBytesInFlight = 4 << 20 })
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"a window that fits", frame(2<<20, line), 200},
		{"a window beyond the budget", frame(8<<20, line), 429},
		{"in the second frame", frame(1<<20, line) + frame(8<<20, line), 429},
		{"behind a skippable frame", skippable + frame(8<<20, line), 429},
		{"many that fit, one after the other", strings.Repeat(frame(2<<20, line), 20), 200},
		{"skippable frames between", skippable + frame(1<<20, line) + skippable + zst(t, line), 200},
		{"a window above the largest", frame(16<<20, line), 429},
	} {
		r := f.request("POST", "/v1/routes/r/records", c.body, "Content-Type", "application/x-ndjson", "Content-Encoding", "zstd")
		for _, trickled := range []bool{false, true} {
			if trickled {
				r = f.request("POST", "/v1/routes/r/records", c.body, "Content-Type", "application/x-ndjson", "Content-Encoding", "zstd")
				trickle(r)
			}
			if a := f.do(r); a.status != c.status {
				t.Errorf("%s: got %d, want %d: %s", c.name, a.status, c.status, a.body)
			}
		}
	}
	g := newFixture(t)
	if a := g.records("x-ndjson", frame(16<<20, line), "Content-Encoding", "zstd"); a.status != 400 {
		t.Errorf("a window above RFC 9659's: %d %s", a.status, a.body)
	}
}

// FuzzZstdFrames holds the walk to the decoder: a stream that decodes was followed to its end.
func FuzzZstdFrames(f *testing.F) {
	f.Add([]byte(zst(f, "a", "", strings.Repeat("b", 1000))), uint8(1))
	f.Add([]byte("\x50\x2a\x4d\x18\x05\x00\x00\x00hello"+zst(f, "x")), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		total := int64(0)
		w := &zstdFrames{src: stepped{bytes.NewReader(body), int(step) + 1}, charge: func(n int64) bool { total += n; return n > 0 }}
		z, err := zstd.NewReader(w, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return
		}
		defer z.Close()
		_, err = io.Copy(io.Discard, z)
		if err == nil && len(body) > 0 && (w.lost || w.block || w.skip > 0 || len(w.head) > 0) {
			t.Fatalf("not followed: %+v", w)
		}
		if total > maxZstdWindow {
			t.Fatalf("charged %d", total)
		}
	})
}

// The ids of an idempotent stream are counted in memory, and that is charged too.
func TestIdempotentStreamIsBounded(t *testing.T) {
	f := newFixture(t, small, func(f *fixture) {
		f.config.Limits.BatchMaxBodyBytes = 1 << 20
		f.config.Limits.BodyBytesInFlight = 32 * kib
	})
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "{\"id\":\"%d\"}\n", i)
	}
	a := f.records("x-ndjson", b.String(), "Idempotency-Key", "K")
	f.want("different records", a, 429, schema.Overloaded)
	if !a.Truncated || a.Written == 0 || a.Written+a.Failed != a.Received || a.Received > 2000 || !strings.Contains(a.Detail, "BODY_BYTES_IN_FLIGHT") {
		t.Errorf("got %.300s", a.body)
	}
	a = f.records("x-ndjson", strings.Repeat("{\"id\":\"a\"}\n", 5000), "Idempotency-Key", "K")
	f.want("equal records", a, 200, "")
}
