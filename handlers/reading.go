package handlers

import (
	"sync"
	"time"
)

// reading are the reads of request bodies under way, so that a drain can end them. A read is
// ended by its own request's deadline and never by its connection's: on HTTP/2 a connection
// carries the other requests, and the answers to all of them.
type reading struct {
	// mu guards the rest, and before and after of the bodies. It is held while a deadline is
	// set, never while one is waited for.
	mu    sync.Mutex
	first *wire
	ended bool
}

// begin reports false when no body is read any more.
func (r *reading) begin(b *wire) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	b.before, b.after = nil, r.first
	if r.first != nil {
		r.first.before = b
	}
	r.first = b
	return true
}

// done gives b back to its request, whose end ends its connection's deadlines, too.
func (r *reading) done(b *wire) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.before != nil {
		b.before.after = b.after
	} else {
		r.first = b.after
	}
	if b.after != nil {
		b.after.before = b.before
	}
	b.before, b.after = nil, nil
}

// end makes every read fail, now and later.
func (r *reading) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for b := r.first; b != nil; b = b.after {
		_ = b.x.conn.SetReadDeadline(time.Unix(1, 0))
	}
}

func (r *reading) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}
