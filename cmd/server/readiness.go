package main

import (
	"context"
	"log/slog"
	"sync"
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

// readiness is what is known of the backend apart from traffic: it is checked once at
// start, and as long as that failed, again while the server is probed. Its answers come
// from memory.
type readiness struct {
	logger *slog.Logger
	// check asks the backend, for every route, whether it can be written to, and
	// returns the reasons why not.
	check func(context.Context) []string
	// ctx ends every check.
	ctx   context.Context
	began time.Time

	// mu guards what follows; check runs without it.
	mu       sync.Mutex
	running  sync.WaitGroup
	ended    bool // the first check has
	checking bool
	last     time.Time // when the last check ended
	causes   []string
	draining bool
}

// newReadiness starts the first check. ctx ends it and all later ones; wait returns when
// none is left.
func newReadiness(ctx context.Context, logger *slog.Logger, check func(context.Context) []string) *readiness {
	r := &readiness{logger: logger, check: check, ctx: ctx, began: time.Now(), causes: []string{"the first check of the backend has not ended"}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start()
	return r
}

// start begins a check; r.mu is held.
func (r *readiness) start() {
	r.checking = true
	r.running.Add(1)
	go func() {
		defer r.running.Done()
		ctx, cancel := context.WithTimeout(r.ctx, checkMost)
		defer cancel()
		began := time.Now()
		causes := r.check(ctx)
		r.finish(causes, time.Since(began))
	}()
}

func (r *readiness) finish(causes []string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return // it was cut short, so it says nothing
	}
	before := len(r.causes)
	first := !r.ended
	r.ended, r.checking, r.last, r.causes = true, false, time.Now(), causes
	switch {
	case len(causes) > 0 && first:
		r.logger.Warn("backend not ready", "took", took.String(), "causes", causes)
	case len(causes) == 0 && (first || before > 0):
		r.logger.Info("backend ready", "took", took.String())
	}
}

// Warm reports that the first check ended, well or badly, or had its time.
func (r *readiness) Warm() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended || time.Since(r.began) >= warmUpMost
}

// Causes are the reasons of the last check. Asking for them while there are some begins
// the next check.
func (r *readiness) Causes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.causes) > 0 && !r.checking && !r.draining && time.Since(r.last) >= recheckEvery {
		r.start()
	}
	return r.causes
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
