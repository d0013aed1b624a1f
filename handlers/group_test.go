package handlers

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// What a group's records point into may go to the next request once nobody reads it: not
// while a write may be under way or a dead letter's publish may go on.
func TestGroupIsPinned(t *testing.T) {
	for _, c := range []struct {
		name   string
		entry  int
		v      verdict
		pinned bool
	}{
		{"nothing known", -1, verdict{}, true},
		{"written", 0, verdict{fate: written}, false},
		{"skipped", -1, verdict{fate: skipped}, false},
		{"dropped", 0, verdict{fate: dropped}, false},
		{"dead-lettered", 0, verdict{fate: deadLettered}, false},
		{"rejected", 0, verdict{fate: rejected}, false},
		{"not admitted", 0, verdict{fate: overloaded, code: schema.Overloaded}, true},
		{"withdrawn", 0, verdict{fate: expired, code: schema.Deadline}, true},
		{"under way", 0, verdict{fate: inDoubt, code: schema.Deadline}, true},
		{"the sink is down", 0, verdict{fate: unavailable, code: schema.Unavailable}, true},
		{"its dead letter was not published in time", -1, verdict{fate: unavailable, code: schema.Unavailable}, true},
		{"the route is tripped, before the writer", -1, verdict{fate: unavailable, code: schema.Tripped}, false},
		{"the route tripped in the writer", 0, verdict{fate: unavailable, code: schema.Tripped}, true},
	} {
		for _, beside := range []bool{false, true} {
			g := &group{items: []item{{entry: c.entry, v: c.v}}}
			if beside { // the others do not matter
				g.items = append([]item{{entry: 0, v: verdict{fate: written}}}, g.items...)
			}
			if got := g.pinned(); got != c.pinned {
				t.Errorf("%s, beside another %v: pinned %v, want %v", c.name, beside, got, c.pinned)
			}
		}
	}
}

// A mutation may be as large as its payload, and no cap counts it: it is let go of before
// the record waits.
func TestMutationsDoNotWait(t *testing.T) {
	f := newFixture(t, offline)
	for _, data := range []string{`{"id":"a"}`, `{"do":"skip"}`, `{"id":"a","do":"mismatch"}`} {
		var g group
		it := &item{rec: schema.Record{ID: "1", Data: []byte(data)}}
		f.api.prepare(f.api.def, &g, it)
		if it.mutation.Bigtable != nil || it.mutation.Spanner != nil {
			t.Errorf("%s: its mutation is kept", data)
		}
		if wants := data == `{"id":"a"}`; (it.entry == 0 && len(g.entries) == 1) != wants || (it.entry == -1) == wants {
			t.Errorf("%s: entry %d of %d", data, it.entry, len(g.entries))
		}
	}
}

// A route that stopped takes no record further that the sink did not refuse itself, and says
// why it stopped: rejections, or a place that cannot be written.
func TestStoppedRoutesKeepUnmappableRecords(t *testing.T) {
	since := time.Now()
	tooLarge := func(sink.Entry) sink.Outcome { return sink.Outcome{Kind: sink.Rejected, Err: sink.ErrTooLarge} }
	constraint := func(sink.Entry) sink.Outcome {
		return sink.Outcome{Kind: sink.Rejected, Err: errors.New("refused")}
	}
	const mismatch = `{"id":"a","do":"mismatch"}`
	for _, c := range []struct {
		name    string
		state   RouteState
		data    string
		outcome func(sink.Entry) sink.Outcome
		status  int
		code    schema.Code
		says    string
	}{
		{"good standing", RouteState{}, mismatch, nil, 204, "", ""},
		{"tripped", RouteState{Tripped: true, TrippedSince: since}, mismatch, nil, 503, schema.Tripped, "WRITER_MAX_CONSECUTIVE_REJECTIONS"},
		{"half-open after a trip", RouteState{Trial: true, TrippedSince: since}, mismatch, nil, 503, schema.Tripped, "WRITER_MAX_CONSECUTIVE_REJECTIONS"},
		{"fatal", RouteState{Fatal: true}, mismatch, nil, 503, schema.Unavailable, "/health/routes"},
		{"half-open after a fatal status", RouteState{Trial: true}, mismatch, nil, 503, schema.Unavailable, "/health/routes"},
		{"tripped, and too large for the sink", RouteState{Tripped: true, TrippedSince: since}, `{"id":"a"}`, tooLarge, 503, schema.Tripped, "WRITER_MAX_CONSECUTIVE_REJECTIONS"},
		{"tripped by this very record", RouteState{Tripped: true, TrippedSince: since}, `{"id":"a"}`, constraint, 204, "", ""},
	} {
		for _, policy := range []schema.Policy{schema.Drop, schema.DeadLetter} {
			f := newFixture(t, offline, func(f *fixture) {
				f.route.OnReject = policy
				f.writer.state, f.writer.outcome = c.state, c.outcome
			})
			a := f.push(wrap(c.data, "m"))
			if a.status != c.status || a.Code != string(c.code) || !strings.Contains(a.Detail, c.says) {
				t.Errorf("%s, %s: %d %s, want %d %s of %q", c.name, policy, a.status, a.body, c.status, c.code, c.says)
			}
			if letters := len(f.letters.got); letters != 0 && c.status != 204 {
				t.Errorf("%s: %d dead letters", c.name, letters)
			}
		}
	}
}

