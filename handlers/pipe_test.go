package handlers

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a server over in-memory connections, so that it runs in a synctest bubble, where
// time passes only while everything waits.
type pipes struct {
	t      *testing.T
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// servePipes serves the fixture's handler with its limits until the test ends.
func servePipes(t *testing.T, f *fixture) *pipes {
	p := &pipes{t: t, conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := NewServer(f.handler, f.config.Limits)
	srv.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	done := make(chan struct{})
	go func() { defer close(done); srv.Serve(Listener(p)) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
		synctest.Wait()
	})
	return p
}

// client speaks HTTP/1.1, or with h2 cleartext HTTP/2 from the first byte.
func (p *pipes) client(h2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	tr := &http.Transport{DialContext: p.dial, Protocols: protocols, DisableCompression: true}
	p.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// paced is a body that waits before each of its pieces.
type paced struct {
	pieces []string
	wait   func(i int) time.Duration
	i      int
	closed chan struct{}
	once   sync.Once
}

func newPaced(wait func(i int) time.Duration, pieces ...string) *paced {
	return &paced{pieces: pieces, wait: wait, closed: make(chan struct{})}
}

func (b *paced) Read(p []byte) (int, error) {
	if b.i == len(b.pieces) {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.wait(b.i)):
	case <-b.closed:
		return 0, io.ErrClosedPipe
	}
	n := copy(p, b.pieces[b.i])
	if b.pieces[b.i] = b.pieces[b.i][n:]; b.pieces[b.i] == "" {
		b.i++
	}
	return n, nil
}

func (b *paced) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
