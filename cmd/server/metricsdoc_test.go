package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/pushsink/pushsink"
	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/sink"
)

// labelDoc is one label, or, as metric/label, what it is for one metric.
type labelDoc struct {
	meaning string
	values  []string // nil = the configuration's
}

func textsOf[T ~string](list []T) (texts []string) {
	for _, v := range list {
		texts = append(texts, string(v))
	}
	return texts
}

// inSource are the strings that pattern's first group finds in a source file of the module.
func inSource(t testing.TB, file, pattern string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		list = append(list, string(m[1]))
	}
	if len(list) == 0 {
		t.Fatalf("%s: nothing matches %s", file, pattern)
	}
	return list
}

func labelDocs(t testing.TB) map[string]labelDoc {
	var patterns, outcomes []string
	for _, m := range regexp.MustCompile(`(?m)^  (/[^:\n]*):`).FindAllSubmatch(pushsink.OpenAPI, -1) {
		patterns = append(patterns, string(m[1]))
	}
	for k := sink.Undecided; k <= sink.Fatal; k++ {
		outcomes = append(outcomes, k.String())
	}
	return map[string]labelDoc{
		"route":  {"the route's name; empty where a request is of none", nil},
		"path":   {"the endpoint's pattern, which is the kind of request", append(patterns, "/metrics", "unmatched")},
		"method": {"the HTTP method", handlers.Methods()},
		"status": {"the answer's HTTP status", nil},
		"code": {"why a record failed, was dropped or dead-lettered, its body was malformed, or the mapping skipped it (`where`, or `empty`: nothing was left to write); else empty",
			slices.Concat(inSource(t, "schema/error.go", `Code = "([a-z_]+)"`), inSource(t, "handlers/observer.go", `schema.Code = "([a-z_]+)"`), []string{""})},
		"sink":     {"the kind of sink", []string{"bigtable", "spanner"}},
		"reason":   {"why a request was not let in", textsOf(auth.Reasons())},
		"outcome":  {"what became of an entry in the sink", outcomes},
		"isolated": {"whether entries were sent apart, to find out what the service refuses", []string{"true", "false"}},
		"instance": {"the Bigtable instance's id, `_other` beyond 1,000 tables", nil},
		"table":    {"the table's id, `_other` beyond 1,000 tables", nil},

		"pushsink.records/result":                 {"what became of the records", textsOf(handlers.Results())},
		"pushsink.deadletters/result":             {"what became of the letter: refused is for good, failed for now", []string{letterPublished, letterRefused, letterFailed}},
		"pushsink.auth.key_fetches/result":        {"whether the keys came", []string{"ok", "failed"}},
		"pushsink.writer.request.duration/result": {"how many of the entries were applied: all, some, none", []string{"ok", "partial", "failed"}},
	}
}

// labelsOf are the labels of each metric by its OpenTelemetry name; the instruments themselves
// are found in a server that runs.
var labelsOf = map[string]string{
	"pushsink.http.requests":               "path route method status",
	"pushsink.http.duration":               "path route method status",
	"pushsink.http.body.held":              "",
	"pushsink.records":                     "route result code",
	"pushsink.records.latency":             "route",
	"pushsink.records.late":                "route",
	"pushsink.deadletters":                 "route result",
	"pushsink.auth.refusals":               "reason",
	"pushsink.auth.key_fetches":            "result",
	"pushsink.writer.batch.entries":        "sink",
	"pushsink.writer.batch.size":           "sink",
	"pushsink.writer.request.duration":     "sink result isolated",
	"pushsink.writer.entries.in_flight":    "sink",
	"pushsink.writer.bytes.in_flight":      "sink",
	"pushsink.writer.entries.buffered":     "sink",
	"pushsink.writer.requests.open":        "sink",
	"pushsink.writer.calls.waiting":        "sink",
	"pushsink.writer.destinations":         "sink",
	"pushsink.writer.clients":              "sink",
	"pushsink.writer.retries":              "sink",
	"pushsink.writer.isolations":           "sink",
	"pushsink.writer.ensures":              "sink",
	"pushsink.writer.evictions":            "sink",
	"pushsink.writer.rejections":           "sink",
	"pushsink.writer.trips":                "sink",
	"pushsink.writer.overloaded":           "sink",
	"pushsink.writer.shed":                 "sink",
	"pushsink.writer.withdrawn":            "sink",
	"pushsink.writer.outcomes":             "sink outcome",
	"pushsink.writer.streak":               "sink route",
	"pushsink.bigtable.tables.created":     "",
	"pushsink.bigtable.clients.open":       "",
	"pushsink.bigtable.destination.sent":   "instance table",
	"pushsink.bigtable.destination.errors": "instance table",
	"pushsink.spanner.duplicates":          "",
}

