package handlers

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// withConsole gives the fixture a console over one writer's bounds.
func withConsole(f *fixture) {
	f.config.Console = NewConsole(ConsoleInfo{Version: "v1", Dev: true})
	f.route.Source = "r:\n  bigtable: {}\n"
	f.route.Bigtable = &schema.BigtableTarget{Table: "t"}
	s := f.config.Console.Sink(sink.Options{Sink: "BIGTABLE", MaxInFlightBytes: 1000, MaxInFlightEntries: 10, MaxInFlightRequests: 4, MaxBatchEntries: 100, MaxConsecutiveRejections: 7})
	s.Watch(func() sink.Health { return sink.Health{InFlightBytes: 123, InFlightEntries: 3} })
}

var consolePaths = []string{"/", "/console/live", "/console/routes", "/console/files/console.js"}

func TestConsoleIsServedWhenExposed(t *testing.T) {
	for name, expose := range map[string]Expose{"exposed": {Console: true}, "not exposed": {Rows: true, Dryrun: true}} {
		f := newFixture(t, withConsole, func(f *fixture) { f.config.Expose = expose })
		for _, path := range consolePaths {
			a := f.do(f.request("GET", path, ""))
			switch {
			case expose.Console && a.status != 200:
				t.Errorf("%s: %s: %d %s", name, path, a.status, a.body)
			case !expose.Console && a.status != 404 && a.status != 405:
				t.Errorf("%s: %s: %d, want 404 or 405", name, path, a.status)
			}
		}
		// The default route's push keeps its path.
		if a := f.do(f.request("POST", "/", wrap(`{"id":"a"}`, "m"))); a.status != 204 {
			t.Errorf("%s: POST /: %d %s", name, a.status, a.body)
		}
	}
}

func TestConsoleStandsBehindAuth(t *testing.T) {
	f := newFixture(t, withConsole, func(f *fixture) { f.config.Auth = bearer })
	for _, path := range consolePaths {
		for token, status := range map[string]int{"": 401, "other": 403, "good": 200} {
			r := f.request("GET", path, "")
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			if a := f.do(r); a.status != status {
				t.Errorf("%s with token %q: %d, want %d", path, token, a.status, status)
			}
		}
	}
}

// The page and its files carry a policy under which nothing but those files runs, and the
// page needs nothing that it forbids.
func TestConsolePolicy(t *testing.T) {
	f := newFixture(t, withConsole)
	page := f.do(f.request("GET", "/", ""))
	policy := page.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy has no %q: %s", want, policy)
		}
	}
	for _, bad := range []string{"unsafe", "http:", "https:", "*", "data:"} {
		if strings.Contains(policy, bad) {
			t.Errorf("the policy allows %q: %s", bad, policy)
		}
	}
	for _, inline := range []string{`<script>`, `<style`, ` style=`, `javascript:`} {
		if strings.Contains(page.body, inline) {
			t.Errorf("the page has %s in its text", inline)
		}
	}
	if m := regexp.MustCompile(`\son\w+=`).FindString(page.body); m != "" {
		t.Errorf("the page has a handler in its text:%s", m)
	}
	if !strings.Contains(page.body, `<html lang="en">`) || !strings.Contains(page.body, `name="viewport"`) {
		t.Error("the page names no language, or no viewport")
	}
}

