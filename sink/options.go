package sink

import (
	"errors"
	"fmt"
	"time"
)

// Backoff is a doubling delay with a jitter of +-25 %, never under 1 ms.
type Backoff struct {
	Initial, Max time.Duration
	// MaxAttempts bounds the attempts; 0 = until the callers' deadlines.
	MaxAttempts int
}

// Options bound a Writer. Every field is set: zero never means "default". The names in
// the comments are the environment variables, without PUSHSINK_.
type Options struct {
	// Sink is the prefix of the sink's own variables, BIGTABLE or SPANNER; it is only
	// used to name them in problems.
	Sink string

	// Batch bounds: the lower of WRITER_MAX_BATCH_SIZE and the sink's own threshold,
	// likewise for bytes; cost is mutations (Bigtable) or cells (Spanner).
	MaxBatchEntries int
	MaxBatchBytes   int64
	MaxBatchCost    int
	// MaxBatchMutations bounds the sum of Entry.Mutations: SPANNER_MAX_BATCH_MUTATIONS. An
	// entry above it is sent alone.
	MaxBatchMutations int
	// LoneOverCost: one entry above MaxBatchCost is sent alone (Spanner). Otherwise it
	// is rejected.
	LoneOverCost bool
	// MergeKeys: a batch may hold several entries of one key, in arrival order, and the
	// backend merges them into one (Bigtable). Otherwise a batch holds a key once (Spanner).
	MergeKeys bool

	MaxInFlightRequests     int   // WRITER_MAX_IN_FLIGHT_REQUESTS
	MaxInFlightRequestsDest int   // WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION
	MaxInFlightEntries      int   // *_MAX_IN_FLIGHT_ENTRIES: admitted and without outcome
	MaxInFlightBytes        int64 // *_MAX_IN_FLIGHT_BYTES
	MaxBuffered             int   // WRITER_MAX_BUFFERED_REQUESTS: admitted and not yet sent

	MaxTimeInBuffer  time.Duration // WRITER_MAX_TIME_IN_BUFFER
	MaxRecordBytes   int64         // WRITER_MAX_RECORD_SIZE_BYTES
	AdmissionTimeout time.Duration // WRITER_ADMISSION_TIMEOUT; 0 = refuse what can't be admitted at once

	MaxConsecutiveRejections int           // WRITER_MAX_CONSECUTIVE_REJECTIONS; -1 = never
	TrialInterval            time.Duration // HEALTH_TRIAL_INTERVAL: of a trip and of a fatal state

	AttemptTimeout time.Duration // BIGTABLE_ATTEMPT_TIMEOUT, SPANNER_BATCH_WRITE_TIMEOUT
	Retry          Backoff       // of Transient and Undecided
	Recovery       Backoff       // of Missing: one incident's ensure and re-apply

	IdleTimeout        time.Duration // BIGTABLE_DESTINATION_IDLE_TIMEOUT
	MaxActiveInstances int           // BIGTABLE_MAX_ACTIVE_INSTANCES

	// Observer is told of every backend request; nil = nobody, at no cost.
	Observer Observer
	// Tracer stands around every backend request; nil = nobody, at no cost.
	Tracer Tracer
}

// DefaultBigtableOptions are the defaults of a Bigtable sink's writer.
func DefaultBigtableOptions() Options {
	return Options{
		Sink:            "BIGTABLE",
		MaxBatchEntries: 100,
		MaxBatchBytes:   20 << 20,
		// https://cloud.google.com/bigtable/quotas#operations: mutations per request.
		MaxBatchCost:             100_000,
		MaxBatchMutations:        100_000,
		MergeKeys:                true,
		MaxInFlightRequests:      64,
		MaxInFlightRequestsDest:  8,
		MaxInFlightEntries:       1000,
		MaxInFlightBytes:         64 << 20,
		MaxBuffered:              1000,
		MaxTimeInBuffer:          10 * time.Millisecond,
		MaxRecordBytes:           16 << 20,
		AdmissionTimeout:         500 * time.Millisecond,
		MaxConsecutiveRejections: 100,
		TrialInterval:            10 * time.Second,
		AttemptTimeout:           3 * time.Second,
		Retry:                    Backoff{Initial: 10 * time.Millisecond, Max: time.Second},
		Recovery:                 Backoff{Initial: 500 * time.Millisecond, Max: 10 * time.Second, MaxAttempts: 10},
		IdleTimeout:              time.Hour,
		MaxActiveInstances:       16,
	}
}

