// Package fullduplex has connections for HTTP clients in tests that hear an answer although
// the server takes no more of their request.
//
// A server that refuses a body answers and closes its side. What the client still sends then
// is answered with a reset, and net/http's transport gives up at the write that meets it, even
// where the answer has arrived already: which of the two it sees first depends on how busy the
// machine is.
package fullduplex

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
)

// Dial is for http.Transport's DialContext.
func Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, closed: make(chan struct{})}, nil
}

// conn is silent about a peer that takes nothing any more until it is closed here: that the
// connection is broken is for Read to say, after what was sent before.
type conn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		<-c.closed
	}
	return n, err
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
