package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is an HTTP/2 connection that says what it likes.
type frames struct {
	*http2.Framer
	out     *bufio.Writer
	encoder *hpack.Encoder
	block   bytes.Buffer
	next    uint32 // stream
}

// overH2 runs flood on a connection of its own, and then waits for its end: the server's, or
// the attacker's after a while. Nothing that is answered is looked at.
func overH2(flood func(f *frames) error) func(context.Context, *victim) string {
	return func(ctx context.Context, v *victim) string {
		c, err := v.dial(ctx)
		if err != nil {
			return stillOpenOr(ctx, err)
		}
		defer c.Close()
		// Some at a time, as they come over a network: a system call for each frame would cost
		// this machine about as much as the server.
		out := bufio.NewWriterSize(c, 16<<10)
		f := &frames{out: out, Framer: http2.NewFramer(out, c), next: 1}
		f.encoder = hpack.NewEncoder(&f.block)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, c)
		}()
		if _, err := io.WriteString(out, http2.ClientPreface); err != nil {
			return stillOpenOr(ctx, err)
		}
		if err := f.WriteSettings(); err != nil {
			return closed
		}
		err = errors.Join(flood(f), out.Flush())
		if ctx.Err() != nil {
			return stillOpen
		}
		if err != nil {
			return closed
		}
		select {
		case <-ended:
			return closed
		case <-time.After(time.Second):
			return stillOpen
		}
	}
}

// headers opens the next stream.
func (f *frames) headers(end bool, more ...hpack.HeaderField) (stream uint32, err error) {
	f.block.Reset()
	for _, h := range append([]hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/v1/routes/json/push"}, {Name: ":authority", Value: "h"}}, more...) {
		if err := f.encoder.WriteField(h); err != nil {
			return 0, err
		}
	}
	stream = f.next
	f.next += 2
	return stream, f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.block.Bytes(), EndHeaders: true, EndStream: end})
}

// resets opens streams and takes each back at once.
func resets(f *frames) error {
	for range 500 {
		stream, err := f.headers(false)
		if err != nil {
			return err
		}
		if err := f.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
			return err
		}
	}
	return nil
}

// provokedResets opens streams and makes the server take each back: a window must not grow by
// nothing (RFC 9113, 6.9).
func provokedResets(f *frames) error {
	for range 500 {
		stream, err := f.headers(false)
		if err != nil {
			return err
		}
		if err := f.WriteRawFrame(http2.FrameWindowUpdate, 0, stream, make([]byte, 4)); err != nil {
			return err
		}
	}
	return nil
}

func pings(f *frames) error {
	for range 5000 {
		if err := f.WritePing(false, [8]byte{}); err != nil {
			return err
		}
	}
	return nil
}

func settings(f *frames) error {
	for i := range 5000 {
		if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(1000 + i)}); err != nil {
			return err
		}
	}
	return nil
}

func windowUpdates(f *frames) error {
	stream, err := f.headers(false)
	for range 5000 {
		if err == nil {
			err = f.WriteWindowUpdate(stream, 1)
		}
		if err == nil {
			err = f.WriteWindowUpdate(0, 1)
		}
	}
	return err
}

func emptyData(f *frames) error {
	stream, err := f.headers(false)
	for range 10_000 {
		if err == nil {
			err = f.WriteData(stream, false, nil)
		}
	}
	return err
}

// continuations is one header block that does not end: 8 MiB of it.
func continuations(f *frames) error {
	f.block.Reset()
	if err := f.encoder.WriteField(hpack.HeaderField{Name: ":method", Value: "POST"}); err != nil {
		return err
	}
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.block.Bytes()})
	f.block.Reset()
	if err := f.encoder.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("v", 8000), Sensitive: true}); err != nil {
		return err
	}
	for range 1000 {
		if err == nil {
			err = f.WriteContinuation(1, false, f.block.Bytes())
		}
	}
	return err
}

// openStreams opens as many streams as the server lets one connection have, and more.
func openStreams(f *frames) error {
	for n := range 1500 {
		if _, err := f.headers(false); err != nil {
			return err
		}
		if n%100 == 99 {
			if err := f.out.Flush(); err != nil {
				return err
			}
			// All at once is what 1,500 callers cost, whoever they are.
			<-time.After(20 * time.Millisecond)
		}
	}
	return nil
}
