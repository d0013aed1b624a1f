package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// stopper runs the steps of a shutdown one after the other, within one budget, and logs
// each with its duration. A step that fails does not keep the next ones from running.
type stopper struct {
	logger *slog.Logger
	ctx    context.Context // ends with the budget
	began  time.Time
	errs   []error
}

// stepGrace is what a step that obeys its context may take to end with it.
const stepGrace = 100 * time.Millisecond

func newStopper(logger *slog.Logger, budget time.Duration) (*stopper, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	logger.Info("stopping", "budget", budget.String())
	return &stopper{logger: logger, ctx: ctx, began: time.Now()}, cancel
}

// step runs f, and goes on without it when the budget ends first: whatever f waits for
// then, the process ends anyway.
func (s *stopper) step(name string, f func(context.Context) error) {
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- f(s.ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-s.ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(stepGrace):
			err = fmt.Errorf("not ended within the budget: %w", s.ctx.Err())
		}
	}
	took := time.Since(began).Round(time.Microsecond).String()
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", name, err))
		s.logger.Error("stop step failed", "step", name, "took", took, "error", err.Error())
		return
	}
	s.logger.Info("stop step", "step", name, "took", took)
}

// done logs the total and returns what failed.
func (s *stopper) done() error {
	err := errors.Join(s.errs...)
	s.logger.Info("stopped", "took", time.Since(s.began).Round(time.Microsecond).String(), "clean", err == nil)
	return err
}
