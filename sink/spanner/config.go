package spanner

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/pushsink/pushsink/sink"
)

// WriteMethod is how a batch is sent.
type WriteMethod string

const (
	// BatchWrite applies the groups of a batch independently, each atomic, and answers
	// for each.
	BatchWrite WriteMethod = "batchWrite"
	// Commit applies a batch as one atomic commit. A refused commit names no record, so
	// the writer bisects it.
	Commit WriteMethod = "commit"
)

// Config is the process's part of the configuration. The names in the comments are the
// environment variables, without PUSHSINK_.
type Config struct {
	// Database is SPANNER_DATABASE, projects/P/instances/I/databases/D: used where a
	// route names none.
	Database string

	WriteMethod WriteMethod // SPANNER_WRITE_METHOD
	// MaxCommitDelay is SPANNER_MAX_COMMIT_DELAY, 0 to 500 ms; nil = unset. Only a
	// Commit has such a field.
	MaxCommitDelay *time.Duration
	// Priority is SPANNER_RPC_PRIORITY: LOW, MEDIUM or HIGH; "" = unset, which the
	// service takes for HIGH.
	Priority string

	// MaxBatchCells and MaxBatchMutations (SPANNER_MAX_BATCH_CELLS, _MUTATIONS) bound a
	// request; see [Config.Options].
	MaxBatchCells     int
	MaxBatchMutations int

	// PoolSize is how many gRPC connections a database has.
	PoolSize int

	// Endpoint is an emulator's host:port, spoken to in plain text and without
	// credentials. Empty = the service.
	Endpoint string
	// DialOptions are added to every connection (an in-process listener's dialer).
	DialOptions []grpc.DialOption

	// Log gets what happens once: an emulator without BatchWrite. nil = nowhere.
	Log *slog.Logger
	// Meter gets the counter of duplicates. May be nil.
	Meter metric.Meter

	// Test seams; zero = the service's limit, schemaTimeout, the clock, as Endpoint says.
	maxRequest    int
	schemaTimeout time.Duration
	clock         func() time.Time
	asService     bool
}

// emulated: the endpoint is an emulator, which may lack what the service has.
func (c *Config) emulated() bool { return c.Endpoint != "" && !c.asService }

// DefaultConfig names no database: it has no default.
func DefaultConfig() Config {
	return Config{WriteMethod: BatchWrite, MaxBatchCells: 5000, MaxBatchMutations: 500, PoolSize: 4}
}

// DefaultOptions are the writer's bounds for this sink.
func DefaultOptions() sink.Options { return sink.DefaultSpannerOptions() }

// Options puts the bounds on cells and mutations into o. An entry is at least one mutation.
func (c *Config) Options(o sink.Options) sink.Options {
	o.MaxBatchCost = c.MaxBatchCells
	o.MaxBatchMutations = c.MaxBatchMutations
	o.MaxBatchEntries = min(o.MaxBatchEntries, c.MaxBatchMutations)
	o.LoneOverCost = true
	o.MergeKeys = false
	return o
}

func (c *Config) now() time.Time {
	if c.clock != nil {
		return c.clock()
	}
	return time.Now()
}

// requestLimit is the most bytes a request may have.
func (c *Config) requestLimit() int {
	if c.maxRequest > 0 {
		return c.maxRequest
	}
	return maxCommitBytes
}

var priorities = map[string]sppb.RequestOptions_Priority{
	"":       sppb.RequestOptions_PRIORITY_UNSPECIFIED,
	"LOW":    sppb.RequestOptions_PRIORITY_LOW,
	"MEDIUM": sppb.RequestOptions_PRIORITY_MEDIUM,
	"HIGH":   sppb.RequestOptions_PRIORITY_HIGH,
}

// Validate joins every problem.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Database != "" && !databasePath.MatchString(c.Database) {
		bad("PUSHSINK_SPANNER_DATABASE=%q: projects/P/instances/I/databases/D", c.Database)
	}
	if c.WriteMethod != BatchWrite && c.WriteMethod != Commit {
		bad("PUSHSINK_SPANNER_WRITE_METHOD=%q: batchWrite or commit", c.WriteMethod)
	}
	if d := c.MaxCommitDelay; d != nil {
		if *d < 0 || *d > 500*time.Millisecond {
			bad("PUSHSINK_SPANNER_MAX_COMMIT_DELAY=%s: 0 to 500ms", *d)
		}
		if c.WriteMethod == BatchWrite {
			bad("PUSHSINK_SPANNER_MAX_COMMIT_DELAY=%s: only a commit has a delay, BatchWrite has no such field: set PUSHSINK_SPANNER_WRITE_METHOD=commit", *d)
		}
	}
	if _, ok := priorities[c.Priority]; !ok {
		bad("PUSHSINK_SPANNER_RPC_PRIORITY=%q: LOW, MEDIUM or HIGH", c.Priority)
	}
	if c.MaxBatchCells < 1 || c.MaxBatchCells > maxCells {
		bad("PUSHSINK_SPANNER_MAX_BATCH_CELLS=%d: 1 to %d", c.MaxBatchCells, maxCells)
	}
	if c.MaxBatchMutations < 1 || c.MaxBatchMutations > maxCells {
		bad("PUSHSINK_SPANNER_MAX_BATCH_MUTATIONS=%d: 1 to %d", c.MaxBatchMutations, maxCells)
	}
	if c.PoolSize < 1 || c.PoolSize > 200 {
		bad("spanner.Config.PoolSize=%d: 1 to 200", c.PoolSize)
	}
	return errors.Join(errs...)
}
