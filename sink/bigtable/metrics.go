package bigtable

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/pushsink/pushsink/sink"
)

// maxTableLabels bounds the label values of the counters per table; tables beyond share
// overflowLabel. A table keeps its own for the life of the process, so counters go on
// where they stood when a forgotten table comes back.
const (
	maxTableLabels = 1000
	overflowLabel  = "_other"
)

type metrics struct {
	created, sent, failed metric.Int64Counter
	open                  metric.Int64UpDownCounter

	perTable bool
	// mu guards the prepared attribute sets.
	mu       sync.Mutex
	labels   map[sink.Dest]metric.MeasurementOption
	overflow metric.MeasurementOption
}

func newMetrics(cfg Config) (*metrics, error) {
	meter := cfg.Meter
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	m := &metrics{
		perTable: cfg.PerDestinationMetrics && cfg.Meter != nil,
		labels:   make(map[sink.Dest]metric.MeasurementOption),
		overflow: label(overflowLabel, overflowLabel),
	}
	var errs [4]error
	m.created, errs[0] = meter.Int64Counter("pushsink.bigtable.tables.created", metric.WithUnit("{table}"),
		metric.WithDescription("Tables this process created."))
	m.open, errs[1] = meter.Int64UpDownCounter("pushsink.bigtable.clients.open", metric.WithUnit("{client}"),
		metric.WithDescription("Instance clients open or closing."))
	m.sent, errs[2] = meter.Int64Counter("pushsink.bigtable.destination.sent", metric.WithUnit("{entry}"),
		metric.WithDescription("Entries written, by table; with BIGTABLE_PER_DESTINATION_METRICS."))
	m.failed, errs[3] = meter.Int64Counter("pushsink.bigtable.destination.errors", metric.WithUnit("{entry}"),
		metric.WithDescription("Entries an attempt did not write, by table; with BIGTABLE_PER_DESTINATION_METRICS."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	m.created.Add(context.Background(), 0) // a rate needs to see it begin
	return m, nil
}

func label(instance, table string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(
		attribute.String("instance", instance), attribute.String("table", table)))
}

func (m *metrics) clients(n int64) { m.open.Add(context.Background(), n) }

func (m *metrics) tableCreated() { m.created.Add(context.Background(), 1) }

// attempt counts what one request did for the entries of d.
func (m *metrics) attempt(d sink.Dest, outs []sink.Outcome) {
	if !m.perTable {
		return
	}
	var sent int64
	for i := range outs {
		if outs[i].Kind == sink.Applied {
			sent++
		}
	}
	l := m.label(d)
	if sent > 0 {
		m.sent.Add(context.Background(), sent, l)
	}
	if failed := int64(len(outs)) - sent; failed > 0 {
		m.failed.Add(context.Background(), failed, l)
	}
}

func (m *metrics) label(d sink.Dest) metric.MeasurementOption {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.labels[d]
	if !ok {
		if len(m.labels) >= maxTableLabels {
			return m.overflow
		}
		l = label(InstanceID(d.Instance), d.Table)
		m.labels[d] = l
	}
	return l
}
