package handlers

import "time"

// Limits are the options of one process that bound a request. Every field is set: zero never
// means "default". The comments name the environment variables, without PUSHSINK_.
type Limits struct {
	MaxBodyBytes      int64 // MAX_BODY_BYTES: push and JSON bodies, compressed and not
	BatchMaxBodyBytes int64 // BATCH_MAX_BODY_BYTES: NDJSON streams, compressed and not
	BodyBytesInFlight int64 // BODY_BYTES_IN_FLIGHT
	MaxBatchRecords   int   // MAX_BATCH_RECORDS: elements of a JSON array
	MaxRecordBytes    int64 // WRITER_MAX_RECORD_SIZE_BYTES: one payload

	AdmissionTimeout  time.Duration // WRITER_ADMISSION_TIMEOUT: longest wait for memory to decode in
	RequestTimeout    time.Duration // REQUEST_TIMEOUT, from the headers
	BatchTimeout      time.Duration // BATCH_TIMEOUT, likewise, for /records
	ReadHeaderTimeout time.Duration // READ_HEADER_TIMEOUT
	ReadBodyTimeout   time.Duration // READ_BODY_TIMEOUT, between bytes
	IdleTimeout       time.Duration // IDLE_TIMEOUT

	TrialInterval time.Duration // HEALTH_TRIAL_INTERVAL: Retry-After of a tripped route
	LivenessGrace time.Duration // HEALTH_LIVENESS_GRACE; 0 = a trip never fails live
}

// DefaultLimits are the documented defaults.
func DefaultLimits() Limits {
	return Limits{
		MaxBodyBytes:      16 << 20,
		BatchMaxBodyBytes: 32 << 20,
		BodyBytesInFlight: 128 << 20,
		MaxBatchRecords:   10_000,
		MaxRecordBytes:    16 << 20,
		AdmissionTimeout:  500 * time.Millisecond,
		RequestTimeout:    8 * time.Second,
		BatchTimeout:      60 * time.Second,
		ReadHeaderTimeout: 5 * time.Second,
		ReadBodyTimeout:   10 * time.Second,
		IdleTimeout:       120 * time.Second,
		TrialInterval:     10 * time.Second,
	}
}
