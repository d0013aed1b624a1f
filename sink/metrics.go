package sink

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Metrics are a writer's instruments. It is an [Observer]: set it as Options.Observer
// before New, then Register the writer. All attributes come from fixed sets: the sink,
// the outcome kind, the route's name.
type Metrics struct {
	meter   metric.Meter
	sink    attribute.KeyValue
	entries metric.Int64Histogram
	size    metric.Int64Histogram
	latency metric.Float64Histogram
	// By result and isolation, made once: a request must not pay for attribute sets.
	all    metric.MeasurementOption
	result [2][3]metric.MeasurementOption
}

const (
	resultOK = iota
	resultPartial
	resultFailed
)

// NewMetrics makes the instruments of requests. sink is Options.Sink.
func NewMetrics(m metric.Meter, sink string) (*Metrics, error) {
	x := &Metrics{meter: m, sink: attribute.String("sink", strings.ToLower(sink))}
	var errs [3]error
	x.entries, errs[0] = m.Int64Histogram("pushsink.writer.batch.entries", metric.WithUnit("{entry}"),
		metric.WithDescription("Entries in a backend request."),
		metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20000))
	x.size, errs[1] = m.Int64Histogram("pushsink.writer.batch.size", metric.WithUnit("By"),
		metric.WithDescription("Bytes in a backend request."),
		metric.WithExplicitBucketBoundaries(256, 1<<10, 4<<10, 16<<10, 64<<10, 256<<10, 1<<20, 4<<20, 16<<20, 64<<20))
	x.latency, errs[2] = m.Float64Histogram("pushsink.writer.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a backend request."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30))
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("making the writer's instruments: %w", err)
		}
	}
	x.all = metric.WithAttributeSet(attribute.NewSet(x.sink))
	for i, isolated := range []bool{false, true} {
		for j, result := range []string{"ok", "partial", "failed"} {
			x.result[i][j] = metric.WithAttributeSet(attribute.NewSet(x.sink,
				attribute.Bool("isolated", isolated), attribute.String("result", result)))
		}
	}
	return x, nil
}

// Request implements Observer.
func (x *Metrics) Request(s RequestStats) {
	i, j := 0, resultPartial
	if s.Isolated {
		i = 1
	}
	switch s.Outcomes[Applied] {
	case s.Entries:
		j = resultOK
	case 0:
		j = resultFailed
	}
	ctx := context.Background()
	x.entries.Record(ctx, int64(s.Entries), x.all)
	x.size.Record(ctx, s.Bytes, x.all)
	x.latency.Record(ctx, s.Latency.Seconds(), x.result[i][j])
}

