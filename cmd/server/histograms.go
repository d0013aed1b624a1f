package main

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// histograms are those whose samples are counted in place and told when they are read: the
// SDK's own take one sample at a time, and check and look up its attributes for each.
type histograms struct {
	start time.Time
	// mu guards all.
	mu  sync.Mutex
	all []histogram
}

type histogram struct {
	sdkmetric.Instrument
	bounds []float64
	each   func(func(attribute.Set, *buckets))
}

var _ sdkmetric.Producer = (*histograms)(nil)

func newHistograms() *histograms { return &histograms{start: time.Now()} }

// add makes a histogram in seconds of the buckets that each gives.
func (h *histograms) add(name, description string, bounds []float64, each func(func(attribute.Set, *buckets))) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, histogram{bounds: bounds, each: each, Instrument: sdkmetric.Instrument{
		Name: name, Description: description, Kind: sdkmetric.InstrumentKindHistogram, Unit: "s",
		Scope: instrumentation.Scope{Name: scope}}})
}

// Produce implements sdkmetric.Producer. A histogram without a sample is left out.
func (h *histograms) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	var metrics []metricdata.Metrics
	for i := range h.all {
		x := &h.all[i]
		data := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		x.each(func(set attribute.Set, b *buckets) {
			p := metricdata.HistogramDataPoint[float64]{Attributes: set, StartTime: h.start, Time: now, Bounds: x.bounds}
			if b.read(&p); p.Count > 0 {
				data.DataPoints = append(data.DataPoints, p)
			}
		})
		if len(data.DataPoints) > 0 {
			metrics = append(metrics, metricdata.Metrics{Name: x.Name, Description: x.Description, Unit: x.Unit, Data: data})
		}
	}
	if metrics == nil {
		return nil, nil
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: metrics}}, nil
}

// buckets are one series of a histogram.
type buckets struct {
	bounds []float64       // the upper ones, included; another bucket is above them
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Uint64   // the bits of a float64
}

func newBuckets(bounds []float64) *buckets {
	return &buckets{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

func (b *buckets) count(v float64) {
	i := 0
	for i < len(b.bounds) && v > b.bounds[i] {
		i++
	}
	b.counts[i].Add(1)
	for {
		old := b.sum.Load()
		if b.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

func (b *buckets) read(to *metricdata.HistogramDataPoint[float64]) {
	to.BucketCounts = make([]uint64, len(b.counts))
	for i := range b.counts {
		to.BucketCounts[i] = b.counts[i].Load()
		to.Count += to.BucketCounts[i]
	}
	to.Sum = math.Float64frombits(b.sum.Load())
}
