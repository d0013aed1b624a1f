package sink_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// Each option at its bound is accepted, and one past it is refused by its name and value.
func TestOptionBounds(t *testing.T) {
	for _, tt := range []struct {
		name string // what the problem must name, after PUSHSINK_
		set  func(o *sink.Options, past int)
		text string
	}{
		{"BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD=0", func(o *sink.Options, p int) { o.MaxBatchEntries = 1 - p }, "at least 1"},
		{"BIGTABLE_BATCH_REQUEST_BYTE_THRESHOLD=0", func(o *sink.Options, p int) { o.MaxBatchBytes = int64(1 - p) }, "at least 1"},
		{"BIGTABLE_MAX_BATCH_MUTATIONS=0", func(o *sink.Options, p int) { o.MaxBatchCost = 1 - p }, "at least 1"},
		{"BIGTABLE_MAX_BATCH_MUTATIONS=0", func(o *sink.Options, p int) { o.MaxBatchMutations = 1 - p }, "at least 1"},
		{"WRITER_MAX_IN_FLIGHT_REQUESTS=0", func(o *sink.Options, p int) { o.MaxInFlightRequests = 1 - p }, "at least 1"},
		{"WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION=0", func(o *sink.Options, p int) { o.MaxInFlightRequestsDest = 1 - p }, "at least 1"},
		{"BIGTABLE_MAX_IN_FLIGHT_ENTRIES=0", func(o *sink.Options, p int) { o.MaxInFlightEntries = 1 - p }, "at least 1"},
		{"BIGTABLE_MAX_IN_FLIGHT_BYTES=0", func(o *sink.Options, p int) { o.MaxInFlightBytes = int64(1 - p) }, "at least 1"},
		{"WRITER_MAX_BUFFERED_REQUESTS=0", func(o *sink.Options, p int) { o.MaxBuffered = 1 - p }, "at least 1"},
		{"WRITER_MAX_TIME_IN_BUFFER=-1ns", func(o *sink.Options, p int) { o.MaxTimeInBuffer = time.Duration(-p) }, "at least 0"},
		{"WRITER_MAX_RECORD_SIZE_BYTES=0", func(o *sink.Options, p int) { o.MaxRecordBytes = int64(1 - p) }, "at least 1"},
		{"WRITER_ADMISSION_TIMEOUT=-1ns", func(o *sink.Options, p int) { o.AdmissionTimeout = time.Duration(-p) }, "at least 0"},
		{"WRITER_MAX_CONSECUTIVE_REJECTIONS=0", func(o *sink.Options, p int) { o.MaxConsecutiveRejections = 1 - p }, "-1 for never"},
		{"WRITER_MAX_CONSECUTIVE_REJECTIONS=-2", func(o *sink.Options, p int) { o.MaxConsecutiveRejections = -1 - p }, "-1 for never"},
		{"HEALTH_TRIAL_INTERVAL=0s", func(o *sink.Options, p int) { o.TrialInterval = time.Duration(1 - p) }, "above 0"},
		{"BIGTABLE_ATTEMPT_TIMEOUT=999.999µs", func(o *sink.Options, p int) { o.AttemptTimeout = ms - time.Duration(p) }, "at least 1ms"},
		{"BIGTABLE_RETRY_INITIAL_BACKOFF=999.999µs", func(o *sink.Options, p int) { o.Retry.Initial = ms - time.Duration(p) }, "at least 1ms"},
		{"BIGTABLE_RETRY_MAX_BACKOFF=9.999999ms", func(o *sink.Options, p int) { o.Retry.Max = o.Retry.Initial - time.Duration(p) }, "at least"},
		{"BIGTABLE_RECOVERY_INITIAL_BACKOFF=999.999µs", func(o *sink.Options, p int) { o.Recovery.Initial = ms - time.Duration(p) }, "at least 1ms"},
		{"BIGTABLE_RECOVERY_MAX_BACKOFF=499.999999ms", func(o *sink.Options, p int) { o.Recovery.Max = o.Recovery.Initial - time.Duration(p) }, "at least"},
		{"BIGTABLE_RECOVERY_MAX_ATTEMPTS=0", func(o *sink.Options, p int) { o.Recovery.MaxAttempts = 1 - p }, "at least 1"},
		{"BIGTABLE_DESTINATION_IDLE_TIMEOUT=0s", func(o *sink.Options, p int) { o.IdleTimeout = time.Duration(1 - p) }, "above 0"},
		{"BIGTABLE_MAX_ACTIVE_INSTANCES=0", func(o *sink.Options, p int) { o.MaxActiveInstances = 1 - p }, "at least 1"},
	} {
		o := sink.DefaultBigtableOptions()
		tt.set(&o, 0)
		if err := o.Validate(); err != nil {
			t.Errorf("%s: refused at its bound: %v", tt.name, err)
		}
		tt.set(&o, 1)
		err := o.Validate()
		if err == nil || !strings.Contains(err.Error(), "PUSHSINK_"+tt.name+": ") || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s past its bound: %v", tt.name, err)
		}
		if _, err := sink.New(sinktest.New(), o); err == nil {
			t.Errorf("%s: New takes it", tt.name)
		}
	}
}

func TestOptionProblemsAreJoined(t *testing.T) {
	err := sink.Options{Sink: "SPANNER", MaxConsecutiveRejections: -1, IdleTimeout: math.MaxInt64}.Validate()
	for _, name := range []string{"SPANNER_MAX_BATCH_CELLS", "SPANNER_MAX_BATCH_MUTATIONS", "SPANNER_MAX_BATCH_BYTES", "SPANNER_MAX_IN_FLIGHT_ENTRIES",
		"SPANNER_BATCH_WRITE_TIMEOUT", "SPANNER_RECOVERY_INITIAL_BACKOFF", "SPANNER_RECOVERY_MAX_ATTEMPTS", "WRITER_MAX_BUFFERED_REQUESTS"} {
		if err == nil || strings.Count(err.Error(), "PUSHSINK_"+name+"=0") == 0 {
			t.Errorf("%s is not named in %v", name, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "BIGTABLE") {
		t.Errorf("a Spanner sink's problem names Bigtable: %v", err)
	}
	if err := (sink.Options{}).Validate(); err == nil || !strings.Contains(err.Error(), "Sink") {
		t.Errorf("no sink: %v", err)
	}
}

func TestDefaultOptionsAreValid(t *testing.T) {
	for _, o := range []sink.Options{sink.DefaultBigtableOptions(), sink.DefaultSpannerOptions()} {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", o.Sink, err)
		}
	}
}
