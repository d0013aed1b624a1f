package bigtable

import (
	"context"
	"fmt"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// sums reads the counters as name{table} -> value.
func sums(t *testing.T, r *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := r.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]int64)
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				table, _ := p.Attributes.Value(attribute.Key("table"))
				got[m.Name+"{"+table.AsString()+"}"] += p.Value
			}
		}
	}
	return got
}

// BIGTABLE_PER_DESTINATION_METRICS: counters per table, bounded, and kept for a table
// that was forgotten and comes back. Off: none.
func TestPerDestinationMetrics(t *testing.T) {
	for _, on := range []bool{false, true} {
		reader := sdkmetric.NewManualReader()
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
		s := &service{mutate: func(_ int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			if req.TableName == testPath+"/tables/t3" {
				return status.Error(codes.Unavailable, "x")
			}
			return allOK(req, st)
		}}
		cfg := testConfig(serve(t, s))
		cfg.Meter, cfg.PerDestinationMetrics = provider.Meter("test"), on
		b := newBench(t, cfg, routeOf("r", func(b *schema.BigtableTarget) { creating("f")(b); b.Table, b.MaxTables = "", 5000 }))
		if err := b.Open(t.Context(), testPath); err != nil {
			t.Fatal(err)
		}
		entry := func(i int) sink.Entry {
			m := row("k")
			m.Bigtable.Table = fmt.Sprint("t", i)
			return b.entry(0, m)
		}
		for i := range maxTableLabels + 5 {
			b.write(entry(i), entry(i))
		}
		b.unshare(b.lookup(entry(7).Dest), b.routes[0].target)
		b.write(entry(7))
		if e := b.Ensure(t.Context(), entry(8).Dest); e.Kind != sink.Applied {
			t.Fatal(e.Err)
		}
		got := sums(t, reader)
		if got["pushsink.bigtable.tables.created{}"] != 1 || got["pushsink.bigtable.clients.open{}"] != 1 {
			t.Errorf("on=%t: %v tables, %v clients", on, got["pushsink.bigtable.tables.created{}"], got["pushsink.bigtable.clients.open{}"])
		}
		want := map[string]int64{
			"pushsink.bigtable.destination.sent{t1}":     2,
			"pushsink.bigtable.destination.sent{t7}":     3,
			"pushsink.bigtable.destination.errors{t3}":   2,
			"pushsink.bigtable.destination.sent{_other}": 10,
			"pushsink.bigtable.destination.sent{t1001}":  0,
		}
		for name, n := range want {
			if !on {
				n = 0
			}
			if got[name] != n {
				t.Errorf("on=%t: %s = %d, want %d", on, name, got[name], n)
			}
		}
		b.Release(testPath)
		if n := sums(t, reader)["pushsink.bigtable.clients.open{}"]; n != 0 {
			t.Errorf("%d clients open at the end", n)
		}
	}
}

// OTEL-04: 5,000 tables make no series with the option off, and a bounded number with it on.
func TestOTEL04SeriesOfManyTables(t *testing.T) {
	for on, most := range map[bool]int{false: 1, true: 2*(maxTableLabels+1) + 1} { // tables.created is the one without labels
		reader := sdkmetric.NewManualReader()
		// Its own limit on series is out of the way: the bound is ours.
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0))
		m, err := newMetrics(Config{Meter: provider.Meter("test"), PerDestinationMetrics: on})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5000 {
			m.attempt(sink.Dest{Instance: testPath, Table: fmt.Sprint("t", i)}, []sink.Outcome{{Kind: sink.Applied}, {}})
		}
		got := sums(t, reader)
		if len(got) != most {
			t.Errorf("on=%t: %d series, want %d", on, len(got), most)
		}
		if n := got["pushsink.bigtable.destination.sent{"+overflowLabel+"}"]; on && n != 5000-maxTableLabels {
			t.Errorf("%d entries in the series of the tables beyond, want %d", n, 5000-maxTableLabels)
		}
	}
}