// instrument is one that a server made, and how Prometheus is shown it.
type instrument struct {
	sdkmetric.Instrument
	prometheus *dto.MetricFamily
}

// instruments are all that a server with every kind of sink makes.
func instruments(t *testing.T) (list []instrument) {
	t.Helper()
	_, env := deadLetters(t, 0)
	seen := map[string]bool{}
	s, err := load([]string{"PORT=0", "PUSHSINK_ROUTES_FILE=" + write(t, "routes.yaml", everySinkRoutes), "PUSHSINK_AUTH=none",
		"PUSHSINK_BIGTABLE_PROJECT=p", "PUSHSINK_BIGTABLE_INSTANCE=i", "PUSHSINK_SPANNER_DATABASE=projects/p/instances/i/databases/d",
		"BIGTABLE_EMULATOR_HOST=127.0.0.1:1", "SPANNER_EMULATOR_HOST=127.0.0.1:1", "PUBSUB_EMULATOR_HOST=" + env("PUBSUB_EMULATOR_HOST")})
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	srv := newServer(s, platform{}, &log)
	srv.views = []sdkmetric.View{func(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
		if !seen[i.Name] {
			seen[i.Name] = true
			list = append(list, instrument{i, shownTo(t, i)})
		}
		return sdkmetric.Stream{}, false
	}}
	t.Cleanup(func() { srv.stop() })
	if err := srv.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b instrument) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// everySinkRoutes make a server open everything that it can.
const everySinkRoutes = `
routes:
  events:
    default: true
    onReject: deadLetter
    deadLetterTopic: projects/p/topics/dead
    bigtable:
      table: readings
      rowKey: "{data.device}"
      create: ifNeeded
      families: {m: {}}
      set: [{family: m, column: temp, value: data.temp, as: float64}]
  orders:
    spanner:
      table: Readings
      columns: {Device: data.device}
`

// shownTo is what the exporter makes of an instrument of that kind for Prometheus.
func shownTo(t *testing.T, i sdkmetric.Instrument) *dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)).Meter("")
	unit, text := metric.WithUnit(i.Unit), metric.WithDescription(i.Description)
	one := metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error { o.Observe(1); return nil })
	switch i.Kind {
	case sdkmetric.InstrumentKindCounter, sdkmetric.InstrumentKindObservableCounter:
		_, err = meter.Int64ObservableCounter(i.Name, unit, text, one)
	case sdkmetric.InstrumentKindUpDownCounter, sdkmetric.InstrumentKindObservableUpDownCounter:
		_, err = meter.Int64ObservableUpDownCounter(i.Name, unit, text, one)
	case sdkmetric.InstrumentKindObservableGauge:
		_, err = meter.Int64ObservableGauge(i.Name, unit, text, one)
	case sdkmetric.InstrumentKindHistogram:
		var h metric.Float64Histogram
		if h, err = meter.Float64Histogram(i.Name, unit, text); err == nil {
			h.Record(t.Context(), 1)
		}
	default:
		t.Fatalf("%s: an instrument of a kind that the document has no word for: %v", i.Name, i.Kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%s: %d families: %v", i.Name, len(families), err)
	}
	return families[0]
}

const metricsHead = `# Metrics

Generated from the code by ` + "`go test ./cmd/server -run MetricsDocument -update`" + `; a test holds it to the code and
to what a running server shows.

Prometheus text at ` + "`GET /metrics` on `PUSHSINK_METRICS_PORT`" + `; in dev mode on the main port. The same metrics go to
an OTLP collector, under their OpenTelemetry names, where one is set ([telemetry.md](telemetry.md)). A Spanner or a Bigtable
metric is there once a route writes to that sink, and a series once its event happened.

| Prometheus | OpenTelemetry | type | unit | labels | meaning |
|---|---|---|---|---|---|
`

