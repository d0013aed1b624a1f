package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/internal/scripted"
)

func TestServesTheRoutesFile(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	p := start(t, real(t, bt))
	url := p.url()
	for path, want := range map[string]int{"/v1/routes/telemetry/push": 204, "/": 204, "/v1/routes/other/push": 404, "/v1/routes/demo/push": 404} {
		if a := post(url+path, pushBody("pump", 21.5)); a.status != want {
			t.Errorf("%s: %d %s %v, want %d", path, a.status, a.body, a.err, want)
		}
	}
	if row := bt.Row(readings, "pump"); len(row["m:temp"]) != 1 {
		t.Errorf("row %v, want one version of one cell", row)
	}
	// Nothing is exposed that was not asked for.
	for _, path := range []string{"/v1/routes/telemetry/rows", "/metrics", "/console/live", "/console/files/console.js"} {
		if a := get(url + path); a.status != 404 {
			t.Errorf("%s: %d %s, want 404", path, a.status, a.body)
		}
	}
	if a := post(url+"/v1/routes/telemetry/dryrun", "{}"); a.status != 404 && a.status != 405 {
		t.Errorf("dryrun: %d %s, want 404", a.status, a.body)
	}
	summary := p.logged("listening")
	if summary["severity"] != "INFO" || summary["dev"] != false || summary["auth"] != "none" || fmt.Sprint(summary["routes"]) != "[telemetry]" ||
		summary["bigtable"] != "emulator at "+bt.Addr() || summary["version"] == "" {
		t.Errorf("summary %v", summary)
	}
	if warned := p.entries("configuration"); len(warned) != 1 || warned[0]["severity"] != "WARNING" {
		t.Errorf("warnings %v, want the one of AUTH=none", warned)
	}
	p.stop()
}

func TestDevMode(t *testing.T) {
	p := start(t, []string{"PORT=0"})
	summary := p.logged("listening")
	address := summary["address"].(string)
	if !strings.HasPrefix(address, "127.0.0.1:") || summary["dev"] != true {
		t.Errorf("summary %v, want loopback and dev", summary)
	}
	url := "http://" + address
	eventually(t, func() (bool, string) {
		a := get(url + "/health/ready")
		return a.status == 200, fmt.Sprintf("ready: %d %s %v", a.status, a.body, a.err)
	})
	// The table is there before the first record.
	if a := get(url + "/v1/routes/demo/rows"); a.status != 200 || a.body != "" {
		t.Errorf("rows at first: %d %q %v, want 200 and none", a.status, a.body, a.err)
	}
	// Any JSON object is taken.
	if a := post(url+"/", `{"message":{"data":"eyJncmVldGluZyI6ImhlbGxvIn0=","messageId":"9","publishTime":"2026-11-30T08:00:00Z"}}`); a.status != 204 {
		t.Errorf("push: %d %s %v", a.status, a.body, a.err)
	}
	a := get(url + "/v1/routes/demo/rows?decode=1")
	var row struct {
		Key   string
		Cells []struct {
			Family, Column, Timestamp string
			Value                     any
		}
	}
	if err := json.Unmarshal([]byte(a.body), &row); err != nil {
		t.Fatalf("rows: %d %q: %v", a.status, a.body, err)
	}
	if !strings.HasPrefix(row.Key, "unnamed#") || len(row.Cells) != 1 || row.Cells[0].Value != "hello" || row.Cells[0].Timestamp != "2026-11-30T08:00:00Z" {
		t.Errorf("row %+v", row)
	}
	if a := post(url+"/v1/routes/demo/dryrun", `{"device":"d"}`); a.status != 200 {
		t.Errorf("dryrun: %d %s", a.status, a.body)
	}
	if a := get(url + "/metrics"); a.status != 200 || !strings.Contains(a.body, `pushsink_records_total{code="",`) {
		t.Errorf("metrics: %d %.2000s", a.status, a.body)
	}
	p.stop()
}

func TestMetricsPort(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	bt.AddTable(readings, "m")
	p := start(t, real(t, bt, fmt.Sprintf("PUSHSINK_METRICS_PORT=%d", emulator.FreePort(t))))
	if a := pushes(p.url(), "a", "b")(); a[0].status != 204 || a[1].status != 204 {
		t.Fatalf("pushes: %v", a)
	}
	reaches(t, metricsURL(p), "pushsink_records_total", 2)
	reaches(t, metricsURL(p), "pushsink_http_requests_total", 2)
	if a := get(p.url() + "/metrics"); a.status != 404 {
		t.Errorf("/metrics on the main port: %d, want 404", a.status)
	}
	if a := get(metricsURL(p) + "/v1/routes/telemetry/rows"); a.status != 404 {
		t.Errorf("rows on the metrics port: %d, want 404", a.status)
	}
	p.stop()

	p = start(t, real(t, bt))
	if summary := p.logged("listening"); summary["metrics"] != nil {
		t.Errorf("a metrics listener without METRICS_PORT: %v", summary)
	}
	p.stop()
}

