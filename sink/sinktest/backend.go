package sinktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pushsink/pushsink/sink"
)

// Request is one Write call that a Backend got.
type Request struct {
	// N counts the requests from 0, At is when it came, End when it was answered (zero
	// while it is open).
	N       int
	At, End time.Time
	Dest    sink.Dest
	Entries []sink.Entry
	// Outcomes are what was answered.
	Outcomes []sink.Outcome

	b *Backend
}

// IDs lists the ids of the request's entries.
func (r *Request) IDs() []string {
	ids := make([]string, len(r.Entries))
	for i, e := range r.Entries {
		ids[i] = e.ID
	}
	return ids
}

// Apply stores the entries from..to-1, whatever is answered for them.
func (r *Request) Apply(from, to int) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.b.apply(r, from, to)
}

// ApplyAll stores all entries and returns OK for each.
func (r *Request) ApplyAll() []sink.Outcome {
	r.Apply(0, len(r.Entries))
	return Whole(len(r.Entries), sink.Outcome{Kind: sink.Applied})
}

// Whole is the same outcome n times.
func Whole(n int, o sink.Outcome) []sink.Outcome {
	outs := make([]sink.Outcome, n)
	for i := range outs {
		outs[i] = o
	}
	return outs
}

// Fault answers a request in its own way; nil leaves it to the next fault, and at last
// to the backend, which applies it. It may block, panic, and answer short.
type Fault func(ctx context.Context, r *Request) []sink.Outcome

// Backend is a sink in memory. It is made by New; its fields are set before use.
type Backend struct {
	// Latency of each Write and Ensure, of each Open, and of each Release.
	Latency, OpenLatency, ReleaseLatency time.Duration
	// Merge: entries of one key in a request share an outcome (sink.Options.MergeKeys).
	Merge bool
	// EnsureFunc answers Ensure; nil = Applied, and the table is there.
	EnsureFunc func(ctx context.Context, d sink.Dest) sink.Ensured
	// OpenFunc answers Open; nil = no error.
	OpenFunc func(ctx context.Context, instance string) error

	mu       sync.Mutex
	faults   []Fault
	requests []*Request
	applied  map[sink.Dest]map[string][]string // ids by key, in order of application
	stored   map[string]int                    // by id: how often it was applied
	missing  map[sink.Dest]bool
	clients  map[string]int
	ensures  []sink.Dest
	opens    []string
	peak     int
	faulty   []string // what a writer must never do
	openKeys map[sink.Dest]map[string]bool
	inFlight int
	maxOpen  int
}

// New makes a backend without faults.
func New() *Backend {
	return &Backend{
		applied:  map[sink.Dest]map[string][]string{},
		stored:   map[string]int{},
		missing:  map[sink.Dest]bool{},
		clients:  map[string]int{},
		openKeys: map[sink.Dest]map[string]bool{},
	}
}

// Inject adds faults, asked in order before those already there.
func (b *Backend) Inject(fs ...Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(slices.Clone(fs), b.faults...)
}

// Heal removes all faults.
func (b *Backend) Heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
}

// SetMissing makes a table missing until it is ensured.
func (b *Backend) SetMissing(ds ...sink.Dest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range ds {
		b.missing[d] = true
	}
}

// Open implements sink.Backend.
func (b *Backend) Open(ctx context.Context, instance string) error {
	b.mu.Lock()
	b.opens = append(b.opens, instance)
	b.clients[instance]++
	b.peak = max(b.peak, len(b.clients))
	if b.clients[instance] > 1 {
		b.blame("instance %s opened twice", instance)
	}
	b.mu.Unlock()
	opened := false
	defer func() { // OpenFunc may panic
		if !opened {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.clients, instance)
		}
	}()
	err := sleep(ctx, b.OpenLatency)
	if err == nil && b.OpenFunc != nil {
		err = b.OpenFunc(ctx, instance)
	}
	opened = err == nil
	return err
}

// Release implements sink.Backend.
func (b *Backend) Release(instance string) {
	if err := sleep(context.Background(), b.ReleaseLatency); err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clients[instance] != 1 {
		b.blame("instance %s released, open %d times", instance, b.clients[instance])
	}
	delete(b.clients, instance)
}

