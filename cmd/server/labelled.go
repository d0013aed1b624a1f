package main

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labelled are the attribute sets of labels that come from a fixed set: each is made at its
// first use and kept. Finding one takes no lock and allocates nothing.
type labelled[L comparable] struct {
	// last was found last: mostly it is asked for again, and comparing is cheaper than hashing.
	last  atomic.Pointer[series[L]]
	known atomic.Pointer[map[L]*series[L]] // replaced as a whole
	// mu is held while it is replaced.
	mu sync.Mutex
}

// series is one attribute set, as instruments take it, and its count.
type series[L comparable] struct {
	labels  L
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
	// n is what [labelled.counts] tells. A counter of the SDK would look its attributes up
	// again, and check each, for every record.
	n atomic.Int64
}

// of gives that of labels, which set makes.
func (s *labelled[L]) of(labels L, set func(L) attribute.Set) *series[L] {
	if x := s.last.Load(); x != nil && x.labels == labels {
		return x
	}
	if known := s.known.Load(); known != nil {
		if x, ok := (*known)[labels]; ok {
			s.last.Store(x)
			return x
		}
	}
	return s.keep(labels, set)
}

func (s *labelled[L]) keep(labels L, set func(L) attribute.Set) *series[L] {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[L]*series[L]{}
	if known := s.known.Load(); known != nil {
		for l, x := range *known {
			next[l] = x
		}
	}
	x, ok := next[labels]
	if !ok {
		made := metric.WithAttributeSet(set(labels))
		x = &series[L]{labels: labels, add: []metric.AddOption{made}, record: []metric.RecordOption{made}, observe: []metric.ObserveOption{made}}
		next[labels] = x
		s.known.Store(&next)
	}
	return x
}

// counts is the callback of a counter of all series.
func (s *labelled[L]) counts(_ context.Context, to metric.Int64Observer) error {
	if known := s.known.Load(); known != nil {
		for _, x := range *known {
			to.Observe(x.n.Load(), x.observe...)
		}
	}
	return nil
}
