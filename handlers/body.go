package handlers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Reasons why a body ended early. errBroken and errStalled say that the client or the
// network is at fault, the others that a bound of ours was reached, errDraining the last.
var (
	errBroken      = errors.New("the request body ended early or its compression is broken")
	errStalled     = errors.New("the request body did not arrive in time (READ_BODY_TIMEOUT)")
	errLate        = errors.New("the request body did not arrive before the request's deadline")
	errNotAdmitted = errors.New("a record was not admitted in time (WRITER_ADMISSION_TIMEOUT): the rest of the stream was not read")
	errDraining    = errors.New("the server is shutting down (SHUTDOWN_TIMEOUT): the rest of the request body was not read")
	errBudgetFull  = errors.New("too many request bodies are held at the moment (BODY_BYTES_IN_FLIGHT)")
)

// tooLargeError is a body above its cap: bytes, records of an array, or names of an envelope.
type tooLargeError struct {
	limit   int64
	option  string
	records bool
	names   bool
}

func (e *tooLargeError) Error() string {
	if e.records {
		return fmt.Sprintf("more than %d records in one array (%s)", e.limit, e.option)
	}
	if e.names {
		return fmt.Sprintf("more than %d names in one envelope (%s)", e.limit, e.option)
	}
	return fmt.Sprintf("request body larger than %d bytes (%s), before or after decompression", e.limit, e.option)
}

// wire reads the request's body as it travels: every read gets READ_BODY_TIMEOUT and no more
// than the request's deadline, ends with a drain's reading, and what passes is held to the cap before
// decompression.
type wire struct {
	x     *exchange
	body  io.ReadCloser
	conn  *conn // nil = it is told nothing
	limit *tooLargeError
	n     int64
	ended bool // the body was read to its end
	// before and after are its neighbours among the reads under way.
	before, after *wire
	// failed: a read did. Its deadline stays, so that net/http, which reads on in a body that
	// has not ended, is not held up by the same client.
	failed bool
}

func (b *wire) Read(p []byte) (int, error) {
	d := time.Now().Add(b.x.h.limits.ReadBodyTimeout)
	late := d.After(b.x.ctx.at)
	if late {
		d = b.x.ctx.at
	}
	_ = b.x.conn.SetReadDeadline(d)
	if !b.x.h.reading.begin(b) {
		b.failed = true
		return 0, errDraining
	}
	if b.conn != nil {
		// The read that comes to the end of the body starts net/http's watch.
		b.conn.expected.Store(true)
	}
	n, err := b.read(p)
	if b.conn != nil && err != io.EOF {
		b.conn.expected.Store(false)
	}
	if err == nil || err == io.EOF {
		// Between two reads the time is ours: on HTTP/2 a deadline that passes then breaks
		// the rest of the body.
		_ = b.x.conn.SetReadDeadline(time.Time{})
	} else {
		b.failed = true
	}
	b.n += int64(n)
	if b.n > b.limit.limit {
		return 0, b.limit
	}
	switch {
	case err == nil:
	case err == io.EOF:
		b.ended = true
	case b.x.h.reading.hasEnded():
		err = errDraining
	case errors.Is(err, os.ErrDeadlineExceeded) && late:
		err = errLate
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errStalled
	default:
		err = fmt.Errorf("%w: %w", errBroken, err)
	}
	return n, err
}

// read is one read that a drain may end.
func (b *wire) read(p []byte) (int, error) {
	defer b.x.h.reading.done(b)
	return b.body.Read(p)
}

// content is the body's content: decompressed, held to the cap, and charged to the budget as
// it is read. The exchange gives the charge back.
type content struct {
	x     *exchange
	src   io.Reader
	close func()
	limit *tooLargeError
	n     int64
}

func (c *content) Read(p []byte) (int, error) {
	// One byte beyond the cap is asked for, so that a body of exactly the cap passes.
	if room := c.limit.limit - c.n + 1; int64(len(p)) > room {
		p = p[:room]
	}
	n, err := c.read(p)
	c.n += int64(n)
	if c.n > c.limit.limit {
		return 0, c.limit
	}
	if n > 0 && !c.x.charge(int64(n)) {
		return 0, errBudgetFull
	}
	return n, err
}

