package main

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/deadletter"
)

// letterbox publishes for the handlers, and counts what became of it.
type letterbox struct {
	publisher *deadletter.Publisher
	letters   metric.Int64Counter
	sets      labelled[letterLabels]
}

type letterLabels struct{ route, result string }

// Results of a publish, as the metric shows them.
const (
	letterPublished = "published"
	letterRefused   = "refused" // for good
	letterFailed    = "failed"  // for now
)

func newLetterbox(p *deadletter.Publisher, meter metric.Meter) (*letterbox, error) {
	letters, err := meter.Int64Counter("pushsink.deadletters", metric.WithUnit("{letter}"), metric.WithDescription("Publishes of dead letters by what became of them."))
	return &letterbox{publisher: p, letters: letters}, err
}

// Publish returns nil once the letter is confirmed.
func (d *letterbox) Publish(ctx context.Context, route *schema.Route, r *schema.Record, dest sink.Dest, reason *schema.Error) error {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		ctx, span = span.TracerProvider().Tracer(scope).Start(ctx, "send "+route.DeadLetterTopic, trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(semconv.MessagingSystemGCPPubSub, semconv.MessagingOperationTypeSend, semconv.MessagingDestinationName(route.DeadLetterTopic)))
		defer span.End()
	}
	err := d.publish(ctx, route, r, dest, reason)
	result := letterPublished
	switch {
	case errors.Is(err, handlers.ErrDeadLetterRefused):
		result = letterRefused
	case err != nil:
		result = letterFailed
	}
	if err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(result))
		span.SetStatus(codes.Error, "")
	}
	d.letters.Add(ctx, 1, d.sets.of(letterLabels{route.Name, result}, func(l letterLabels) attribute.Set {
		return attribute.NewSet(attribute.String("route", l.route), attribute.String("result", l.result))
	}).add...)
	return err
}

func (d *letterbox) publish(ctx context.Context, route *schema.Route, r *schema.Record, dest sink.Dest, reason *schema.Error) error {
	letter := deadletter.Letter{
		Topic: route.DeadLetterTopic, Record: r, Route: route.Name, Envelope: route.Envelope,
		Err: reason, Code: reason.Code,
	}
	letter.Destination = dest.Instance // of Spanner the database, which is all
	if dest.Table != "" {
		letter.Destination += "/tables/" + dest.Table
	}
	err := d.publisher.Publish(ctx, letter)
	if errors.Is(err, deadletter.ErrPermanent) {
		return fmt.Errorf("%w: %w", handlers.ErrDeadLetterRefused, err)
	}
	return err
}

// openDeadLetters makes the publisher if some route wants one. It dials nothing yet.
func (srv *server) openDeadLetters(ctx context.Context) error {
	wanted := false
	for _, r := range srv.routes.List {
		wanted = wanted || r.OnReject == schema.DeadLetter
	}
	if !wanted {
		return nil
	}
	config := deadletter.DefaultConfig()
	config.Timeout = srv.settings.RequestTimeout // no caller of a push waits longer
	if host := srv.settings.PubSubEmulator; host != "" {
		config.ClientOptions = deadletter.EmulatorOptions(host)
	}
	var err error
	srv.letters, err = deadletter.New(ctx, config)
	return err
}

// checkDeadLetters returns the reason for each route whose topic cannot be published to.
func (srv *server) checkDeadLetters(ctx context.Context) map[string]string {
	problems := map[string]string{}
	if srv.letters == nil {
		return problems
	}
	for _, r := range srv.routes.List {
		if r.OnReject != schema.DeadLetter {
			continue
		}
		if err := srv.letters.Check(ctx, r.DeadLetterTopic); err != nil {
			problems[r.Name] = err.Error()
		}
	}
	return problems
}
