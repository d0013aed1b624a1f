package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
	"github.com/pushsink/pushsink/sink/bigtable/embedded"
)

// open composes the server and opens its port. It waits for no backend: whether one can be
// reached is the readiness's to find out.
func (srv *server) open(ctx context.Context) error {
	s := srv.settings
	var err error
	if srv.routes, err = s.routes(); err != nil {
		return err
	}
	if srv.telemetry, err = newTelemetry(s.MetricsPort, s.Dev); err != nil {
		return err
	}
	if err := srv.openBigtable(); err != nil {
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

	// The port first, so that a start that cannot have it changes nothing elsewhere.
	if srv.listener, err = listen(s.Port, s.Dev); err != nil {
		return fmt.Errorf("PORT: %w", err)
	}
	checks, end := context.WithCancel(context.WithoutCancel(ctx))
	srv.endChecks = end
	srv.ready = newReadiness(checks, srv.logger, srv.check)

	config := handlers.Config{
		Routes: routes, Default: def,
		Limits: s.limits(), Auth: handlers.NoAuth, Expose: s.expose(),
		Process:  handlers.Process{Warm: srv.ready.Warm, Draining: srv.ready.Draining, Causes: srv.ready.Causes},
		Observer: observer, Logger: srv.logger,
	}
	if srv.letters != nil {
		config.DeadLetters = letterbox{srv.letters}
	}
	if s.Dev {
		config.Metrics = srv.telemetry.page
	}
	srv.http = handlers.NewServer(handlers.New(config), s.limits())
	srv.http.ConnState = srv.conns.track
	srv.http.ErrorLog = slog.NewLogLogger(srv.logger.Handler(), slog.LevelDebug)
	srv.served = make(chan error, 1)
	go func() { srv.served <- srv.http.Serve(srv.listener) }()
	return nil
}

// routes compiles the routes file, or dev mode's own.
func (s *settings) routes() (*schema.Routes, error) {
	if s.Dev {
		return schema.Compile("demo.yaml", demoRoutes)
	}
	text, err := os.ReadFile(s.RoutesFile)
	if err != nil {
		return nil, fmt.Errorf("PUSHSINK_ROUTES_FILE: %w", err)
	}
	routes, err := schema.Compile(s.RoutesFile, text)
	if err != nil {
		return nil, err
	}
	for _, r := range routes.List {
		if r.Bigtable == nil {
			return nil, fmt.Errorf("route %s: spanner: this version writes to Bigtable only", r.Name)
		}
	}
	return routes, nil
}

// openBigtable makes the backend and its writer, in dev mode over a Bigtable in memory.
func (srv *server) openBigtable() error {
	s := srv.settings
	config := s.bigtableConfig()
	config.Meter = srv.telemetry.meter()
	if s.Dev {
		var err error
		if srv.memory, err = embedded.Start(); err != nil {
			return fmt.Errorf("the Bigtable in memory: %w", err)
		}
		config.Project, config.Instance, config.AppProfile = "dev", "memory", ""
		config.Endpoint, config.DialOptions = embedded.Endpoint, srv.memory.DialOptions()
	}
	var err error
	if srv.backend, err = bigtable.New(config, srv.routes.List); err != nil {
		return err
	}
	options := s.bigtableWriter()
	metrics, err := sink.NewMetrics(srv.telemetry.meter(), options.Sink)
	if err != nil {
		return err
	}
	options.Observer = metrics
	if srv.writer, err = sink.New(srv.backend, options); err != nil {
		return err
	}
	_, err = metrics.Register(srv.writer) // for as long as the process runs
	return err
}

// handlerRoutes gives each route what its requests need; def is the default one or nil.
func (srv *server) handlerRoutes() (list []*handlers.Route, def *handlers.Route, err error) {
	srv.fixed = map[string]sink.Dest{}
	for _, r := range srv.routes.List {
		identity := &sink.Route{Name: r.Name, Trips: r.OnReject != schema.Fail}
		target, err := srv.backend.Route(r, identity)
		if err != nil {
			return nil, nil, err
		}
		fixed, err := target.Dest("", "")
		if err != nil {
			fixed = sink.Dest{} // the record says
		}
		if err == nil {
			srv.fixed[r.Name] = fixed
		}
		route := &handlers.Route{
			Route: r, Sink: identity, Target: target, Writer: handlers.SinkWriter(srv.writer, fixed),
			Rows: rowReader{srv.backend, target, r.Bigtable.Table != ""},
		}
		list = append(list, route)
		if r == srv.routes.Default {
			def = route
		}
	}
	return list, def, nil
}

// check asks for every route whether its table can be written to, and its dead letters
// published. Its answer is empty as long as some route is well: what only others lack is
// logged, and their requests are answered 503.
func (srv *server) check(ctx context.Context) []string {
	problems := srv.checkDeadLetters(ctx)
	for _, p := range srv.backend.Check(ctx) {
		if problems[p.Route] != "" {
			problems[p.Route] += "; "
		}
		problems[p.Route] += p.Text
	}
	if srv.settings.Dev && len(problems) == 0 {
		srv.makeDemoTable(ctx)
	}
	for name, dest := range srv.fixed {
		if problems[name] == "" {
			srv.writer.ClearFatal(dest)
		}
	}
	var texts []string
	for _, name := range sortedKeys(problems) {
		texts = append(texts, "route "+name+": "+problems[name])
	}
	if len(problems) == len(srv.routes.List) {
		return texts
	}
	for _, text := range texts {
		if ctx.Err() == nil {
			srv.logger.Warn("route not ready", "cause", text)
		}
	}
	return nil
}

// makeDemoTable lets the demo's rows be asked for before there are any. The check left the
// client open.
func (srv *server) makeDemoTable(ctx context.Context) {
	if made := srv.backend.Ensure(ctx, srv.fixed["demo"]); made.Kind != sink.Applied {
		srv.logger.Debug("the demo's table waits for its first record", "error", made.Err)
	}
}
