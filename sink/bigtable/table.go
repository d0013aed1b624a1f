package bigtable

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushsink/pushsink/sink"
)

// table is what is known of one destination. Entries keep a pointer to it, so it outlives
// being forgotten while any of them is on its way.
type table struct {
	dest sink.Dest

	// mu guards what follows. Sink.mu may be held when it is taken, not the other way.
	mu      sync.Mutex
	sharers []*target // the routes that write here, in the order they came
	// ensures counts the Ensure calls that ended well. An entry remembers the count at
	// its failure, so that one that fails the same way afterwards is recognized.
	ensures uint64
	// settled: the last of them found nothing to do, long after this process or another
	// one it met had changed the table.
	settled bool
	present map[string]bool // the families it saw or made; nil before the first
	// Changes take a while to be seen where writes go.
	createdAt     time.Time // by this process
	changedAt     time.Time // by this process, or while it was at it
	completeSince time.Time // nothing was lacking since
	// created stays set: such a table counts to maxTables for good.
	created atomic.Bool
}

// share returns the state of d with t among the routes that write there. Sink.mu is held
// over it and unshare, so that a state some route writes by is never a forgotten one.
func (s *Sink) share(d sink.Dest, t *target) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	tb := s.tables[d]
	if tb == nil {
		tb = &table{dest: d}
		s.tables[d] = tb
	}
	tb.join(t)
	return tb
}

func (tb *table) join(t *target) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if !slices.Contains(tb.sharers, t) {
		tb.sharers = append(tb.sharers, t)
	}
}

// adopt brings an entry's table back, should it have been forgotten since: the Ensure that
// follows looks it up by name, and must find the entry's route there.
func (s *Sink) adopt(p *payload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tb := s.tables[p.table.dest]
	if tb == nil {
		tb = p.table
		s.tables[tb.dest] = tb
	}
	tb.join(p.route.target)
}

func (s *Sink) lookup(d sink.Dest) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[d]
}

// unshare takes t off the routes of tb, and forgets tb with the last of them.
func (s *Sink) unshare(tb *table, t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.sharers = slices.DeleteFunc(tb.sharers, func(o *target) bool { return o == t })
	if len(tb.sharers) == 0 && s.tables[tb.dest] == tb {
		delete(s.tables, tb.dest)
	}
}

// create reports whether some route of the table may create it.
func (tb *table) create() bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.ContainsFunc(tb.sharers, func(t *target) bool { return t.spec.Create })
}

// declares reports whether some route of the table that may create it declares family.
func (tb *table) declares(family string) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.ContainsFunc(tb.sharers, func(t *target) bool { return t.declares(family) })
}

// declares reports whether the route may add family. New refuses families without create.
func (t *target) declares(family string) bool {
	_, ok := t.spec.Families[family]
	return ok
}
