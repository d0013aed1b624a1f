package sink_test

import (
	"context"
	"testing"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestMetrics(t *testing.T) {
	reader := sdk.NewManualReader()
	meter := sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test")
	m, err := sink.NewMetrics(meter, "BIGTABLE")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *sink.Options, b *sinktest.Backend) { o.Observer = m })
	reg, err := m.Register(r.w)
	if err != nil {
		t.Fatal(err)
	}
	r.b.Inject(sinktest.Reject("1"))
	es := r.entries(0, 3)
	for i := range es {
		es[i].Bytes = 100
	}
	r.w.Write(context.Background(), es)

	var got metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, m := range got.ScopeMetrics[0].Metrics {
		add := func(set attribute.Set, v int64) {
			if s, ok := set.Value("sink"); !ok || s.AsString() != "bigtable" {
				t.Errorf("%s has no sink: %v", m.Name, set)
			}
			name := m.Name
			for _, key := range []attribute.Key{"outcome", "result", "route"} {
				if v, ok := set.Value(key); ok {
					name += "/" + v.AsString()
				}
			}
			values[name] += v
		}
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				add(p.Attributes, p.Value)
			}
		case metricdata.Gauge[int64]:
			for _, p := range d.DataPoints {
				add(p.Attributes, p.Value)
			}
		case metricdata.Histogram[int64]:
			for _, p := range d.DataPoints {
				add(p.Attributes, p.Sum)
			}
		case metricdata.Histogram[float64]:
			for _, p := range d.DataPoints {
				add(p.Attributes, int64(p.Count))
			}
		}
	}
	for name, want := range map[string]int64{
		"pushsink.writer.batch.entries":            4, // 3, then the refused one alone
		"pushsink.writer.batch.size":               400,
		"pushsink.writer.request.duration/partial": 1,
		"pushsink.writer.request.duration/failed":  1,
		"pushsink.writer.outcomes/applied":         2,
		"pushsink.writer.outcomes/rejected":        1,
		"pushsink.writer.outcomes/undecided":       0,
		"pushsink.writer.rejections":               1,
		"pushsink.writer.isolations":               1,
		"pushsink.writer.streak/r":                 1,
		"pushsink.writer.clients":                  1,
		"pushsink.writer.destinations":             1,
		"pushsink.writer.entries.in_flight":        0,
	} {
		if v, ok := values[name]; !ok || v != want {
			t.Errorf("%s = %d (there: %v), want %d", name, v, ok, want)
		}
	}
	if err := reg.Unregister(); err != nil {
		t.Error(err)
	}
	r.close()
}
