package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pushsink/pushsink/schema"
)

// sinks says which kinds of sink some route writes to. Only those are opened.
type sinks struct{ bigtable, spanner bool }

func sinksOf(routes *schema.Routes) (k sinks) {
	for _, r := range routes.List {
		k.bigtable = k.bigtable || r.Bigtable != nil
		k.spanner = k.spanner || r.Spanner != nil
	}
	return k
}

// sinkBound is an option of one sink that a writer's option is held against.
type sinkBound struct {
	used  bool
	name  string
	value int64
}

// sinkWarnings name settings that make no sense together with the routes' sinks.
func (s *settings) sinkWarnings(k sinks) (list []string) {
	warn := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }

	for _, sink := range []struct {
		used         bool
		prefix, name string
	}{{k.bigtable, "BIGTABLE", "Bigtable"}, {k.spanner, "SPANNER", "Spanner"}} {
		for _, name := range sortedKeys(s.given) {
			if !sink.used && strings.HasPrefix(name, prefix+"_"+sink.prefix+"_") {
				warn("%s has no effect: no route writes to %s", name, sink.name)
			}
		}
	}

	b, sp := s.Bigtable, s.Spanner
	useless := func(short string, value int64, bounds ...sinkBound) {
		var texts []string
		for _, o := range bounds {
			if o.used && value <= o.value {
				return // it binds there
			}
			if o.used {
				texts = append(texts, fmt.Sprintf("%s is %d", o.name, o.value))
			}
		}
		warn("PUSHSINK_%s=%d never binds: %s", short, value, strings.Join(texts, ", "))
	}
	if n := s.Writer.MaxBatchSize; n != nil {
		useless("WRITER_MAX_BATCH_SIZE", int64(*n),
			sinkBound{k.bigtable, "BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD", int64(b.BatchElementCountThreshold)},
			sinkBound{k.spanner, "SPANNER_MAX_BATCH_MUTATIONS", int64(sp.MaxBatchMutations)})
	}
	if n := s.Writer.MaxBatchSizeBytes; n != nil {
		useless("WRITER_MAX_BATCH_SIZE_BYTES", int64(*n),
			sinkBound{k.bigtable, "BIGTABLE_BATCH_REQUEST_BYTE_THRESHOLD", int64(b.BatchRequestByteThreshold)},
			sinkBound{k.spanner, "SPANNER_MAX_BATCH_BYTES", int64(sp.MaxBatchBytes)})
	}
	if n := s.Writer.MaxBufferedRequests; n != nil {
		useless("WRITER_MAX_BUFFERED_REQUESTS", int64(*n),
			sinkBound{k.bigtable, "BIGTABLE_MAX_IN_FLIGHT_ENTRIES", int64(b.MaxInFlightEntries)},
			sinkBound{k.spanner, "SPANNER_MAX_IN_FLIGHT_ENTRIES", int64(sp.MaxInFlightEntries)})
	}

	large := func(short string, entries int, bytes size) {
		if entries > 20_000 {
			warn("PUSHSINK_%s_MAX_IN_FLIGHT_ENTRIES=%d is above 20000", short, entries)
		}
		if bytes > 100<<20 {
			warn("PUSHSINK_%s_MAX_IN_FLIGHT_BYTES=%d is above 100 MiB: memory is bounded by it", short, bytes)
		}
	}
	if k.bigtable {
		large("BIGTABLE", b.MaxInFlightEntries, b.MaxInFlightBytes)
		if b.AttemptTimeout >= s.RequestTimeout {
			warn("PUSHSINK_BIGTABLE_ATTEMPT_TIMEOUT=%s is not below REQUEST_TIMEOUT (%s): a push is answered 503 while its first attempt still goes on", b.AttemptTimeout, s.RequestTimeout)
		}
	}
	if k.spanner {
		large("SPANNER", sp.MaxInFlightEntries, sp.MaxInFlightBytes)
		if sp.MaxBatchMutations > sp.MaxBatchCells {
			warn("PUSHSINK_SPANNER_MAX_BATCH_MUTATIONS=%d never binds: a mutation is at least one cell and SPANNER_MAX_BATCH_CELLS is %d", sp.MaxBatchMutations, sp.MaxBatchCells)
		}
	}
	slices.Sort(list)
	return list
}
