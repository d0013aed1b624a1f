package main

import (
	"io"
	"log/slog"
	"os"
)

// newLogger writes JSON with the names that Cloud Logging reads, or plain text where out
// is a terminal.
func newLogger(out io.Writer, level string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		panic("cmd/server: LOG_LEVEL: " + err.Error()) // its words are slog's own
	}
	if isTerminal(out) {
		return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: least}))
	}
	return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: least, ReplaceAttr: cloudNames}))
}

// cloudNames renames slog's own members; severity is from Cloud Logging's fixed list.
func cloudNames(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		level, ok := a.Value.Any().(slog.Level)
		switch {
		case !ok: // an attribute of that name
		case level < slog.LevelInfo:
			return slog.String("severity", "DEBUG")
		case level < slog.LevelWarn:
			return slog.String("severity", "INFO")
		case level < slog.LevelError:
			return slog.String("severity", "WARNING")
		default:
			return slog.String("severity", "ERROR")
		}
	}
	return a
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
