package handlers

import (
	"sync"
	"time"
)

// reading are the reads of request bodies under way, so that a drain can end them. A read is
// ended by its own request's deadline and never by its connection's: on HTTP/2 a connection
// carries the other requests, and the answers to all of them.
type reading struct {
	// mu guards open and ended. It is held while a deadline is set, never while one is
	// waited for.
	mu    sync.Mutex
	open  map[*wire]struct{}
	ended bool
}

// begin reports false when no body is read any more.
func (r *reading) begin(b *wire) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	if r.open == nil {
		r.open = map[*wire]struct{}{}
	}
	r.open[b] = struct{}{}
	return true
}

// done gives b back to its request, whose end ends its connection's deadlines, too.
func (r *reading) done(b *wire) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, b)
}

// end makes every read fail, now and later.
func (r *reading) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for b := range r.open {
		_ = b.x.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

func (r *reading) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}