// Ensure implements sink.Backend.
func (b *Backend) Ensure(ctx context.Context, d sink.Dest) sink.Ensured {
	b.mu.Lock()
	b.ensures = append(b.ensures, d)
	if len(b.openKeys[d]) > 0 {
		b.blame("%v ensured with a request open", d)
	}
	b.mu.Unlock()
	if err := sleep(ctx, b.Latency); err != nil {
		return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Transient, Err: err}}
	}
	if b.EnsureFunc != nil {
		return b.EnsureFunc(ctx, d)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	unchanged := !b.missing[d]
	delete(b.missing, d)
	return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Applied}, Unchanged: unchanged}
}

// Write implements sink.Backend.
func (b *Backend) Write(ctx context.Context, d sink.Dest, batch []sink.Entry) []sink.Outcome {
	r, faults := b.begin(d, batch)
	defer b.end(r)
	if err := sleep(ctx, b.Latency); err != nil {
		return r.answer(Whole(len(batch), sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, Err: err}))
	}
	for _, f := range faults {
		if outs := f(ctx, r); outs != nil {
			return r.answer(outs)
		}
	}
	b.mu.Lock()
	missing := b.missing[d]
	b.mu.Unlock()
	if missing {
		return r.answer(Whole(len(batch), sink.Outcome{Kind: sink.Missing, Scope: sink.ScopeBatch, Err: errMissing}))
	}
	return r.answer(r.ApplyAll())
}

func (r *Request) answer(outs []sink.Outcome) []sink.Outcome {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.Outcomes = slices.Clone(outs)
	return outs
}

func (b *Backend) begin(d sink.Dest, batch []sink.Entry) (*Request, []Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &Request{N: len(b.requests), At: time.Now(), Dest: d, Entries: slices.Clone(batch), b: b}
	b.requests = append(b.requests, r)
	b.inFlight++
	b.maxOpen = max(b.maxOpen, b.inFlight)
	if b.clients[d.Instance] != 1 {
		b.blame("a request for %v without a client", d)
	}
	if len(batch) == 0 {
		b.blame("an empty request")
	}
	keys := b.openKeys[d]
	if keys == nil {
		keys = map[string]bool{}
		b.openKeys[d] = keys
	}
	mine := map[string]bool{}
	for _, e := range batch {
		if e.Dest != d {
			b.blame("an entry of %v in a request for %v", e.Dest, d)
		}
		if e.Key == "" {
			continue
		}
		switch {
		case mine[e.Key] && !b.Merge:
			b.blame("a key is twice in a request")
		case !mine[e.Key] && keys[e.Key]:
			b.blame("a key is in two open requests")
		}
		mine[e.Key], keys[e.Key] = true, true
	}
	return r, b.faults
}

func (b *Backend) end(r *Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.End = time.Now()
	b.inFlight--
	for _, e := range r.Entries {
		delete(b.openKeys[r.Dest], e.Key)
	}
}

func (b *Backend) apply(r *Request, from, to int) {
	m := b.applied[r.Dest]
	if m == nil {
		m = map[string][]string{}
		b.applied[r.Dest] = m
	}
	for _, e := range r.Entries[from:to] {
		m[e.Key] = append(m[e.Key], e.ID)
		b.stored[e.ID]++
	}
}

func (b *Backend) blame(format string, a ...any) {
	if len(b.faulty) < 20 {
		b.faulty = append(b.faulty, fmt.Sprintf(format, a...))
	}
}

// Violations lists what the writer did that it must never do: a key in two open
// requests, a request without a client, an Ensure in the middle of a request.
func (b *Backend) Violations() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.faulty)
}

// Requests lists all requests so far, in the order in which they came.
func (b *Backend) Requests() []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	rs := make([]Request, len(b.requests))
	for i, r := range b.requests {
		rs[i] = *r
	}
	return rs
}

// Stored tells how often the entry with this id was applied.
func (b *Backend) Stored(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stored[id]
}

// Applied lists the ids applied for a key, in order.
func (b *Backend) Applied(d sink.Dest, key string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.applied[d][key])
}

// Ensures lists the Ensure calls so far.
func (b *Backend) Ensures() []sink.Dest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ensures)
}

// Opens lists the Open calls so far.
func (b *Backend) Opens() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.opens)
}

// Clients tells how many clients are opening, open or closing, and the most there were.
func (b *Backend) Clients() (now, peak int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.clients), b.peak
}

// MaxOpen is the most requests that were open at a time.
func (b *Backend) MaxOpen() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.maxOpen
}

// sleep waits d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
