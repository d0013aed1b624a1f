package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// open composes the server and opens its port. It waits for no backend: whether one can be
// reached is the readiness's to find out.
func (srv *server) open(ctx context.Context) error {
	s := srv.settings
	var err error
	if srv.routes, err = s.routes(); err != nil {
		return err
	}
	if srv.telemetry, err = newTelemetry(ctx, s, srv.platform, srv.logger, srv.views...); err != nil {
		return err
	}
	if s.expose().Console {
		srv.console = handlers.NewConsole(handlers.ConsoleInfo{Version: version(), Dev: s.Dev})
	}
	if err := srv.openSinks(); err != nil {
		return err
	}
	if err := srv.openDeadLetters(ctx); err != nil {
		return err
	}
	routes, def, err := srv.handlerRoutes()
	if err != nil {
		return err
	}
	observer, err := newObserver(srv.telemetry.meter())
	if err != nil {
		return err
	}
	guard, err := srv.auth(observer)
	if err != nil {
		return err
	}

	// The port first, so that a start that cannot have it changes nothing elsewhere.
	if srv.listener == nil {
		if srv.listener, err = listen(s.Port, s.Dev); err != nil {
			return fmt.Errorf("PORT: %w", err)
		}
	}
	checks, end := context.WithCancel(context.WithoutCancel(ctx))
	srv.endChecks = end
	reading, end := context.WithCancel(context.WithoutCancel(ctx))
	srv.endReading = end
	srv.ready = newReadiness(checks, srv.logger, srv.check)

	config := handlers.Config{
		Routes: routes, Default: def,
		Limits: s.limits(), Auth: guard, Expose: s.expose(),
		Process:  handlers.Process{Warm: srv.ready.Warm, Draining: srv.ready.Draining, Reading: reading, Problems: srv.ready.Problems},
		Observer: observer, Logger: srv.logger, Console: srv.console,
	}
	if tracer := srv.telemetry.tracer(); tracer != nil {
		config.Tracing = requestTracing{tracer, s.OTel.Sampler}
	}
	if srv.letters != nil {
		if config.DeadLetters, err = newLetterbox(srv.letters, srv.telemetry.meter()); err != nil {
			return err
		}
	}
	if s.Dev {
		config.Metrics = srv.telemetry.page
	}
	srv.http = handlers.NewServer(handlers.New(config), s.limits())
	srv.http.ConnState = srv.conns.track
	srv.http.ErrorLog = slog.NewLogLogger(srv.logger.Handler(), slog.LevelDebug)
	srv.served = make(chan error, 1)
	go func() { srv.served <- srv.http.Serve(handlers.Listener(srv.listener)) }()
	return nil
}

// routes compiles the routes file, or dev mode's own.
func (s *settings) routes() (*schema.Routes, error) {
	switch {
	case s.compiled != nil:
		return s.compiled, nil
	case s.Dev:
		return schema.Compile("demo.yaml", demoRoutes)
	default:
		return compile("PUSHSINK_ROUTES_FILE", s.RoutesFile)
	}
}

// compile reads the routes file that option names.
func compile(option, file string) (*schema.Routes, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	// A relative name in it begins at its own folder.
	return schema.CompileWith(file, text, func(name string) (io.ReadCloser, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		return os.Open(name)
	})
}

// openSinks opens the kinds of sink that some route writes to.
func (srv *server) openSinks() error {
	k := sinksOf(srv.routes)
	for _, warning := range append(srv.settings.sinkWarnings(k), srv.routes.Warnings...) {
		srv.warn(warning)
	}
	srv.settings.limitMemory(k)
	if k.bigtable {
		if err := srv.openBigtable(); err != nil {
			return err
		}
	}
	if k.spanner {
		return srv.openSpanner()
	}
	return nil
}

// handlerRoutes gives each route what its requests need; def is the default one or nil.
func (srv *server) handlerRoutes() (list []*handlers.Route, def *handlers.Route, err error) {
	srv.fixed = map[*schema.Route]sink.Dest{}
	for _, r := range srv.routes.List {
		identity := &sink.Route{Name: r.Name, Trips: r.OnReject != schema.Fail}
		out := srv.outlets.of(r)
		b, err := out.bind(r, identity)
		if err != nil {
			return nil, nil, err
		}
		if b.dest != (sink.Dest{}) {
			srv.fixed[r] = b.dest
		}
		route := &handlers.Route{
			Route: r, Sink: identity, Target: b.target, Writer: handlers.SinkWriter(out.writer, b.dest), Dest: b.dest, Rows: b.rows,
		}
		list = append(list, route)
		if r == srv.routes.Default {
			def = route
		}
	}
	return list, def, nil
}

// check asks for every route whether its table can be written to, and its dead letters
// published. What the last check found wrong and this one does not is let through at once.
func (srv *server) check(ctx context.Context) causes {
	found := srv.problems(ctx)
	for r, dest := range srv.fixed {
		if srv.found[r.Name].sink != "" && found[r.Name].sink == "" {
			srv.outlets.of(r).writer.ClearFatal(dest)
		}
	}
	if ctx.Err() == nil || srv.found == nil {
		srv.found = found
	}
	return found
}

// problems asks everything that some route needs, side by side, so that what does not
// answer leaves the others their time. It says by route what is wrong.
func (srv *server) problems(ctx context.Context) causes {
	list := srv.outlets.list()
	sinks := make([]map[string]string, len(list))
	var all sync.WaitGroup
	for i, out := range list {
		all.Go(func() { sinks[i] = out.check(ctx) })
	}
	letters := srv.checkDeadLetters(ctx)
	all.Wait()
	found := causes{}
	for _, some := range sinks {
		for name, text := range some {
			found[name] = cause{sink: text}
		}
	}
	for name, text := range letters {
		found[name] = cause{found[name].sink, text}
	}
	return found
}

func addProblem(problems map[string]string, route, text string) {
	if problems[route] != "" {
		text = problems[route] + "; " + text
	}
	problems[route] = text
}
