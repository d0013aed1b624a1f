package main

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// outlet is one kind of sink with its writer. A process has at most one of a kind.
type outlet struct {
	writer *sink.Writer
	adapter
}

// adapter is what a kind of sink does for the server beside writing.
type adapter interface {
	// bind makes what the requests of r need: its encoder, a reader of its rows (nil where
	// they cannot be read back), and the destination of all its entries, zero where each
	// record names its own.
	bind(r *schema.Route, identity *sink.Route) (bound, error)
	// check returns, by route, why it cannot be written to.
	check(ctx context.Context) map[string]string
	// close ends the clients. The writer has ended, and no check runs.
	close()
}

// bound is a route as its sink takes it.
type bound struct {
	target handlers.Target
	rows   handlers.RowReader
	dest   sink.Dest
}

// newOutlet makes the writer over backend. A console, which may be nil, shows it.
func newOutlet(backend sink.Backend, a adapter, options sink.Options, meter metric.Meter, tracer sink.Tracer, console *handlers.Console) (*outlet, error) {
	options.Tracer = tracer
	metrics, err := sink.NewMetrics(meter, options.Sink)
	if err != nil {
		return nil, err
	}
	options.Observer = metrics
	var shown *handlers.ConsoleSink
	if console != nil {
		shown = console.Sink(options)
		options.Observer = shown
	}
	writer, err := sink.New(backend, options)
	if err != nil {
		return nil, err
	}
	if shown != nil {
		shown.Watch(writer.Health)
	}
	if _, err := metrics.Register(writer); err != nil { // for as long as the process runs
		return nil, err
	}
	return &outlet{writer, a}, nil
}

// outlets are those of the process: nil for a kind that no route writes to.
type outlets struct{ bigtable, spanner *outlet }

func (o outlets) list() (list []*outlet) {
	for _, one := range []*outlet{o.bigtable, o.spanner} {
		if one != nil {
			list = append(list, one)
		}
	}
	return list
}

// of is the outlet that r writes to.
func (o outlets) of(r *schema.Route) *outlet {
	if r.Spanner != nil {
		return o.spanner
	}
	return o.bigtable
}

// closeWriters closes them side by side: each may need all the time that ctx leaves.
func (o outlets) closeWriters(ctx context.Context) error {
	list := o.list()
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, one := range list {
		all.Go(func() { errs[i] = one.writer.Close(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
