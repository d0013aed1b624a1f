package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// Config is what the HTTP surface is composed of. Routes, Limits and Auth are required.
type Config struct {
	Routes []*Route
	// Default takes `POST /`; nil = that path is 404.
	Default *Route
	Limits  Limits
	// Auth wraps every endpoint that is not open. nil refuses every request with 401: an
	// absent configuration never means open. [NoAuth] is the typed-in "none".
	Auth func(http.Handler) http.Handler
	// Expose switches on the endpoints that are off outside dev mode.
	Expose Expose
	// DeadLetters is required when a route's policy is deadLetter.
	DeadLetters DeadLetters
	// Metrics serves GET /metrics on the main port when set (dev mode).
	Metrics http.Handler
	// Console serves GET / and what its page needs when set and Expose.Console.
	Console *Console
	// Process is what the probes report beside the writers' own state.
	Process  Process
	Observer Observer     // nil = nothing is counted
	Tracing  Tracing      // nil = nothing is traced
	Logger   *slog.Logger // nil = slog.Default()
	// Now gives arrival times; nil = time.Now.
	Now func() time.Time
}

// Expose is the list PUSHSINK_EXPOSE.
type Expose struct{ Rows, Dryrun, Console bool }

// ExposeAll is what dev mode exposes.
func ExposeAll() Expose { return Expose{Rows: true, Dryrun: true, Console: true} }

// Process is the state of the process that its probes tell. Every func may be nil and must
// answer from memory.
type Process struct {
	// Warm reports that the first warm-up ended, well or badly. nil = it has.
	Warm func() bool
	// Draining reports that SIGTERM came: ready is false from then on.
	Draining func() bool
	// Reading ends when a drain ends the reading of request bodies: what is read later, and
	// what is being read then, is answered 503. nil = it never ends.
	Reading context.Context
	// Problems says by route's name why it cannot be written to, found outside the writer: a
	// backend out of reach at start. "" = every route.
	Problems func() map[string]string
}

// Route is one route with everything a request of it needs.
type Route struct {
	*schema.Route
	// Sink is the writer's identity of the route.
	Sink   *sink.Route
	Target Target
	Writer Writer
	// Dest is where every record of the route goes; zero where each names its own.
	Dest sink.Dest
	// Rows reads the route's table back; nil = GET …/rows is 404.
	Rows RowReader
	// Mapper makes the mutation; nil = the route's compiled mapping.
	Mapper Mapper
}

// Mapper makes a mutation of a record. *schema.Mapping is one. The error is a *schema.Error;
// any other is answered as an internal error and never acknowledged.
type Mapper interface {
	Apply(*schema.Record) (schema.Mutation, error)
}

// Target encodes a mutation for its sink. A *schema.Error rejects the record, except
// schema.TooManyTables and schema.Unavailable, which are passing reasons; any other error is
// an internal one. The entry holds nothing of rec or m: both go back to a pool.
type Target interface {
	Encode(rec *schema.Record, m *schema.Mutation) (sink.Entry, error)
}

// Writer is the bounded writer of one kind of sink. [SinkWriter] makes one.
type Writer interface {
	// Submit queues entries, in order, as one call. The writer owns es until it has an
	// outcome for each of them.
	Submit(ctx context.Context, es []sink.Entry) Ticket
	// RouteState tells from memory how a route stands.
	RouteState(r *sink.Route) RouteState
	// Stuck says why the writer makes no progress at all; empty = it does.
	Stuck() string
}

// Ticket is a call's place in the writer.
type Ticket interface {
	// Admitted blocks until every entry is admitted or has an outcome. It reports false
	// when some were not admitted in time.
	Admitted() bool
	// Wait blocks until every entry has an outcome, and returns them by index.
	Wait() []sink.Outcome
}

// RouteState is how a route stands in its writer. The zero value is a healthy route.
type RouteState struct {
	// Tripped: the streak of confirmed rejections reached its bound; nothing is dropped
	// or dead-lettered. Trial: it is tripped and half-open, so one write may be tried.
	Tripped, Trial bool
	// Fatal: the route, or its static destination, cannot be written whatever the record.
	Fatal bool
	// Reason says why, with the option's name; it holds no data.
	Reason string
	// TrippedSince is when the route tripped.
	TrippedSince time.Time
	// Streak is the number of confirmed rejections in a row.
	Streak int
}

// ErrDeadLetterRefused is wrapped by an error of DeadLetters.Publish that trying again does
// not help. Every other error is a passing one.
var ErrDeadLetterRefused = errors.New("dead letter refused for good")

// DeadLetters publishes records that were rejected for good.
type DeadLetters interface {
	// Publish returns nil once the publish is confirmed, and nothing of r is kept then.
	// dest is zero when the record got no destination.
	Publish(ctx context.Context, route *schema.Route, r *schema.Record, dest sink.Dest, reason *schema.Error) error
}
