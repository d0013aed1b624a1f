package sink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

const (
	// openTimeout bounds one Backend.Open, whose callers may come and go for ever.
	openTimeout = 30 * time.Second
	// ensureTimeout bounds one Backend.Ensure: making a table and its families.
	ensureTimeout = time.Minute
	// closeGrace is how long Close waits for attempts it has cancelled.
	closeGrace = 250 * time.Millisecond
)

// Writer is the bounded writer of one kind of sink. All methods may be called from
// several goroutines. It has no goroutine of its own: one exists per open request,
// Ensure, Open and Release, and none when nothing is open.
type Writer struct {
	backend Backend
	o       Options
	ctx     context.Context // of everything the backend is asked to do
	cancel  context.CancelFunc

	// mu guards everything below. It is never held across I/O or foreign code.
	mu    sync.Mutex
	core  *core
	timer *time.Timer
	armed time.Time                        // when timer fires; zero = it does not
	opens map[*instance]context.CancelFunc // of running Opens
	quiet chan struct{}                    // closed when Close has nothing left to wait for
}

// New makes a writer over b. The error is that of Options.Validate.
func New(b Backend, o Options) (*Writer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	w := &Writer{backend: b, o: o, opens: make(map[*instance]context.CancelFunc)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.core = newCore(o, rand.Float64)
	return w, nil
}

// Write submits es and waits until each has an outcome, by index, or ctx ends. An ended
// context leaves what has none Undecided, and what was not sent is sent no more. es is
// not kept.
func (w *Writer) Write(ctx context.Context, es []Entry) []Outcome {
	deadline, _ := ctx.Deadline()
	return w.SubmitUntil(ctx, deadline, es).Wait()
}

// Submit hands es over and returns at once. The entries live until ctx ends. Entries of
// one key submitted by several calls are written in the order in which they were
// admitted: wait for Ticket.Admitted before the next chunk of one stream.
func (w *Writer) Submit(ctx context.Context, es []Entry) *Ticket {
	deadline, _ := ctx.Deadline()
	t := w.SubmitUntil(ctx, deadline, es)
	if ctx.Done() != nil {
		// Nobody may be waiting when the caller leaves.
		t.stop = context.AfterFunc(ctx, t.Cancel)
	}
	return t
}

// SubmitUntil is Submit for a caller that goes on to wait, at a smaller cost: the entries
// end at the deadline (zero = none), which ctx need not have, or when ctx ends while
// Ticket.Wait or Ticket.Admitted runs.
func (w *Writer) SubmitUntil(ctx context.Context, deadline time.Time, es []Entry) *Ticket {
	t := newTicket(w, ctx, deadline, es)
	gone := ctx.Err() != nil
	w.mu.Lock()
	defer w.crash()
	now := time.Now()
	if gone || !deadline.IsZero() && !now.Before(deadline) {
		w.core.stillborn(&t.call)
	} else {
		w.core.submit(now, &t.call)
	}
	t.in = t.call.admitted() && !t.call.late // refused already where there is no time to wait
	w.unlock(now, false)
	return t
}

// Drain prepares the end of the process: every call's deadline, present and to come,
// becomes the earlier of its own and at; lingering entries are sent at once; and nothing
// backs off any more: what would have to is answered as unavailable. Calls are still
// taken in until Close.
func (w *Writer) Drain(at time.Time) {
	w.step(func(now time.Time) { w.core.drain(now, at) })
}

// Close refuses new calls, waits until those it has are answered and nothing is open,
// and gives all clients back. When ctx ends first it cancels the open attempts, leaves
// the rest Undecided, and returns an error that wraps ctx's.
func (w *Writer) Close(ctx context.Context) error {
	w.step(func(now time.Time) {
		if w.quiet == nil {
			w.quiet = make(chan struct{})
		}
		w.core.shut(now)
	})
	select {
	case <-w.quiet:
		return nil
	case <-ctx.Done():
	}
	w.cancel()
	w.step(func(now time.Time) { w.core.abandon(now) })
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-w.quiet:
	case <-grace.C:
	}
	return fmt.Errorf("closing the writer: %w", ctx.Err())
}

// step runs f under the lock.
func (w *Writer) step(f func(now time.Time)) {
	w.mu.Lock()
	defer w.crash()
	now := time.Now()
	f(now)
	w.unlock(now, false)
}

// crash ends the process when the writer's own bookkeeping panicked, whoever would
// recover from it: half a step may be done, and a writer that takes records in and loses
// track of them is worse than a restart.
func (w *Writer) crash() {
	if p := recover(); p != nil {
		buf := make([]byte, 64<<10)
		buf = buf[:runtime.Stack(buf, false)]
		go panic(fmt.Sprintf("sink: the writer is broken: %v\n%s", p, buf))
		select {}
	}
}

// unlock ends a step: it wakes callers, starts the work the step left, arms the timer
// and unlocks. With keep, one of the works is the caller's to run.
func (w *Writer) unlock(now time.Time, keep bool) (mine work, ok bool) {
	c := w.core
	for i, k := range c.woken {
		k.ticket.wake()
		c.woken[i] = nil
	}
	c.woken = c.woken[:0]

	for i, k := range c.started {
		c.started[i] = work{}
		switch {
		case k.kind == doCancelOpen:
			if cancel := w.opens[k.inst]; cancel != nil {
				cancel()
			}
			continue
		case k.kind == doOpen:
			k.ctx, w.opens[k.inst] = context.WithTimeout(w.ctx, openTimeout)
		}
		if keep && !ok {
			mine, ok = k, true
			continue
		}
		go w.run(k)
	}
	c.started = c.started[:0]

	if at := c.next(); !at.IsZero() && (w.armed.IsZero() || at.Before(w.armed)) {
		w.armed = at
		if w.timer == nil {
			w.timer = time.AfterFunc(at.Sub(now), w.fire)
		} else {
			w.timer.Reset(at.Sub(now))
		}
	}
	if c.closed && w.quiet != nil && c.quiet() {
		w.stop()
	}
	w.mu.Unlock()
	return mine, ok
}

