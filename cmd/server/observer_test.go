package main

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/pushsink/pushsink/handlers"
)

func newTestObserver(t testing.TB) (*observer, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	o, err := newObserver(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("t"))
	if err != nil {
		t.Fatal(err)
	}
	return o, reader
}

// wantNoAllocations counts those of the whole process, so what others allocate meanwhile may be
// among them. What f allocated would be there each time.
func wantNoAllocations(t *testing.T, what string, f func()) {
	t.Helper()
	n := math.Inf(1)
	for try := 0; n > 0 && try < 20; try++ {
		n = min(n, testing.AllocsPerRun(100, f))
	}
	if n > 0 {
		t.Errorf("%s: %v allocations, want none", what, n)
	}
}

// push is what one push that was written tells.
func (o *observer) push() {
	o.BodyBytes(1000)
	o.BodyBytes(-1000)
	o.Durable("r", time.Second)
	o.Records("r", handlers.ResultWritten, "", 1)
	o.Request("/v1/routes/{route}/push", "r", "POST", 204, time.Millisecond)
}

// Labels are made once, whoever comes first, and what a push tells allocates nothing.
func TestObserverKeepsLabels(t *testing.T) {
	o, reader := newTestObserver(t)
	var told atomic.Int64
	push := func() {
		told.Add(1)
		o.push()
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				push()
			}
		})
	}
	all.Wait()
	o.BodyBytes(7)
	wantNoAllocations(t, "a push", push)
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	pushes := told.Load()
	for _, m := range got.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			want := pushes
			if m.Name == "pushsink.http.body.held" {
				want = 7
			}
			if len(d.DataPoints) != 1 || d.DataPoints[0].Value != want {
				t.Errorf("%s: %+v, want %d in one set", m.Name, d.DataPoints, want)
			}
		case metricdata.Histogram[float64]:
			if len(d.DataPoints) != 1 || d.DataPoints[0].Count != uint64(pushes) {
				t.Errorf("%s: %+v, want %d in one set", m.Name, d.DataPoints, pushes)
			}
			if route, _ := d.DataPoints[0].Attributes.Value(attribute.Key("route")); route.AsString() != "r" {
				t.Errorf("%s: route %q, want r", m.Name, route.AsString())
			}
		}
	}
}

func BenchmarkObserverPush(b *testing.B) {
	o, _ := newTestObserver(b)
	b.ReportAllocs()
	for b.Loop() {
		o.push()
	}
}
