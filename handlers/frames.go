package handlers

import (
	"bufio"
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"
)

const (
	// http2Preface is what a client's HTTP/2 connection begins with (RFC 9113, 3.4).
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// framesBuffer takes in the frames of several requests, and few enough resets that what
	// they cost is known before the next.
	framesBuffer = 1 << 10

	// frameTime is what a connection pays in time for a frame that is no request and no part
	// of one: 20,000 in a second, at 1.5 to 4 us of CPU each.
	frameTime = 50 * time.Microsecond
	// abortTime is what it pays for a request that it takes back, at some 60 us of CPU: 1,250
	// in a second. MaxConcurrentStreams does not bound them, as they make room for the next.
	abortTime = 16 * frameTime
	// frameAhead is how much of it may be owed before a read waits.
	frameAhead = 50 * time.Millisecond
	// frameCredit is how many written bytes pay for a small frame, as a client that takes in
	// an answer grants more of it (Go's with two frames for 4 KiB), and mostCredit how many
	// are kept for that.
	frameCredit = 1 << 10
	mostCredit  = 1 << 20
	// longestPause is how long a read waits at most, after which it reads all the same.
	longestPause = 100 * time.Millisecond
)

// The types of frames that follow tells apart (RFC 9113, 6).
const (
	frameData     = 0x0
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameSettings = 0x4

	flagEndStream = 0x1
	flagPadded    = 0x8
)

// frames is the reading of an HTTP/2 connection, from its first frame on. net/http reads each
// frame's header and payload with a system call of its own, of which most of a small frame's
// CPU is, and does not wait for anything when the next has come: a client that sends frames
// without end keeps the other connections' requests from running. So frames are read some at
// a time, and a connection whose frames are mostly none of a request is read more slowly.
// That loses nothing: the client's writes wait.
type frames struct {
	*bufio.Reader
	src func([]byte) (int, error)

	in, out stream // what comes, and what is written

	small int64         // frames of frameTime that were read last
	owed  time.Duration // for the others
	until time.Time     // when all that was read before is paid
	// Requests that were taken back: resets says the client, aborted their handlers, which
	// see as well those that net/http resets for what a client sends; counted were charged.
	resets, counted int64
	aborted         atomic.Int64
	refused         atomic.Int64 // resets that net/http wrote, each for a frame that had no place in a request
	written         atomic.Int64 // bytes that did not pay for a frame yet
}

// stream finds the frames' headers in what is read or written.
type stream struct {
	// header is of the next frame, of which have bytes came; payload is what is still to come
	// of this one's.
	header        [9]byte
	have, payload int
}

func newFrames(src func([]byte) (int, error)) *frames {
	f := &frames{src: src}
	f.Reader = bufio.NewReaderSize(followed{f}, framesBuffer)
	return f
}

// followed is what frames' buffer reads from.
type followed struct{ *frames }

func (f followed) Read(p []byte) (int, error) {
	f.pay()
	n, err := f.src(p)
	f.follow(p[:n])
	return n, err
}

// follow follows what was read.
func (f *frames) follow(b []byte) {
	for f.in.next(&b) {
		f.charge(f.in.header[3], f.in.header[4])
	}
}

// wrote follows what was written.
func (f *frames) wrote(b []byte) {
	f.written.Add(int64(len(b)))
	for f.out.next(&b) {
		if f.out.header[3] == frameReset {
			f.refused.Add(1)
		}
	}
}

// pay waits until no more than frameAhead is owed.
func (f *frames) pay() {
	if n := max(f.resets, f.aborted.Load()); n > f.counted {
		f.owed += time.Duration(n-f.counted) * abortTime
		f.counted = n
	}
	f.small += f.refused.Swap(0)
	if f.small == 0 && f.owed == 0 {
		return
	}
	credit := min(f.written.Swap(0), mostCredit)
	paid := min(f.small, credit/frameCredit)
	f.written.Add(credit - paid*frameCredit)
	now := time.Now()
	if f.until.Before(now) {
		f.until = now
	}
	f.until = f.until.Add(f.owed + time.Duration(f.small-paid)*frameTime)
	f.small = 0
	f.owed = 0
	if ahead := f.until.Sub(now) - frameAhead; ahead > 0 {
		time.Sleep(min(ahead, longestPause))
	}
}

// aborted counts an HTTP/2 request of ctx as taken back.
func aborted(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok && c.frames != nil {
		c.frames.aborted.Add(1)
	}
}

// next goes on in b, however it is cut, to behind a frame's header; false = there is none.
func (s *stream) next(b *[]byte) bool {
	skip := min(s.payload, len(*b))
	s.payload -= skip
	*b = (*b)[skip:]
	n := copy(s.header[s.have:], *b)
	s.have += n
	*b = (*b)[n:]
	if s.have < len(s.header) {
		return false
	}
	s.have = 0
	s.payload = int(binary.BigEndian.Uint32(s.header[:4]) >> 8)
	return true
}

// charge owes for a frame whose header was read.
func (f *frames) charge(kind, flags byte) {
	switch {
	case kind == frameReset:
		f.resets++
	case kind == frameSettings:
		f.owed += abortTime // each stream may have to be told
	case kind == frameHeaders: // a request, or the end of one's body
	case kind == frameData && flags&flagEndStream != 0:
	case kind == frameData && f.in.payload > 0 && (flags&flagPadded == 0 || f.in.payload > 256): // not padding only
	default:
		f.small++
	}
}