// Register adds what is read from the writer at each collection. Its cost is that of one
// Writer.Health, and none on the path of a record.
func (x *Metrics) Register(w *Writer) (metric.Registration, error) {
	type gauge struct {
		name, unit, text string
		value            func(Health) int64
	}
	type counter struct {
		name, unit, text string
		attr             attribute.KeyValue
		value            func(Counters) uint64
	}
	gauges := []gauge{
		{"pushsink.writer.entries.in_flight", "{entry}", "Entries admitted and not done, bounded by MAX_IN_FLIGHT_ENTRIES.", func(h Health) int64 { return int64(h.InFlightEntries) }},
		{"pushsink.writer.bytes.in_flight", "By", "Bytes of the entries admitted and not done, bounded by MAX_IN_FLIGHT_BYTES.", func(h Health) int64 { return h.InFlightBytes }},
		{"pushsink.writer.entries.buffered", "{entry}", "Entries admitted and not in an open request, bounded by WRITER_MAX_BUFFERED_REQUESTS.", func(h Health) int64 { return int64(h.Buffered) }},
		{"pushsink.writer.requests.open", "{request}", "Open backend requests.", func(h Health) int64 { return int64(h.OpenRequests) }},
		{"pushsink.writer.calls.waiting", "{call}", "Requests that wait to be admitted.", func(h Health) int64 { return int64(h.WaitingCalls) }},
		{"pushsink.writer.destinations", "{destination}", "Destinations held.", func(h Health) int64 { return int64(h.Lanes) }},
		{"pushsink.writer.clients", "{client}", "Clients opening, open or closing.", func(h Health) int64 { return int64(h.OpenInstances) }},
	}
	counters := []counter{
		{"pushsink.writer.retries", "{entry}", "Entries sent again.", x.sink, func(c Counters) uint64 { return c.Retries }},
		{"pushsink.writer.isolations", "{batch}", "Batches divided to find what is refused.", x.sink, func(c Counters) uint64 { return c.Isolations }},
		{"pushsink.writer.ensures", "{call}", "Missing destinations made or checked.", x.sink, func(c Counters) uint64 { return c.Ensures }},
		{"pushsink.writer.evictions", "{destination}", "Idle destinations forgotten.", x.sink, func(c Counters) uint64 { return c.Evictions }},
		{"pushsink.writer.rejections", "{entry}", "Records refused for good.", x.sink, func(c Counters) uint64 { return c.Rejections }},
		{"pushsink.writer.trips", "{trip}", "Routes stopped by rejections.", x.sink, func(c Counters) uint64 { return c.Trips }},
		{"pushsink.writer.overloaded", "{entry}", "Entries not admitted in time.", x.sink, func(c Counters) uint64 { return c.Overloaded }},
		{"pushsink.writer.shed", "{entry}", "Entries refused as their destination is down.", x.sink, func(c Counters) uint64 { return c.Shed }},
		{"pushsink.writer.withdrawn", "{entry}", "Entries whose caller left first.", x.sink, func(c Counters) uint64 { return c.Withdrawn }},
	}
	for k := Undecided; k <= Fatal; k++ {
		counters = append(counters, counter{"pushsink.writer.outcomes", "{entry}", "Entries by outcome.",
			attribute.String("outcome", k.String()), func(c Counters) uint64 { return c.Settled[k] }})
	}

	var all []metric.Observable
	var read []func(metric.Observer, Health)
	made := map[string]metric.Int64ObservableCounter{}
	for _, g := range gauges {
		inst, err := x.meter.Int64ObservableGauge(g.name, metric.WithUnit(g.unit), metric.WithDescription(g.text))
		if err != nil {
			return nil, fmt.Errorf("making %s: %w", g.name, err)
		}
		all = append(all, inst)
		read = append(read, func(o metric.Observer, h Health) { o.ObserveInt64(inst, g.value(h), x.all) })
	}
	for _, k := range counters {
		inst := made[k.name]
		if inst == nil {
			var err error
			if inst, err = x.meter.Int64ObservableCounter(k.name, metric.WithUnit(k.unit), metric.WithDescription(k.text)); err != nil {
				return nil, fmt.Errorf("making %s: %w", k.name, err)
			}
			made[k.name] = inst
			all = append(all, inst)
		}
		attrs := metric.WithAttributeSet(attribute.NewSet(x.sink, k.attr))
		read = append(read, func(o metric.Observer, h Health) { o.ObserveInt64(inst, int64(k.value(h.Counters)), attrs) })
	}
	streak, err := x.meter.Int64ObservableGauge("pushsink.writer.streak", metric.WithUnit("{entry}"),
		metric.WithDescription("A route's confirmed rejections in a row."))
	if err != nil {
		return nil, fmt.Errorf("making pushsink.writer.streak: %w", err)
	}
	all = append(all, streak)
	read = append(read, func(o metric.Observer, h Health) {
		for _, r := range h.Routes {
			o.ObserveInt64(streak, int64(r.Streak), metric.WithAttributes(x.sink, attribute.String("route", r.Route.Name)))
		}
	})
	return x.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		h := w.Health()
		for _, f := range read {
			f(o, h)
		}
		return nil
	}, all...)
}
