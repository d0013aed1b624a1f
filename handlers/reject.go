package handlers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

func asSchemaError(err error, e **schema.Error) bool { return errors.As(err, e) }

// refusal is a record that is bad for good, on its way to the route's policy.
type refusal struct {
	rec    *schema.Record
	dest   sink.Dest
	reason *schema.Error
	// confirmed: the sink refused the record itself. Otherwise the mapping or a decoder
	// did, and a tripped route takes the record no further.
	confirmed bool
}

// settle puts a refusal to the route's policy. It acknowledges only what was dropped by
// policy or durably dead-lettered.
func (h *api) settle(ctx context.Context, rt *route, f refusal) verdict {
	v := verdict{fate: rejected, code: f.reason.Code, detail: f.reason.Detail, pointer: f.reason.Pointer}
	if rt.OnReject != schema.Drop && rt.OnReject != schema.DeadLetter {
		return v
	}
	if !f.confirmed {
		switch s := rt.Writer.RouteState(rt.Sink); {
		case s.Tripped || s.Trial:
			return verdict{fate: unavailable, code: schema.Tripped, retryAfter: h.limits.TrialInterval,
				detail: "the route stopped after consecutive rejections (WRITER_MAX_CONSECUTIVE_REJECTIONS)"}
		case s.Fatal:
			return verdict{fate: unavailable, code: schema.Unavailable, detail: noRecords}
		}
	}
	if rt.OnReject == schema.Drop {
		v.fate = dropped
		rt.drops.log(ctx, h.log, rt.Name, "record dropped by onReject", v.code)
		return v
	}
	err := h.deadLetters.Publish(ctx, rt.Route.Route, f.rec, f.dest, f.reason)
	switch {
	case err == nil:
		v.fate = deadLettered
		rt.drops.log(ctx, h.log, rt.Name, "record dead-lettered by onReject", v.code)
	case errors.Is(err, ErrDeadLetterRefused):
		v.detail += "; its dead letter was refused for good"
		rt.failures.log(ctx, h.log, rt.Name, "dead letter refused for good", v.code)
	default:
		v = verdict{fate: unavailable, code: schema.Unavailable, detail: "the record was rejected, and its dead letter could not be published now"}
		rt.failures.log(ctx, h.log, rt.Name, "dead letter not published", f.reason.Code)
	}
	return v
}

// fadingLog writes the 1st, 2nd, 4th, 8th … event of a route, and one a minute at least while
// they go on, with the count: traffic drives these events, and a log must not follow it.
type fadingLog struct {
	mu   sync.Mutex
	n    int64     // guarded by mu
	last time.Time // guarded by mu
}

func (l *fadingLog) log(ctx context.Context, to *slog.Logger, route, message string, code schema.Code) {
	now := time.Now()
	l.mu.Lock()
	l.n++
	n := l.n
	due := n&(n-1) == 0 || now.Sub(l.last) >= time.Minute
	if due {
		l.last = now
	}
	l.mu.Unlock()
	if due {
		to.WarnContext(ctx, message, "route", route, "code", string(code), "count", n)
	}
}
