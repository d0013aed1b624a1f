package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink"
	"github.com/pushsink/pushsink/internal/fadinglog"
	"github.com/pushsink/pushsink/internal/traceparent"
	"github.com/pushsink/pushsink/schema"
)

// api is the HTTP surface. It is immutable but for what its parts guard themselves.
type api struct {
	routes      map[string]*route
	list        []*route // in the order of the configuration
	def         *route
	pushes      map[string]*route // by the paths that straight knows
	limits      Limits
	expose      Expose
	deadLetters DeadLetters
	process     Process
	observer    Observer
	tracing     Tracing // nil = nothing is traced
	log         *slog.Logger
	console     *Console // nil = there is none
	metrics     http.Handler

	arrivals   arrivals
	reading    reading
	budget     budget
	decoding   decoding
	buffers    buffers
	groups     groups
	codecs     codecs
	turns      turns
	deliveries deliveries
}

// route is a Route with what the handlers keep for it.
type route struct {
	*Route
	mapper Mapper
	// events are what becomes of refused records, which traffic drives.
	events fadinglog.Kinds[refusalKind]
	// maxAge is how old a cell of a family may be before it is collected; nil = any age.
	maxAge map[string]time.Duration
	// tripped: the log says that the route is.
	tripped atomic.Bool
}

// New composes the HTTP surface.
func New(c Config) http.Handler { return newAPI(c).handler(c.Auth) }

func newAPI(c Config) *api {
	h := &api{
		routes:      make(map[string]*route, len(c.Routes)),
		pushes:      make(map[string]*route, len(c.Routes)+1),
		limits:      c.Limits,
		expose:      c.Expose,
		deadLetters: c.DeadLetters,
		process:     c.Process,
		observer:    c.Observer,
		tracing:     c.Tracing,
		log:         c.Logger,
		metrics:     c.Metrics,
		turns:       newTurns(),
	}
	if h.observer == nil {
		h.observer = noObserver{}
	}
	if c.Expose.Console && c.Console != nil {
		h.console = c.Console
		h.observer = c.Console.observe(h.observer, c.Routes)
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	h.arrivals.now = c.Now
	if h.arrivals.now == nil {
		h.arrivals.now = time.Now
	}
	h.budget.max, h.budget.observer = c.Limits.BodyBytesInFlight, h.observer
	h.decoding = newDecoding(c.Limits.BodyBytesInFlight)
	if c.Process.Reading != nil {
		context.AfterFunc(c.Process.Reading, h.reading.end)
	}
	for _, r := range c.Routes {
		rt := &route{Route: r, mapper: r.Mapper, maxAge: maxAges(r.Bigtable)}
		if rt.mapper == nil {
			rt.mapper = r.Mapping
		}
		h.routes[r.Name] = rt
		h.list = append(h.list, rt)
		if r.Name != "" && !strings.Contains(r.Name, "/") { // which no path of the pattern holds
			h.pushes[strings.Replace(pushPattern, "{route}", r.Name, 1)] = rt
		}
		if r == c.Default {
			h.def = rt
			h.pushes["/"] = rt
		}
	}
	return h
}

// pushPattern is the pattern of a route's pushes.
const pushPattern = "/v1/routes/{route}/push"

// handler gives everything. Nearly all requests are pushes to a known route: these go past
// the router, which would copy each of them, and to the same end.
func (h *api) handler(auth func(http.Handler) http.Handler) http.Handler {
	if auth == nil {
		auth = denyAll
	}
	router := h.router(auth)
	push := h.recovered(auth(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, ok := w.(*statusWriter); ok {
			s.routed = true
		}
		h.servePush(w, r, h.straight(r))
	})))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt := h.straight(r); rt != nil {
			h.observed(w, r, rt, push)
			return
		}
		router.ServeHTTP(w, r)
	})
}

