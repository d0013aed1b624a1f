package main

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink/internal/traceparent"
)

func TestOTelVariables(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317"
	for name, c := range map[string]struct {
		environ         []string
		traces, metrics string
		sampler         string
		warns           []string
	}{
		"nothing is exported by itself": {nil, "", "", "parentbased_traceidratio 0.01", nil},
		"an endpoint":                   {[]string{endpoint}, "http://c:4317", "http://c:4317", "parentbased_traceidratio 0.01", nil},
		"a signal's own endpoint":       {[]string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://t:1"}, "https://t:1", "http://c:4317", "", nil},
		"only one signal's":             {[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=https://m:1"}, "", "https://m:1", "", nil},
		"empty is unset":                {[]string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=", "OTEL_TRACES_EXPORTER=", "OTEL_SDK_DISABLED=", "OTEL_TRACES_SAMPLER="}, "http://c:4317", "http://c:4317", "parentbased_traceidratio 0.01", nil},
		"without a scheme":              {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=c:4317"}, "https://c:4317", "https://c:4317", "", nil},
		"without a scheme, insecure":    {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=c:4317", "OTEL_EXPORTER_OTLP_INSECURE=true", "OTEL_EXPORTER_OTLP_METRICS_INSECURE=false"}, "http://c:4317", "https://c:4317", "", nil},
		"no traces":                     {[]string{endpoint, "OTEL_TRACES_EXPORTER=none"}, "", "http://c:4317", "", nil},
		"no metrics":                    {[]string{endpoint, "OTEL_METRICS_EXPORTER=none"}, "http://c:4317", "", "", nil},
		"Prometheus and OTLP":           {[]string{endpoint, "OTEL_METRICS_EXPORTER=prometheus, otlp"}, "http://c:4317", "http://c:4317", "", nil},
		"Prometheus alone":              {[]string{endpoint, "OTEL_METRICS_EXPORTER=prometheus"}, "http://c:4317", "", "", nil},
		"disabled":                      {[]string{endpoint, "OTEL_SDK_DISABLED=TRUE"}, "", "", "", nil},
		"disabled, misspelt":            {[]string{endpoint, "OTEL_SDK_DISABLED=yes"}, "http://c:4317", "http://c:4317", "", []string{"OTEL_SDK_DISABLED=yes"}},
		"an exporter that is not there": {[]string{endpoint, "OTEL_TRACES_EXPORTER=zipkin"}, "", "http://c:4317", "", []string{"OTEL_TRACES_EXPORTER=zipkin has no effect"}},
		"an exporter without endpoint":  {[]string{"OTEL_TRACES_EXPORTER=otlp"}, "", "", "", []string{"OTEL_TRACES_EXPORTER=otlp has no effect without OTEL_EXPORTER_OTLP_ENDPOINT"}},
		"another protocol":              {[]string{endpoint, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"}, "", "http://c:4317", "", []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"}},
		"the protocol that is spoken":   {[]string{endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "http://c:4317", "http://c:4317", "", nil},
		"no URL":                        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=ftp://me:secret@c"}, "", "", "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT: nothing is exported", "OTEL_EXPORTER_OTLP_ENDPOINT: nothing is exported"}},

		"sampler on":                    {[]string{"OTEL_TRACES_SAMPLER=always_on"}, "", "", "always_on", nil},
		"sampler in capitals":           {[]string{"OTEL_TRACES_SAMPLER= Always_Off "}, "", "", "always_off", nil},
		"sampler with a ratio":          {[]string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.25"}, "", "", "traceidratio 0.25", nil},
		"sampler without its ratio":     {[]string{"OTEL_TRACES_SAMPLER=parentbased_traceidratio"}, "", "", "parentbased_traceidratio 1", nil},
		"sampler with too high a ratio": {[]string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=1.1"}, "", "", "traceidratio 0.01", []string{"OTEL_TRACES_SAMPLER_ARG=1.1 has no effect"}},
		"sampler with no ratio":         {[]string{"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=NaN"}, "", "", "traceidratio 0.01", []string{"OTEL_TRACES_SAMPLER_ARG=NaN has no effect"}},
		"a ratio without a sampler":     {[]string{"OTEL_TRACES_SAMPLER_ARG=1"}, "", "", "parentbased_traceidratio 0.01", []string{"OTEL_TRACES_SAMPLER_ARG has no effect"}},
		"a sampler that is not there":   {[]string{"OTEL_TRACES_SAMPLER=jaeger_remote"}, "", "", "parentbased_traceidratio 0.01", []string{"OTEL_TRACES_SAMPLER=jaeger_remote has no effect"}},
	} {
		s, err := load(c.environ)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.OTel.Traces != c.traces || s.OTel.Metrics != c.metrics || c.sampler != "" && s.OTel.Sampler.String() != c.sampler {
			t.Errorf("%s: traces %q, metrics %q, sampler %q; want %q, %q, %q", name, s.OTel.Traces, s.OTel.Metrics, s.OTel.Sampler, c.traces, c.metrics, c.sampler)
		}
		if len(s.Warnings) != len(c.warns) {
			t.Errorf("%s: warnings %q, want %q", name, s.Warnings, c.warns)
			continue
		}
		for i, want := range c.warns {
			if !strings.HasPrefix(s.Warnings[i], want) || strings.Contains(s.Warnings[i], "secret") {
				t.Errorf("%s: warned %q, want %q", name, s.Warnings[i], want)
			}
		}
	}
}

// Each sampler decides as OpenTelemetry's own of that name, for parents that are sampled,
// that are not, and that are none.
func TestSamplersDecideAsTheLibrarys(t *testing.T) {
	for name, theirs := range map[string]sdktrace.Sampler{
		"always_on": sdktrace.AlwaysSample(), "always_off": sdktrace.NeverSample(), "traceidratio": sdktrace.TraceIDRatioBased(0.3),
		"parentbased_always_on": sdktrace.ParentBased(sdktrace.AlwaysSample()), "parentbased_always_off": sdktrace.ParentBased(sdktrace.NeverSample()),
		"parentbased_traceidratio": sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.3)),
	} {
		arg := ""
		if strings.HasSuffix(name, "ratio") {
			arg = "0.3"
		}
		ours := readSampler(name, arg, func(format string, args ...any) { t.Errorf(format, args...) })
		const n = 20_000
		sampled := 0
		for range n {
			var id trace.TraceID
			binary.BigEndian.PutUint64(id[:8], rand.Uint64())
			binary.BigEndian.PutUint64(id[8:], rand.Uint64())
			for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
				parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true})
				got := theirs.ShouldSample(sdktrace.SamplingParameters{ParentContext: trace.ContextWithSpanContext(t.Context(), parent), TraceID: id})
				if want := got.Decision == sdktrace.RecordAndSample; ours.samples(parent) != want {
					t.Fatalf("%s: trace %s with flags %s: sampled %v, the library's %v", name, id, flags, !want, want)
				}
			}
			if ours.samples(trace.SpanContext{}) {
				sampled++
			}
		}
		want := 0.3
		switch {
		case strings.HasSuffix(name, "_on"):
			want = 1
		case strings.HasSuffix(name, "_off"):
			want = 0
		}
		// Four standard deviations of 20,000 draws at 0.3 are 0.013.
		if share := float64(sampled) / n; share < want-0.02 || share > want+0.02 || want != 0.3 && share != want {
			t.Errorf("%s: %v of the requests without a parent are sampled, want %v", name, share, want)
		}
	}
}

// A request that is not traced costs no allocation, whoever decided so.
func TestUntracedRequestsAllocateNothing(t *testing.T) {
	tracer := newSpans(resource.Empty(), sdktrace.WithSpanProcessor(tracetest.NewSpanRecorder())).Tracer("")
	header := "00-" + callersTrace + "-" + callersSpan + "-0"
	unsampled := newServerRequest(header + "0")
	for name, c := range map[string]struct {
		tracing requestTracing
		parent  string
	}{
		"a parent that is not sampled": {requestTracing{tracer, newSampler("parentbased_always_on", 1)}, header + "0"},
		"no parent":                    {requestTracing{tracer, newSampler("parentbased_traceidratio", 0)}, ""},
		"a sampler that is off":        {requestTracing{tracer, newSampler("always_off", 0)}, header + "1"},
	} {
		r := newServerRequest(c.parent)
		wantNoAllocations(t, name, func() {
			if ctx, span := c.tracing.Begin(r); span != nil || ctx != nil {
				t.Fatal("traced")
			}
		})
	}
	all := requestTracing{tracer, newSampler("always_on", 1)}
	if _, span := all.Begin(unsampled); span == nil || !span.SpanContext().IsSampled() || span.SpanContext().TraceID() != traceparent.Parse(header+"0").TraceID() {
		t.Error("always_on follows its parent")
	}
}