// What the page, its styles and its scripts refer to is served, relative to where they are:
// a proxy may put the console under another path. Nothing refers to another origin.
func TestConsoleFilesAreWhole(t *testing.T) {
	f := newFixture(t, withConsole)
	assets := consoleAssets()
	used := map[string]bool{"index.html": true}
	references := regexp.MustCompile(`(?:src|href)="([^"#]+)"|url\(([^)]+)\)|from "([^"]+)"`)
	for name, a := range assets {
		if name == "uplot.js" || name == "licences.txt" || strings.HasSuffix(name, ".woff2") {
			continue
		}
		for _, m := range references.FindAllStringSubmatch(string(a.body), -1) {
			ref := m[1] + m[2] + m[3]
			if ref == "openapi.yaml" {
				continue
			}
			file := strings.TrimPrefix(strings.TrimPrefix(ref, "console/files/"), "./")
			if _, ok := assets[file]; !ok || strings.HasPrefix(ref, "/") {
				t.Errorf("%s refers to %q", name, ref)
			}
			used[file] = true
		}
		if strings.Contains(strings.ReplaceAll(string(a.body), "http://www.w3.org/2000/svg", ""), "http") && regexp.MustCompile(`https?://\w`).Match(regexp.MustCompile(`http://www\.w3\.org/2000/svg`).ReplaceAll(a.body, nil)) {
			t.Errorf("%s names another origin", name)
		}
		for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
			if strings.HasSuffix(name, ".js") && strings.Contains(string(a.body), sink) {
				t.Errorf("%s uses %s", name, sink)
			}
		}
	}
	for name, a := range assets {
		if !used[name] {
			t.Errorf("%s is used by nothing", name)
		}
		if a.media == "" || len(a.body) == 0 {
			t.Errorf("%s: media type %q, %d bytes", name, a.media, len(a.body))
		}
		if name == "index.html" {
			continue
		}
		got := f.do(f.request("GET", "/console/files/"+name, ""))
		if got.status != 200 || got.body != string(a.body) || got.header.Get("Content-Type") != a.media || got.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d, %s, %d bytes", name, got.status, got.header.Get("Content-Type"), len(got.body))
		}
		if again := f.do(f.request("GET", "/console/files/"+name, "", "If-None-Match", got.header.Get("ETag"))); again.status != 304 || again.body != "" {
			t.Errorf("%s again: %d", name, again.status)
		}
	}
	for _, path := range []string{"/console/files/index.html", "/console/files/none.js", "/console/files/", "/console/files/..%2fconsole.go", "/console"} {
		if a := f.do(f.request("GET", path, "")); a.status != 404 {
			t.Errorf("%s: %d, want 404", path, a.status)
		}
	}
	licences := string(assets["licences.txt"].body)
	for _, want := range []string{"uPlot 1.6.32", "The MIT License", "SIL OPEN FONT LICENSE"} {
		if !strings.Contains(licences, want) {
			t.Errorf("licences.txt has no %q", want)
		}
	}
	if !strings.Contains(string(assets["uplot.js"].body[:60]), "uPlot (v1.6.32)") {
		t.Error("uplot.js is another version than licences.txt says")
	}
}

type liveAnswer struct {
	Process string
	Health  struct{ Status string }
	Durable [][3]uint64
	Sinks   []struct {
		Sink                  string
		Bytes, Entries        struct{ Held, Cap int64 }
		Batch, Latency        [][3]uint64
		BatchMost, ByteMicros int64
	}
	Routes []struct {
		Name    string
		Health  struct{ Status string }
		Streak  int
		Records map[string]int
	}
}

