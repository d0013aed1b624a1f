package handlers

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frameOf is a frame of stream 1 with a payload of zeros.
func frameOf(kind http2.FrameType, flags http2.Flags, payload int) []byte {
	f := []byte{byte(payload >> 16), byte(payload >> 8), byte(payload), byte(kind), byte(flags), 0, 0, 0, 1}
	return append(f, make([]byte, payload)...)
}

// readAll reads as net/http does: never past a frame that it knows.
func readAll(r io.Reader) (n int, err error) {
	for p := make([]byte, 9); ; {
		k, err := r.Read(p)
		n += k
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Frames that are no request cost a connection time, those of requests none.
func TestFramesPace(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame []byte
		n     int
		wants time.Duration // for each
	}{
		{"window updates", frameOf(http2.FrameWindowUpdate, 0, 4), 5_000, frameTime},
		{"pings", frameOf(http2.FramePing, 0, 8), 5_000, frameTime},
		{"priorities", frameOf(http2.FramePriority, 0, 5), 5_000, frameTime},
		{"continuations", frameOf(http2.FrameContinuation, 0, 30), 5_000, frameTime},
		{"types that nobody knows", frameOf(0xbe, 0, 300), 5_000, frameTime},
		{"data without content", frameOf(http2.FrameData, 0, 0), 5_000, frameTime},
		{"data of padding", frameOf(http2.FrameData, http2.FlagDataPadded, 256), 5_000, frameTime},
		{"settings", frameOf(http2.FrameSettings, 0, 6), 1_000, abortTime},
		{"resets", frameOf(http2.FrameRSTStream, 0, 4), 1_000, abortTime},
		{"as many as are no flood", frameOf(http2.FrameWindowUpdate, 0, 4), 1_000, frameTime},
		{"headers", frameOf(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 40), 20_000, 0},
		{"data", frameOf(http2.FrameData, 0, 1), 20_000, 0},
		{"data with padding", frameOf(http2.FrameData, http2.FlagDataPadded, 257), 20_000, 0},
		{"ends of bodies", frameOf(http2.FrameData, http2.FlagDataEndStream, 0), 20_000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFrames(bytes.NewReader(bytes.Repeat(c.frame, c.n)).Read)
				start := time.Now()
				if n, err := readAll(f); n != c.n*len(c.frame) || err != nil {
					t.Fatal(n, err)
				}
				if got, want := time.Since(start), max(0, time.Duration(c.n)*c.wants-frameAhead); got != want {
					t.Errorf("took %v, want %v", got, want)
				}
			})
		})
	}
}

// What is owed is paid by time that passes, and what small frames owe by what is written.
func TestFramesArePaid(t *testing.T) {
	update := frameOf(http2.FrameWindowUpdate, 0, 4)
	for _, c := range []struct {
		name   string
		before func(f *frames)
		frame  []byte
		n      int
		want   time.Duration
	}{
		{"by nothing", func(*frames) {}, update, 1000, frameAhead},
		{"by time", func(*frames) { time.Sleep(frameAhead / 2) }, update, 1000, frameAhead / 2},
		{"by more time than is owed", func(*frames) { time.Sleep(time.Hour) }, update, 3000, 2000 * frameTime},
		{"by what is written", func(f *frames) { f.written.Add(400 * frameCredit) }, update, 1000, 600 * frameTime},
		{"by more than counts", func(f *frames) { f.written.Add(1 << 30) }, update, 2024, 1000 * frameTime},
		{"resets, by what is written", func(f *frames) { f.written.Add(1 << 30) }, frameOf(http2.FrameRSTStream, 0, 4), 10, 10 * abortTime},
		{"by handlers", func(f *frames) { f.aborted.Add(10) }, nil, 0, 10 * abortTime},
		{"by handlers of streams that the client resets", func(f *frames) { f.aborted.Add(10) }, frameOf(http2.FrameRSTStream, 0, 4), 12, 12 * abortTime},
		{"by so many handlers that reads must not wait for all", func(f *frames) { f.aborted.Add(1000) }, nil, 0, longestPause},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := bytes.NewReader(slices.Concat(bytes.Repeat(update, 1000), bytes.Repeat(c.frame, c.n)))
				f := newFrames(io.LimitReader(sent, int64(1000*len(update))).Read)
				if _, err := readAll(f); err != nil {
					t.Fatal(err)
				}
				f.src = sent.Read
				c.before(f)
				start := time.Now()
				if _, err := readAll(f); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(start); got != c.want {
					t.Errorf("took %v, want %v", got, c.want)
				}
			})
		})
	}
}

