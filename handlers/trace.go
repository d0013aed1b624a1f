package handlers

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink/internal/traceparent"
	"github.com/pushsink/pushsink/schema"
)

// Tracing decides which requests are traced.
type Tracing interface {
	// Begin returns the server span of a request, and the context that carries it; a nil
	// span means that the request is not traced. Most are not, and must not pay for it.
	Begin(r *http.Request) (context.Context, trace.Span)
}

// Attributes of spans beside those of OpenTelemetry's semantic conventions.
const (
	routeKey        = attribute.Key("pushsink.route")
	codeKey         = attribute.Key("pushsink.code")
	receivedKey     = attribute.Key("pushsink.records.received")
	writtenKey      = attribute.Key("pushsink.records.written")
	skippedKey      = attribute.Key("pushsink.records.skipped")
	droppedKey      = attribute.Key("pushsink.records.dropped")
	deadLetteredKey = attribute.Key("pushsink.records.dead_lettered")
	failedKey       = attribute.Key("pushsink.records.failed")
)

// Pub/Sub's client libraries put the publisher's span into these attributes.
const (
	publisherAttribute = "googclient_traceparent"
	publisherState     = "googclient_tracestate"
)

// maxSpanText is the most bytes of an attribute's text that a caller may choose.
const maxSpanText = 1 << 10

// spanText is s as a span keeps it until it is exported: cut, and a text of its own, since s
// may be part of a much longer one. Whoever sends a sampled traceparent is traced, let in or not.
func spanText(s string) string {
	if len(s) > maxSpanText {
		s = strings.ToValidUTF8(s[:maxSpanText], "")
	}
	return strings.Clone(s)
}

// endSpan says what the request was and ends its span. The query is left out: it may hold
// row keys.
func (w *statusWriter) endSpan(r *http.Request, pattern, route, method string) {
	target := method
	if method == otherMethod {
		target = "HTTP"
		w.span.SetAttributes(semconv.HTTPRequestMethodOther, semconv.HTTPRequestMethodOriginal(spanText(r.Method)))
	} else {
		w.span.SetAttributes(semconv.HTTPRequestMethodKey.String(method))
	}
	if pattern != unmatched {
		target += " " + pattern
		w.span.SetAttributes(semconv.HTTPRoute(pattern))
	}
	if route != "" {
		w.span.SetAttributes(routeKey.String(route))
	}
	w.span.SetName(target)
	w.span.SetAttributes(semconv.URLPath(spanText(r.URL.Path)), semconv.URLScheme("http"), semconv.ServerAddress(spanText(r.Host)),
		semconv.NetworkProtocolVersion(protocolVersion(r)), semconv.HTTPResponseStatusCode(w.status))
	if w.status >= http.StatusInternalServerError {
		w.span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(w.status)))
		w.span.SetStatus(otelcodes.Error, "")
	}
	w.span.End()
}

// abandonSpan ends the span of a request that got no answer; one that has ended stays as it is.
func (w *statusWriter) abandonSpan() {
	if w.span.IsRecording() {
		w.span.SetStatus(otelcodes.Error, "no answer was given")
		w.span.End()
	}
}

func protocolVersion(r *http.Request) string {
	if r.ProtoMajor == 1 {
		return "1." + strconv.Itoa(r.ProtoMinor)
	}
	return strconv.Itoa(r.ProtoMajor)
}

// describeMessage puts what a push delivers into its span. The publisher's own span becomes
// a link: it is another trace's, and a message may be delivered more than once.
func describeMessage(span trace.Span, rec *schema.Record) {
	if rec.ID != "" {
		span.SetAttributes(semconv.MessagingMessageID(spanText(rec.ID)))
	}
	if rec.Subscription != "" {
		span.SetAttributes(semconv.MessagingSystemGCPPubSub, semconv.MessagingOperationTypeProcess,
			semconv.MessagingDestinationSubscriptionName(spanText(rec.Subscription)))
	}
	if rec.Attempt > 0 {
		span.SetAttributes(semconv.MessagingGCPPubSubMessageDeliveryAttempt(rec.Attempt))
	}
	if publisher := traceparent.Parse(rec.Attributes[publisherAttribute]); publisher.IsValid() {
		// The attributes may stand in a buffer that is used again.
		publisher = traceparent.WithState(publisher, strings.Clone(rec.Attributes[publisherState]))
		span.AddLink(trace.Link{SpanContext: publisher})
	}
}

// describe puts the fates of a request's records into its span; code is empty where none failed.
func (p *report) describe(span trace.Span, code schema.Code) {
	span.SetAttributes(receivedKey.Int(p.received), writtenKey.Int(p.by[written]))
	for _, c := range []struct {
		key attribute.Key
		n   int
	}{
		{skippedKey, p.by[skipped]}, {droppedKey, p.by[dropped]}, {deadLetteredKey, p.by[deadLettered]}, {failedKey, p.failed()},
	} {
		if c.n > 0 {
			span.SetAttributes(c.key.Int(c.n))
		}
	}
	if code != "" {
		span.SetAttributes(codeKey.String(string(code)))
	}
}
