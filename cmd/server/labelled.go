package main

import (
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labelled are the attribute sets of labels that come from a fixed set: each is made at its
// first use and kept. Reading one takes no lock and allocates nothing.
type labelled[L comparable] struct {
	known atomic.Pointer[map[L]options] // replaced as a whole
	// mu is held while it is replaced.
	mu sync.Mutex
}

// options carry one attribute set, as instruments take it.
type options struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// of gives those of labels, which set makes.
func (s *labelled[L]) of(labels L, set func(L) attribute.Set) options {
	if known := s.known.Load(); known != nil {
		if o, ok := (*known)[labels]; ok {
			return o
		}
	}
	return s.keep(labels, set)
}

func (s *labelled[L]) keep(labels L, set func(L) attribute.Set) options {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[L]options{}
	if known := s.known.Load(); known != nil {
		for l, o := range *known {
			next[l] = o
		}
	}
	o, ok := next[labels]
	if !ok {
		made := metric.WithAttributeSet(set(labels))
		o = options{[]metric.AddOption{made}, []metric.RecordOption{made}}
		next[labels] = o
		s.known.Store(&next)
	}
	return o
}
