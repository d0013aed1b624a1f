package handlers

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watchAfter is how long a request has been waiting before its connection is watched for a
// client that leaves. Most are answered by then.
const watchAfter = 100 * time.Millisecond

// Listener gives connections that cost an http.Server of [NewServer] less. Their deadlines
// reach the system's poller only where it has to know them. And the read of one byte that
// net/http makes beside each request, to notice a client that leaves, is made watchAfter
// later, when most requests are answered.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := &conn{Conn: c}
	s.in.tell, s.out.tell = c.SetReadDeadline, c.SetWriteDeadline
	s.unwatched.L = &s.in.mu
	return s, nil
}

// conn is one of Listener's connections.
type conn struct {
	net.Conn
	in, out side
	// expected: the next read of one byte is net/http's watch, and none of the request's.
	expected atomic.Bool
	// left ends the contexts of the connection's requests; nil = nobody asked for them.
	left context.CancelFunc
	// preface is how much of HTTP/2's came; -1 = it is HTTP/1. frames is nil until all of it did.
	preface int
	frames  *frames

	// in.mu guards the rest.
	timer     *time.Timer // starts the watch
	due       bool        // the timer is to do so
	watching  bool
	unwatched sync.Cond // watching ended
	first     [1]byte   // of what comes next
	hasFirst  bool      // the watch read it
	err       error     // the watch's
}

type connKey struct{}

// withConn is the context of a connection's requests, which find their connection by it.
func withConn(ctx context.Context, c net.Conn) context.Context {
	s, ok := c.(*conn)
	if !ok {
		return ctx
	}
	ctx, s.left = context.WithCancel(ctx)
	return context.WithValue(ctx, connKey{}, s)
}

// Read reads. The read that is expected to be net/http's watch reads nothing and says so, by
// which net/http's ends, and conn's own is begun in its place.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case c.frames != nil:
		return c.frames.Read(p)
	case c.preface >= 0:
		return c.readFirst(p)
	}
	return c.readPlain(p)
}

// readFirst reads and finds out which protocol it is. net/http reads no further than the
// preface before it knows, so that frames begins where the client's first frame does.
func (c *conn) readFirst(p []byte) (int, error) {
	n, err := c.readPlain(p)
	if !strings.HasPrefix(http2Preface[c.preface:], string(p[:n])) {
		c.preface = -1
	} else if c.preface += n; c.preface == len(http2Preface) {
		c.frames = newFrames(c.readPlain)
	}
	return n, err
}

func (c *conn) readPlain(p []byte) (int, error) {
	if len(p) == 1 && c.expected.CompareAndSwap(true, false) {
		c.watchLater()
		return 0, nil
	}
	c.in.mu.Lock()
	if n, err := c.endWatch(p); n > 0 || err != nil {
		c.in.mu.Unlock()
		return n, err
	}
	c.in.begin()
	c.in.mu.Unlock()
	return c.read(p)
}

func (c *conn) read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if !c.in.again(err) {
			return n, err
		}
	}
}

func (c *conn) Write(p []byte) (int, error) {
	c.out.mu.Lock()
	c.out.begin()
	c.out.mu.Unlock()
	for done := 0; ; {
		n, err := c.Conn.Write(p[done:])
		done += n
		if !c.out.again(err) {
			if c.frames != nil {
				c.frames.wrote(p[:done])
			}
			return done, err
		}
	}
}

func (c *conn) SetReadDeadline(at time.Time) error  { return c.in.set(at) }
func (c *conn) SetWriteDeadline(at time.Time) error { return c.out.set(at) }

func (c *conn) SetDeadline(at time.Time) error {
	return errors.Join(c.in.set(at), c.out.set(at))
}

func (c *conn) Close() error {
	if c.left != nil {
		c.left()
	}
	c.in.mu.Lock()
	if c.due {
		c.due = false
		c.timer.Stop()
	}
	c.in.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite is how net/http lets a client read a refusal whose request it does not read to its end.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

func (c *conn) watchLater() {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	if c.watching || c.hasFirst {
		// The request came together with the one before it, so nothing was read between.
		return
	}
	c.due = true
	if c.timer == nil {
		c.timer = time.AfterFunc(watchAfter, c.watch)
	} else {
		c.timer.Reset(watchAfter)
	}
}

// watch waits for the client to leave, until endWatch.
func (c *conn) watch() {
	c.in.mu.Lock()
	if !c.due {
		c.in.mu.Unlock()
		return
	}
	c.due, c.watching = false, true
	c.in.begin()
	c.in.mu.Unlock()
	n, err := c.read(c.first[:])
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	switch {
	case n == 1: // of the next request, sent before this one's answer
		c.hasFirst = true
	case errors.Is(err, os.ErrDeadlineExceeded):
		// It was cut, or its connection's deadline passed, which is that of a request that
		// came together with this one and says nothing of the client: the next read meets it.
	default:
		c.err = err
		c.left()
	}
	c.watching = false
	c.unwatched.Broadcast()
}

// endWatch gives what the watch read. It is called with in.mu held, and waits with it given up.
func (c *conn) endWatch(p []byte) (int, error) {
	if c.due {
		c.due = false
		c.timer.Stop()
	}
	if c.watching {
		c.in.cut, c.in.armed = true, time.Unix(1, 0)
		_ = c.in.tell(c.in.armed)
		for c.watching {
			c.unwatched.Wait()
		}
		c.in.cut = false
		c.in.armed = c.in.want
		_ = c.in.tell(c.in.armed)
	}
	if c.hasFirst && len(p) > 0 {
		c.hasFirst = false
		p[0] = c.first[0]
		return 1, nil
	}
	return 0, c.err
}

// side is a connection's reading or its writing. net/http sets about ten deadlines for each
// request, and most of them are put off before anything waits for them. So the poller is told
// one only while a call is under way, and only if it is earlier than the one that it has: a
// call that it ends too early tells it the later one.
type side struct {
	tell func(time.Time) error

	// mu guards the rest.
	mu          sync.Mutex
	want, armed time.Time // zero = never
	calls       int       // under way
	cut         bool      // a call is to end, whatever want says
}

func (s *side) set(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want = at
	if s.calls == 0 {
		return nil
	}
	return s.arm()
}

// arm tells the poller an earlier deadline.
func (s *side) arm() error {
	if s.want.IsZero() || !s.armed.IsZero() && !s.want.Before(s.armed) {
		return nil
	}
	s.armed = s.want
	return s.tell(s.armed)
}

// begin comes before a call, and is called with mu held.
func (s *side) begin() {
	s.calls++
	_ = s.arm() // it fails where the call will
}

// again reports that a call which ended with err has to go on, for it was ended too early.
func (s *side) again(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	early := err != nil && errors.Is(err, os.ErrDeadlineExceeded) && !s.cut &&
		(s.want.IsZero() || time.Now().Before(s.want))
	if !early {
		s.calls--
		return false
	}
	s.armed = s.want
	_ = s.tell(s.armed)
	return true
}
