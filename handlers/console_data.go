package handlers

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// consoleLive is the answer of GET /console/live. Counts are since the start of the process.
type consoleLive struct {
	Process string        `json:"process"`
	Now     int64         `json:"now"` // milliseconds since 1970
	Uptime  int64         `json:"uptime"`
	Health  consoleHealth `json:"health"`
	// Body is what the bodies of requests hold of BODY_BYTES_IN_FLIGHT.
	Body    held               `json:"body"`
	Durable []bucket           `json:"durable"`
	Sinks   []consoleSinkLive  `json:"sinks"`
	Routes  []consoleRouteLive `json:"routes"`
}

type consoleHealth struct {
	Status  string   `json:"status"`
	Reasons []string `json:"reasons"`
}

// held is a quantity with its cap.
type held struct {
	Held int64 `json:"held"`
	Cap  int64 `json:"cap"`
}

type consoleSinkLive struct {
	Sink         string   `json:"sink"`
	Entries      held     `json:"entries"`
	Bytes        held     `json:"bytes"`
	Requests     held     `json:"requests"`
	Buffered     int      `json:"buffered"`
	Waiting      int      `json:"waiting"`
	Destinations int      `json:"destinations"`
	Retries      uint64   `json:"retries"`
	Batch        []bucket `json:"batch"`
	BatchBytes   []bucket `json:"batchBytes"`
	BatchMost    int      `json:"batchMost"`
	ByteMicros   uint64   `json:"byteMicros"`
	Latency      []bucket `json:"latency"`
}

type consoleRouteLive struct {
	Name    string            `json:"name"`
	Health  consoleHealth     `json:"health"`
	Streak  int               `json:"streak"`
	Records map[Result]uint64 `json:"records"`
}

// serveConsoleLive answers from memory what moves.
func (h *api) serveConsoleLive(w http.ResponseWriter, _ *http.Request) {
	c := h.console
	now := time.Now()
	out := consoleLive{
		Process: c.process, Now: now.UnixMilli(), Uptime: now.Sub(c.started).Milliseconds(),
		Health:  h.ready().shown(),
		Body:    held{h.budget.used.Load(), h.limits.BodyBytesInFlight},
		Durable: c.age.buckets(),
	}
	for _, s := range c.sinks {
		out.Sinks = append(out.Sinks, s.live())
	}
	problems := h.problems()
	for _, rt := range h.list {
		counts := make(map[Result]uint64, len(results))
		for i, r := range results {
			counts[r] = c.routes[rt.Name][i].Load()
		}
		out.Routes = append(out.Routes, consoleRouteLive{
			Name: rt.Name, Health: rt.health(problems).shown(),
			Streak: rt.Writer.RouteState(rt.Sink).Streak, Records: counts,
		})
	}
	sendJSON(w, out)
}

func (s health) shown() consoleHealth { return consoleHealth{s.status, s.reasons} }

func (s *ConsoleSink) live() consoleSinkLive {
	var h sink.Health
	if s.health != nil {
		h = s.health()
	}
	o := s.bounds
	return consoleSinkLive{
		Sink:     strings.ToLower(o.Sink),
		Entries:  held{int64(h.InFlightEntries), int64(o.MaxInFlightEntries)},
		Bytes:    held{h.InFlightBytes, o.MaxInFlightBytes},
		Requests: held{int64(h.OpenRequests), int64(o.MaxInFlightRequests)},
		Buffered: h.Buffered, Waiting: h.WaitingCalls, Destinations: h.Lanes, Retries: h.Counters.Retries,
		Batch: s.entries.buckets(), BatchBytes: s.bytes.buckets(), BatchMost: o.MaxBatchEntries,
		ByteMicros: s.byteMicros.Load(),
		Latency:    s.latency.buckets(),
	}
}

// consoleRoutes is the answer of GET /console/routes: what stays as long as the process.
type consoleRoutes struct {
	Process string         `json:"process"`
	Version string         `json:"version"`
	Dev     bool           `json:"dev"`
	Exposed exposed        `json:"exposed"`
	Routes  []consoleRoute `json:"routes"`
}

type exposed struct {
	Rows   bool `json:"rows"`
	Dryrun bool `json:"dryrun"`
}

type consoleRoute struct {
	Name            string          `json:"name"`
	Default         bool            `json:"default"`
	Sink            string          `json:"sink"`
	Format          string          `json:"format"`
	Envelope        schema.Envelope `json:"envelope"`
	OnReject        schema.Policy   `json:"onReject"`
	DeadLetterTopic string          `json:"deadLetterTopic,omitempty"`
	// Instance and Table are where every record goes; empty where the record says.
	Instance string `json:"instance"`
	Table    string `json:"table"`
	// Rows: they can be read back.
	Rows bool `json:"rows"`
	// StreakBound is WRITER_MAX_CONSECUTIVE_REJECTIONS; -1 = never trips.
	StreakBound int `json:"streakBound"`
	// Trips: at the bound the route stops.
	Trips   bool   `json:"trips"`
	Mapping string `json:"mapping"`
}

func (h *api) serveConsoleRoutes(w http.ResponseWriter, _ *http.Request) {
	c := h.console
	out := consoleRoutes{Process: c.process, Version: c.info.Version, Dev: c.info.Dev,
		Exposed: exposed{h.expose.Rows, h.expose.Dryrun}}
	for _, rt := range h.list {
		out.Routes = append(out.Routes, rt.consoleRoute(rt == h.def, c.sinks))
	}
	sendJSON(w, out)
}

func (rt *route) consoleRoute(def bool, sinks []*ConsoleSink) consoleRoute {
	out := consoleRoute{
		Name: rt.Name, Default: def, Sink: "bigtable", Format: rt.Format, Envelope: rt.Envelope, OnReject: rt.OnReject,
		DeadLetterTopic: rt.DeadLetterTopic, Instance: rt.Dest.Instance, Table: rt.Dest.Table,
		Rows: rt.Rows != nil, StreakBound: -1, Mapping: rt.Source,
	}
	switch {
	case rt.Spanner != nil:
		out.Sink, out.Table = "spanner", rt.Spanner.Table
	case rt.Bigtable != nil && out.Table == "":
		out.Table = rt.Bigtable.Table
	}
	for _, s := range sinks {
		if strings.EqualFold(s.bounds.Sink, out.Sink) {
			out.StreakBound = s.bounds.MaxConsecutiveRejections
		}
	}
	out.Trips = rt.Sink.Trips && out.StreakBound > 0
	return out
}

func sendJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // types of ours that always have a JSON form
	}
	w.Header().Set("Content-Type", "application/json")
	setNoStore(w.Header())
	_, _ = w.Write(append(b, '\n'))
}
