package sink

import "time"

// Backoff is a doubling delay with a jitter of +-25 %.
type Backoff struct {
	Initial, Max time.Duration
	// MaxAttempts bounds the attempts; 0 = until the callers' deadlines.
	MaxAttempts int
}

// Options bound a Writer. Every field is set: zero never means "default". The names in
// the comments are the environment variables, without PUSHSINK_.
type Options struct {
	// Batch bounds: the lower of WRITER_MAX_BATCH_SIZE and the sink's own threshold,
	// likewise for bytes; cost is mutations (Bigtable) or cells (Spanner).
	MaxBatchEntries int
	MaxBatchBytes   int64
	MaxBatchCost    int
	// LoneOverCost: one entry above MaxBatchCost is sent alone (Spanner). Otherwise the
	// adapter has rejected it before.
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
	AdmissionTimeout time.Duration // WRITER_ADMISSION_TIMEOUT

	MaxConsecutiveRejections int           // WRITER_MAX_CONSECUTIVE_REJECTIONS; -1 = never
	TrialInterval            time.Duration // HEALTH_TRIAL_INTERVAL

	AttemptTimeout time.Duration // BIGTABLE_ATTEMPT_TIMEOUT, SPANNER_BATCH_WRITE_TIMEOUT
	Retry          Backoff       // of Transient and Undecided
	Recovery       Backoff       // of Missing: one incident's ensure and re-apply

	IdleTimeout        time.Duration // BIGTABLE_DESTINATION_IDLE_TIMEOUT
	MaxActiveInstances int           // BIGTABLE_MAX_ACTIVE_INSTANCES
}
