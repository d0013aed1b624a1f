package sinktest_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// The suite passes over the backend in memory, in both ways to treat a key and to refuse
// a request.
func TestAcceptance(t *testing.T) {
	for name, tt := range map[string]struct {
		options sink.Options
		whole   bool
	}{
		"merged keys, own status":    {sink.DefaultBigtableOptions(), false},
		"merged keys, whole request": {sink.DefaultBigtableOptions(), true},
		"separate keys":              {sink.DefaultSpannerOptions(), false},
	} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, func(t *testing.T) sinktest.Subject { return memory(t, tt.options, tt.whole) })
		})
	}
}

// memory is the backend in memory as a subject. An entry's id says whether it is bad, and
// its payload is the value.
func memory(t *testing.T, o sink.Options, whole bool) sinktest.Subject {
	b := sinktest.New()
	b.Merge = o.MergeKeys
	there := sink.Dest{Instance: "i", Table: "there"}
	gone := sink.Dest{Instance: "i", Table: "gone"}
	b.SetMissing(gone)
	values := sync.Map{} // by id
	entry := func(d sink.Dest) func(r *sink.Route, id, key, value string) sink.Entry {
		return func(r *sink.Route, id, key, value string) sink.Entry {
			values.Store(id, value)
			return sink.Entry{Dest: d, Route: r, ID: id, Key: key, Bytes: 10, Cost: 1}
		}
	}
	read := func(d sink.Dest) func(key string) (string, bool, error) {
		return func(key string) (string, bool, error) {
			ids := b.Applied(d, key)
			if len(ids) == 0 {
				return "", false, nil
			}
			v, _ := values.Load(ids[len(ids)-1])
			return v.(string), true, nil
		}
	}
	b.Inject(func(ctx context.Context, q *sinktest.Request) []sink.Outcome {
		var bad []string
		for _, id := range q.IDs() {
			if strings.Contains(id, "bad") {
				bad = append(bad, id)
			}
		}
		if whole {
			return sinktest.RejectWhole(bad...)(ctx, q)
		}
		return sinktest.Reject(bad...)(ctx, q)
	})
	good := entry(there)
	t.Cleanup(func() {
		for _, v := range b.Violations() {
			t.Error("the writer broke a rule: ", v)
		}
	})
	return sinktest.Subject{
		Backend:     b,
		Options:     o,
		Entry:       func(r *sink.Route, id, key, value string, _ bool) sink.Entry { return good(r, id, key, value) },
		Read:        read(there),
		Missing:     entry(gone),
		ReadMissing: read(gone),
		Calls:       func() int { return len(b.Requests()) },
		Fail: func(f sinktest.Failure, n int) bool {
			b.Inject(sinktest.Times(n, failure(f)))
			return true
		},
	}
}

func failure(f sinktest.Failure) sinktest.Fault {
	switch f {
	case sinktest.CallUnavailable:
		return sinktest.FailWhole(sinktest.Unavailable)
	case sinktest.AppliedUnavailable:
		// What is bad is never applied.
		return func(ctx context.Context, q *sinktest.Request) []sink.Outcome {
			for i, id := range q.IDs() {
				if !strings.Contains(id, "bad") {
					q.Apply(i, i+1)
				}
			}
			return sinktest.Whole(len(q.Entries), sinktest.Unavailable)
		}
	case sinktest.HalfAnswered:
		return func(ctx context.Context, q *sinktest.Request) []sink.Outcome {
			outs := sinktest.Whole(len(q.Entries), sinktest.Unavailable)
			for i, id := range q.IDs() {
				if i >= len(outs)/2 || strings.Contains(id, "bad") || i > 0 && q.Entries[i].Key == q.Entries[i-1].Key {
					break
				}
				q.Apply(i, i+1)
				outs[i] = sink.Outcome{Kind: sink.Applied}
			}
			return outs
		}
	case sinktest.StatusLeftOut:
		return func(ctx context.Context, q *sinktest.Request) []sink.Outcome {
			if strings.Contains(strings.Join(q.IDs(), " "), "bad") {
				return nil // what is bad is never applied
			}
			return sinktest.Forget(q.Entries[0].ID)(ctx, q)
		}
	case sinktest.Stalled:
		return sinktest.Stall(nil)
	default:
		return sinktest.FailWhole(sinktest.Denied)
	}
}
