package main

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// warmUpMost is how long the start-up probe waits for the first check at most: a
	// backend that does not answer must not keep the instance from being started.
	warmUpMost = 10 * time.Second
	// checkMost bounds one check.
	checkMost = 10 * time.Second
	// recheckEvery is how often, at most, a probe of a failing server checks again.
	recheckEvery = time.Second
)

// cause is why a route cannot be written to.
type cause struct {
	sink    string // an entry that is written proves it wrong
	letters string // why its dead letters cannot be published
}

func (c cause) String() string {
	if c.sink != "" && c.letters != "" {
		return c.sink + "; " + c.letters
	}
	return c.sink + c.letters
}

// causes are those of some routes, by name.
type causes map[string]cause

// shown are the texts of the causes.
func (c causes) shown() map[string]string {
	texts := make(map[string]string, len(c))
	for route, why := range c {
		texts[route] = why.String()
	}
	return texts
}

// readiness is what is known of the routes' backends apart from traffic: it is checked once
// at start, and as long as some route failed, again while the server is probed. Its answers
// come from memory.
type readiness struct {
	logger *slog.Logger
	// check asks the backends for every route whether it can be written to.
	check func(context.Context) causes
	// ctx ends every check.
	ctx   context.Context
	began time.Time

	// troubled: there are causes, or a check runs that may find some. What is written is of
	// no interest otherwise.
	troubled atomic.Bool

	// mu guards what follows; check runs without it.
	mu       sync.Mutex
	running  sync.WaitGroup
	ended    bool // the first check has
	checking bool
	last     time.Time // when the last check ended
	causes   causes
	shown    map[string]string   // the causes' texts; replaced, never changed
	wrote    map[string]struct{} // routes that wrote since the check that runs began
	draining bool
}

// newReadiness starts the first check. ctx ends it and all later ones; wait returns when
// none is left.
func newReadiness(ctx context.Context, logger *slog.Logger, check func(context.Context) causes) *readiness {
	r := &readiness{logger: logger, check: check, ctx: ctx, began: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(nil)
	r.start()
	return r
}

// start begins a check; r.mu is held.
func (r *readiness) start() {
	r.checking = true
	r.wrote = map[string]struct{}{}
	r.troubled.Store(true)
	r.running.Add(1)
	go func() {
		defer r.running.Done()
		ctx, cancel := context.WithTimeout(r.ctx, checkMost)
		defer cancel()
		began := time.Now()
		found := r.check(ctx)
		r.finish(found, time.Since(began))
	}()
}

func (r *readiness) finish(found causes, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return // it was cut short, so it says nothing
	}
	for route := range r.wrote {
		// It wrote after the check had begun, so this may be older.
		found = found.without(route)
	}
	before, first := r.shown, !r.ended
	r.ended, r.checking, r.last = true, false, time.Now()
	r.set(found)
	for _, route := range sortedKeys(r.shown) {
		if text := r.shown[route]; text != before[route] {
			r.logger.Warn("route not ready", "route", route, "cause", "route "+route+": "+text, "took", took.String())
		}
	}
	if len(found) == 0 && (first || len(before) > 0) {
		r.logger.Info("backend ready", "took", took.String())
	}
}

// set makes c what is known; r.mu is held.
func (r *readiness) set(c causes) {
	r.causes, r.shown = c, c.shown()
	r.troubled.Store(len(c) > 0 || r.checking)
}

// without is c without what a written entry of the route proves wrong.
func (c causes) without(route string) causes {
	if c[route].sink == "" {
		return c
	}
	rest := maps.Clone(c)
	if letters := c[route].letters; letters != "" {
		rest[route] = cause{letters: letters}
	} else {
		delete(rest, route)
	}
	return rest
}

// Wrote takes note that an entry of the route was written: what a check found wrong with
// its sink is over.
func (r *readiness) Wrote(route string) {
	if !r.troubled.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checking {
		r.wrote[route] = struct{}{}
	}
	if r.causes[route].sink == "" {
		return
	}
	r.set(r.causes.without(route))
	r.logger.Info("route ready", "route", route, "by", "a write")
}

// Warm reports that the first check ended, well or badly, or had its time.
func (r *readiness) Warm() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended || time.Since(r.began) >= warmUpMost
}

// firstCheck is the cause of every route until the first check ended.
const firstCheck = "the first check of the backend has not ended"

// Problems says by route why it cannot be written to, as the last check found and no write
// has disproved; "" = all routes. Asking for them while there are some begins the next check.
func (r *readiness) Problems() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		return map[string]string{"": firstCheck}
	}
	if len(r.causes) > 0 && !r.checking && !r.draining && time.Since(r.last) >= recheckEvery {
		r.start()
	}
	return r.shown
}

// Drain makes ready false for good.
func (r *readiness) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

func (r *readiness) Draining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// wait returns when no check runs. Their context must have ended.
func (r *readiness) wait() { r.running.Wait() }
