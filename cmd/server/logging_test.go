package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink/internal/traceparent"
)

func TestLogNamesAreCloudLoggings(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelDebug: "DEBUG", slog.LevelInfo: "INFO", slog.LevelWarn: "WARNING", slog.LevelError: "ERROR",
		slog.LevelDebug - 4: "DEBUG", slog.LevelError + 4: "ERROR",
	} {
		var out bytes.Buffer
		logger := newLogger(&out, "debug", platform{})
		if level < slog.LevelDebug {
			if logger.Log(t.Context(), level, "x"); out.Len() > 0 {
				t.Errorf("level %d is logged at debug", level)
			}
			continue
		}
		logger.Log(t.Context(), level, "a message", slog.Group("g", "level", "kept"))
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got["severity"] != want || got["message"] != "a message" {
			t.Errorf("level %d: %v, want severity %s", level, got, want)
		}
		if at, err := time.Parse(time.RFC3339Nano, got["time"].(string)); err != nil || time.Since(at) > time.Minute {
			t.Errorf("time %v: %v", got["time"], err)
		}
		if group, _ := got["g"].(map[string]any); group["level"] != "kept" {
			t.Errorf("a group's attribute was renamed: %v", got)
		}
	}
}

// A line whose context is in a trace carries the members that Cloud Logging reads, at the
// top, whatever groups and attributes the logger has; other lines carry none.
func TestLogLinesNameTheirTrace(t *testing.T) {
	sampled := traceparent.Parse("00-" + callersTrace + "-" + callersSpan + "-01")
	request := &traceparent.Context{Context: t.Context(), Header: http.Header{"Traceparent": {"00-" + callersTrace + "-" + callersSpan + "-00"}}}
	for _, c := range []struct {
		ctx     context.Context
		p       platform
		trace   any
		sampled any
	}{
		{t.Context(), platform{project: "p"}, nil, nil},
		{request, platform{project: "p"}, "projects/p/traces/" + callersTrace, false},
		{trace.ContextWithSpanContext(request, sampled), platform{service: "s", project: "p"}, "projects/p/traces/" + callersTrace, true},
		{request, platform{}, callersTrace, false},
	} {
		var out bytes.Buffer
		logger := newLogger(&out, "info", c.p)
		logger.InfoContext(c.ctx, "plain")
		logger.With("a", 1).WithGroup("g").With("b", 2).InfoContext(c.ctx, "derived", "c", 3)
		lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
		for _, line := range lines {
			var got map[string]any
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatal(err)
			}
			var span any
			if c.trace != nil {
				span = callersSpan
			}
			if got["logging.googleapis.com/trace"] != c.trace || got["logging.googleapis.com/spanId"] != span || got["logging.googleapis.com/trace_sampled"] != c.sampled {
				t.Errorf("%s, want trace %v, sampled %v", line, c.trace, c.sampled)
			}
		}
		var got map[string]any
		if err := json.Unmarshal(lines[1], &got); err != nil {
			t.Fatal(err)
		}
		if group, _ := got["g"].(map[string]any); got["a"] != 1.0 || group["b"] != 2.0 || group["c"] != 3.0 || len(group) != 2 {
			t.Errorf("attributes and groups: %s", lines[1])
		}
	}
}

// On a terminal a line is text, but never on Cloud Run.
func TestLogOnATerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/null", os.O_RDWR, 0) // a character device, as a terminal is
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	if !isTerminal(terminal) || isTerminal(&bytes.Buffer{}) {
		t.Fatal("a terminal is not told from what is none")
	}
	kind := func(p platform) string {
		return fmt.Sprintf("%T", newLogger(terminal, "info", p).Handler().(*tracedLog).Handler)
	}
	if got := kind(platform{}); got != "*slog.TextHandler" {
		t.Errorf("on a terminal: %s", got)
	}
	if got := kind(platform{service: "s"}); got != "*slog.JSONHandler" {
		t.Errorf("on Cloud Run: %s", got)
	}
	var out bytes.Buffer
	request := &traceparent.Context{Context: t.Context(), Header: http.Header{"Traceparent": {"00-" + callersTrace + "-" + callersSpan + "-00"}}}
	slog.New(newTracedLog(slog.NewTextHandler(&out, nil), textTrace)).InfoContext(request, "m")
	if !strings.Contains(out.String(), " trace="+callersTrace) {
		t.Errorf("as text: %s", out.String())
	}
}

func TestLogLevel(t *testing.T) {
	order := []string{"debug", "info", "warn", "error"}
	for i, level := range order {
		s, err := load(with(outside, "PUSHSINK_LOG_LEVEL="+level))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		logger := newLogger(&out, s.LogLevel, platform{})
		logger.Debug("d")
		logger.Info("i")
		logger.Warn("w")
		logger.Error("e")
		if got, want := bytes.Count(out.Bytes(), []byte("\n")), len(order)-i; got != want {
			t.Errorf("%s: %d lines, want %d", level, got, want)
		}
	}
}