// router builds the router. Everything but the open endpoints stands behind auth, unknown
// paths included, so that 401 comes before 404.
func (h *api) router(auth func(http.Handler) http.Handler) chi.Router {
	r := chi.NewRouter()
	r.Use(h.observe, h.recovered, func(next http.Handler) http.Handler {
		closed := auth(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h.open(r) {
				next.ServeHTTP(w, r)
				return
			}
			closed.ServeHTTP(w, r)
		})
	})
	r.Post(pushPattern, h.withRoute(h.servePush))
	r.Post("/v1/routes/{route}/records", h.withRoute(h.serveRecords))
	dryrun, rows := unexposed("dryrun"), unexposed("rows")
	if h.expose.Dryrun {
		dryrun = h.withRoute(h.serveDryrun)
	}
	if h.expose.Rows {
		rows = h.withRoute(h.serveRows)
	}
	r.Post("/v1/routes/{route}/dryrun", dryrun)
	r.Get("/v1/routes/{route}/rows", rows)
	if h.def != nil {
		r.Post("/", func(w http.ResponseWriter, r *http.Request) { h.servePush(w, r, h.def) })
	}
	if h.console != nil {
		h.routeConsole(r)
	}
	if h.metrics != nil {
		r.Get("/metrics", h.metrics.ServeHTTP)
	} else {
		r.Get("/metrics", absent("not on this port: PUSHSINK_METRICS_PORT is the one that has them"))
	}
	r.Get("/health/startup", h.serveStartup)
	r.Get("/health/ready", h.serveReady)
	r.Get("/health/live", h.serveLive)
	r.Get("/health/routes/{route}", h.serveRouteHealth)
	r.Get("/openapi.yaml", serveOpenAPI)

	// A browser's first try. The path may be there all the same, for pushes.
	console := func(r *http.Request, detail string) string {
		if h.console == nil && r.URL.Path == "/" && r.Method == http.MethodGet {
			detail += "; the console is " + notExposed("console")
		}
		return detail
	}
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusNotFound, console(r, "no such path"))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		methods := allowed(r, req)
		if len(methods) == 0 { // the router asks no further where it does not know the method
			refuse(w, req, http.StatusNotFound, "no such path")
			return
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		refuse(w, req, http.StatusMethodNotAllowed, console(req, "method not allowed on this path"))
	})
	return r
}

// unexposed answers for an endpoint that PUSHSINK_EXPOSE leaves closed.
func unexposed(word string) http.HandlerFunc {
	return absent(notExposed(word))
}

func notExposed(word string) string { return "not exposed: PUSHSINK_EXPOSE=" + word + " opens it" }

// absent is 404 with its reason.
func absent(detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { refuse(w, r, http.StatusNotFound, detail) }
}

// straight gives the route of a push whose path is written as in the documentation; nil = the
// router decides.
func (h *api) straight(r *http.Request) *route {
	if r.Method != http.MethodPost || r.URL.RawPath != "" {
		return nil
	}
	return h.pushes[r.URL.Path]
}

// open reports whether a request needs no authentication: it gives and takes no data.
func (h *api) open(r *http.Request) bool {
	p := r.URL.Path
	return p == "/openapi.yaml" || strings.HasPrefix(p, "/health/") ||
		p == "/metrics" && h.metrics != nil
}

// standardMethods are the methods that routing and metrics know.
var standardMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodHead, http.MethodOptions, http.MethodConnect, http.MethodTrace}

// allowed lists the methods that the request's path takes.
func allowed(r chi.Routes, req *http.Request) []string {
	path := req.URL.RawPath
	if path == "" {
		path = req.URL.Path
	}
	var methods []string
	for _, m := range standardMethods {
		if r.Match(chi.NewRouteContext(), m, path) {
			methods = append(methods, m)
		}
	}
	return methods
}

// withRoute looks the path's route up.
func (h *api) withRoute(serve func(http.ResponseWriter, *http.Request, *route)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rt := h.routeOf(r)
		if rt == nil {
			refuse(w, r, http.StatusNotFound, "no such route")
			return
		}
		serve(w, r, rt)
	}
}

func (h *api) routeOf(r *http.Request) *route {
	name := chi.URLParam(r, "route")
	if r.URL.RawPath != "" {
		// chi matched the escaped path.
		var err error
		if name, err = url.PathUnescape(name); err != nil {
			return nil
		}
	}
	return h.routes[name]
}

// denyAll stands in where no authentication was configured.
func denyAll(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, r, http.StatusUnauthorized, "authentication is not configured (AUTH)")
	})
}

// NoAuth lets every request in: AUTH=none, which must be typed in full, and dev mode.
func NoAuth(next http.Handler) http.Handler { return next }

