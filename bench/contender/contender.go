// Package contender is what the contenders of ours share: how they reach the store.
package contender

import (
	"context"
	"os"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/spanner"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pushsink/pushsink/bench/reading"
)

// Env names the variable with the address of the store.
const Env = "BENCH_BACKEND"

// ShapeEnv names the variable that says what a request holds, "push" or "ndjson", for a
// contender that has to be told.
const ShapeEnv = "BENCH_SHAPE"

// MappingEnv names the variable that makes benthos map in its own language, "bloblang".
const MappingEnv = "BENCH_MAPPING"

// pool is the number of connections to the store, the same for all, and the default of
// the clients and of pushsink.
const pool = 4

func options() []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint("passthrough:///" + os.Getenv(Env)),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithGRPCConnectionPool(pool),
	}
}

// Bigtable is the official client, without the metrics that it would send to Google Cloud.
func Bigtable(ctx context.Context) (*bigtable.Client, error) {
	return bigtable.NewClientWithConfig(ctx, reading.Project, reading.Instance,
		bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}}, options()...)
}

// Spanner is the official client, without the metrics that it would send to Google Cloud.
func Spanner(ctx context.Context) (*spanner.Client, error) {
	return spanner.NewClientWithConfig(ctx, reading.Database,
		spanner.ClientConfig{DisableNativeMetrics: true}, options()...)
}
