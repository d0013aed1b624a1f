package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/pushsink/pushsink/internal/traceparent"
)

// newLogger writes JSON with the names that Cloud Logging reads, or, outside Cloud Run, plain
// text where out is a terminal. A line whose context is in a trace says in which; a trace is
// named by its project where that is known.
func newLogger(out io.Writer, level string, p platform) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		panic("cmd/server: LOG_LEVEL: " + err.Error()) // its words are slog's own
	}
	if p.service == "" && isTerminal(out) {
		return slog.New(newTracedLog(slog.NewTextHandler(out, &slog.HandlerOptions{Level: least}), textTrace))
	}
	prefix := ""
	if p.project != "" {
		prefix = "projects/" + p.project + "/traces/"
	}
	return slog.New(newTracedLog(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: least, ReplaceAttr: cloudNames}), cloudTrace(prefix)))
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

// traceFields are what a line says of the trace that it belongs to.
type traceFields func(trace, span string, sampled bool) []slog.Attr

func textTrace(trace, _ string, _ bool) []slog.Attr {
	return []slog.Attr{slog.String("trace", trace)}
}

// cloudTrace gives the members by which Cloud Logging shows a line beside its trace and
// under its request: https://cloud.google.com/logging/docs/structured-logging
func cloudTrace(prefix string) traceFields {
	return func(trace, span string, sampled bool) []slog.Attr {
		return []slog.Attr{
			slog.String("logging.googleapis.com/trace", prefix+trace),
			slog.String("logging.googleapis.com/spanId", span),
			slog.Bool("logging.googleapis.com/trace_sampled", sampled),
		}
	}
}

// tracedLog adds the trace fields of a line's context, outside of any group.
type tracedLog struct {
	slog.Handler              // of a line without a trace
	bare         slog.Handler // without what derive adds
	derive       []func(slog.Handler) slog.Handler
	fields       traceFields
}

func newTracedLog(h slog.Handler, fields traceFields) slog.Handler {
	return &tracedLog{Handler: h, bare: h, fields: fields}
}

// Handle implements slog.Handler.
func (l *tracedLog) Handle(ctx context.Context, r slog.Record) error {
	sc := traceparent.Of(ctx)
	if !sc.IsValid() {
		return l.Handler.Handle(ctx, r)
	}
	h := l.bare.WithAttrs(l.fields(sc.TraceID().String(), sc.SpanID().String(), sc.IsSampled()))
	for _, derive := range l.derive {
		h = derive(h)
	}
	return h.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *tracedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (l *tracedLog) WithGroup(name string) slog.Handler {
	return l.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (l *tracedLog) with(derive func(slog.Handler) slog.Handler) slog.Handler {
	list := append(l.derive[:len(l.derive):len(l.derive)], derive)
	return &tracedLog{Handler: derive(l.Handler), bare: l.bare, derive: list, fields: l.fields}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