// recovered answers 500 for a panic in a handler: a record whose request panicked is never
// acknowledged. Where the answer had begun, the connection is broken off instead.
func (h *api) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			h.logPanic(&traceparent.Context{Context: r.Context(), Header: r.Header}, p)
			if s, ok := w.(*statusWriter); !ok || s.status != 0 {
				panic(http.ErrAbortHandler)
			}
			refuse(w, r, http.StatusInternalServerError, "an internal error")
		}()
		next.ServeHTTP(w, r)
	})
}

// logPanic logs where it happened. Only a runtime error's text is logged: another value may
// hold data.
func (h *api) logPanic(ctx context.Context, p any) {
	attrs := []any{slog.String("stack", string(debug.Stack()))}
	if e, ok := p.(runtime.Error); ok {
		attrs = append(attrs, slog.String("panic", e.Error()))
	}
	h.log.ErrorContext(ctx, "panic in a request", attrs...)
}

// statusWriter remembers the status of the answer, and when the headers were read.
type statusWriter struct {
	http.ResponseWriter
	start    time.Time
	status   int        // 0 = nothing was written
	routed   bool       // auth let a push in that straight found
	span     trace.Span // nil = the request is not traced
	exchange exchange   // the request's, made with it; see begin
}

// What stands in metrics for what a caller may choose freely.
const (
	unmatched   = "unmatched" // for the pattern of a path that is none of ours
	otherMethod = "other"     // for a method that is none of the standard ones
)

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetReadDeadline is that of http.ResponseController, without making one.
func (w *statusWriter) SetReadDeadline(at time.Time) error {
	if d, ok := w.ResponseWriter.(interface{ SetReadDeadline(time.Time) error }); ok {
		return d.SetReadDeadline(at)
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(at)
}

// observe is observed for what the router routes.
func (h *api) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.observed(w, r, nil, next) })
}

// observed counts the request and makes sure that an answer is given: a handler that returns
// without one would be answered 200 by net/http. rt is set for what straight found.
func (h *api) observed(w http.ResponseWriter, r *http.Request, rt *route, next http.Handler) {
	start := time.Now()
	s := &statusWriter{ResponseWriter: w, start: start}
	if h.tracing != nil {
		if ctx, span := h.tracing.Begin(r); span != nil {
			r, s.span = r.WithContext(ctx), span
			defer s.abandonSpan()
		}
	}
	if r.ContentLength != 0 {
		// net/http reads on in a body that the handler leaves, without any bound of its own.
		_ = s.SetReadDeadline(start.Add(h.limits.ReadBodyTimeout))
	}
	next.ServeHTTP(s, r)
	if r.ProtoMajor == 2 && r.Context().Err() != nil {
		aborted(r.Context())
	}
	if s.status == 0 {
		refuse(s, r, http.StatusInternalServerError, "an internal error: no answer was given")
	}
	pattern, name, method := unmatched, "", http.MethodPost
	switch {
	case rt == nil:
		pattern, name, method = h.labels(r, s.status)
	case !s.routed:
	case r.URL.Path == "/":
		pattern, name = "/", rt.Name
	default:
		pattern, name = pushPattern, rt.Name
	}
	h.observer.Request(pattern, name, method, s.status, time.Since(start))
	if s.span != nil {
		s.endSpan(r, pattern, name, method)
	}
}

// labels are what metrics say of a request that the router routed.
func (h *api) labels(r *http.Request, status int) (pattern, name, method string) {
	pattern = unmatched
	if status != http.StatusNotFound || chi.URLParam(r, "route") != "" {
		if p := chi.RouteContext(r.Context()).RoutePattern(); p != "" {
			pattern = p
		}
	}
	method = otherMethod
	if i := slices.Index(standardMethods, r.Method); i >= 0 {
		method = standardMethods[i] // metrics keep it, and r.Method is part of the request's whole first line
	}
	if rt := h.routeOf(r); rt != nil {
		name = rt.Name
	} else if h.def != nil && pattern == "/" && method == http.MethodPost {
		name = h.def.Name
	}
	return pattern, name, method
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(pushsink.OpenAPI)
}

var _ Mapper = (*schema.Mapping)(nil)
