package scripted

import (
	"sync/atomic"
	"time"
)

type counters struct {
	requests, entries, applied, open, maxOpen atomic.Int64
	pings, resets, serverTimes                atomic.Int64
}

// Stats are counts since the start.
type Stats struct {
	// Requests are MutateRows and MutateRow calls, Entries what they held, Applied what was written.
	Requests, Entries, Applied int
	// Open are the calls under way, MaxOpen the most there ever were.
	Open, MaxOpen int
	// Pings are PingAndWarm calls, Resets the rounds of ResetEvery.
	Pings, Resets int
	// ServerTimes are the cells that asked for the server's time (-1).
	ServerTimes int
	// Creates and Modifies are CreateTable and ModifyColumnFamilies calls.
	Creates, Modifies int
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	c := &s.counters
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Requests: int(c.requests.Load()), Entries: int(c.entries.Load()), Applied: int(c.applied.Load()),
		Open: int(c.open.Load()), MaxOpen: int(c.maxOpen.Load()),
		Pings: int(c.pings.Load()), Resets: int(c.resets.Load()), ServerTimes: int(c.serverTimes.Load()),
		Creates: s.admins["CreateTable"], Modifies: s.admins["ModifyColumnFamilies"],
	}
}

// Record is one MutateRows call that has ended.
type Record struct {
	Table      string
	Keys       []string
	Start, End time.Time
	Err        error // the whole call's
}

// Calls are the calls that ended so far, in the order of their ends. It needs
// Options.Record.
func (s *Server) Calls() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Record(nil), s.calls...)
}

// begin counts a call in; the returned function counts it out.
func (s *Server) begin(call *Call) func(error) {
	c := &s.counters
	call.N = int(c.requests.Add(1))
	c.entries.Add(int64(len(call.Entries)))
	open := c.open.Add(1)
	for most := c.maxOpen.Load(); open > most && !c.maxOpen.CompareAndSwap(most, open); most = c.maxOpen.Load() {
	}
	start := time.Now()
	return func(err error) {
		c.open.Add(-1)
		if !s.options.Record {
			return
		}
		r := Record{Table: call.Table, Start: start, End: time.Now(), Err: err}
		for _, e := range call.Entries {
			r.Keys = append(r.Keys, string(e.GetRowKey()))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, r)
	}
}
