package spanner

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// Sink is the Spanner backend of one process. It is fixed by New but for the state of its
// databases. Its methods may be called from many goroutines.
type Sink struct {
	cfg       Config
	targets   map[*schema.Route]*target
	ordered   []*target            // in the order of the routes
	databases map[string]*database // every database of the routes, by path
	// duplicates counts records found written already, by route.
	duplicates metric.Int64Counter
	encoders   sync.Pool // of *encoder, reset
}

var _ sink.Backend = (*Sink)(nil)

// New checks cfg and the Spanner routes among routes against each other. It opens
// nothing. The error joins every problem.
func New(cfg Config, routes []*schema.Route) (*Sink, error) {
	s := &Sink{cfg: cfg, targets: make(map[*schema.Route]*target), databases: make(map[string]*database)}
	s.encoders.New = func() any { return new(encoder) }
	var errs []error
	if err := cfg.Validate(); err != nil {
		errs = append(errs, err)
	}
	for _, r := range routes {
		if r.Spanner == nil {
			continue
		}
		t, err := cfg.target(r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.targets[r] = t
		s.ordered = append(s.ordered, t)
		if s.databases[t.database] == nil {
			s.databases[t.database] = &database{path: t.database, cfg: &s.cfg}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	meter := cfg.Meter
	if meter == nil {
		meter = noop.NewMeterProvider().Meter("")
	}
	var err error
	s.duplicates, err = meter.Int64Counter("pushsink.spanner.duplicates", metric.WithUnit("{record}"),
		metric.WithDescription("Records that were in the database already: redelivered, and acknowledged."))
	if err != nil {
		return nil, err
	}
	s.duplicates.Add(context.Background(), 0) // a rate needs to see it begin
	return s, nil
}

// Route returns the encoder of r, one of New's routes, whose entries carry sr.
func (s *Sink) Route(r *schema.Route, sr *sink.Route) (*Route, error) {
	t := s.targets[r]
	if t == nil {
		return nil, fmt.Errorf("route %s is no Spanner route of this sink", r.Name)
	}
	return &Route{sink: s, target: t, db: s.databases[t.database], writer: sr}, nil
}

func (s *Sink) duplicate(r *Route) {
	s.duplicates.Add(context.Background(), 1, metric.WithAttributes(attribute.String("route", r.target.name)))
}

// Ensure is never asked for: this sink creates nothing, and says Missing of nothing.
func (s *Sink) Ensure(_ context.Context, d sink.Dest) sink.Ensured {
	return sink.Ensured{
		Outcome:   sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeBatch, Err: fmt.Errorf("%s: databases are not created", d.Instance)},
		Unchanged: true,
	}
}
