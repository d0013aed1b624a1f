package sinktest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/pushsink/pushsink/sink"
)

var (
	errMissing     = errors.New("table not found")
	errUnavailable = errors.New("unavailable")
	errRefused     = errors.New("refused")
	errDenied      = errors.New("permission denied")
)

// Outcomes that a service gives.
var (
	// Unavailable is a whole request's passing failure.
	Unavailable = sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, Err: errUnavailable}
	// Denied is a whole request's permanent failure.
	Denied = sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeBatch, Err: errDenied}
	// Refused is one entry's.
	Refused = sink.Outcome{Kind: sink.Rejected, Err: errRefused}
	// RefusedWhole is a request's, for some entry that it does not name.
	RefusedWhole = sink.Outcome{Kind: sink.Rejected, Scope: sink.ScopeBatch, Err: errRefused}
)

// Times lets f answer only the first n requests that it is asked about.
func Times(n int, f Fault) Fault {
	var left atomic.Int64
	left.Store(int64(n))
	return func(ctx context.Context, r *Request) []sink.Outcome {
		if left.Add(-1) < 0 {
			return nil
		}
		return f(ctx, r)
	}
}

// For lets f answer only requests for d.
func For(d sink.Dest, f Fault) Fault {
	return func(ctx context.Context, r *Request) []sink.Outcome {
		if r.Dest != d {
			return nil
		}
		return f(ctx, r)
	}
}

// FailWhole answers o for each entry and applies nothing.
func FailWhole(o sink.Outcome) Fault {
	return func(_ context.Context, r *Request) []sink.Outcome { return Whole(len(r.Entries), o) }
}

// ApplyAndFail applies everything, yet answers o.
func ApplyAndFail(o sink.Outcome) Fault {
	return func(_ context.Context, r *Request) []sink.Outcome {
		r.ApplyAll()
		return Whole(len(r.Entries), o)
	}
}

// Answer gives entries whose id is listed o, without applying them, and applies the
// others. Where keys are merged, all entries of such a key in the request share o.
func Answer(o sink.Outcome, ids ...string) Fault {
	return func(_ context.Context, r *Request) []sink.Outcome {
		keys := map[string]bool{}
		hit := false
		for _, e := range r.Entries {
			if slices.Contains(ids, e.ID) {
				hit = true
				if r.b.Merge && e.Key != "" {
					keys[e.Key] = true
				}
			}
		}
		if !hit {
			return nil
		}
		outs := make([]sink.Outcome, len(r.Entries))
		for i, e := range r.Entries {
			if keys[e.Key] || slices.Contains(ids, e.ID) {
				outs[i] = o
				continue
			}
			r.Apply(i, i+1)
			outs[i] = sink.Outcome{Kind: sink.Applied}
		}
		return outs
	}
}

// Reject refuses the entries with these ids, each by its own status.
func Reject(ids ...string) Fault { return Answer(Refused, ids...) }

// RejectWhole refuses every request that holds one of ids, and applies nothing of it.
func RejectWhole(ids ...string) Fault {
	return func(_ context.Context, r *Request) []sink.Outcome {
		for _, e := range r.Entries {
			if slices.Contains(ids, e.ID) {
				return Whole(len(r.Entries), RefusedWhole)
			}
		}
		return nil
	}
}

// Forget answers nothing for the entries with these ids, which are not applied.
func Forget(ids ...string) Fault { return Answer(sink.Outcome{}, ids...) }

// Stall waits for the attempt's context to end, or for until, which lets the request go on.
func Stall(until <-chan struct{}) Fault {
	return func(ctx context.Context, r *Request) []sink.Outcome {
		select {
		case <-until:
			return nil
		case <-ctx.Done():
			return Whole(len(r.Entries), sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, Err: ctx.Err()})
		}
	}
}

// Deaf waits for until and does not obey the attempt's context.
func Deaf(until <-chan struct{}) Fault {
	return func(context.Context, *Request) []sink.Outcome {
		<-until
		return nil
	}
}

// Panic panics, with what must not reach a log.
func Panic() Fault {
	return func(context.Context, *Request) []sink.Outcome { panic("secret cell value") }
}

// Short applies everything but answers for one entry less; Long for one more.
func Short() Fault {
	return func(_ context.Context, r *Request) []sink.Outcome { return r.ApplyAll()[1:] }
}

// Long applies everything and answers for one entry more.
func Long() Fault {
	return func(_ context.Context, r *Request) []sink.Outcome {
		return append(r.ApplyAll(), sink.Outcome{Kind: sink.Applied})
	}
}
