package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/internal/scripted"
)

// docs/metrics.md names every metric that a server shows after a record that was written
// late, and no label of them is missing there.
func TestMetricsAreDocumented(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	routes := strings.Replace(telemetryRoutes, "maxVersions: 1", "maxAge: 1ms", 1)
	p := start(t, real(t, bt, "PUSHSINK_ROUTES_FILE="+write(t, "routes.yaml", routes), "PUSHSINK_METRICS_PORT=0", "PUSHSINK_BIGTABLE_PER_DESTINATION_METRICS=true"))
	if a := post(p.url()+"/v1/routes/telemetry/push", strings.Replace(pushBody("pump", 1), "2026-", "2020-", 1)); a.status != 204 {
		t.Fatalf("push: %d %s", a.status, a.body)
	}
	reaches(t, metricsURL(p), "pushsink_records_late_total", 1)
	reaches(t, metricsURL(p), "pushsink_records_latency_seconds_count", 1)
	page := get(metricsURL(p) + "/metrics").body
	p.stop()
	if seen := documented(t, page); seen < 25 {
		t.Errorf("%d metrics seen, want all", seen)
	}
	if !strings.Contains(page, `pushsink_http_requests_total{method="POST",path="/v1/routes/{route}/push",route="telemetry",status="204"} 1`) {
		t.Error("the requests of route telemetry are not counted by its name")
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