// FuzzFrames holds that frames gives what comes, in its order, with its error and whatever it
// is, and sees its frames however it is cut.
func FuzzFrames(f *testing.F) {
	f.Add(slices.Concat(frameOf(http2.FrameHeaders, 4, 20), frameOf(http2.FrameData, 0, 0), frameOf(http2.FrameRSTStream, 0, 4)), uint64(1))
	f.Add(slices.Concat(frameOf(http2.FrameSettings, 0, 6), frameOf(http2.FrameData, 8, 3000), frameOf(http2.FramePing, 0, 8)), uint64(2))
	f.Add([]byte("\xff\xff\xff\x08\x00\x00\x00\x00\x00 and no more"), uint64(3))
	f.Fuzz(func(t *testing.T, sent []byte, seed uint64) {
		if len(sent) > 1<<15 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			cut := func(p []byte) []byte { return p[:1+random.IntN(max(1, min(len(p), 1<<random.IntN(13))))] }
			left, broken := sent, errors.New("broken")
			fs := newFrames(func(p []byte) (int, error) {
				if len(left) == 0 {
					return 0, broken
				}
				n := copy(cut(p), left)
				left = left[n:]
				return n, nil
			})
			var got []byte
			for p := make([]byte, 1<<14); ; {
				n, err := fs.Read(cut(p))
				got = append(got, p[:n]...)
				if err != nil {
					if err != broken {
						t.Fatal(err)
					}
					break
				}
			}
			if !bytes.Equal(got, sent) {
				t.Fatalf("%q came out as %q", sent, got)
			}
			whole, parts := newFrames(nil), newFrames(nil)
			for rest := sent; ; {
				h, err := http2.ReadFrameHeader(bytes.NewReader(rest))
				if err != nil {
					break
				}
				whole.in.payload = int(h.Length)
				whole.charge(byte(h.Type), byte(h.Flags))
				rest = rest[min(len(rest), 9+int(h.Length)):]
			}
			for rest := sent; len(rest) > 0; {
				part := cut(rest)
				parts.follow(part)
				rest = rest[len(part):]
			}
			if parts.small != whole.small || parts.owed != whole.owed || parts.resets != whole.resets {
				t.Errorf("%q: %d small, %v, %d resets, want %d, %v, %d", sent, parts.small, parts.owed, parts.resets, whole.small, whole.owed, whole.resets)
			}
		})
	})
}

// A connection is followed from the end of HTTP/2's preface on, however that comes, and one of
// HTTP/1 not at all.
func TestConnFindsHTTP2(t *testing.T) {
	for _, c := range []struct {
		sent string
		h2   bool
	}{
		{http2Preface, true},
		{"POST / HTTP/1.1\r\nHost: h\r\n\r\n", false},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\t", false},
		{"PRI * HTTP/1.1\r\nHost: pushsink\r\n\r\n", false},
		{strings.Repeat("P", 30), false},
	} {
		for at := range len(c.sent) {
			s, client := piped(t)
			go func() {
				_, _ = io.WriteString(client, c.sent[:at])
				_, _ = io.WriteString(client, c.sent[at:]+string(frameOf(http2.FramePing, 0, 8)))
				client.Close()
			}()
			got := make([]byte, len(http2Preface)) // net/http reads no further at first
			if _, err := io.ReadFull(s, got); err != nil {
				t.Fatal(err)
			}
			if (s.frames != nil) != c.h2 {
				t.Errorf("%q, cut at %d: HTTP/2 = %v", c.sent, at, s.frames != nil)
			}
			rest, err := io.ReadAll(s)
			if want := c.sent + string(frameOf(http2.FramePing, 0, 8)); string(got)+string(rest) != want || err != nil {
				t.Errorf("%q, cut at %d: read %q, %v", c.sent, at, string(got)+string(rest), err)
			}
		}
	}
}

// HTTP/2's preface in the middle of a connection is content.
func TestConnFindsHTTP2AtItsBeginningOnly(t *testing.T) {
	s, client := piped(t)
	go func() {
		for _, sent := range []string{"POST / HTTP/1.1\r\nA: b2\r\n", http2Preface} {
			_, _ = io.WriteString(client, sent)
		}
	}()
	for range 2 {
		if _, err := io.ReadFull(s, make([]byte, len(http2Preface))); err != nil {
			t.Fatal(err)
		}
	}
	if s.frames != nil {
		t.Error("it is followed as HTTP/2")
	}
}

