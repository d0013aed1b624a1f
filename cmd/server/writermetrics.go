package main

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pushsink/pushsink/sink"
)

// requestMetrics are what each backend request adds to the instruments.
type requestMetrics struct {
	seconds metric.Float64Histogram
	entries metric.Int64Histogram
	bytes   metric.Int64Histogram
	sets    map[string]metric.MeasurementOption // by result
}

// The results of a backend request, as its metrics show them.
const (
	requestApplied = "applied" // all of its entries
	requestPartly  = "partly"
	requestNothing = "nothing"
	requestBroken  = "broken" // the adapter broke its contract
)

func newRequestMetrics(meter metric.Meter) (*requestMetrics, error) {
	m := &requestMetrics{sets: map[string]metric.MeasurementOption{}}
	for _, result := range []string{requestApplied, requestPartly, requestNothing, requestBroken} {
		m.sets[result] = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", result)))
	}
	var err error
	if m.seconds, err = meter.Float64Histogram("pushsink.backend.duration", metric.WithUnit("s"), metric.WithDescription("One backend request."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)); err != nil {
		return nil, err
	}
	if m.entries, err = meter.Int64Histogram("pushsink.backend.batch.entries", metric.WithDescription("Entries of a backend request."),
		metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)); err != nil {
		return nil, err
	}
	if m.bytes, err = meter.Int64Histogram("pushsink.backend.batch.size", metric.WithUnit("By"), metric.WithDescription("Bytes of a backend request."),
		metric.WithExplicitBucketBoundaries(1<<10, 4<<10, 16<<10, 64<<10, 256<<10, 1<<20, 4<<20, 16<<20, 64<<20)); err != nil {
		return nil, err
	}
	return m, nil
}

// Request is the writer's Observer.
func (m *requestMetrics) Request(r sink.RequestStats) {
	result := requestPartly
	switch applied := r.Outcomes[sink.Applied]; {
	case r.Err != nil:
		result = requestBroken
	case applied == r.Entries:
		result = requestApplied
	case applied == 0:
		result = requestNothing
	}
	set, ctx := m.sets[result], context.Background()
	m.seconds.Record(ctx, r.Latency.Seconds(), set)
	m.entries.Record(ctx, int64(r.Entries), set)
	m.bytes.Record(ctx, r.Bytes, set)
}

// observeWriter shows the writer's own state and counts, read when they are asked for.
func observeWriter(meter metric.Meter, w *sink.Writer) error {
	var instruments []metric.Observable
	var reads []func(metric.Observer, *sink.Health)
	var firstErr error

	gauge := func(name, unit, description string, read func(*sink.Health) int64) {
		g, err := meter.Int64ObservableGauge("pushsink.writer."+name, metric.WithUnit(unit), metric.WithDescription(description))
		if err != nil && firstErr == nil {
			firstErr = err
		}
		instruments = append(instruments, g)
		reads = append(reads, func(o metric.Observer, h *sink.Health) { o.ObserveInt64(g, read(h)) })
	}
	gauge("entries", "{entry}", "Entries admitted and not done, bounded by MAX_IN_FLIGHT_ENTRIES.", func(h *sink.Health) int64 { return int64(h.InFlightEntries) })
	gauge("held", "By", "Bytes of those, bounded by MAX_IN_FLIGHT_BYTES.", func(h *sink.Health) int64 { return h.InFlightBytes })
	gauge("buffered", "{entry}", "Entries of those in no open request, bounded by MAX_BUFFERED_REQUESTS.", func(h *sink.Health) int64 { return int64(h.Buffered) })
	gauge("open", "{request}", "Open backend requests, bounded by MAX_IN_FLIGHT_REQUESTS.", func(h *sink.Health) int64 { return int64(h.OpenRequests) })
	gauge("waiting", "{call}", "Calls that wait for admission.", func(h *sink.Health) int64 { return int64(h.WaitingCalls) })
	gauge("destinations", "{destination}", "Tables with state in the writer.", func(h *sink.Health) int64 { return int64(h.Lanes) })
	gauge("clients", "{client}", "Instance clients opening, open or closing, bounded by MAX_ACTIVE_INSTANCES.", func(h *sink.Health) int64 { return int64(h.OpenInstances) })

	counter := func(name, description string, read func(*sink.Counters) uint64) {
		c, err := meter.Int64ObservableCounter("pushsink.writer."+name, metric.WithDescription(description))
		if err != nil && firstErr == nil {
			firstErr = err
		}
		instruments = append(instruments, c)
		reads = append(reads, func(o metric.Observer, h *sink.Health) { o.ObserveInt64(c, int64(read(&h.Counters))) })
	}
	counter("requests", "Backend requests started.", func(c *sink.Counters) uint64 { return c.Requests })
	counter("retries", "Entries sent again for a passing reason.", func(c *sink.Counters) uint64 { return c.Retries })
	counter("isolations", "Sets of entries divided to find what the service refuses.", func(c *sink.Counters) uint64 { return c.Isolations })
	counter("ensures", "Tables looked after because one was missing.", func(c *sink.Counters) uint64 { return c.Ensures })
	counter("evictions", "Tables forgotten after DESTINATION_IDLE_TIMEOUT.", func(c *sink.Counters) uint64 { return c.Evictions })
	counter("rejections", "Records that the service refused for good.", func(c *sink.Counters) uint64 { return c.Rejections })
	counter("trips", "Routes stopped by rejections in a row.", func(c *sink.Counters) uint64 { return c.Trips })
	counter("overloaded", "Entries not admitted within ADMISSION_TIMEOUT.", func(c *sink.Counters) uint64 { return c.Overloaded })
	counter("shed", "Entries given up because their table is down and holds its share.", func(c *sink.Counters) uint64 { return c.Shed })
	counter("withdrawn", "Entries whose caller left before they were sent.", func(c *sink.Counters) uint64 { return c.Withdrawn })

	settled, err := meter.Int64ObservableCounter("pushsink.writer.settled", metric.WithDescription("Entries by their outcome."))
	if err != nil && firstErr == nil {
		firstErr = err
	}
	var outcomes [sink.Fatal + 1]metric.MeasurementOption
	for kind := range outcomes {
		outcomes[kind] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", sink.Kind(kind).String())))
	}
	streak, err := meter.Int64ObservableGauge("pushsink.route.streak", metric.WithDescription("Rejections in a row, bounded by MAX_CONSECUTIVE_REJECTIONS."))
	if err != nil && firstErr == nil {
		firstErr = err
	}
	instruments = append(instruments, settled, streak)
	if firstErr != nil {
		return firstErr
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		h := w.Health()
		for _, read := range reads {
			read(o, &h)
		}
		for kind, n := range h.Counters.Settled {
			o.ObserveInt64(settled, int64(n), outcomes[kind])
		}
		for _, r := range h.Routes {
			o.ObserveInt64(streak, int64(r.Streak), metric.WithAttributes(attribute.String("route", r.Route.Name)))
		}
		return nil
	}, instruments...)
	return err
}
