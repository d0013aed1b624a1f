package main

import (
	"math"
	"reflect"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A histogram of ours tells what the SDK's would.
func TestHistogramsCountAsTheSDKs(t *testing.T) {
	bounds := []float64{.005, .01, 1, 60}
	own := newHistograms()
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(own))
	theirs, err := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter(scope).Float64Histogram("x", metric.WithUnit("s"),
		metric.WithDescription("of x"), metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil {
		t.Fatal(err)
	}
	ours := labelled[string]{bounds: bounds}
	own.add("x", "of x", bounds, ours.each)
	ours.of("none", routeSet) // without a sample it is not told
	for _, v := range []float64{0, .001, .005, math.Nextafter(.005, 1), .01, .5, 1, 1.5, 60, 61, 1e9} {
		ours.of("r", routeSet).buckets.count(v)
		theirs.Record(t.Context(), v, metric.WithAttributes(attribute.String("route", "r")))
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	var told []metricdata.Metrics
	for _, s := range got.ScopeMetrics {
		if s.Scope.Name != scope {
			t.Errorf("scope %q", s.Scope.Name)
		}
		for _, m := range s.Metrics {
			h := m.Data.(metricdata.Histogram[float64])
			if len(h.DataPoints) != 1 {
				t.Fatalf("%d series", len(h.DataPoints))
			}
			p := &h.DataPoints[0]
			if p.StartTime.IsZero() || p.Time.Before(p.StartTime) {
				t.Errorf("from %v to %v", p.StartTime, p.Time)
			}
			p.StartTime, p.Time, p.Exemplars = own.start, own.start, nil
			p.Min, p.Max = metricdata.Extrema[float64]{}, metricdata.Extrema[float64]{} // which are optional
			told = append(told, m)
		}
	}
	if len(told) != 2 || !reflect.DeepEqual(told[0], told[1]) {
		t.Errorf("they differ: %+v", told)
	}
}