// rawH2 is a client's HTTP/2 connection, and what it reads but for settings and windows.
func rawH2(t *testing.T, p *pipes) (*http2.Framer, net.Conn, chan http2.FrameType) {
	c, err := p.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	read := make(chan http2.FrameType, 10_000)
	f := http2.NewFramer(c, c)
	go func() {
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch kind := frame.Header().Type; kind {
			case http2.FrameSettings, http2.FrameWindowUpdate:
			default:
				read <- kind
			}
		}
	}()
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f, c, read
}

// A flood waits and loses nothing, and no other connection waits for it.
func TestFloodOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline)
		p := servePipes(t, f)
		flood, _, read := rawH2(t, p)
		client := p.client(true)
		const pings = 5000
		start := time.Now()
		flooded := make(chan time.Duration)
		go func() {
			for range pings {
				if err := flood.WritePing(false, [8]byte{}); err != nil {
					t.Error(err)
				}
			}
			for range pings {
				if kind := <-read; kind != http2.FramePing {
					t.Errorf("a %v, want the answer to a ping", kind)
				}
			}
			flooded <- time.Since(start)
		}()
		for i := range 10 {
			time.Sleep(10 * time.Millisecond)
			a, took := f.timed(client, post(t, "/v1/routes/r/push", strings.NewReader(wrap(`{"id":"a"}`, "m")), -1))
			if a.status != http.StatusNoContent || took != 0 {
				t.Errorf("push %d: %d after %v", i, a.status, took)
			}
		}
		// The last ping is not paid before the next read, and the bytes of the answers pay for some.
		paid := pings * time.Duration(len(frameOf(http2.FramePing, 0, 8))) / frameCredit
		want := abortTime + (pings-1-paid)*frameTime - frameAhead
		if took := <-flooded; took < want-2*frameTime || took > want+2*frameTime {
			t.Errorf("the flood took %v, want %v", took, want)
		}
		time.Sleep(longestPause)
	})
}

// headerBlock is a request's headers, whatever its connection has sent before.
func headerBlock(t *testing.T, method, path string) []byte {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, h := range []hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "h"}, {Name: ":path", Value: path}} {
		if err := encoder.WriteField(h); err != nil {
			t.Fatal(err)
		}
	}
	return block.Bytes()
}

// Requests that a client makes the server reset count as those that it resets.
func TestProvokedResetsOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline)
		raw, conn, read := rawH2(t, servePipes(t, f))
		block := headerBlock(t, "POST", "/v1/routes/r/push")
		start := time.Now()
		const tries = 200
		for i := range uint32(tries) {
			if err := raw.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block, EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
			// A window that grows by nothing is an error of its stream (RFC 9113, 6.9).
			update := frameOf(http2.FrameWindowUpdate, 0, 4)
			update[8] = byte(2*i + 1)
			update[7] = byte((2*i + 1) >> 8)
			if _, err := conn.Write(update); err != nil {
				t.Fatal(err)
			}
			if kind := <-read; kind != http2.FrameRSTStream {
				t.Fatalf("a %v, want a reset", kind)
			}
			synctest.Wait()
		}
		if took, least := time.Since(start), (tries-1)*abortTime-frameAhead; took < least {
			t.Errorf("%d took %v, want %v", tries, took, least)
		}
		time.Sleep(longestPause)
	})
}

// A frame of a stream that is no more makes the server write a reset, without any handler: it
// costs what other frames do that are no part of a request.
func TestDataOfEndedStreamsOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline)
		raw, _, read := rawH2(t, servePipes(t, f))
		block := headerBlock(t, "GET", "/health/live")
		if err := raw.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for len(read) > 0 {
			<-read
		}
		start := time.Now()
		const frames = 5000
		go func() {
			for range frames {
				if err := raw.WriteData(1, false, []byte{0}); err != nil {
					t.Error(err)
				}
			}
		}()
		for range frames {
			if kind := <-read; kind != http2.FrameRSTStream {
				t.Fatalf("a %v, want a reset", kind)
			}
		}
		if took, least := time.Since(start), frames*frameTime*9/10-2*frameAhead; took < least {
			t.Errorf("%d took %v, want %v", frames, took, least)
		}
		time.Sleep(longestPause)
	})
}
