package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"
)

// closeReserve is the least that the writer leaves of the budget when it has to cancel
// requests: it waits up to 250 ms for their ends, and clients and telemetry come after it.
const closeReserve = 500 * time.Millisecond

// stop drains and closes in the order that loses nothing: first nobody gets in, then those
// inside are answered, and only then what they needed goes away. All of it fits in
// SHUTDOWN_TIMEOUT. What was never opened is left out.
func (srv *server) stop() error {
	budget := srv.settings.ShutdownTimeout
	logger := srv.logger
	if srv.http == nil {
		logger = slog.New(slog.DiscardHandler) // it never ran; the error says why
	}
	s, cancel := newStopper(logger, budget)
	defer cancel()
	if srv.http != nil {
		s.step("close listener", func(context.Context) error {
			srv.ready.Drain()
			srv.http.SetKeepAlivesEnabled(false)
			err := srv.listener.Close()
			<-srv.served // its error is the closed listener
			if errors.Is(err, net.ErrClosed) {
				return nil // it had failed, which is reported already
			}
			return err
		})
		s.step("drain requests", func(ctx context.Context) error {
			for _, out := range srv.outlets.list() {
				out.writer.Drain(s.began.Add(budget * 5 / 8))
			}
			// Shutdown begins to look at once, and then less and less often: each wait is its own.
			until := func(sixteenths time.Duration) error {
				ctx, cancel := context.WithDeadline(ctx, s.began.Add(budget*sixteenths/16))
				defer cancel()
				return srv.http.Shutdown(ctx)
			}
			if until(12) == nil {
				return nil
			}
			srv.endReading() // the handlers of bodies that still arrive answer 503 now
			if until(13) == nil {
				return nil
			}
			srv.conns.stopReading()
			err := until(14)
			if err != nil {
				_ = srv.http.Close() // of connections that are broken off anyway
			}
			return err
		})
	}
	if len(srv.outlets.list()) > 0 {
		s.step("close writer", func(ctx context.Context) error {
			ctx, cancel := context.WithDeadline(ctx, s.began.Add(min(budget*13/16, budget-closeReserve)))
			defer cancel()
			err := srv.outlets.closeWriters(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				// Every caller was answered, so this loses nothing that was acknowledged.
				srv.logger.Warn("requests to the backend were cancelled after their callers were answered")
				return nil
			}
			return err
		})
	}
	if len(srv.outlets.list()) > 0 {
		s.step("close clients", func(ctx context.Context) error {
			if srv.ready != nil {
				srv.endChecks()
				srv.ready.wait()
			}
			for _, out := range srv.outlets.list() {
				out.close()
			}
			if srv.letters != nil {
				return srv.letters.Close(ctx)
			}
			return nil
		})
	}
	if srv.telemetry != nil {
		s.step("flush telemetry", srv.telemetry.close)
	}
	return s.done()
}
