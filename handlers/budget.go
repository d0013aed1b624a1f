package handlers

import "sync/atomic"

// budget counts the body bytes that the process holds, at most max (BODY_BYTES_IN_FLIGHT).
// Nobody waits for it: a full budget is a 429 at once.
type budget struct {
	max      int64
	used     atomic.Int64
	observer Observer
}

// take charges n bytes, or nothing and reports false.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	b.observer.BodyBytes(n)
	return true
}

func (b *budget) give(n int64) {
	if n != 0 {
		b.used.Add(-n)
		b.observer.BodyBytes(-n)
	}
}
