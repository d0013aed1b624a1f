package main

import (
	"context"
	"net"
	"sync"
)

// memoryPort is a listener whose connections are pipes in memory. Their deadlines are exact
// in a synctest bubble; those of gRPC's bufconn are not: one that was taken back can still
// end a read, which net/http takes for a caller that left.
type memoryPort struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryPort() *memoryPort {
	return &memoryPort{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *memoryPort) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *memoryPort) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *memoryPort) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (p *memoryPort) DialContext(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