const metricsTail = `
The Go runtime's (` + "`go_…`" + `) and the process's (` + "`process_…`" + `) own are those of Prometheus's Go client; ` + "`target_info`" + ` says which
service this is. They are not exported over OTLP.

No label's value comes from data: the number of series is bounded by the configuration. The one exception is asked for with
` + "`BIGTABLE_PER_DESTINATION_METRICS`" + `, and ends at 1,000 tables; those beyond share one series.
`

// metricsDocument is docs/metrics.md.
func metricsDocument(t *testing.T) string {
	var b bytes.Buffer
	b.WriteString(metricsHead)
	labels := labelDocs(t)
	used := map[string][]string{} // key of labels -> metrics
	for _, i := range instruments(t) {
		names, ok := labelsOf[i.Name]
		if !ok {
			t.Errorf("%s: what are its labels? see labelsOf", i.Name)
		}
		cells := []string{}
		for _, label := range strings.Fields(names) {
			cells = append(cells, "`"+label+"`")
			key := label
			if _, own := labels[i.Name+"/"+label]; own {
				key = i.Name + "/" + label
			}
			if _, ok := labels[key]; !ok {
				t.Errorf("what is the label %s of %s? see labelDocs", label, i.Name)
			}
			used[key] = append(used[key], "`"+i.prometheus.GetName()+"`")
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s |\n", i.prometheus.GetName(), i.Name,
			strings.ToLower(i.prometheus.GetType().String()), unitOf(i.Unit), strings.Join(cells, ", "), strings.TrimSuffix(i.Description, "."))
	}
	b.WriteString("\n| label | of | meaning | values |\n|---|---|---|---|\n")
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		of := "all that have it"
		if used[key] == nil {
			t.Errorf("no metric has the label %s", key)
		} else if len(used[key]) <= 2 {
			of = strings.Join(used[key], ", ")
		}
		values := "from the configuration"
		switch l := labels[key]; {
		case key == "status":
			values = "those of openapi.yaml"
		case key == "instance", key == "table":
			values = "at most 1,000 tables'"
		case l.values != nil:
			quoted := []string{}
			for _, v := range l.values {
				if v == "" {
					v = "(empty)"
				} else {
					v = "`" + v + "`"
				}
				quoted = append(quoted, v)
			}
			values = strings.Join(quoted, ", ")
		}
		_, label, own := strings.Cut(key, "/")
		if !own {
			label = key
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", label, of, labels[key].meaning, values)
	}
	b.WriteString(metricsTail)
	return b.String()
}

func unitOf(unit string) string {
	switch unit {
	case "s":
		return "seconds"
	case "By":
		return "bytes"
	case "":
		return ""
	}
	return strings.Trim(unit, "{}")
}

// docs/metrics.md is what the code makes of it: every instrument of the process, no other.
func TestMetricsDocument(t *testing.T) {
	want := metricsDocument(t)
	file := filepath.Join("..", "..", "docs", "metrics.md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/metrics.md is not what the code says: go test ./cmd/server -run MetricsDocument -update")
	}
}

// handlers.Results lists every constant.
func TestResultsAreAll(t *testing.T) {
	if got, want := textsOf(handlers.Results()), inSource(t, "handlers/observer.go", `Result = "([a-z_]+)"`); !slices.Equal(got, want) {
		t.Errorf("handlers.Results() %q, the constants %q", got, want)
	}
}

