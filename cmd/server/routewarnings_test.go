package main

import (
	"strings"
	"testing"

	"github.com/pushsink/pushsink/internal/scripted"
)

// keptForever is a routes file with a family that has no gc rule.
var keptForever = strings.Replace(telemetryRoutes, "{gc: {maxVersions: 1}}", "{}", 1)

// What works and is seldom meant is said with its place: by check, which still passes, and
// by every start.
func TestWarningsOfTheRoutesFileAreShown(t *testing.T) {
	file := write(t, "routes.yaml", keptForever)
	want := file + ":8:18: routes.telemetry.bigtable.families.m: has no gc rule"
	out, err := checked(t, "-routes", file)
	if err != nil || !strings.HasPrefix(out, "warning: "+want) || !strings.HasSuffix(out, ": 1 route\n") {
		t.Errorf("check prints %q (error %v), want the warning %q and that it compiles", out, err, want)
	}

	bt := scripted.New(t, scripted.Options{})
	p := start(t, real(t, bt, "PUSHSINK_ROUTES_FILE="+file))
	p.url()
	var warned []string
	for _, entry := range p.entries("configuration") {
		if text, _ := entry["warning"].(string); strings.HasPrefix(text, want) && entry["severity"] == "WARNING" {
			warned = append(warned, text)
		}
	}
	if len(warned) != 1 {
		t.Errorf("the start logs %q %d times, want once", want, len(warned))
	}
	p.stop()
}