func TestCONN04BackendDownAtStart(t *testing.T) {
	for _, c := range []struct {
		name, routes, emulator, want string
	}{
		{"nothing listens", telemetryRoutes, "127.0.0.1:1", "telemetry"},
		{"a table is missing", strings.NewReplacer("      create: ifNeeded\n", "", "      families: {m: {gc: {maxVersions: 1}}}\n", "").Replace(telemetryRoutes), "", "readings"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bt := scripted.New(t, scripted.Options{})
			environ := real(t, bt, "PUSHSINK_ROUTES_FILE="+write(t, "routes.yaml", c.routes))
			if c.emulator != "" {
				environ = append(environ, "BIGTABLE_EMULATOR_HOST="+c.emulator)
			}
			p := start(t, environ)
			url := p.url()
			eventually(t, func() (bool, string) {
				a := get(url + "/health/startup")
				return a.status == 200, fmt.Sprintf("startup: %d %s %v", a.status, a.body, a.err)
			})
			a := get(url + "/health/ready")
			if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, c.want) {
				t.Errorf("ready: %d %s, want 503 and %q in the reasons", a.status, a.body, c.want)
			}
			if a := get(url + "/health/live"); a.status != 200 {
				t.Errorf("live: %d %s, want 200: a restart would not help", a.status, a.body)
			}
			if c.emulator == "" {
				bt.AddTable(readings, "m")
				eventually(t, func() (bool, string) {
					a := get(url + "/health/ready")
					return a.status == 200, fmt.Sprintf("ready once the table is there: %d %s", a.status, a.body)
				})
			}
			p.stop()
		})
	}
}

// Every connection of this backend takes a second to answer its first call. No record pays
// for that once the server says that it is ready.
func TestCONN03NotReadyUntilWarm(t *testing.T) {
	const cold = time.Second
	inBubble(t, setup{routes: telemetryRoutes, service: scripted.Options{FirstCall: cold}}, func(x *rig) {
		x.wantStatus("ready at first", x.get("/health/ready"), 503)
		time.Sleep(cold - 1)
		x.wantStatus("ready before they are warm", x.get("/health/ready"), 503)
		time.Sleep(cold)
		x.wantStatus("ready", x.get("/health/ready"), 200)
		began := x.at()
		x.wantStatuses(x.pushes(devices("d", 16))(), all(16, 204))
		if took := x.at() - began; took != 0 {
			t.Errorf("the first pushes took %s: a connection was still cold", took)
		}
	})
}

// A start that cannot go on ends with 1 and one message on the standard error.
func TestStartsThatAreRefused(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	taken, err := listen(0, true)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := strings.Cut(taken.Addr().String(), ":")
	file := func(text string) string { return "PUSHSINK_ROUTES_FILE=" + write(t, "routes.yaml", text) }
	for _, c := range []struct {
		name    string
		environ []string
		want    []string
	}{
		{"options", []string{"PUSHSINK_PORT=1", "PUSHSINK_MAX_BODY_BYTES=1"}, []string{"2 problems", "PUSHSINK_MAX_BODY_BYTES=1: >= 1024", "PUSHSINK_PORT: no such option"}},
		{"AUTH-07 auth unset", []string{file(telemetryRoutes)}, []string{"PUSHSINK_AUTH: must be set"}},
		{"no routes file", real(t, bt, "PUSHSINK_ROUTES_FILE=/nowhere/routes.yaml"), []string{"PUSHSINK_ROUTES_FILE", "/nowhere/routes.yaml"}},
		{"a bad routes file", real(t, bt, file(strings.Replace(telemetryRoutes, "data.temp", "data.(", 1))), []string{"routes.yaml:10:", "^"}},
		{"no instance", append(real(t, bt), "PUSHSINK_BIGTABLE_INSTANCE="), []string{"telemetry", "PUSHSINK_BIGTABLE_INSTANCE"}},
		{"all of it at once", append(real(t, bt), "PUSHSINK_BIGTABLE_INSTANCE=", "PUSHSINK_AUTH=", "PUSHSINK_MAX_BODY_BYTES=1"),
			[]string{"3 problems", "PUSHSINK_BIGTABLE_INSTANCE", "PUSHSINK_AUTH: must be set", "PUSHSINK_MAX_BODY_BYTES=1"}},
		{"options and the file", append(real(t, bt, file(strings.Replace(telemetryRoutes, "data.temp", "data.(", 1))), "PUSHSINK_AUTH="),
			[]string{"1 problem\n", "PUSHSINK_AUTH: must be set", "routes.yaml:10:", "^"}},
		{"a port that is taken", []string{"PORT=" + port}, []string{"PORT: ", port}},
		{"a metrics port that is taken", []string{"PORT=0", "PUSHSINK_METRICS_PORT=" + port}, []string{"PUSHSINK_METRICS_PORT: ", port}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, c.environ)
			if code := p.wait(); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, want := range c.want {
				if !strings.Contains(p.stderr.String(), want) {
					t.Errorf("stderr %q, want %q in it", p.stderr.String(), want)
				}
			}
			if len(p.entries("listening")) > 0 {
				t.Error("it listened")
			}
		})
	}
}

// run ends by its context too, and leaves nothing behind that keeps it from running again.
func TestRunEndsWithItsContext(t *testing.T) {
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		out := &notice{text: "listening", seen: cancel}
		if err := run(ctx, []string{"PORT=0"}, nil, out); err != nil {
			t.Fatal(err)
		}
	}
}

// notice calls seen when text is written.
type notice struct {
	text string
	seen func()
}

func (n *notice) Write(p []byte) (int, error) {
	if strings.Contains(string(p), n.text) {
		n.seen()
	}
	return len(p), nil
}
