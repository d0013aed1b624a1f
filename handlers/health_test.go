package handlers

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// probe gives a probe's status, state and reasons.
func (f *fixture) probe(path string) (int, string, string) {
	f.t.Helper()
	a := f.do(f.request("GET", "/health/"+path, ""))
	var h struct {
		Status  string
		Reasons []string
	}
	if err := json.Unmarshal([]byte(a.body), &h, json.MatchCaseInsensitiveNames(true)); err != nil {
		f.t.Fatal(err)
	}
	return a.status, h.Status, strings.Join(h.Reasons, "; ")
}

// second adds a route with its own writer.
func second(w *fakeWriter) func(*fixture) {
	return func(f *fixture) {
		f.config.Routes = append(f.config.Routes, &Route{Route: &schema.Route{Name: "s", Format: "json"},
			Sink: &sink.Route{Name: "s"}, Target: fakeTarget{}, Writer: w, Mapper: f.mapper})
	}
}

func TestHealth(t *testing.T) {
	tripped := RouteState{Tripped: true, Reason: "100 rejections in a row (WRITER_MAX_CONSECUTIVE_REJECTIONS=100)", TrippedSince: time.Now()}
	trial := RouteState{Trial: true, Reason: "100 rejections in a row"}
	fatal := RouteState{Fatal: true, Reason: "PermissionDenied"}
	for _, c := range []struct {
		name       string
		r, s       RouteState
		ready      int
		state      string
		reason     string
		routeR     int
		routeState string
	}{
		{"all well", RouteState{}, RouteState{}, 200, "ok", "", 200, "ok"},
		{"one of two tripped", tripped, RouteState{}, 200, "ok", "WRITER_MAX_CONSECUTIVE_REJECTIONS=100", 503, "failing"},
		{"both tripped", tripped, tripped, 503, "failing", "route r: 100", 503, "failing"},
		{"tripped and fatal", tripped, fatal, 503, "failing", "PermissionDenied", 503, "failing"},
		{"one half-open", trial, fatal, 200, "trial", "route r", 200, "trial"},
		{"fatal", fatal, RouteState{}, 200, "ok", "PermissionDenied", 503, "failing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &fakeWriter{state: c.s}
			f := newFixture(t, second(w), func(f *fixture) { f.writer.state = c.r })
			status, state, reasons := f.probe("ready")
			if status != c.ready || state != c.state || !strings.Contains(reasons, c.reason) {
				t.Errorf("ready: %d %s %q", status, state, reasons)
			}
			if status, state, _ = f.probe("routes/r"); status != c.routeR || state != c.routeState {
				t.Errorf("route: %d %s", status, state)
			}
			if status, _, _ = f.probe("live"); status != 200 {
				t.Errorf("live: %d", status)
			}
		})
	}
	f := newFixture(t, func(f *fixture) { f.writer.state = tripped })
	if status, _, _ := f.probe("ready"); status != 503 {
		t.Errorf("the only route is tripped, ready: %d", status)
	}
}

// What a check found for one of two routes is told by ready, which stays well, and fails
// that route's own probe. A route has one reason, told once.
func TestHealthOfOneRouteAgrees(t *testing.T) {
	w := &fakeWriter{}
	f := newFixture(t, second(w), func(f *fixture) {
		f.config.Process.Problems = func() map[string]string { return map[string]string{"r": "table t is not there"} }
	})
	const want = "route r: table t is not there"
	if status, state, why := f.probe("ready"); status != 200 || state != "ok" || why != want {
		t.Errorf("ready: %d %s %q, want well with the reason of r", status, state, why)
	}
	if status, _, why := f.probe("routes/r"); status != 503 || why != want {
		t.Errorf("r: %d %q", status, why)
	}
	if status, _, why := f.probe("routes/s"); status != 200 || why != "" {
		t.Errorf("s: %d %q", status, why)
	}
	f.writer.state = RouteState{Fatal: true, Reason: "PermissionDenied"}
	for _, probe := range []string{"ready", "routes/r"} {
		if _, _, why := f.probe(probe); why != "route r: PermissionDenied" {
			t.Errorf("%s: reasons %q, want the writer's alone", probe, why)
		}
	}
}

func TestStartupAndDraining(t *testing.T) {
	warm, draining := false, false
	var problems map[string]string
	f := newFixture(t, func(f *fixture) {
		f.config.Process = Process{Warm: func() bool { return warm }, Draining: func() bool { return draining }, Problems: func() map[string]string { return problems }}
	})
	if s, _, why := f.probe("startup"); s != 503 || why == "" {
		t.Errorf("startup before the warm-up: %d %q", s, why)
	}
	warm = true
	if s, _, _ := f.probe("startup"); s != 200 {
		t.Errorf("startup after the warm-up: %d", s)
	}
	for _, problems = range []map[string]string{{"": "bigtable: Unavailable"}, {"r": "bigtable: Unavailable"}} {
		for _, probe := range []string{"ready", "routes/r"} {
			if s, _, why := f.probe(probe); s != 503 || !strings.HasSuffix(why, problems[""]+problems["r"]) || strings.Count(why, "Unavailable") != 1 {
				t.Errorf("CONN-04 %s without a backend: %d %q", probe, s, why)
			}
		}
	}
	if s, _, _ := f.probe("startup"); s != 200 {
		t.Errorf("CONN-04 startup without a backend: %d", s)
	}
	problems, draining = nil, true
	if s, _, why := f.probe("ready"); s != 503 || !strings.Contains(why, "SIGTERM") {
		t.Errorf("ready while draining: %d %q", s, why)
	}
	if s, _, _ := f.probe("live"); s != 200 {
		t.Errorf("live while draining: %d", s)
	}
}

func TestLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline, func(f *fixture) { f.config.Limits.LivenessGrace = time.Minute })
		f.writer.state = RouteState{Tripped: true, TrippedSince: time.Now()}
		time.Sleep(time.Minute - 1)
		if s, _, _ := f.probe("live"); s != 200 {
			t.Errorf("live before the grace ended: %d", s)
		}
		time.Sleep(time.Nanosecond)
		if s, _, why := f.probe("live"); s != 503 || !strings.Contains(why, "HEALTH_LIVENESS_GRACE=1m0s") {
			t.Errorf("live after the grace: %d %q", s, why)
		}
		never := newFixture(t, offline)
		never.writer.state = f.writer.state
		time.Sleep(1000 * time.Hour)
		if s, _, _ := never.probe("live"); s != 200 {
			t.Errorf("live without a grace: %d", s)
		}
		never.writer.stuck = "a request is open"
		if s, _, why := never.probe("live"); s != 503 || why != "a request is open" {
			t.Errorf("live while stuck: %d %q", s, why)
		}
	})
}
