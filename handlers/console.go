package handlers

import (
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// Console is the page at GET / with what it shows: counters that only ever grow, read when
// a page asks for them. Nothing runs while none does; a page subtracts what it read before,
// so any number of them may look. It is made before the parts that it watches.
type Console struct {
	info    ConsoleInfo
	process string
	started time.Time
	sinks   []*ConsoleSink

	// routes is made once, when the HTTP surface is composed.
	routes map[string]*routeCounters
	// age is publish time to the sink's OK, in microseconds.
	age histogram
}

// ConsoleInfo is what the page says of the process.
type ConsoleInfo struct {
	Version string
	// Dev: rows are lost at exit.
	Dev bool
}

// NewConsole makes one for a process.
func NewConsole(info ConsoleInfo) *Console {
	return &Console{info: info, process: rand.Text()[:10], started: time.Now()}
}

// results are the ends of a record that the page tells apart, in its order.
var results = [...]Result{ResultWritten, ResultSkipped, ResultDropped, ResultDeadLettered, ResultRejected,
	ResultMalformed, ResultOverloaded, ResultUnavailable, ResultDeadline, ResultInternal}

type routeCounters [len(results)]atomic.Uint64

// ConsoleSink counts one writer's backend requests for the page. It is the writer's
// sink.Observer, and tells the one that stood there before.
type ConsoleSink struct {
	bounds sink.Options
	next   sink.Observer
	health func() sink.Health

	entries, bytes histogram
	latency        histogram // microseconds
	// byteMicros adds up the bytes of ended requests, each times how long it was open: over
	// a span of time, their average bytes in flight.
	byteMicros atomic.Uint64
}

// Sink adds a writer that will be made with o. Its answer takes the place of o.Observer, and
// Watch must be called before the console is served.
func (c *Console) Sink(o sink.Options) *ConsoleSink {
	s := &ConsoleSink{bounds: o, next: o.Observer}
	c.sinks = append(c.sinks, s)
	return s
}

// Watch names where the state of the writer is read: [sink.Writer.Health].
func (s *ConsoleSink) Watch(health func() sink.Health) { s.health = health }

// Request implements sink.Observer.
func (s *ConsoleSink) Request(r sink.RequestStats) {
	s.entries.add(int64(r.Entries))
	s.bytes.add(r.Bytes)
	micros := max(0, r.Latency.Microseconds())
	s.latency.add(micros)
	s.byteMicros.Add(uint64(r.Bytes) * uint64(micros))
	if s.next != nil {
		s.next.Request(r)
	}
}

// observe gives an Observer that counts for the page and tells next.
func (c *Console) observe(next Observer, routes []*Route) Observer {
	c.routes = make(map[string]*routeCounters, len(routes))
	for _, r := range routes {
		c.routes[r.Name] = new(routeCounters)
	}
	return consoleObserver{next, c}
}

type consoleObserver struct {
	Observer
	console *Console
}

func (o consoleObserver) Records(route string, result Result, code schema.Code, n int) {
	o.Observer.Records(route, result, code, n)
	if counters := o.console.routes[route]; counters != nil {
		for i := range results {
			if results[i] == result {
				counters[i].Add(uint64(n))
			}
		}
	}
}

func (o consoleObserver) Durable(route string, age time.Duration) {
	o.Observer.Durable(route, age)
	o.console.age.add(age.Microseconds())
}
