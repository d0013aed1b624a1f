package handlers

import (
	"context"
	"strconv"

	"github.com/pushsink/pushsink/sink"
)

// SinkWriter is w as a route's handlers see it. fixed is the one destination of the route's
// records; zero when each record names its own.
func SinkWriter(w *sink.Writer, fixed sink.Dest) Writer { return sinkWriter{w, fixed} }

type sinkWriter struct {
	w     *sink.Writer
	fixed sink.Dest
}

func (s sinkWriter) Submit(ctx context.Context, es []sink.Entry) Ticket {
	if d, ok := ctx.(*deadline); ok {
		// The writer keeps the time. The request waits at once, here or in a read of its
		// body, which its client's leaving ends, too.
		return sinkTicket{s.w.SubmitUntil(&d.request, d.at, es)}
	}
	return sinkTicket{s.w.Submit(ctx, es)}
}

type sinkTicket struct{ *sink.Ticket }

func (t sinkTicket) Admitted() bool {
	// The end of the context it was submitted with leaves every entry with an outcome.
	_ = t.Ticket.Admitted(context.Background())
	return !t.Overloaded()
}

// RouteState joins the route's own state with that of its one destination.
func (s sinkWriter) RouteState(r *sink.Route) RouteState {
	h := s.w.Route(r)
	out := RouteState{Tripped: h.State == sink.Tripped, Trial: h.State == sink.Trial, Fatal: h.State == sink.FatalState, Streak: h.Streak}
	switch h.State {
	case sink.OK:
		if s.fixed == (sink.Dest{}) {
			return out
		}
		d := s.w.Destination(s.fixed)
		out.Trial, out.Fatal = d.State == sink.Trial, d.State == sink.FatalState
		if d.State != sink.OK {
			out.Reason = "the destination cannot be written: " + text(d.Err)
		}
	case sink.FatalState:
		out.Reason = "cannot be written: " + text(h.Err)
	case sink.Trial:
		if !r.Trips || h.Bound < 1 || h.Streak < h.Bound {
			out.Reason = "could not be written, the next record is let through to see: " + text(h.Err)
			return out
		}
		fallthrough
	default:
		out.TrippedSince = h.Since
		out.Reason = strconv.Itoa(h.Streak) + " rejections in a row (WRITER_MAX_CONSECUTIVE_REJECTIONS=" + strconv.Itoa(h.Bound) + "), the last: " + text(h.Err)
	}
	return out
}

func (s sinkWriter) Stuck() string {
	h := s.w.Health()
	if !h.Stuck {
		return ""
	}
	return "a request to the sink is open for " + h.OldestRequest.String() + ", past twice its timeout"
}

// text is an error of the sink in words: an adapter's texts hold no key and no value.
func text(err error) string {
	if err == nil {
		return "no reason given"
	}
	return err.Error()
}
