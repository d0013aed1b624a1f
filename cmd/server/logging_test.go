package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"
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
