package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/deadletter"
)

// letterbox publishes for the handlers.
type letterbox struct{ publisher *deadletter.Publisher }

// Publish returns nil once the letter is confirmed.
func (d letterbox) Publish(ctx context.Context, route *schema.Route, r *schema.Record, dest sink.Dest, reason *schema.Error) error {
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
