package sink

import (
	"context"
	"time"
)

// Ticket stands for entries handed to a Writer.
type Ticket struct {
	w    *Writer
	ctx  context.Context
	stop func() bool // undoes the hook on ctx; nil = none
	in   bool        // admitted, or settled, when it was submitted
	done chan struct{}

	// Guarded by w.mu until done is closed.
	call  call
	ended bool          // done is closed
	entry chan struct{} // closed when all are admitted or settled; nil until asked for

	// A single entry needs no slices of its own.
	oneItem    [1]item
	oneOutcome [1]Outcome
}

func newTicket(w *Writer, ctx context.Context, deadline time.Time, es []Entry) *Ticket {
	t := &Ticket{w: w, ctx: ctx, done: make(chan struct{})}
	k := &t.call
	k.ticket = t
	if len(es) == 1 {
		k.items, k.outs = t.oneItem[:], t.oneOutcome[:]
	} else {
		k.items, k.outs = make([]item, len(es)), make([]Outcome, len(es))
	}
	k.deadline = deadline
	for i := range es {
		it := &k.items[i]
		it.e, it.call, it.slot = es[i], k, i
		it.e.Bytes, it.e.Cost, it.e.Mutations = max(1, it.e.Bytes), max(1, it.e.Cost), max(1, it.e.Mutations)
	}
	return t
}

// wake is called under w.mu when entries were admitted or settled for the last time.
func (t *Ticket) wake() {
	if t.call.left == 0 && !t.ended {
		t.ended = true
		close(t.done)
	}
	if t.call.admitted() && t.entry != nil {
		select {
		case <-t.entry:
		default:
			close(t.entry)
		}
	}
}

// Wait returns the outcomes, by index, once each entry has one or the context of Submit
// has ended. What has no outcome then is Undecided: ErrWithdrawn if nothing is open for
// it, ErrInFlight if it may have been written. The slice is the caller's.
func (t *Ticket) Wait() []Outcome {
	select {
	case <-t.done:
	case <-t.ctx.Done():
		t.Cancel()
		<-t.done
	}
	if t.stop != nil {
		t.stop()
	}
	return t.call.outs
}

// Done is closed when each entry has an outcome.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Admitted waits until each entry is admitted or has an outcome: the caller's copy of
// the input is no longer needed for anything, and the next chunk of a stream may be
// submitted. It returns early, with ctx's error, when ctx ends.
func (t *Ticket) Admitted(ctx context.Context) error {
	if t.in {
		return nil
	}
	select {
	case <-t.AdmittedChan():
		return nil
	default:
	}
	select {
	case <-t.entry:
		return nil
	case <-t.ctx.Done():
		t.Cancel()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Overloaded reports whether entries were refused so far because they were not admitted
// within AdmissionTimeout. After Admitted it is final, long before the outcomes are: the
// reader of a stream stops there.
func (t *Ticket) Overloaded() bool {
	if t.in {
		return false // nothing of it had to wait
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	return t.call.late
}

// AdmittedChan is closed when each entry is admitted or has an outcome.
func (t *Ticket) AdmittedChan() <-chan struct{} {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	if t.entry == nil {
		t.entry = make(chan struct{})
		if t.call.admitted() {
			close(t.entry)
		}
	}
	return t.entry
}

// Cancel withdraws what is not sent yet. Every entry without outcome becomes Undecided.
func (t *Ticket) Cancel() {
	t.w.mu.Lock()
	defer t.w.crash()
	now := time.Now()
	t.w.core.cancel(now, &t.call)
	t.w.unlock(now, false)
}
