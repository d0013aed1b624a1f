package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pushsink/pushsink/schema"
)

// sinks says what the routes write to.
type sinks struct {
	bigtable, spanner bool // only those are opened
	tables, databases bool // more than one of Bigtable, of Spanner
}

func sinksOf(routes *schema.Routes) (k sinks) {
	tables, databases := map[[3]string]bool{}, map[string]bool{}
	for _, r := range routes.List {
		if t := r.Bigtable; t != nil {
			k.bigtable = true
			k.tables = k.tables || t.Table == "" || len(t.Allow) > 1
			tables[[3]string{t.Project, t.Instance, t.Table}] = true
		}
		if t := r.Spanner; t != nil {
			k.spanner = true
			databases[t.Database] = true
		}
	}
	k.tables = k.tables || len(tables) > 1
	k.databases = len(databases) > 1
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
	// What is in an open request cannot be taken back from a destination that went silent, so
	// the half that a lane keeps without an answer is no bound there until the attempt ends.
	starves := func(one, others, sink string, entries int, batchName string, batch int, timeoutName string, timeout time.Duration) {
		if n := s.Writer.MaxBatchSize; n != nil && *n < batch {
			batchName, batch = "WRITER_MAX_BATCH_SIZE", *n
		}
		requestsName, requests := "WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION", s.Writer.MaxInFlightRequestsPerDestination
		if n := s.Writer.MaxInFlightRequests; n < requests {
			requestsName, requests = "WRITER_MAX_IN_FLIGHT_REQUESTS", n
		}
		if batch < (entries+requests-1)/requests {
			return
		}
		warn("PUSHSINK_%s_MAX_IN_FLIGHT_ENTRIES=%d: %s that does not answer may hold all of them (%s=%d x %s=%d) for %s=%s, and %s get 429 meanwhile; more entries than that product leave room",
			sink, entries, one, requestsName, requests, batchName, batch, timeoutName, timeout, others)
	}
	if k.tables {
		starves("one table", "records for other tables", "BIGTABLE", b.MaxInFlightEntries,
			"BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD", b.BatchElementCountThreshold, "BIGTABLE_ATTEMPT_TIMEOUT", b.AttemptTimeout)
	}
	if k.databases {
		starves("one database", "records for other databases", "SPANNER", sp.MaxInFlightEntries,
			"SPANNER_MAX_BATCH_MUTATIONS", sp.MaxBatchMutations, "SPANNER_BATCH_WRITE_TIMEOUT", sp.BatchWriteTimeout)
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
