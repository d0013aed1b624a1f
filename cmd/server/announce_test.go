package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/internal/scripted"
)

// One line says what runs: routes, sinks, the options that differ from their defaults, where
// telemetry goes, and every warning; no secret.
func TestStartupSummary(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	c := newCollector(t, false)
	p := start(t, plain(t, bt, "PUSHSINK_METRICS_PORT=0", "PUSHSINK_REQUEST_TIMEOUT=7s", "PUSHSINK_BATCH_TIMEOUT=60s", "PUSHSINK_EXPOSE=rows,dryrun",
		"PUSHSINK_SPANNER_MAX_BATCH_CELLS=6000", "PUSHSINK_AUTH_JWKS_URL=https://me:secret-word@keys.example/jwks",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+c.addr, "OTEL_EXPORTER_OTLP_HEADERS=authorization=secret-word", "OTEL_TRACES_SAMPLER=none-such"))
	summary := p.logged("listening")
	options, _ := summary["options"].(map[string]any)
	for name, want := range map[string]string{
		"PUSHSINK_REQUEST_TIMEOUT": "7s", "PUSHSINK_EXPOSE": "[rows dryrun]", "PUSHSINK_SPANNER_MAX_BATCH_CELLS": "6000", "PUSHSINK_METRICS_PORT": "0",
		"PUSHSINK_AUTH": "none", "PUSHSINK_BIGTABLE_PROJECT": "p", "PUSHSINK_BIGTABLE_INSTANCE": "instance",
		"PUSHSINK_AUTH_JWKS_URL": "https://me:xxxxx@keys.example/jwks",
		"PUSHSINK_BATCH_TIMEOUT": "<nil>", // set to its default
		"PUSHSINK_LOG_LEVEL":     "<nil>",
	} {
		if got := fmt.Sprint(options[name]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if len(options) != 9 { // ROUTES_FILE too
		t.Errorf("options %v", options)
	}
	if summary["traces"] != "OTLP, parentbased_traceidratio 0.01" || summary["metricsExport"] != "OTLP" || summary["metrics"] == nil ||
		fmt.Sprint(summary["routes"]) != "[telemetry]" || summary["bigtable"] != "emulator at "+bt.Addr() {
		t.Errorf("summary %v", summary)
	}
	warnings := fmt.Sprint(summary["warnings"])
	logged := p.entries("configuration")
	for _, e := range logged {
		if !strings.Contains(warnings, e["warning"].(string)) {
			t.Errorf("the summary lacks the warning %v", e["warning"])
		}
	}
	for _, want := range []string{"PUSHSINK_AUTH=none", "PUSHSINK_AUTH_JWKS_URL has no effect", "OTEL_TRACES_SAMPLER=none-such", "PUSHSINK_SPANNER_MAX_BATCH_CELLS has no effect"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("warnings %s, want %q among them", warnings, want)
		}
	}
	p.stop()
	if strings.Contains(p.output(), "secret-word") {
		t.Error("a secret is logged")
	}
}
