package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"cloud.google.com/go/pubsub/v2"

	"github.com/pushsink/pushsink/schema"
)

// Config says what to read and where to post. Every field is set, but for those that
// say what empty means.
type Config struct {
	Client       *pubsub.Client
	Subscription string // projects/P/subscriptions/S

	URL   *url.URL // the server's base; the route's path is added
	Route string   // posted to
	From  string   // the route that refused the letters; others' are left alone
	// Envelope overrides how records are posted; empty = as each letter says, which is
	// wrapped unless it was refused by an unwrapped or CloudEvents route.
	Envelope schema.Envelope

	Max         int // most letters to post; -1 = all
	MaxFailed   int // the run ends when this many letters failed
	Concurrency int // letters posted at once
	// Idle ends the run when no letter came for so long.
	Idle time.Duration
	// Timeout bounds one POST; a letter gets up to three.
	Timeout time.Duration

	// Token gives the bearer token of each POST; nil = none is sent.
	Token func(context.Context) (string, error)
	HTTP  http.RoundTripper
	// Progress gets a line at most once a second, the first failures, and the result.
	Progress io.Writer
}

// Default has the bounds and no addresses.
func Default() Config {
	return Config{
		Max:         -1,
		MaxFailed:   1000,
		Concurrency: 32,
		Idle:        10 * time.Second,
		Timeout:     30 * time.Second,
		HTTP:        http.DefaultTransport,
		Progress:    io.Discard,
	}
}

const (
	// lease is Pub/Sub's longest ack deadline. Posting must end well within it.
	lease      = 600 * time.Second
	maxTimeout = 150 * time.Second
	// maxPull is Pub/Sub's bound of messages in one pull.
	maxPull = 1000
)

var subscriptionName = regexp.MustCompile(`^projects/[^/\s]+/subscriptions/[^/\s]+$`)

// Validate joins every problem, named by the command's flags.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !subscriptionName.MatchString(c.Subscription) {
		bad("-subscription=%q: must read projects/P/subscriptions/S", c.Subscription)
	}
	if c.Route == "" {
		bad("-route: must name a route")
	}
	if c.URL == nil || c.URL.Host == "" || c.URL.Scheme != "https" && c.URL.Scheme != "http" {
		bad("-url: must be the server's https:// address")
	} else {
		if c.URL.Scheme == "http" && c.Token != nil && !loopback(c.URL.Hostname()) {
			bad("-url: must be https:// with -audience: a token is not sent in the clear")
		}
		if c.URL.RawQuery != "" || c.URL.Fragment != "" || c.URL.User != nil {
			bad("-url: must have no query, fragment or user")
		}
	}
	switch c.Envelope {
	case "", schema.WrappedEnvelope, schema.UnwrappedEnvelope, schema.CloudEventsEnvelope:
	default:
		bad("-envelope=%q: must be wrapped, unwrapped or cloudevents", c.Envelope)
	}
	if c.Max < 1 && c.Max != -1 {
		bad("-max=%d: must be at least 1, or -1 for all", c.Max)
	}
	if c.MaxFailed < 1 {
		bad("-max-failed=%d: must be at least 1", c.MaxFailed)
	}
	if c.Concurrency < 1 || c.Concurrency > maxPull {
		bad("-concurrency=%d: must be 1 to %d", c.Concurrency, maxPull)
	}
	if c.Idle <= 0 {
		bad("-idle=%v: must be above 0", c.Idle)
	}
	if c.Timeout <= 0 || c.Timeout > maxTimeout {
		bad("-timeout=%v: must be above 0 and at most %v", c.Timeout, maxTimeout)
	}
	return errors.Join(errs...)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
