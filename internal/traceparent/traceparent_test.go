package traceparent

import (
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	sampled = "00-" + traceID + "-" + spanID + "-01"
)

var texts = []string{
	sampled,
	"00-" + traceID + "-" + spanID + "-00",
	"00-" + traceID + "-" + spanID + "-03",
	"00-" + traceID + "-" + spanID + "-04",
	"cc-" + traceID + "-" + spanID + "-05",
	"cc-" + traceID + "-" + spanID + "-01",
	"cc-" + traceID + "-" + spanID + "-01-what-comes-later",
	"cc-" + traceID + "-" + spanID + "-01x",
	"00-" + traceID + "-" + spanID + "-01-more",
	"ff-" + traceID + "-" + spanID + "-01",
	"00-" + strings.Repeat("0", 32) + "-" + spanID + "-01",
	"00-" + traceID + "-" + strings.Repeat("0", 16) + "-01",
	"00-" + strings.ToUpper(traceID) + "-" + spanID + "-01",
	"00-" + traceID + "-" + spanID + "-0",
	"00-" + traceID + "-" + spanID + "-0g",
	"00_" + traceID + "-" + spanID + "-01",
	"00-" + traceID + "_" + spanID + "-01",
	"00-" + traceID + "-" + spanID + "_01",
	"", "00", " " + sampled, sampled + " ",
}

// The library's propagator, which allocates, says the same.
func TestParseAgreesWithThePropagator(t *testing.T) {
	for _, text := range texts {
		ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": text})
		want := trace.SpanContextFromContext(ctx)
		got := Parse(text)
		if got.IsValid() != want.IsValid() || want.IsValid() && (got.TraceID() != want.TraceID() ||
			got.SpanID() != want.SpanID() || got.IsSampled() != want.IsSampled() || !got.IsRemote()) {
			t.Errorf("%q: %+v, the propagator reads %+v", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.HasPrefix(text, "00-") && len(text) > length {
			if Parse(text).IsValid() {
				t.Errorf("%q is longer than version 00 is", text) // the propagator allows one more dash
			}
			return
		}
		want := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": text}))
		if got := Parse(text); got.IsValid() != want.IsValid() || got.IsValid() && got.IsSampled() != want.IsSampled() {
			t.Errorf("%q: %+v, the propagator reads %+v", text, got, want)
		}
	})
}

func TestFromHeader(t *testing.T) {
	other := "1234567890abcdef1234567890abcdef"
	for name, c := range map[string]struct {
		parents, clouds []string
		want            string // trace-span-sampled
	}{
		"none":                        {nil, nil, ""},
		"W3C":                         {[]string{sampled}, nil, traceID + "-" + spanID + "-true"},
		"Google's":                    {nil, []string{other + "/74;o=1"}, other + "-000000000000004a-true"},
		"Google's, not sampled":       {nil, []string{other + "/74;o=0"}, other + "-000000000000004a-false"},
		"Google's without options":    {nil, []string{other + "/74"}, other + "-000000000000004a-false"},
		"Google's, the largest span":  {nil, []string{other + "/18446744073709551615;o=1"}, other + "-ffffffffffffffff-true"},
		"both: W3C is the standard":   {[]string{sampled}, []string{other + "/74;o=1"}, traceID + "-" + spanID + "-true"},
		"W3C that cannot be read":     {[]string{"00-x"}, []string{other + "/74;o=1"}, other + "-000000000000004a-true"},
		"two W3C":                     {[]string{sampled, sampled}, nil, ""},
		"Google's without a span":     {nil, []string{other}, ""},
		"Google's, span 0":            {nil, []string{other + "/0;o=1"}, ""},
		"Google's, a span in letters": {nil, []string{other + "/4a;o=1"}, ""},
		"Google's, trace too short":   {nil, []string{other[1:] + "/74;o=1;o=1"}, ""},
		"Google's, no hexadecimal":    {nil, []string{strings.Repeat("g", 32) + "/74;o=1"}, ""},
	} {
		h := http.Header{}
		for _, v := range c.parents {
			h.Add("traceparent", v)
		}
		for _, v := range c.clouds {
			h.Add("X-Cloud-Trace-Context", v)
		}
		got := ""
		if sc := FromHeader(h); sc.IsValid() {
			got = sc.TraceID().String() + "-" + sc.SpanID().String() + map[bool]string{true: "-true", false: "-false"}[sc.IsSampled()]
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestWithState(t *testing.T) {
	longest := "a=" + strings.Repeat("x", 253) + ",b=" + strings.Repeat("y", 254)
	for state, want := range map[string]string{"": "", "a=1,b=2": "a=1,b=2", "===": "", longest: longest, longest + "y": ""} {
		if got := WithState(Parse(sampled), state).TraceState().String(); got != want {
			t.Errorf("%q: %q, want %q", state, got, want)
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	h := http.Header{"Traceparent": {strings.Replace(sampled, "-01", "-00", 1)}}
	cloud := http.Header{"X-Cloud-Trace-Context": {traceID + "/74;o=0"}}
	none := http.Header{}
	n := math.Inf(1)
	for try := 0; n > 0 && try < 20; try++ { // others' allocations are counted too
		n = min(n, testing.AllocsPerRun(100, func() {
			if !FromHeader(h).IsValid() || !FromHeader(cloud).IsValid() || FromHeader(none).IsValid() {
				t.Fatal("not read")
			}
		}))
	}
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The header stands behind whatever was derived from the request's context, and a span of
// this process stands before it.
func TestOf(t *testing.T) {
	if Of(t.Context()).IsValid() {
		t.Error("a bare context has a span")
	}
	parent, leave := context.WithCancel(t.Context())
	c := &Context{parent, http.Header{"Traceparent": {sampled}}}
	ctx, cancel := context.WithTimeout(c, time.Hour)
	defer cancel()
	if got := Of(ctx); got.TraceID().String() != traceID || got.SpanID().String() != spanID {
		t.Errorf("found %+v", got)
	}
	own := Parse("00-" + strings.Repeat("1", 32) + "-" + strings.Repeat("2", 16) + "-01")
	if got := Of(trace.ContextWithSpanContext(ctx, own)); got.TraceID() != own.TraceID() {
		t.Errorf("found %+v, want the process's own", got)
	}
	leave()
	if <-ctx.Done(); ctx.Err() != context.Canceled {
		t.Errorf("the derived context: %v", ctx.Err())
	}
}