// DefaultSpannerOptions are the defaults of a Spanner sink's writer.
func DefaultSpannerOptions() Options {
	o := DefaultBigtableOptions()
	o.Sink = "SPANNER"
	o.MaxBatchEntries = 500
	o.MaxBatchBytes = 1 << 20
	o.MaxBatchCost = 5000
	o.MaxBatchMutations = 500
	o.LoneOverCost = true
	o.MergeKeys = false
	o.AttemptTimeout = 30 * time.Second
	o.Retry = Backoff{Initial: 500 * time.Millisecond, Max: 10 * time.Second, MaxAttempts: 10}
	return o
}

// Validate joins every problem, each as NAME=value: bound.
func (o Options) Validate() error {
	var all []error
	bad := func(ok bool, name string, value any, bound string) {
		if !ok {
			all = append(all, fmt.Errorf("PUSHSINK_%s=%v: %s", name, value, bound))
		}
	}
	entries, size, cost, attempt, retry := "BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD", "BIGTABLE_BATCH_REQUEST_BYTE_THRESHOLD",
		"BIGTABLE_MAX_BATCH_MUTATIONS", "BIGTABLE_ATTEMPT_TIMEOUT", "BIGTABLE_RETRY"
	if o.Sink == "SPANNER" {
		entries, size, cost, attempt, retry = "SPANNER_MAX_BATCH_MUTATIONS", "SPANNER_MAX_BATCH_BYTES",
			"SPANNER_MAX_BATCH_CELLS", "SPANNER_BATCH_WRITE_TIMEOUT", "SPANNER_RECOVERY"
	} else if o.Sink != "BIGTABLE" {
		all = append(all, fmt.Errorf("sink.Options.Sink=%q: must be BIGTABLE or SPANNER", o.Sink))
	}
	const one = "must be at least 1"
	bad(o.MaxBatchEntries >= 1, entries, o.MaxBatchEntries, one)
	bad(o.MaxBatchBytes >= 1, size, o.MaxBatchBytes, one)
	bad(o.MaxBatchCost >= 1, cost, o.MaxBatchCost, one)
	bad(o.MaxBatchMutations >= 1, o.Sink+"_MAX_BATCH_MUTATIONS", o.MaxBatchMutations, one)
	bad(o.MaxInFlightRequests >= 1, "WRITER_MAX_IN_FLIGHT_REQUESTS", o.MaxInFlightRequests, one)
	bad(o.MaxInFlightRequestsDest >= 1, "WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION", o.MaxInFlightRequestsDest, one)
	bad(o.MaxInFlightEntries >= 1, o.Sink+"_MAX_IN_FLIGHT_ENTRIES", o.MaxInFlightEntries, one)
	bad(o.MaxInFlightBytes >= 1, o.Sink+"_MAX_IN_FLIGHT_BYTES", o.MaxInFlightBytes, one)
	bad(o.MaxBuffered >= 1, "WRITER_MAX_BUFFERED_REQUESTS", o.MaxBuffered, one)
	bad(o.MaxTimeInBuffer >= 0, "WRITER_MAX_TIME_IN_BUFFER", o.MaxTimeInBuffer, "must be at least 0")
	bad(o.MaxRecordBytes >= 1, "WRITER_MAX_RECORD_SIZE_BYTES", o.MaxRecordBytes, one)
	bad(o.AdmissionTimeout >= 0, "WRITER_ADMISSION_TIMEOUT", o.AdmissionTimeout, "must be at least 0")
	bad(o.MaxConsecutiveRejections >= 1 || o.MaxConsecutiveRejections == -1, "WRITER_MAX_CONSECUTIVE_REJECTIONS",
		o.MaxConsecutiveRejections, "must be at least 1, or -1 for never")
	bad(o.TrialInterval > 0, "HEALTH_TRIAL_INTERVAL", o.TrialInterval, "must be above 0")
	bad(o.AttemptTimeout >= time.Millisecond, attempt, o.AttemptTimeout, "must be at least 1ms")
	backoff := func(name string, b Backoff, min int, bound string) {
		bad(b.Initial >= time.Millisecond, name+"_INITIAL_BACKOFF", b.Initial, "must be at least 1ms")
		bad(b.Max >= b.Initial, name+"_MAX_BACKOFF", b.Max, fmt.Sprintf("must be at least %s_INITIAL_BACKOFF (%v)", name, b.Initial))
		bad(b.MaxAttempts >= min, name+"_MAX_ATTEMPTS", b.MaxAttempts, bound)
	}
	backoff(o.Sink+"_RECOVERY", o.Recovery, 1, one)
	if retry != o.Sink+"_RECOVERY" || o.Retry != o.Recovery {
		backoff(retry, o.Retry, 0, "must be at least 0")
	}
	bad(o.IdleTimeout > 0, o.Sink+"_DESTINATION_IDLE_TIMEOUT", o.IdleTimeout, "must be above 0")
	bad(o.MaxActiveInstances >= 1, o.Sink+"_MAX_ACTIVE_INSTANCES", o.MaxActiveInstances, one)
	return errors.Join(all...)
}
