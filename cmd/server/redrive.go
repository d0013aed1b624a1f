package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"cloud.google.com/go/auth/credentials/idtoken"
	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/api/option"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink/deadletter"
	deadletters "github.com/pushsink/pushsink/sink/deadletter/redrive"
)

const redriveUsage = `Usage: server redrive -subscription projects/P/subscriptions/S -route NAME -url https://… [-audience A] …

Posts the records of a route's dead letters to the route again. A letter is acknowledged
once the server answered 204; every other one stays in the subscription. Exits with 1
when a letter failed. Rows written twice are the same rows: a redrive may be repeated.

`

// redrive runs `server redrive`; args are what follows the word.
func redrive(ctx context.Context, getenv func(string) string, args []string, out io.Writer) error {
	c := deadletters.Default()
	c.Progress = out
	var address, audience, envelope string
	flags := flag.NewFlagSet("server redrive", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its error is returned
	flags.StringVar(&c.Subscription, "subscription", "", "`projects/P/subscriptions/S` of the dead-letter topic, a pull subscription")
	flags.StringVar(&c.Route, "route", "", "`name` of the route to post to")
	flags.StringVar(&address, "url", "", "`address` of the server, without the route's path")
	flags.StringVar(&audience, "audience", "", "audience of the ID token sent with each record (default none is sent); needs a service account's credentials")
	flags.StringVar(&c.From, "from", "", "`name` of the route that refused the letters, when it is called otherwise now (default -route)")
	flags.StringVar(&envelope, "envelope", "", "post records `wrapped`, unwrapped or as cloudevents (default as the letter says)")
	flags.IntVar(&c.Max, "max", c.Max, "most letters to post; -1 = all")
	flags.IntVar(&c.MaxFailed, "max-failed", c.MaxFailed, "stop when this many letters failed")
	flags.IntVar(&c.Concurrency, "concurrency", c.Concurrency, "letters posted at once")
	flags.DurationVar(&c.Idle, "idle", c.Idle, "end when no letter came for so long")
	flags.DurationVar(&c.Timeout, "timeout", c.Timeout, "longest wait for one answer")
	switch help, err := parseFlags(flags, args); {
	case err != nil:
		return err
	case help:
		fmt.Fprint(out, redriveUsage)
		flags.SetOutput(out)
		flags.PrintDefaults()
		return nil
	}
	c.Envelope = schema.Envelope(envelope)
	if c.From == "" {
		c.From = c.Route
	}
	if u, err := url.Parse(address); err == nil {
		c.URL = u
	}
	if audience != "" {
		// Before Validate, which wants https where a token is sent.
		c.Token = func(context.Context) (string, error) { return "", errors.New("not ready") }
	}
	if err := c.Validate(); err != nil {
		return err
	}
	if audience != "" {
		creds, err := idtoken.NewCredentials(&idtoken.Options{Audience: audience})
		if err != nil {
			return fmt.Errorf("-audience: no credentials that can make an ID token (a user's own cannot; impersonate a service account): %w", err)
		}
		c.Token = func(ctx context.Context) (string, error) {
			token, err := creds.Token(ctx)
			if err != nil {
				return "", err
			}
			return token.Value, nil
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = c.Concurrency
	defer transport.CloseIdleConnections()
	c.HTTP = transport

	var opts []option.ClientOption
	if host := getenv("PUBSUB_EMULATOR_HOST"); host != "" {
		if getenv("K_SERVICE") != "" || getenv("CLOUD_RUN_JOB") != "" {
			return fmt.Errorf("PUBSUB_EMULATOR_HOST=%s: must not be set on Cloud Run", host)
		}
		fmt.Fprintln(out, "reading from the Pub/Sub emulator at", host)
		opts = deadletter.EmulatorOptions(host)
	}
	// The project completes short names; ours is full.
	client, err := pubsub.NewClient(ctx, "unused", opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	c.Client = client

	result, err := deadletters.Run(ctx, c)
	if err == nil && result.Failed > 0 {
		err = fmt.Errorf("%d letters failed and are still in %s", result.Failed, c.Subscription)
	}
	return err
}
