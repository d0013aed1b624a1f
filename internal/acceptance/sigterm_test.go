package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/scripted"
)

// TestTerminatedUnderLoad: every request that the server had begun to read when SIGTERM
// came gets a status, and the process exits with 0, which says that it needed no more than
// SHUTDOWN_TIMEOUT.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Run("SHUT-01 backend answers after SIGTERM", func(t *testing.T) {
		release := make(chan struct{})
		bt := scripted.New(t, scripted.Options{Script: func(*scripted.Call) scripted.Plan { return scripted.Plan{Until: release} }})
		bt.AddTable(tableName("json"), "f")
		s := startServer(t, serverBinary(t), bt.Addr(), jsonRoutes, nil)
		answers := openRequests(t, s, 100)
		var waits sync.WaitGroup
		waits.Go(func() {
			defer close(release)
			for !s.proc.Exited() && !strings.Contains(s.proc.Output(), `"message":"stopping"`) {
				<-time.After(10 * time.Millisecond)
			}
			if s.proc.Exited() {
				t.Error("it ended while a hundred requests waited")
			}
		})
		if code, took := s.terminate(t); code != 0 {
			t.Errorf("exit code %d after %v, want 0", code, took)
		}
		waits.Wait()
		for i, a := range answers() {
			if a.Status != http.StatusNoContent {
				t.Errorf("request %d: %v", i, a)
			}
		}
		if got := bt.Len(tableName("json")); got != 100 {
			t.Errorf("%d rows, want 100", got)
		}
	})
	t.Run("backend never answers", func(t *testing.T) {
		bt := scripted.New(t, scripted.Options{Script: func(*scripted.Call) scripted.Plan { return scripted.Plan{Stall: true} }})
		bt.AddTable(tableName("json"), "f")
		s := startServer(t, serverBinary(t), bt.Addr(), jsonRoutes, map[string]string{"PUSHSINK_SHUTDOWN_TIMEOUT": "24s"})
		answers := openRequests(t, s, 100)
		if code, took := s.terminate(t); code != 0 {
			t.Errorf("exit code %d after %v, want 0", code, took)
		}
		for i, a := range answers() {
			if a.Status != http.StatusServiceUnavailable {
				t.Errorf("request %d: %v", i, a)
			}
		}
	})
	t.Run("steady load", func(t *testing.T) {
		bt := scripted.New(t, scripted.Options{Latency: 20 * time.Millisecond})
		bt.AddTable(tableName("json"), "f")
		s := startServer(t, serverBinary(t), bt.Addr(), jsonRoutes, nil)
		client := newClient(t)
		var began, lost, missing, acked atomic.Int64
		var workers sync.WaitGroup
		enough := make(chan struct{})
		for w := range 64 {
			workers.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("%02d-%05d", w, i)
					reading := &atomic.Bool{}
					a := push(traced(t.Context(), reading), client, s.URL, "json", numbered(id).body(t), "Expect", "100-continue")
					if reading.Load() {
						began.Add(1)
					}
					if a.Err != nil {
						if reading.Load() {
							lost.Add(1)
							t.Errorf("%s had begun and got no status: %v", id, a.Err)
						}
						return // the server is gone
					}
					if a.acknowledged() {
						if !bt.Has(tableName("json"), id) {
							missing.Add(1)
						}
						if acked.Add(1) == 500 {
							close(enough)
						}
					}
				}
			})
		}
		<-enough
		code, took := s.terminate(t)
		workers.Wait()
		if code != 0 {
			t.Errorf("exit code %d after %v, want 0", code, took)
		}
		if missing.Load() != 0 {
			t.Errorf("%d rows were acknowledged and not stored", missing.Load())
		}
		t.Logf("%d requests begun, %d without a status, %d acknowledged but missing; exit %d after %v", began.Load(), lost.Load(), missing.Load(), code, took)
	})
}

// traced sets reading once the server asks for the request's body: only then it is sure
// that a handler has it.
func traced(ctx context.Context, reading *atomic.Bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got100Continue: func() { reading.Store(true) }})
}

// openRequests sends n pushes and returns when a handler has each of them. The returned
// function waits for their answers.
func openRequests(t *testing.T, s *server, n int) func() []answer {
	t.Helper()
	client := newClient(t)
	answers := make([]answer, n)
	reading := make([]atomic.Bool, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			body := numbered(fmt.Sprintf("open-%03d", i)).body(t)
			answers[i] = push(traced(context.WithoutCancel(t.Context()), &reading[i]), client, s.URL, "json", body, "Expect", "100-continue")
		})
	}
	eventually(t, "all requests open", patience, func() bool { return allSet(reading) })
	return func() []answer { all.Wait(); return answers }
}
