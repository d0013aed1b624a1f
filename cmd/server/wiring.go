package main

import (
	"slices"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
)

// limits are what the HTTP surface obeys.
func (s *settings) limits() handlers.Limits {
	return handlers.Limits{
		MaxBodyBytes:      int64(s.MaxBodyBytes),
		BatchMaxBodyBytes: int64(s.BatchMaxBodyBytes),
		BodyBytesInFlight: int64(s.BodyBytesInFlight),
		MaxBatchRecords:   s.MaxBatchRecords,
		MaxRecordBytes:    int64(s.Writer.MaxRecordSizeBytes),
		RequestTimeout:    s.RequestTimeout,
		BatchTimeout:      s.BatchTimeout,
		ReadHeaderTimeout: s.ReadHeaderTimeout,
		ReadBodyTimeout:   s.ReadBodyTimeout,
		IdleTimeout:       s.IdleTimeout,
		TrialInterval:     s.HealthTrialInterval,
		LivenessGrace:     s.HealthLivenessGrace,
	}
}

// expose is what the HTTP surface shows beside the record endpoints.
func (s *settings) expose() handlers.Expose {
	if s.Dev {
		return handlers.ExposeAll()
	}
	return handlers.Expose{
		Rows:    slices.Contains(s.Expose, "rows"),
		Dryrun:  slices.Contains(s.Expose, "dryrun"),
		Console: slices.Contains(s.Expose, "console"),
	}
}

// bigtableConfig is what the Bigtable adapter obeys.
func (s *settings) bigtableConfig() bigtable.Config {
	b := s.Bigtable
	c := bigtable.DefaultConfig()
	c.Project, c.Instance, c.AppProfile = b.Project, b.Instance, b.AppProfile
	c.PoolSize = b.PoolSize
	c.MaxActiveInstances = b.MaxActiveInstances
	c.DestinationIdleTimeout = b.DestinationIdleTimeout
	c.PerDestinationMetrics = b.PerDestinationMetrics
	c.Endpoint = s.BigtableEmulator
	return c
}

// bigtableWriter bounds the writer over Bigtable: the lower of the writer's own batch
// bounds and the sink's thresholds. What no option says (mutations per request, the
// delays of a passing error) stays as the sink has it.
func (s *settings) bigtableWriter() sink.Options {
	w, b := s.Writer, s.Bigtable
	o := sink.DefaultBigtableOptions()
	o.MaxBatchEntries = b.BatchElementCountThreshold
	if w.MaxBatchSize != nil {
		o.MaxBatchEntries = min(o.MaxBatchEntries, *w.MaxBatchSize)
	}
	o.MaxBatchBytes = int64(b.BatchRequestByteThreshold)
	if w.MaxBatchSizeBytes != nil {
		o.MaxBatchBytes = min(o.MaxBatchBytes, int64(*w.MaxBatchSizeBytes))
	}
	o.MaxInFlightRequests = w.MaxInFlightRequests
	o.MaxInFlightRequestsDest = w.MaxInFlightRequestsPerDestination
	o.MaxInFlightEntries = b.MaxInFlightEntries
	o.MaxInFlightBytes = int64(b.MaxInFlightBytes)
	o.MaxBuffered = b.MaxInFlightEntries
	if w.MaxBufferedRequests != nil {
		o.MaxBuffered = *w.MaxBufferedRequests
	}
	o.MaxTimeInBuffer = w.MaxTimeInBuffer
	o.MaxRecordBytes = int64(w.MaxRecordSizeBytes)
	o.AdmissionTimeout = w.AdmissionTimeout
	o.MaxConsecutiveRejections = w.MaxConsecutiveRejections
	o.TrialInterval = s.HealthTrialInterval
	o.AttemptTimeout = b.AttemptTimeout
	o.Recovery = sink.Backoff{Initial: b.Recovery.InitialBackoff, Max: b.Recovery.MaxBackoff, MaxAttempts: b.Recovery.MaxAttempts}
	o.IdleTimeout = b.DestinationIdleTimeout
	o.MaxActiveInstances = b.MaxActiveInstances
	return o
}
