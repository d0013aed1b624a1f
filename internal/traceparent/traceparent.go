// Package traceparent reads the span that a request or a message continues, without any
// allocation: most requests are not traced, and must not pay for finding that out.
package traceparent

import (
	"context"
	"encoding/binary"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/trace"
)

// length is that of version 00: 00-<32 hex>-<16 hex>-<2 hex>.
const length = 55

// Parse reads a W3C traceparent, https://www.w3.org/TR/trace-context/#traceparent-header.
// The span context is remote; one that is not valid means that text was none.
func Parse(text string) trace.SpanContext {
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return trace.SpanContext{}
	}
	var version, flags [1]byte
	var id trace.TraceID
	var span trace.SpanID
	if !unhex(version[:], text[:2]) || !unhex(id[:], text[3:35]) || !unhex(span[:], text[36:52]) || !unhex(flags[:], text[53:55]) {
		return trace.SpanContext{}
	}
	switch {
	case version[0] == 0xff, len(text) > length && text[length] != '-':
		return trace.SpanContext{}
	case version[0] == 0 && (len(text) != length || flags[0] > 3): // of a later version they may mean something
		return trace.SpanContext{}
	}
	return of(id, span, flags[0]&3)
}

// unhex decodes lower-case hexadecimal, the only case that the standard allows.
func unhex(to []byte, text string) bool {
	for i := range to {
		high, low := digit(text[2*i]), digit(text[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// FromHeader is the span that a request continues: that of its traceparent, or, where it
// has none that can be read, of Google's older X-Cloud-Trace-Context.
func FromHeader(h http.Header) trace.SpanContext {
	if v := h["Traceparent"]; len(v) == 1 { // two contradict each other
		if sc := Parse(v[0]); sc.IsValid() {
			return sc
		}
	}
	if v := h["X-Cloud-Trace-Context"]; len(v) == 1 {
		return parseCloud(v[0])
	}
	return trace.SpanContext{}
}

// parseCloud reads TRACE_ID/SPAN_ID;o=OPTIONS, whose span id is decimal and whose options
// are 1 when the trace is sampled, https://cloud.google.com/trace/docs/trace-context.
func parseCloud(text string) trace.SpanContext {
	if len(text) < 34 || text[32] != '/' {
		return trace.SpanContext{}
	}
	var id trace.TraceID
	if !unhex(id[:], text[:32]) {
		return trace.SpanContext{}
	}
	number, sampled := text[33:], byte(0)
	for i := 0; i < len(number); i++ {
		if number[i] == ';' {
			if number[i:] == ";o=1" {
				sampled = 1
			}
			number = number[:i]
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return trace.SpanContext{}
	}
	var span trace.SpanID
	binary.BigEndian.PutUint64(span[:], n)
	return of(id, span, sampled)
}

func of(id trace.TraceID, span trace.SpanID, flags byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags), Remote: true,
	})
}

// maxState is the longest tracestate, in bytes, that is passed on: as much as everybody
// should, https://www.w3.org/TR/trace-context/#tracestate-limits. A span keeps it until it is
// exported, whoever sent it.
const maxState = 512

// WithState adds the vendors' entries of a W3C tracestate; one that cannot be read or is
// longer than maxState is left out, as the standard allows.
func WithState(sc trace.SpanContext, tracestate string) trace.SpanContext {
	if tracestate == "" || len(tracestate) > maxState {
		return sc
	}
	state, err := trace.ParseTraceState(tracestate)
	if err != nil {
		return sc
	}
	return sc.WithTraceState(state)
}

// Context is the context of a request that need not be traced. Of finds in it what the
// request continues, which is read from the header when somebody asks, and not before.
type Context struct {
	context.Context
	Header http.Header
}

type key struct{}

// Value implements context.Context.
func (c *Context) Value(k any) any {
	if _, ok := k.(key); ok {
		return FromHeader(c.Header)
	}
	return c.Context.Value(k)
}

// Of is the span that ctx is in: the one of this process, or else the one that its request
// continues. It is not valid where there is neither.
func Of(ctx context.Context) trace.SpanContext {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		return sc
	}
	sc, _ := ctx.Value(key{}).(trace.SpanContext)
	return sc
}
