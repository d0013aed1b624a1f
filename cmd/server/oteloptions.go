package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// rootRatio is the share of requests that are traced where nobody upstream decided, by
// default. OpenTelemetry's own default is all of them.
const rootRatio = 0.01

// otelOptions are what the OTEL_ variables say that the exporters do not read by themselves:
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
// What cannot be obeyed is warned about, as the specification wants; it stops no start.
type otelOptions struct {
	// Traces and Metrics are where they are exported to, as URLs; empty = they are not.
	Traces, Metrics string
	Sampler         sampler
}

// readOTel reads them.
func readOTel(env map[string]string) (o otelOptions, warnings []string) {
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	o.Sampler = readSampler(env["OTEL_TRACES_SAMPLER"], env["OTEL_TRACES_SAMPLER_ARG"], warn)
	disabled := env["OTEL_SDK_DISABLED"]
	if disabled != "" && !strings.EqualFold(disabled, "true") && !strings.EqualFold(disabled, "false") {
		warn("OTEL_SDK_DISABLED=%s is taken for false: true or false", shown(disabled))
	}
	for _, signal := range []struct {
		name string // as the variables spell it
		to   *string
	}{{"TRACES", &o.Traces}, {"METRICS", &o.Metrics}} {
		if url := readOTLP(env, signal.name, warn); !strings.EqualFold(disabled, "true") {
			*signal.to = url
		}
	}
	return o, warnings
}

// readOTLP gives the URL that a signal is exported to; empty = it is not.
func readOTLP(env map[string]string, signal string, warn func(string, ...any)) string {
	own := func(suffix string) (name, value string) {
		if name = "OTEL_EXPORTER_OTLP_" + signal + "_" + suffix; env[name] == "" {
			name = "OTEL_EXPORTER_OTLP_" + suffix
		}
		return name, env[name]
	}
	wanted := false
	exporter := "OTEL_" + signal + "_EXPORTER"
	for item := range strings.SplitSeq(env[exporter], ",") {
		switch item = strings.TrimSpace(item); {
		case item == "otlp", env[exporter] == "":
			wanted = true
		case item == "none":
		case item == "prometheus" && signal == "METRICS": // METRICS_PORT has them
		default:
			warn("%s=%s has no effect: otlp or none", exporter, shown(item))
		}
	}
	name, endpoint := own("ENDPOINT")
	if !wanted {
		return ""
	}
	if endpoint == "" {
		if env[exporter] != "" {
			warn("%s=%s has no effect without OTEL_EXPORTER_OTLP_ENDPOINT", exporter, shown(env[exporter]))
		}
		return ""
	}
	if protocol, value := own("PROTOCOL"); value != "" && value != "grpc" {
		warn("%s=%s: nothing is exported to %s, only grpc is spoken", protocol, shown(value), name)
		return ""
	}
	if !strings.Contains(endpoint, "://") {
		scheme := "https://"
		if _, insecure := own("INSECURE"); strings.EqualFold(insecure, "true") {
			scheme = "http://"
		}
		endpoint = scheme + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		warn("%s: nothing is exported, an http or https URL or host:port is needed", name) // it may hold a password
		return ""
	}
	return endpoint
}

// sampler decides which requests are traced, as OpenTelemetry's own do, but before anything
// is allocated for them.
type sampler struct {
	// name is that of OTEL_TRACES_SAMPLER.
	name string
	// bound is what the lower 63 bits of a trace's id are below where it is sampled.
	bound uint64
	// followParent: who continues a trace does as its parent does.
	followParent bool
}

func newSampler(name string, ratio float64) sampler {
	return sampler{name: name, bound: uint64(ratio * (1 << 63)), followParent: strings.HasPrefix(name, "parentbased_")}
}

// samples decides for a request that continues parent, or none where parent is not valid.
func (s sampler) samples(parent trace.SpanContext) bool {
	switch {
	case !parent.IsValid():
		return rand.Uint64()>>1 < s.bound
	case s.followParent:
		return parent.IsSampled()
	default:
		id := parent.TraceID()
		return binary.BigEndian.Uint64(id[8:])>>1 < s.bound
	}
}

func (s sampler) String() string {
	if !strings.HasSuffix(s.name, "traceidratio") {
		return s.name
	}
	return s.name + " " + strconv.FormatFloat(float64(s.bound)/(1<<63), 'g', 6, 64)
}

var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}

func readSampler(name, arg string, warn func(string, ...any)) sampler {
	name = strings.ToLower(strings.TrimSpace(name))
	standard := newSampler("parentbased_traceidratio", rootRatio)
	switch {
	case name == "":
		if arg != "" {
			warn("OTEL_TRACES_SAMPLER_ARG has no effect without OTEL_TRACES_SAMPLER")
		}
		return standard
	case !slices.Contains(samplers, name):
		warn("OTEL_TRACES_SAMPLER=%s has no effect: one of %s; it stays %s", shown(name), strings.Join(samplers, ", "), standard)
		return standard
	case strings.HasSuffix(name, "always_on"):
		return newSampler(name, 1)
	case strings.HasSuffix(name, "always_off"):
		return newSampler(name, 0)
	}
	if arg = strings.TrimSpace(arg); arg == "" {
		return newSampler(name, 1) // the specification's default
	}
	ratio, err := strconv.ParseFloat(arg, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		warn("OTEL_TRACES_SAMPLER_ARG=%s has no effect: 0 .. 1; it stays %v", shown(arg), rootRatio)
		ratio = rootRatio
	}
	return newSampler(name, ratio)
}