func (f *fixture) live() (l liveAnswer) {
	f.t.Helper()
	a := f.do(f.request("GET", "/console/live", ""))
	if err := json.Unmarshal([]byte(a.body), &l); err != nil || a.status != 200 {
		f.t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return l
}

func TestConsoleCounts(t *testing.T) {
	f := newFixture(t, withConsole, func(f *fixture) {
		f.writer.outcome = func(e sink.Entry) sink.Outcome {
			if e.Key == "bad" {
				return sink.Outcome{Kind: sink.Rejected}
			}
			return sink.Outcome{Kind: sink.Applied}
		}
	})
	before := f.live()
	if n := before.Routes[0].Records["written"]; n != 0 || len(before.Durable) != 0 {
		t.Errorf("at first: %+v", before)
	}
	for _, id := range []string{"a", "b", "bad"} {
		f.push(wrap(`{"id":"`+id+`"}`, "m-"+id))
	}
	f.push(wrap(`{"do":"skip"}`, "m"))
	f.push("not an envelope")
	f.records("json", `[{"id":"c"},{"id":"d"},{"do":"mismatch"}]`)
	f.writer.mu.Lock()
	f.writer.state = RouteState{Streak: 5, Tripped: true, Reason: "too many"}
	f.writer.mu.Unlock()
	for i := range 4 {
		f.config.Console.sinks[0].Request(sink.RequestStats{Entries: i + 1, Bytes: 10, Latency: time.Millisecond})
	}
	l := f.live()
	got := l.Routes[0]
	for result, want := range map[string]int{"written": 4, "skipped": 1, "rejected": 2, "malformed": 1, "dropped": 0} {
		if got.Records[result] != want {
			t.Errorf("%s: %d, want %d", result, got.Records[result], want)
		}
	}
	if len(got.Records) != len(results) {
		t.Errorf("records %v, want all %d results", got.Records, len(results))
	}
	if got.Streak != 5 || got.Health.Status != "failing" || l.Health.Status != "failing" {
		t.Errorf("route %+v", got)
	}
	s := l.Sinks[0]
	if s.Sink != "bigtable" || s.Bytes.Held != 123 || s.Bytes.Cap != 1000 || s.Entries.Cap != 10 || s.BatchMost != 100 || s.ByteMicros != 4*10*1000 {
		t.Errorf("sink %+v", s)
	}
	if want := [][3]uint64{{1, 2, 1}, {2, 3, 1}, {3, 4, 1}, {4, 5, 1}}; !slices.Equal(s.Batch, want) {
		t.Errorf("batch %v, want %v", s.Batch, want)
	}
	if len(s.Latency) != 1 || s.Latency[0][0] > 1000 || s.Latency[0][1] <= 1000 || s.Latency[0][2] != 4 {
		t.Errorf("latency %v, want 4 of 1000 microseconds", s.Latency)
	}
	n := uint64(0)
	for _, b := range l.Durable {
		n += b[2]
	}
	if n != 4 {
		t.Errorf("%d ages, want one of each record written", n)
	}
	// The counting leaves what counts for metrics as it was.
	if f.counts.of(func(c *counts) map[string]int { return c.records }, "written") != 4 {
		t.Errorf("the observer was told %v", f.counts.records)
	}
}

func TestConsoleRoutes(t *testing.T) {
	f := newFixture(t, withConsole, func(f *fixture) {
		f.config.Expose = Expose{Console: true, Dryrun: true}
		f.route.OnReject = schema.Drop
		f.route.Sink.Trips = true
	})
	a := f.do(f.request("GET", "/console/routes", ""))
	for _, want := range []string{`"version":"v1"`, `"dev":true`, `"exposed":{"rows":false,"dryrun":true}`, `"name":"r"`, `"default":true`,
		`"sink":"bigtable"`, `"onReject":"drop"`, `"table":"t"`, `"streakBound":7`, `"trips":true`, `"mapping":"r:\n  bigtable: {}\n"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s in %s", want, a.body)
		}
	}
}

// Every value falls into the one bucket that holds it, and a bucket is at most a quarter of
// its lower bound wide.
func TestHistogramBuckets(t *testing.T) {
	for _, v := range []int64{-5, 0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 999, 1000, 1001, 65535, 65536, 1 << 39, 1<<40 - 1} {
		var h histogram
		h.add(v)
		list := h.buckets()
		at := uint64(max(0, v))
		if len(list) != 1 || list[0][0] > at || list[0][1] <= at || list[0][2] != 1 {
			t.Errorf("%d falls into %v", v, list)
			continue
		}
		if width := list[0][1] - list[0][0]; width > max(1, list[0][0]/4) {
			t.Errorf("%d: bucket %v is %d wide", v, list[0], width)
		}
	}
	var h histogram
	h.add(math.MaxInt64)
	h.add(1)
	if list := h.buckets(); len(list) != 2 || list[1][2] != 1 {
		t.Errorf("the largest is lost: %v", list)
	}
	for i := range 159 {
		if bucketFrom(i) >= bucketFrom(i+1) || bucketOf(bucketFrom(i)) != i || bucketOf(bucketFrom(i+1)-1) != i {
			t.Errorf("bucket %d: from %d to %d", i, bucketFrom(i), bucketFrom(i+1))
		}
	}
}

// BenchmarkConsoleLive is what a page costs, each second.
func BenchmarkConsoleLive(b *testing.B) {
	f := newFixture(b, offline, withConsole)
	for i := range int64(1 << 16) {
		f.config.Console.age.add(i * 37)
		f.config.Console.sinks[0].Request(sink.RequestStats{Entries: int(i % 100), Bytes: i, Latency: time.Duration(i) * time.Microsecond})
	}
	r := f.request("GET", "/console/live", "")
	for b.Loop() {
		f.api.serveConsoleLive(newRecorder(), r)
	}
}

// BenchmarkConsoleCounts is what counting for the page costs a record.
func BenchmarkConsoleCounts(b *testing.B) {
	c := NewConsole(ConsoleInfo{})
	o := c.observe(noObserver{}, []*Route{{Route: &schema.Route{Name: "r"}}})
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			o.Records("r", ResultWritten, "", 1)
			o.Durable("r", time.Millisecond)
		}
	})
}

var _ http.Handler = asset{}
