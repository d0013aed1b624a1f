package handlers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// An answer 503 says what the sink said last, however the writer wrapped it.
func TestUnavailableSaysWhy(t *testing.T) {
	cause := errors.New("MutateRows on table t: Unavailable: connection refused")
	down := errors.New("no credentials")
	for _, c := range []struct {
		name string
		make func(*sinktest.Backend)
		want string
	}{
		{"a failing write", func(b *sinktest.Backend) {
			b.Inject(sinktest.FailWhole(sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, Err: cause}))
		}, cause.Error()},
		{"a forbidden write", func(b *sinktest.Backend) {
			b.Inject(sinktest.FailWhole(sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeBatch, Err: cause}))
		}, cause.Error()},
		{"a client that cannot be opened", func(b *sinktest.Backend) {
			b.OpenFunc = func(context.Context, string) error { return down }
		}, down.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := sinktest.New()
				c.make(b)
				f := newFixture(t, offline, real(t, schema.Fail, b, nil))
				for try := range 2 {
					a := f.push(wrap(`{"id":"a","v":"x"}`, "m"))
					f.want("push", a, 503, schema.Unavailable)
					if !strings.Contains(a.Detail, c.want) {
						t.Errorf("try %d: detail %q, want %q in it", try, a.Detail, c.want)
					}
				}
			})
		})
	}
}

// Only a stream that was cut is truncated: what is refused as a whole had no part taken.
func TestTruncatedIsOfStreams(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.config.Limits.MaxBatchRecords, f.config.Limits.BatchMaxBodyBytes = 2, 100 })
	for name, a := range map[string]answer{
		"an undecodable push": f.push(`{"message":1}`),
		"a bad document":      f.records("json", `[1`),
		"a bad Pushsink-Time": f.records("x-ndjson", `{"id":"a"}`, "Pushsink-Time", "yesterday"),
		"too many records":    f.records("json", `[{"id":"a"},{"id":"b"},{"id":"c"}]`),
	} {
		if a.status != 400 && a.status != 413 || a.Truncated {
			t.Errorf("%s: %d, truncated %v; want 4xx, false", name, a.status, a.Truncated)
		}
	}
	if a := f.records("x-ndjson", strings.Repeat(`{"id":"a"}`+"\n", 20)); a.status != 413 || !a.Truncated {
		t.Errorf("a stream over its cap: %d, truncated %v; want 413, true", a.status, a.Truncated)
	}
}
