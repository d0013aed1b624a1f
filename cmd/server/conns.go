package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// conns are the open connections of an http.Server, to end those that no handler has a
// request of: http.Server.Shutdown waits for a client that sends its headers slowly.
type conns struct {
	// mu guards open.
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// track is an http.Server's ConnState.
func (c *conns) track(conn net.Conn, state http.ConnState) {
	if state == http.StateActive || state == http.StateIdle {
		return // of each request
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.open == nil {
			c.open = map[net.Conn]struct{}{}
		}
		c.open[conn] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
}

// stopReading makes every read of an open connection fail from now on. On HTTP/2 that ends
// all its streams unanswered, so call it once the handlers have returned.
func (c *conns) stopReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // it fails on a closed one only
	}
}