// A server that runs shows the metrics of docs/metrics.md, as they stand there: the same
// types, meanings and labels, fixed values from their lists, and nothing else.
func TestMetricsDocumentIsWhatIsShown(t *testing.T) {
	_, env := deadLetters(t, 0)
	late := strings.NewReplacer("families: {m: {gc: {maxVersions: 1}}}", "families: {m: {gc: {maxAge: 1ms}}}",
		"    bigtable:", "    onReject: deadLetter\n    deadLetterTopic: projects/p/topics/dead\n    bigtable:").Replace(telemetryRoutes)
	bt := newRig(t, setup{routes: late, missing: true, options: []string{"BIGTABLE_PER_DESTINATION_METRICS=true"}, environ: []string{"PUBSUB_EMULATOR_HOST=" + env("PUBSUB_EMULATOR_HOST")}})
	old := strings.Replace(message("a"), "2026-", "2020-", 1)
	bt.wantStatus("a late record whose table is made", bt.do("POST", "/", "application/json", strings.NewReader(old)), 204)
	bt.wantStatus("a record that has no row", bt.records("application/json", `{"temp":1}`), 200)
	bt.wantStatus("an unknown path", bt.get("/no/such"), 404)
	bt.do("BREW", "/no/such", "", nil)

	guarded := newRig(t, setup{routes: telemetryRoutes, options: []string{"AUTH=oidc", "AUTH_AUDIENCES=a", "AUTH_EMAILS=e@x", "AUTH_JWKS_URL=http://127.0.0.1:1/keys"}})
	guarded.wantStatus("no token", guarded.push("a"), 401)
	forged, err := http.NewRequest("POST", "http://server/v1/routes/telemetry/push", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	forged.Header.Set("Authorization", "Bearer "+part(`{"alg":"RS256","kid":"k"}`)+"."+part(fmt.Sprintf(`{"iss":"https://accounts.google.com","aud":"a","exp":%d,"iat":%d}`, time.Now().Unix()+100, time.Now().Unix()))+"."+part("signature"))
	if resp, err := guarded.http.Do(forged); err != nil || resp.StatusCode != 503 {
		t.Fatalf("a token whose keys are out of reach: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}

	sp := newSpannerRig(t, setup{}, nil)
	sp.wantStatus("a record for Spanner", sp.push("a"), 204)

	labels := labelDocs(t)
	byName := map[string]instrument{}
	for _, i := range instruments(t) {
		byName[i.prometheus.GetName()] = i
	}
	rigs := []*rig{bt, guarded, sp.rig}
	for name := range byName { // an answer may come before what it cost is counted
		eventually(t, func() (bool, string) {
			return slices.ContainsFunc(rigs, func(x *rig) bool { return strings.Contains(x.page(), "# TYPE "+name+" ") }), name + ", which is documented, to be shown"
		})
	}
	for _, x := range rigs {
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(x.page()))
		if err != nil {
			t.Fatal(err)
		}
		for name, family := range families {
			i, ok := byName[name]
			if !ok {
				if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && name != "target_info" {
					t.Errorf("%s is shown and not documented", name)
				}
				continue
			}
			if family.GetType() != i.prometheus.GetType() || family.GetHelp() != i.Description {
				t.Errorf("%s is shown as a %s, %q", name, family.GetType(), family.GetHelp())
			}
			for _, series := range family.Metric {
				var names []string
				for _, l := range series.Label {
					names = append(names, l.GetName())
					doc, own := labels[i.Name+"/"+l.GetName()]
					if !own {
						doc = labels[l.GetName()]
					}
					if doc.values != nil && !slices.Contains(doc.values, l.GetValue()) {
						t.Errorf("%s{%s=%q}: %q are documented", name, l.GetName(), l.GetValue(), doc.values)
					}
				}
				want := strings.Fields(labelsOf[i.Name])
				slices.Sort(want)
				slices.Sort(names)
				if !slices.Equal(names, want) {
					t.Errorf("%s has the labels %q, documented are %q", name, names, want)
				}
			}
		}
	}
}

// documented wants the page's metrics of ours and their labels in docs/metrics.md, and
// returns how many there are.
func documented(t *testing.T, page string) (seen int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (pushsink_\w+) `).FindAllStringSubmatch(page, -1) {
		seen++
		line := regexp.MustCompile("(?m)^\\|.*`" + m[1] + "`.*$").FindString(string(text))
		if line == "" {
			t.Errorf("docs/metrics.md does not name %s", m[1])
			continue
		}
		if strings.Contains(line, "| the same |") {
			continue
		}
		series := regexp.MustCompile(`(?m)^` + m[1] + `(?:_count)?\{([^}]*)\}`).FindStringSubmatch(page)
		if series == nil {
			continue
		}
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(series[1], -1) {
			if !strings.Contains(line, "`"+label[1]+"`") {
				t.Errorf("docs/metrics.md does not name the label %s of %s", label[1], m[1])
			}
		}
	}
	return seen
}
