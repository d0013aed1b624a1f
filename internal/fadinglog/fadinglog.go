// Package fadinglog thins out log lines about events that traffic drives, so that the log
// does not follow the traffic.
package fadinglog

import (
	"sync"
	"time"
)

// Interval is the longest time between two lines of a kind that goes on.
const Interval = time.Minute

// Kinds counts events by kind. There must be few kinds: each is kept for good. The zero
// value is ready, and its method may be called from several goroutines.
type Kinds[K comparable] struct {
	mu    sync.Mutex // guards kinds
	kinds map[K]*count
}

type count struct {
	n    int64
	last time.Time // of the last line
}

// Due counts an event and reports whether to log it: the 1st, 2nd, 4th, 8th … of its kind,
// and one an Interval at least. n is how many there were.
func (k *Kinds[K]) Due(kind K) (n int64, due bool) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.kinds[kind]
	if c == nil {
		if k.kinds == nil {
			k.kinds = make(map[K]*count)
		}
		c = &count{}
		k.kinds[kind] = c
	}
	c.n++
	if due = c.n&(c.n-1) == 0 || now.Sub(c.last) >= Interval; due {
		c.last = now
	}
	return c.n, due
}
