package main

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
)

// observer counts what the handlers tell. Its labels come from fixed sets, so the
// attribute sets are made once each and kept.
type observer struct {
	seconds metric.Float64Histogram
	durable metric.Float64Histogram
	late    metric.Int64Counter
	refused metric.Int64Counter
	fetches metric.Int64Counter
	// body is read when metrics are: it changes twice in each request.
	body atomic.Int64

	requestSets labelled[requestLabels]
	recordSets  labelled[recordLabels]
	routeSets   labelled[string] // the route's name
	authSets    labelled[auth.Reason]
}

type requestLabels struct {
	pattern, route, method string
	status                 int
}

type recordLabels struct {
	route  string
	result handlers.Result
	code   schema.Code
}

func (l requestLabels) set() attribute.Set {
	return attribute.NewSet(attribute.String("path", l.pattern), attribute.String("route", l.route), attribute.String("method", l.method), attribute.String("status", strconv.Itoa(l.status)))
}

func (l recordLabels) set() attribute.Set {
	return attribute.NewSet(attribute.String("route", l.route), attribute.String("result", string(l.result)), attribute.String("code", string(l.code)))
}

func routeSet(name string) attribute.Set { return attribute.NewSet(attribute.String("route", name)) }

func authSet(r auth.Reason) attribute.Set {
	return attribute.NewSet(attribute.String("reason", string(r)))
}

func newObserver(meter metric.Meter) (*observer, error) {
	o := &observer{}
	var err error
	if _, err = meter.Int64ObservableCounter("pushsink.http.requests", metric.WithUnit("{request}"), metric.WithDescription("Answered requests."),
		metric.WithInt64Callback(o.requestSets.counts)); err != nil {
		return nil, err
	}
	if o.seconds, err = meter.Float64Histogram("pushsink.http.duration", metric.WithUnit("s"),
		metric.WithDescription("Headers read to answer written; for a record that is the wait until it is durable."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)); err != nil {
		return nil, err
	}
	if _, err = meter.Int64ObservableCounter("pushsink.records", metric.WithUnit("{record}"), metric.WithDescription("Records by what became of them."),
		metric.WithInt64Callback(o.recordSets.counts)); err != nil {
		return nil, err
	}
	if o.durable, err = meter.Float64Histogram("pushsink.records.latency", metric.WithUnit("s"),
		metric.WithDescription("Publish time to the sink's OK, of each record written."),
		metric.WithExplicitBucketBoundaries(.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400)); err != nil {
		return nil, err
	}
	if o.late, err = meter.Int64Counter("pushsink.records.late", metric.WithUnit("{record}"), metric.WithDescription("Records written with a cell older than its family's maxAge: acknowledged, and then collected.")); err != nil {
		return nil, err
	}
	if o.refused, err = meter.Int64Counter("pushsink.auth.refusals", metric.WithUnit("{request}"), metric.WithDescription("Requests that were not let in, by reason.")); err != nil {
		return nil, err
	}
	if o.fetches, err = meter.Int64Counter("pushsink.auth.key_fetches", metric.WithUnit("{fetch}"), metric.WithDescription("Fetches of the keys of the tokens' issuer.")); err != nil {
		return nil, err
	}
	if _, err = meter.Int64ObservableUpDownCounter("pushsink.http.body.held", metric.WithUnit("By"),
		metric.WithDescription("Bytes of request bodies held, bounded by BODY_BYTES_IN_FLIGHT."),
		metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
			to.Observe(o.body.Load())
			return nil
		})); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *observer) Request(pattern, route, method string, status int, took time.Duration) {
	set := o.requestSets.of(requestLabels{pattern, route, method, status}, requestLabels.set)
	set.n.Add(1)
	o.seconds.Record(context.Background(), took.Seconds(), set.record...)
}

func (o *observer) Records(route string, result handlers.Result, code schema.Code, n int) {
	o.recordSets.of(recordLabels{route, result, code}, recordLabels.set).n.Add(int64(n))
}

func (o *observer) Durable(route string, age time.Duration) {
	o.durable.Record(context.Background(), max(0, age).Seconds(), o.routeSets.of(route, routeSet).record...)
}

func (o *observer) Late(route string) {
	o.late.Add(context.Background(), 1, o.routeSets.of(route, routeSet).add...)
}

func (o *observer) AuthRefused(reason auth.Reason) {
	o.refused.Add(context.Background(), 1, o.authSets.of(reason, authSet).add...)
}

// keysFetched counts a fetch of the keys that tokens are verified with.
func (o *observer) keysFetched(ok bool) {
	result := "failed"
	if ok {
		result = "ok"
	}
	o.fetches.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", result)))
}

func (o *observer) BodyBytes(delta int64) { o.body.Add(delta) }