// countedLetters counts how many dead letters are published at a time.
type countedLetters struct {
	now, most atomic.Int64
	mu        sync.Mutex
	ids       map[string]bool
}

func (l *countedLetters) Publish(_ context.Context, _ *schema.Route, r *schema.Record, _ sink.Dest, _ *schema.Error) error {
	defer l.now.Add(-1)
	if n := l.now.Add(1); n > l.most.Load() {
		l.most.Store(n)
	}
	time.Sleep(time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[string(r.Data)] = true
	return nil
}

// A batch's dead letters are published side by side, and so many at a time.
func TestDeadLettersOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letters := &countedLetters{ids: map[string]bool{}}
		f := newFixture(t, offline, func(f *fixture) {
			f.route.OnReject = schema.DeadLetter
			f.config.DeadLetters = letters
		})
		var b strings.Builder
		for i := range 2 * publishers {
			b.WriteString(`,{"id":"a","do":"mismatch","n":` + strings.Repeat("1", i+1) + "}")
		}
		began := time.Now()
		a := f.records("json", "["+b.String()[1:]+"]")
		if a.status != 200 || a.DeadLettered != 2*publishers || len(letters.ids) != 2*publishers {
			t.Errorf("%d letters, %d %.300s", len(letters.ids), a.status, a.body)
		}
		if took, most := time.Since(began), letters.most.Load(); took != 2*time.Second || most != publishers {
			t.Errorf("%d at a time, in %v; want %d in 2s", most, took, publishers)
		}
	})
}

// What a caller's own bad line is, no policy of the route takes; a push's is the message's.
func TestOwnErrorsOfABatch(t *testing.T) {
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for code, data := range map[schema.Code]string{schema.BadJSON: `{"id":`, schema.TooLarge: `{"id":"` + strings.Repeat("x", 5000) + `"}`, schema.TooDeep: `{"id":` + deep + `}`} {
		f := newFixture(t, offline, func(f *fixture) {
			f.route.OnReject = schema.Drop
			f.config.Limits.MaxRecordBytes = 4000
			f.route.Mapper = ownErrors{}
		})
		if a := f.records("x-ndjson", data+"\n{\"id\":\"b\"}\n"); a.status != 422 || a.Dropped != 0 || a.Failed != 1 || a.Written != 1 || a.Errors[0].Code != string(code) {
			t.Errorf("a batch with %s: %d %.300s", code, a.status, a.body)
		}
		if a := f.push(wrap(data, "m")); a.status != 204 {
			t.Errorf("a push with %s: %d %.300s", code, a.status, a.body)
		}
	}
}

// ownErrors refuses as a decoder does.
type ownErrors struct{}

func (ownErrors) Apply(r *schema.Record) (schema.Mutation, error) {
	if strings.Contains(string(r.Data), "[[[") {
		return schema.Mutation{}, &schema.Error{Code: schema.TooDeep, Detail: "too deep"}
	}
	return (&fakeMapper{}).Apply(r)
}

// keepingWriter keeps what it is given, and has given no outcome of the first call when that
// call's time is over.
type keepingWriter struct {
	discardWriter
	kept [][]sink.Entry
}

func (w *keepingWriter) Submit(ctx context.Context, es []sink.Entry) Ticket {
	w.kept = append(w.kept, es)
	if len(w.kept) > 1 {
		return w.discardWriter.Submit(ctx, es)
	}
	outs := make([]sink.Outcome, len(es))
	outs[0].Err = sink.ErrInFlight
	for i := range outs[1:] {
		outs[i+1].Kind = sink.Applied
	}
	return discardTicket(outs)
}

// The entries of a group go to a later one only when all of them have an outcome.
func TestGroupsUnderWayAreNotReused(t *testing.T) {
	w := &keepingWriter{}
	f := newFixture(t, offline, func(f *fixture) { f.route.Writer = w })
	first := strings.Repeat("{\"id\":\"a\"}\n", 200)
	if a := f.records("x-ndjson", first); a.status != 504 || a.Written != 199 {
		t.Fatalf("%d %.300s", a.status, a.body)
	}
	for range 3 {
		if a := f.records("x-ndjson", strings.ReplaceAll(first, "a", "b")); a.status != 200 {
			t.Fatalf("%d %.300s", a.status, a.body)
		}
	}
	if len(w.kept) != 4 || len(w.kept[0]) != 200 {
		t.Fatalf("%d calls, the first of %d entries", len(w.kept), len(w.kept[0]))
	}
	for i, e := range w.kept[0] {
		if e.Key != "a" || !strings.HasSuffix(e.ID, ":"+strconv.Itoa(i)) {
			t.Fatalf("entry %d of the call under way is now %q of %q", i, e.ID, e.Key)
		}
	}
}

// A pooled group holds nothing of the records it had, and a small one is not pooled.
func TestGroupsGoBackEmpty(t *testing.T) {
	var p groups
	g := p.get(groupRecords)
	g.add().rec.ID = "1"
	g.entries = append(g.entries, sink.Entry{Key: "k"})
	p.put(g)
	if it, e := g.items[:1][0], g.entries[:1][0]; it.rec.ID != "" || e.Key != "" || len(g.items)+len(g.entries) != 0 || !g.pooled {
		t.Errorf("it still holds %+v, %+v", it, e)
	}
	small := p.get(3)
	if small.pooled || cap(small.items) != 3 || cap(small.entries) != 3 {
		t.Errorf("a group of 3 has room for %d", cap(small.items))
	}
}
