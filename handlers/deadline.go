package handlers

import (
	"context"
	"sync"
	"time"

	"github.com/pushsink/pushsink/internal/traceparent"
)

// deadline is the context of an exchange: that of the request, up to an absolute time. It
// arms a timer when it is first waited for. Most requests never are: they wait in the writer,
// which ends them at the deadline by a timer of its own.
type deadline struct {
	// request stands below, so that a log line finds the trace that the request is in.
	request traceparent.Context
	at      time.Time

	// mu guards the rest: dead letters are published by goroutines of their own.
	mu    sync.Mutex
	timed context.Context // nil = nobody has waited yet
	stop  context.CancelFunc
	ended bool
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil {
		d.timed, d.stop = context.WithDeadline(&d.request, d.at)
		if d.ended {
			d.stop()
		}
	}
	return d.timed.Done()
}

func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed != nil {
		return d.timed.Err()
	}
	if err := d.request.Err(); err != nil {
		return err
	}
	switch {
	case d.ended:
		return context.Canceled
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Value lets what is derived from d find the timed context, and be ended by it without a
// goroutine.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	timed := d.timed
	d.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return d.request.Value(key)
}

// end ends d for good.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.stop != nil {
		d.stop()
	}
}
