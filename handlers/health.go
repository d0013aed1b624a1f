package handlers

import (
	"net/http"
	"slices"
	"time"
)

// The states a probe answers.
const (
	statusOK      = "ok"
	statusTrial   = "trial" // able, but a tripped route waits for the write that decides
	statusFailing = "failing"
)

// health is a probe's answer. Reasons name options, routes and counts, never data.
type health struct {
	status  string
	reasons []string
}

// serveStartup passes once the first warm-up ended, well or badly: a backend that is out of
// reach must not keep the instance from starting.
func (h *api) serveStartup(w http.ResponseWriter, _ *http.Request) {
	if h.process.Warm != nil && !h.process.Warm() {
		health{statusFailing, []string{"the first warm-up has not ended"}}.send(w)
		return
	}
	health{status: statusOK}.send(w)
}

// serveReady fails while no route can be written. With one route that is as soon as the route
// cannot; with several, one broken route must not take the others' traffic away.
func (h *api) serveReady(w http.ResponseWriter, _ *http.Request) { h.ready().send(w) }

func (h *api) ready() health {
	var s health
	if h.process.Draining != nil && h.process.Draining() {
		return health{statusFailing, []string{"draining after SIGTERM"}}
	}
	problems := h.problems()
	able, trial := 0, false
	for _, rt := range h.list {
		r := rt.health(problems)
		if r.status != statusFailing {
			able++
		}
		trial = trial || r.status == statusTrial
		for _, why := range r.reasons {
			if !slices.Contains(s.reasons, why) {
				s.reasons = append(s.reasons, why)
			}
		}
	}
	switch {
	case able == 0 && len(h.list) > 0:
		s.status = statusFailing
	case trial:
		s.status = statusTrial
	default:
		s.status = statusOK
	}
	return s
}

func (h *api) problems() map[string]string {
	if h.process.Problems == nil {
		return nil
	}
	return h.process.Problems()
}

// serveLive fails when the process should be started anew: the writer is stuck, or ready has
// failed by a trip for HEALTH_LIVENESS_GRACE.
func (h *api) serveLive(w http.ResponseWriter, _ *http.Request) {
	var s health
	for _, rt := range h.list {
		if why := rt.Writer.Stuck(); why != "" {
			s.reasons = append(s.reasons, why)
			break
		}
	}
	if g := h.limits.LivenessGrace; g > 0 {
		if since, ok := h.trippedSince(); ok && time.Since(since) >= g {
			s.reasons = append(s.reasons, "every route is stopped by rejections for longer than HEALTH_LIVENESS_GRACE="+g.String())
		}
	}
	s.status = statusOK
	if len(s.reasons) > 0 {
		s.status = statusFailing
	}
	s.send(w)
}

// trippedSince is since when no route could serve, where all of them are tripped.
func (h *api) trippedSince() (since time.Time, ok bool) {
	for _, rt := range h.list {
		s := rt.Writer.RouteState(rt.Sink)
		if !s.Tripped || s.Trial {
			return time.Time{}, false
		}
		if s.TrippedSince.After(since) {
			since = s.TrippedSince
		}
	}
	return since, len(h.list) > 0
}

// serveRouteHealth tells one route's state.
func (h *api) serveRouteHealth(w http.ResponseWriter, r *http.Request) {
	rt := h.routeOf(r)
	if rt == nil {
		refuse(w, r, http.StatusNotFound, "no such route")
		return
	}
	rt.health(h.problems()).send(w)
}

// health is how the route stands, with one reason at most: the writer's, which is newer, goes
// before what was found outside.
func (rt *route) health(problems map[string]string) health {
	s := rt.Writer.RouteState(rt.Sink)
	reason := []string{"route " + rt.Name + ": " + s.Reason}
	switch {
	case s.Fatal, s.Tripped && !s.Trial:
		return health{statusFailing, reason}
	case problems[rt.Name] != "":
		return health{statusFailing, []string{"route " + rt.Name + ": " + problems[rt.Name]}}
	case problems[""] != "":
		return health{statusFailing, []string{problems[""]}}
	case s.Trial:
		return health{statusTrial, reason}
	default:
		return health{status: statusOK}
	}
}

func (s health) send(w http.ResponseWriter) {
	b := append(make([]byte, 0, 128), `{"status":`...)
	b = appendString(b, s.status)
	b = append(b, `,"reasons":[`...)
	for i, r := range s.reasons {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, r)
	}
	b = append(b, "]}\n"...)
	w.Header().Set("Content-Type", "application/json")
	setNoStore(w.Header())
	if s.status == statusFailing {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write(b)
}
