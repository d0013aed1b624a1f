package sink_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// ledger is a Tracer that writes down what it is told.
type ledger struct {
	fault func() // called by Begin and by end

	mu    sync.Mutex // guards lines
	lines []string
}

type insideRequest struct{}

func (l *ledger) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *ledger) Begin(ctx context.Context, d sink.Dest, batch []sink.Entry) (context.Context, func(sink.RequestStats)) {
	if l.fault != nil {
		l.fault()
	}
	origins := ""
	for i := range batch {
		if o := batch[i].Origin; o != nil {
			origins += o.(string)
		}
	}
	if origins == "" {
		return ctx, nil
	}
	return context.WithValue(ctx, insideRequest{}, origins), func(s sink.RequestStats) {
		l.add("%s %s entries %d attempt %d isolated %v applied %d transient %d rejected %d broken %v", d.Table, origins,
			s.Entries, s.Attempt, s.Isolated, s.Outcomes[sink.Applied], s.Outcomes[sink.Transient], s.Outcomes[sink.Rejected], s.Err != nil)
		if l.fault != nil {
			l.fault()
		}
	}
}

// The tracer learns whose entries a request holds, at which attempt, and how it ended; what
// it put into the context is there in the backend; and what nobody traces is not told.
func TestTracerStandsAroundRequests(t *testing.T) {
	l := &ledger{}
	inBubble(t, func(o *sink.Options, _ *sinktest.Backend) { o.Tracer = l }, func(r *rig) {
		var inside []any
		r.b.Inject(sinktest.Times(2, sinktest.FailWhole(sinktest.Unavailable)), sinktest.Reject("5"))
		r.b.Inject(func(ctx context.Context, _ *sinktest.Request) []sink.Outcome {
			inside = append(inside, ctx.Value(insideRequest{}))
			return nil
		})
		es := r.entries(0, 3)
		es[0].Origin, es[2].Origin = "A", "B"
		r.write(0, es...).wait()
		es = r.entries(5, 7)
		es[0].Origin = "C"
		r.write(0, es...).wait()
		r.write(0, r.entry("untraced")).wait()

		wantList(t, "in the backend's context", inside, []any{"AB", "AB", "AB", "C", "C", nil})
		wantList(t, "told", l.lines, []string{
			"t AB entries 3 attempt 1 isolated false applied 0 transient 3 rejected 0 broken false",
			"t AB entries 3 attempt 2 isolated false applied 0 transient 3 rejected 0 broken false",
			"t AB entries 3 attempt 3 isolated false applied 3 transient 0 rejected 0 broken false",
			"t C entries 2 attempt 1 isolated false applied 1 transient 0 rejected 1 broken false",
			"t C entries 1 attempt 1 isolated true applied 0 transient 0 rejected 1 broken false",
		})
	})
}

func TestATracerThatPanicsCostsNothing(t *testing.T) {
	l := &ledger{fault: func() { panic("tracer") }}
	inBubble(t, func(o *sink.Options, _ *sinktest.Backend) { o.Tracer = l }, func(r *rig) {
		e := r.entry("a")
		e.Origin = "A"
		wantIs(t, "Begin panics", r.write(8*time.Second, e).wait()[0], sink.Applied)
	})
	begun := false
	l.fault = func() {
		if begun {
			panic("tracer")
		}
		begun = true
	}
	inBubble(t, func(o *sink.Options, _ *sinktest.Backend) { o.Tracer = l }, func(r *rig) {
		e := r.entry("a")
		e.Origin = "A"
		wantIs(t, "end panics", r.write(8*time.Second, e).wait()[0], sink.Applied)
	})
	l.fault = nil
	inBubble(t, func(o *sink.Options, _ *sinktest.Backend) { o.Tracer = l }, func(r *rig) {
		r.b.Inject(sinktest.Panic())
		e := r.entry("a")
		e.Origin = "A"
		r.write(8*time.Second, e).wait()
		wantList(t, "told of a backend that panicked", l.lines[len(l.lines)-1:], []string{
			"t A entries 1 attempt 1 isolated false applied 0 transient 0 rejected 0 broken true"})
	})
}