// stop ends what outlives the last request.
func (w *Writer) stop() {
	select {
	case <-w.quiet:
		return
	default:
	}
	close(w.quiet)
	w.cancel()
	if w.timer != nil {
		w.timer.Stop()
	}
}

// fire is the timer's.
func (w *Writer) fire() {
	w.step(func(now time.Time) {
		w.armed = time.Time{}
		w.core.tick(now)
	})
}

// run does work until there is no more for this goroutine.
func (w *Writer) run(k work) {
	returned := false
	defer func() {
		if !returned { // runtime.Goexit in the backend: another goroutine reports it
			go w.report(k)
		}
	}()
	for ok := true; ok; {
		switch k.kind {
		case doWrite:
			k, ok = w.write(k.req)
		case doEnsure:
			k, ok = w.ensure(k.lane)
		case doOpen:
			k, ok = w.open(k.ctx, k.inst)
		case doRelease:
			k, ok = w.release(k.inst)
		}
	}
	returned = true
}

// report settles a work whose goroutine ended inside the backend.
func (w *Writer) report(k work) {
	err := because(ErrBackend, errors.New("its goroutine ended"))
	next, ok := w.done(func(now time.Time) {
		switch k.kind {
		case doWrite:
			w.core.wrote(now, k.req, nil, err, false)
		case doEnsure:
			w.core.ensured(now, k.lane, Ensured{Outcome: Outcome{Err: err}})
		case doOpen:
			w.openEnded(now, k.inst, err)
		case doRelease:
			w.core.released(now, k.inst)
		}
	})
	if ok {
		w.run(next)
	}
}

// done takes the result of a work into the core.
func (w *Writer) done(f func(now time.Time)) (work, bool) {
	w.mu.Lock()
	defer w.crash()
	now := time.Now()
	f(now)
	return w.unlock(now, true)
}

func (w *Writer) write(r *request) (work, bool) {
	for _, it := range r.items {
		r.batch = append(r.batch, it.e)
	}
	var outs []Outcome
	var slow bool
	var end func(RequestStats)
	broken := guard(func() {
		ctx, cancel := context.WithTimeout(w.ctx, w.o.AttemptTimeout)
		defer cancel()
		traced := ctx
		if w.o.Tracer != nil {
			traced, end = w.trace(ctx, r)
		}
		outs = w.backend.Write(traced, r.lane.dest, r.batch)
		slow = undecidedByTimeout(ctx, outs)
	})
	if w.o.Observer != nil || end != nil {
		stats := summary(r, outs, broken)
		if w.o.Observer != nil {
			guard(func() { w.o.Observer.Request(stats) })
		}
		if end != nil {
			guard(func() { end(stats) })
		}
	}
	clear(r.batch)
	return w.done(func(now time.Time) { w.core.wrote(now, r, outs, broken, slow) })
}

// trace lets the Tracer begin.
func (w *Writer) trace(ctx context.Context, r *request) (traced context.Context, end func(RequestStats)) {
	if broken := guard(func() { traced, end = w.o.Tracer.Begin(ctx, r.lane.dest, r.batch) }); broken != nil || traced == nil {
		return ctx, nil
	}
	return traced, end
}

// undecidedByTimeout: the attempt's own timeout ended it for at least one entry.
func undecidedByTimeout(ctx context.Context, outs []Outcome) bool {
	if ctx.Err() == nil {
		return false
	}
	for _, o := range outs {
		if o.Kind == Transient || o.Kind == Undecided {
			return true
		}
	}
	return false
}

func (w *Writer) ensure(l *lane) (work, bool) {
	var e Ensured
	broken := guard(func() {
		ctx, cancel := context.WithTimeout(w.ctx, ensureTimeout)
		defer cancel()
		e = w.backend.Ensure(ctx, l.dest)
	})
	if broken != nil {
		e = Ensured{Outcome: Outcome{Kind: Undecided, Err: broken}}
	}
	return w.done(func(now time.Time) { w.core.ensured(now, l, e) })
}

func (w *Writer) open(ctx context.Context, n *instance) (work, bool) {
	var err error
	if broken := guard(func() { err = w.backend.Open(ctx, n.name) }); broken != nil {
		err = broken
	}
	return w.done(func(now time.Time) { w.openEnded(now, n, err) })
}

func (w *Writer) openEnded(now time.Time, n *instance, err error) {
	w.opens[n]()
	delete(w.opens, n)
	w.core.opened(now, n, err)
}

func (w *Writer) release(n *instance) (work, bool) {
	guard(func() { w.backend.Release(n.name) })
	return w.done(func(now time.Time) { w.core.released(now, n) })
}

// guard calls foreign code. What that panics with may hold data, so only a runtime
// error's text is kept.
func guard(f func()) (broken error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error:
			broken = because(ErrBackend, p)
		default:
			broken = because(ErrBackend, fmt.Errorf("panic with a %T", p))
		}
	}()
	f()
	return nil
}