// read is one read, with a turn for what a decompressor computes (see turns).
func (c *content) read(p []byte) (int, error) {
	if c.close == nil || c.n+c.x.wire.n < withoutTurn {
		return c.src.Read(p)
	}
	if err := c.x.takeTurn(); err != nil {
		return 0, err
	}
	defer c.x.giveTurn()
	return c.src.Read(p)
}

// coding is a supported Content-Encoding.
type coding uint8

const (
	identity coding = iota
	gzipped
	zstandard
)

// contentCoding reads the Content-Encoding; ok is false for an unknown or a stacked one.
func contentCoding(h http.Header) (c coding, ok bool) {
	v := h["Content-Encoding"]
	if len(v) > 1 {
		return 0, false
	}
	if len(v) == 0 {
		return identity, true
	}
	switch strings.ToLower(strings.TrimSpace(v[0])) {
	case "", "identity":
		return identity, true
	case "gzip", "x-gzip":
		return gzipped, true
	case "zstd":
		return zstandard, true
	}
	return 0, false
}

// openBody gives the request's content under limit. The request's encoding was checked.
func (x *exchange) openBody(limit int64, option string) error {
	x.limit = tooLargeError{limit: limit, option: option}
	if x.r.ContentLength > limit {
		return &x.limit
	}
	x.wire = wire{x: x, body: x.r.Body, limit: &x.limit}
	if x.r.ProtoMajor == 1 && x.r.ContentLength > 0 { // the length of chunks may be read byte by byte
		x.wire.conn, _ = x.r.Context().Value(connKey{}).(*conn)
	}
	x.content = content{x: x, src: &x.wire, limit: &x.limit}
	switch c, _ := contentCoding(x.r.Header); c {
	case gzipped:
		src, err := x.h.codecs.gzip(compressed{&x.wire})
		if err != nil {
			return brokenUnless(err)
		}
		x.content.src, x.content.close = src, src.release
	case zstandard:
		src, err := x.h.codecs.zstd(&zstdFrames{src: compressed{&x.wire}, charge: x.charge})
		if err != nil {
			return brokenUnless(err)
		}
		x.content.src, x.content.close = src, src.release
	}
	return nil
}

// brokenUnless keeps the reasons of wire and calls every other error of a decompressor broken.
func brokenUnless(err error) error {
	var large *tooLargeError
	if err == nil || err == io.EOF || errors.As(err, &large) || errors.Is(err, errBroken) ||
		errors.Is(err, errStalled) || errors.Is(err, errLate) || errors.Is(err, errDraining) || errors.Is(err, errBudgetFull) {
		return err
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// closeBody ends the reading. What is left of a body that was not read to its end has
// READ_BODY_TIMEOUT to arrive. After a whole one the wait for the write has no read deadline,
// which would end the request's context when it passes: its last read saw to that.
func (x *exchange) closeBody() {
	if x.content.close != nil {
		x.content.close()
		x.content.close = nil
	}
	if x.wire.x != nil && !x.wire.failed && !x.wire.ended {
		_ = x.conn.SetReadDeadline(time.Now().Add(x.h.limits.ReadBodyTimeout))
	}
}

// readAll reads the whole body into a buffer that the caller owns.
func (x *exchange) readAll(limit int64, option string) (*buffer, error) {
	defer x.closeBody()
	if err := x.openBody(limit, option); err != nil {
		return nil, err
	}
	// The length told is a hint that memory is committed to only as bytes arrive.
	const trust = 64 << 10
	told := x.r.ContentLength
	if x.content.close != nil {
		told = -1
	}
	first := int64(4 << 10)
	if told >= 0 {
		first = min(told+1, trust)
	}
	buf := x.h.buffers.get(int(first))
	var pieces []*buffer // what stands before buf
	for {
		if len(buf.b) == cap(buf.b) {
			next := 2 * int64(cap(buf.b))
			if told >= 0 && told < next {
				next = told + 1
			}
			if told < 0 && cap(buf.b) >= pieceBytes {
				pieces = append(pieces, buf)
				buf = x.h.buffers.get(pieceBytes)
			} else {
				buf = x.h.buffers.grow(buf, int(max(next, int64(len(buf.b))+1)))
			}
		}
		n, err := x.content.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		if err == io.EOF {
			return x.h.buffers.join(pieces, buf), nil
		}
		if err != nil {
			for _, b := range append(pieces, buf) {
				x.h.buffers.put(b)
			}
			return nil, brokenUnless(err)
		}
	}
}
