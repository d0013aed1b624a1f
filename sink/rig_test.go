package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

var table = sink.Dest{Instance: "i", Table: "t"}

// rig is a writer over a failpoint backend, in a bubble of synthetic time.
type rig struct {
	t     *testing.T
	b     *sinktest.Backend
	w     *sink.Writer
	route *sink.Route
	start time.Time
}

// inBubble runs f in a bubble, and at its end closes the writer and checks that it did
// nothing that a writer must never do, and holds nothing any more.
func inBubble(t *testing.T, tune func(*sink.Options, *sinktest.Backend), f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, tune)
		f(r)
		r.close()
	})
}

func newRig(t *testing.T, tune func(*sink.Options, *sinktest.Backend)) *rig {
	t.Helper()
	o, b := sink.DefaultBigtableOptions(), sinktest.New()
	b.Merge = true
	if tune != nil {
		tune(&o, b)
	}
	b.Merge = o.MergeKeys
	w, err := sink.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, b: b, w: w, route: &sink.Route{Name: "r"}, start: time.Now()}
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.w.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	for _, v := range r.b.Violations() {
		r.t.Error("the writer broke a rule: ", v)
	}
	h := r.w.Health()
	if h.InFlightEntries != 0 || h.InFlightBytes != 0 || h.Buffered != 0 || h.OpenRequests != 0 || h.WaitingCalls != 0 || h.OpenInstances != 0 {
		r.t.Errorf("closed, yet %+v", h)
	}
	if now, _ := r.b.Clients(); now != 0 {
		r.t.Errorf("%d clients are left", now)
	}
}

// entry is a record of the rig's route, with a key of its own unless one is given.
func (r *rig) entry(id string, key ...string) sink.Entry {
	e := sink.Entry{Dest: table, Route: r.route, ID: id, Key: "key-" + id, Bytes: 1, Cost: 1}
	if len(key) > 0 {
		e.Key = key[0]
	}
	return e
}

func (r *rig) entries(from, to int) []sink.Entry {
	var es []sink.Entry
	for i := from; i < to; i++ {
		es = append(es, r.entry(strconv.Itoa(i)))
	}
	return es
}

// at is the time since the rig was made.
func (r *rig) at() time.Duration { return time.Since(r.start) }

// sleepUntil waits for a time since the rig was made.
func (r *rig) sleepUntil(d time.Duration) { time.Sleep(d - r.at()) }

// pending is a Write that runs.
type pending struct {
	done chan struct{}
	outs []sink.Outcome
	took time.Duration
	end  time.Duration // since the rig was made
}

// write starts a Write with a timeout (0 = none).
func (r *rig) write(timeout time.Duration, es ...sink.Entry) *pending {
	ctx, cancel := context.WithCancel(context.Background())
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), timeout)
	}
	return r.writeCtx(ctx, cancel, es...)
}

func (r *rig) writeCtx(ctx context.Context, cancel func(), es ...sink.Entry) *pending {
	p := &pending{done: make(chan struct{})}
	t0 := time.Now()
	go func() {
		defer close(p.done)
		if cancel != nil {
			defer cancel()
		}
		p.outs = r.w.Write(ctx, es)
		p.took, p.end = time.Since(t0), r.at()
	}()
	return p
}

// each starts a Write of its own for each entry, in order.
func (r *rig) each(timeout time.Duration, es ...sink.Entry) []*pending {
	ps := make([]*pending, len(es))
	for i, e := range es {
		ps[i] = r.write(timeout, e)
		synctest.Wait()
	}
	return ps
}

func (p *pending) wait() []sink.Outcome {
	<-p.done
	return p.outs
}

// kinds counts the outcomes of several writes.
func kinds(ps ...*pending) map[sink.Kind]int {
	m := map[sink.Kind]int{}
	for _, p := range ps {
		for _, o := range p.wait() {
			m[o.Kind]++
		}
	}
	return m
}

func wantKinds(t *testing.T, what string, got, want map[sink.Kind]int) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: outcomes %v, want %v", what, got, want)
	}
}

func wantIs(t *testing.T, what string, o sink.Outcome, kind sink.Kind, errs ...error) {
	t.Helper()
	if o.Kind != kind {
		t.Errorf("%s: %v (%v), want %v", what, o.Kind, o.Err, kind)
	}
	for _, err := range errs {
		if !errors.Is(o.Err, err) {
			t.Errorf("%s: error %v, want %v", what, o.Err, err)
		}
	}
	if (o.Err == nil) != (o.Kind == sink.Applied) {
		t.Errorf("%s: %v with error %v", what, o.Kind, o.Err)
	}
}

func wantTime(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("%s at %v, want %v", what, got, want)
	}
}

// sizes are the numbers of entries of the requests so far.
func (r *rig) sizes() []int {
	var ns []int
	for _, q := range r.b.Requests() {
		ns = append(ns, len(q.Entries))
	}
	return ns
}

// sentAt are the times of the requests so far.
func (r *rig) sentAt() []time.Duration {
	var ds []time.Duration
	for _, q := range r.b.Requests() {
		ds = append(ds, q.At.Sub(r.start))
	}
	return ds
}

func wantList[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
