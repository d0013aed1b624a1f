package handlers

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/schema"
)

// The end of a drain's reading answers the requests whose bodies still arrive, at once, and
// touches no other: one that waits for its write on the same connection is written.
func TestEndOfReadingAnswersBodiesThatStillArrive(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		reading, end := context.WithCancel(t.Context())
		f := newFixture(t, offline, func(f *fixture) {
			f.config.Process.Reading = reading
			f.config.Limits.ReadBodyTimeout = time.Hour
			f.config.Limits.RequestTimeout = time.Hour
			f.config.Limits.BatchTimeout = time.Hour
			f.writer.gate = make(chan struct{})
		})
		c := servePipes(t, f).client(h2)
		waiting := make(chan answer, 1)
		go func() {
			a, _ := f.timed(c, post(t, "/v1/routes/r/push", strings.NewReader(wrap(`{"id":"waits"}`, "m")), -1))
			waiting <- a
		}()
		stall := func(i int) time.Duration { return time.Duration(i) * time.Hour }
		type slow struct {
			answer
			took time.Duration
		}
		arriving := make(chan slow, 2)
		for _, media := range []string{"application/json", "application/x-ndjson"} {
			body := newPaced(stall, `{"id":`, `"late"}`)
			defer body.Close()
			go func() {
				a, took := f.timed(c, post(t, "/v1/routes/r/records", body, -1, "Content-Type", media))
				arriving <- slow{a, took}
			}()
		}
		time.Sleep(3 * time.Second)
		end()
		for range 2 {
			a := <-arriving
			if a.status != 503 || a.Code != string(schema.Unavailable) || !strings.Contains(a.Detail, "SHUTDOWN_TIMEOUT") || a.took != 3*time.Second {
				t.Errorf("after %v: %d %s", a.took, a.status, a.body)
			}
		}
		// What comes later is not read at all.
		a, _ := f.timed(c, post(t, "/v1/routes/r/push", strings.NewReader(wrap(`{"id":"after"}`, "m")), -1))
		f.want("a body after the end", a, 503, schema.Unavailable)
		close(f.writer.gate)
		f.want("a request whose body was read", <-waiting, 204, "")
		synctest.Wait()
		if f.api.reading.first != nil {
			t.Error("a read is kept")
		}
	})
}
