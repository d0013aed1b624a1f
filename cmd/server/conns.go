package main

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// conns are the open connections of an http.Server, to end the reading of bodies that
// would outlast a shutdown.
type conns struct {
	// mu guards open.
	mu   sync.Mutex
	open map[net.Conn]struct{}
	// until is when the reading of bodies ends, once a drain has set it.
	until atomic.Pointer[time.Time]
}

// readUntil is handlers.Process's.
func (c *conns) readUntil() time.Time {
	if at := c.until.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// track is an http.Server's ConnState.
func (c *conns) track(conn net.Conn, state http.ConnState) {
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

// stopReading makes every read of an open connection fail from now on, so that a request
// whose body still arrives is answered. It also ends the context of a request that waits
// for its write: call it after the writer's drain has ended.
func (c *conns) stopReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // it fails on a closed one only
	}
}
