package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/internal/fadinglog"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
)

// watched is a backend whose failures are logged at a falling rate, and whose writes tell
// the readiness what is well. Rejections are the routes' to log: they are a record's fault.
type watched struct {
	sink.Backend
	logger *slog.Logger
	// wrote is told the route of every entry that was written.
	wrote func(route string)
	// tables are those that the routes file names. Another one's name is data.
	tables map[string]bool
	events fadinglog.Kinds[failureKind]
}

// failureKind is of a fixed set: the routes file has the instances and the tables, and
// codes that gRPC does not define are one.
type failureKind struct {
	request string // write, ensure, open
	dest    sink.Dest
	outcome sink.Kind
	code    codes.Code
}

// watch puts a watched before backend.
func (srv *server) watch(backend sink.Backend) *watched {
	w := &watched{Backend: backend, logger: srv.logger, wrote: func(route string) { srv.ready.Wrote(route) }, tables: map[string]bool{}}
	for _, r := range srv.routes.List {
		if r.Bigtable != nil && r.Bigtable.Table != "" {
			w.tables[r.Bigtable.Table] = true
		}
	}
	return w
}

func (w *watched) Open(ctx context.Context, instance string) error {
	err := w.Backend.Open(ctx, instance)
	if err != nil {
		w.failed("open", sink.Dest{Instance: instance}, sink.Outcome{Kind: sink.Transient, Err: err}, 0)
	}
	return err
}

func (w *watched) Ensure(ctx context.Context, d sink.Dest) sink.Ensured {
	e := w.Backend.Ensure(ctx, d)
	if e.Kind != sink.Applied {
		w.failed("ensure", d, e.Outcome, 0)
	}
	return e
}

func (w *watched) Write(ctx context.Context, d sink.Dest, batch []sink.Entry) []sink.Outcome {
	defer func() {
		if p := recover(); p != nil {
			w.panicked(d, p)
			panic(p) // the writer's to settle
		}
	}()
	outs := w.Backend.Write(ctx, d, batch)
	var last *sink.Route
	var told []failureKind
	for i := range min(len(outs), len(batch)) {
		o := &outs[i]
		switch o.Kind {
		case sink.Applied:
			if r := batch[i].Route; r != nil && r != last {
				last = r
				w.wrote(r.Name)
			}
		case sink.Transient, sink.Undecided, sink.Fatal:
			// Once a request, however many entries it held.
			kind := failureKind{outcome: o.Kind, code: codeOf(o.Err)}
			if !slices.Contains(told, kind) && !bigtable.HeldBack(o.Err) {
				told = append(told, kind)
				w.failed("write", d, *o, len(batch))
			}
		}
	}
	return outs
}

// failed logs a failure, if it is due. The error's text holds no data.
func (w *watched) failed(request string, d sink.Dest, o sink.Outcome, entries int) {
	if d.Table != "" && !w.tables[d.Table] {
		d.Table = ""
	}
	code := codeOf(o.Err)
	n, due := w.events.Due(failureKind{request, d, o.Kind, code})
	if !due {
		return
	}
	fields := []any{"request", request, "instance", d.Instance, "outcome", o.Kind.String(), "count", n}
	if d.Table != "" {
		fields = append(fields, "table", d.Table)
	}
	if code != codes.OK {
		fields = append(fields, "code", code.String())
	}
	if entries > 0 {
		fields = append(fields, "entries", entries)
	}
	if o.Err != nil {
		fields = append(fields, "cause", o.Err.Error())
	}
	w.logger.Warn("backend request failed", fields...)
}

// panicked logs where. Only a runtime error's text is shown: another value may be data.
func (w *watched) panicked(d sink.Dest, p any) {
	if _, due := w.events.Due(failureKind{request: "panic"}); !due {
		return
	}
	fields := []any{"instance", d.Instance, "stack", string(debug.Stack())}
	if e, ok := p.(runtime.Error); ok {
		fields = append(fields, "panic", e.Error())
	}
	w.logger.Error("panic in a backend request", fields...)
}

// codeOf is the gRPC code of an adapter's error; OK = it has none.
func codeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	code := codes.OK
	var coded interface{ Code() codes.Code }
	if errors.As(err, &coded) {
		code = coded.Code()
	} else if s, ok := status.FromError(err); ok {
		code = s.Code()
	}
	if code > codes.Unauthenticated {
		code = codes.Unknown
	}
	return code
}
