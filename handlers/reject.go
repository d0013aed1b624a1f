package handlers

import (
	"context"
	"errors"

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
		// Pub/Sub reads no answer's body: the reason has to be here.
		h.logRefusal(ctx, rt, "record refused", f.reason)
		return v
	}
	if !f.confirmed {
		switch s := rt.Writer.RouteState(rt.Sink); {
		case s.Tripped || !s.TrippedSince.IsZero():
			return verdict{fate: unavailable, code: schema.Tripped, retryAfter: h.limits.TrialInterval,
				detail: "the route stopped after consecutive rejections (WRITER_MAX_CONSECUTIVE_REJECTIONS)"}
		case s.Fatal || s.Trial:
			return verdict{fate: unavailable, code: schema.Unavailable, detail: noRecords}
		}
	}
	if rt.OnReject == schema.Drop {
		v.fate = dropped
		h.logRefusal(ctx, rt, "record dropped by onReject", f.reason)
		return v
	}
	err := h.deadLetters.Publish(ctx, rt.Route.Route, rt.Kept(f.rec), f.dest, f.reason)
	switch {
	case err == nil:
		v.fate = deadLettered
		h.logRefusal(ctx, rt, "record dead-lettered by onReject", f.reason)
	case errors.Is(err, ErrDeadLetterRefused):
		v.detail += "; its dead letter was refused for good"
		h.logRefusal(ctx, rt, "dead letter refused for good", f.reason)
	default:
		v = verdict{fate: unavailable, code: schema.Unavailable, detail: "the record was rejected, and its dead letter could not be published now"}
		h.logRefusal(ctx, rt, "dead letter not published", f.reason)
	}
	return v
}

// refusalKind is a kind of what becomes of refused records.
type refusalKind struct {
	message string
	code    schema.Code
}

// logRefusal logs what became of a refused record, at a falling rate. The reason names fields
// and bounds, no data.
func (h *api) logRefusal(ctx context.Context, rt *route, message string, reason *schema.Error) {
	n, due := rt.events.Due(refusalKind{message, reason.Code})
	if !due {
		return
	}
	fields := []any{"route", rt.Name, "code", string(reason.Code), "detail", reason.Detail, "count", n}
	if reason.Pointer != "" {
		fields = append(fields, "pointer", reason.Pointer)
	}
	h.log.WarnContext(ctx, message, fields...)
}

// noteTrip logs, once each, that rejections stopped the route and that it goes on. g is
// settled.
func (h *api) noteTrip(ctx context.Context, rt *route, g *group) {
	if rt.Sink == nil || !rt.Sink.Trips {
		return
	}
	known, look := rt.tripped.Load(), false
	for i := range g.items {
		switch v := &g.items[i].v; v.fate {
		case written:
			look = look || known
		case dropped, deadLettered:
			look = look || !known
		case unavailable:
			look = look || !known && v.code == schema.Tripped
		}
	}
	if !look {
		return
	}
	s := rt.Writer.RouteState(rt.Sink)
	now := !s.TrippedSince.IsZero()
	switch {
	case now == known || !rt.tripped.CompareAndSwap(known, now):
	case now:
		h.log.WarnContext(ctx, "route stopped by rejections", "route", rt.Name, "streak", s.Streak,
			"option", "PUSHSINK_WRITER_MAX_CONSECUTIVE_REJECTIONS", "cause", s.Reason)
	default:
		h.log.InfoContext(ctx, "route goes on", "route", rt.Name, "option", "PUSHSINK_WRITER_MAX_CONSECUTIVE_REJECTIONS")
	}
}
