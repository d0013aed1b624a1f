package main

import (
	"slices"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
	"github.com/pushsink/pushsink/sink/spanner"
)

// limits are what the HTTP surface obeys.
func (s *settings) limits() handlers.Limits {
	return handlers.Limits{
		MaxBodyBytes:      int64(s.MaxBodyBytes),
		BatchMaxBodyBytes: int64(s.BatchMaxBodyBytes),
		BodyBytesInFlight: int64(s.BodyBytesInFlight),
		MaxBatchRecords:   s.MaxBatchRecords,
		MaxRecordBytes:    int64(s.Writer.MaxRecordSizeBytes),
		AdmissionTimeout:  s.Writer.AdmissionTimeout,
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
	b := s.Bigtable
	o := sink.DefaultBigtableOptions()
	o.MaxBatchEntries = b.BatchElementCountThreshold
	o.MaxBatchBytes = int64(b.BatchRequestByteThreshold)
	o.MaxInFlightEntries = b.MaxInFlightEntries
	o.MaxInFlightBytes = int64(b.MaxInFlightBytes)
	o.AttemptTimeout = b.AttemptTimeout
	o.Recovery = b.Recovery.backoff()
	o.IdleTimeout = b.DestinationIdleTimeout
	o.MaxActiveInstances = b.MaxActiveInstances
	return s.anyWriter(o)
}

// anyWriter adds to o, the bounds of one sink, what holds for every writer.
func (s *settings) anyWriter(o sink.Options) sink.Options {
	w := s.Writer
	if w.MaxBatchSize != nil {
		o.MaxBatchEntries = min(o.MaxBatchEntries, *w.MaxBatchSize)
	}
	if w.MaxBatchSizeBytes != nil {
		o.MaxBatchBytes = min(o.MaxBatchBytes, int64(*w.MaxBatchSizeBytes))
	}
	o.MaxBuffered = o.MaxInFlightEntries
	if w.MaxBufferedRequests != nil {
		o.MaxBuffered = *w.MaxBufferedRequests
	}
	o.MaxInFlightRequests = w.MaxInFlightRequests
	o.MaxInFlightRequestsDest = w.MaxInFlightRequestsPerDestination
	o.MaxTimeInBuffer = w.MaxTimeInBuffer
	o.MaxRecordBytes = int64(w.MaxRecordSizeBytes)
	o.AdmissionTimeout = w.AdmissionTimeout
	o.MaxConsecutiveRejections = w.MaxConsecutiveRejections
	o.TrialInterval = s.HealthTrialInterval
	return o
}

func (r recoveryConfig) backoff() sink.Backoff {
	return sink.Backoff{Initial: r.InitialBackoff, Max: r.MaxBackoff, MaxAttempts: r.MaxAttempts}
}

// spannerConfig is what the Spanner adapter obeys.
func (s *settings) spannerConfig() spanner.Config {
	sp := s.Spanner
	c := spanner.DefaultConfig()
	c.Database = sp.Database
	c.WriteMethod = spanner.WriteMethod(sp.WriteMethod)
	c.MaxCommitDelay = sp.MaxCommitDelay
	c.Priority = sp.RPCPriority
	c.MaxBatchCells, c.MaxBatchMutations = sp.MaxBatchCells, sp.MaxBatchMutations
	c.Endpoint = s.SpannerEmulator
	return c
}

// spannerWriter bounds the writer over Spanner. A passing error is tried again on the
// recovery budget; nothing is ever created, so that is its only use. No option says when a
// database is forgotten or how many are open: a routes file names them all, and each has
// a route that needs it.
func (s *settings) spannerWriter(databases int) sink.Options {
	sp := s.Spanner
	o := spanner.DefaultOptions()
	o.MaxBatchEntries = sp.MaxBatchMutations
	o.MaxBatchBytes = int64(sp.MaxBatchBytes)
	o.MaxInFlightEntries = sp.MaxInFlightEntries
	o.MaxInFlightBytes = int64(sp.MaxInFlightBytes)
	o.AttemptTimeout = sp.BatchWriteTimeout
	o.Retry = sp.Recovery.backoff()
	o.Recovery = o.Retry
	o.MaxActiveInstances = max(o.MaxActiveInstances, databases)
	c := s.spannerConfig()
	return c.Options(s.anyWriter(o))
}
