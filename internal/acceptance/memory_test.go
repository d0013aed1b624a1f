package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/scripted"
)

// TestWR13MemoryIsBoundedByBytes: with the backend blocked and 300 records of 1 MiB at
// once, the server takes what its byte bounds allow, answers the rest soon, stays small,
// and writes what it took once the backend goes on. The rest is 429 (not admitted in
// time, or the body budget is full), or 503 once the lane counts as down.
func TestWR13MemoryIsBoundedByBytes(t *testing.T) {
	const (
		inFlight   = 64 << 20  // BIGTABLE_MAX_IN_FLIGHT_BYTES
		bodyBudget = 128 << 20 // BODY_BYTES_IN_FLIGHT
		bound      = 5*(inFlight+bodyBudget)/2 + 64<<20
		admission  = 500 * time.Millisecond // WRITER_ADMISSION_TIMEOUT
	)
	release := make(chan struct{})
	bt := scripted.New(t, scripted.Options{KeysOnly: true, Script: func(*scripted.Call) scripted.Plan { return scripted.Plan{Until: release} }})
	bt.AddTable(tableName("byid"), "f")
	// One attempt and one deadline over the whole test: what was taken is written.
	s := startServer(t, plainBinary(t), bt.Addr(), byIDRoutes, map[string]string{"PUSHSINK_WRITER_ADMISSION_TIMEOUT": admission.String()})
	client := newClient(t)
	idle := memory(t, s, "VmRSS")

	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	// One body for all, but for the digits of its id: it must not take this process longer
	// to make the requests than to send them.
	const id = "#id"
	head, tail, found := bytes.Cut(message{ID: "1", Data: data, Attributes: map[string]string{"id": id}}.body(t), []byte(id))
	if !found {
		t.Fatal("no place for the id in the body")
	}
	const n = 300
	answers := make([]answer, n)
	var answered atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		body := io.MultiReader(bytes.NewReader(head), strings.NewReader(fmt.Sprintf("%03d", i)), bytes.NewReader(tail))
		all.Go(func() {
			answers[i] = pushFrom(t.Context(), client, s.URL, "byid", body, len(head)+3+len(tail))
			answered.Add(1)
		})
	}
	// An entry is a little more than its record, and the cap may be passed by one.
	const most = inFlight>>20 + 1
	eventually(t, "all but the admitted ones answered", patience, func() bool { return answered.Load() >= n-most })
	peak := memory(t, s, "VmHWM")
	if peak > bound {
		t.Errorf("peak RSS %d MiB, bound %d MiB", peak>>20, bound>>20)
	}
	close(release)
	all.Wait()

	var slowest time.Duration
	statuses := map[int]int{}
	for i, a := range answers {
		statuses[a.Status]++
		switch a.Status {
		case http.StatusNoContent:
			if !bt.Has(tableName("byid"), fmt.Sprintf("%03d", i)) {
				t.Errorf("record %d was acknowledged and is not stored", i)
			}
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			slowest = max(slowest, a.Waited)
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("%d without Retry-After", a.Status)
			}
		case 0:
			// A refusal that came while the body was still being sent can be lost with the
			// connection: HTTP/1.1 has no way to hold the sender back. Pub/Sub takes it as
			// the same nack.
			if bt.Has(tableName("byid"), fmt.Sprintf("%03d", i)) {
				t.Errorf("record %d is stored and was not answered: %v", i, a)
			}
		default:
			t.Errorf("record %d: %v", i, a)
		}
	}
	if lost := statuses[0]; lost > n/20 {
		t.Errorf("%d of %d answers were lost with their connections", lost, n)
	}
	// A lane that is down keeps half of the cap at least.
	if taken := statuses[http.StatusNoContent]; taken < most/2 || taken > most {
		t.Errorf("%d records taken, want %d to %d", taken, most/2, most)
	}
	// The bound is far from both the figure and the deadline of 500 s: 420 MB pass
	// through the same two cores meanwhile.
	if slowest > patience {
		t.Errorf("a refusal came %v after the last byte, want it soon after %v", slowest, admission)
	}
	t.Logf("RSS %d MiB idle, peak %d MiB (bound %d MiB); answers by status %v, the slowest refusal %v after its last byte",
		idle>>20, peak>>20, bound>>20, statuses, slowest)
}

// memory reads a field of /proc/PID/status in bytes.
func memory(t *testing.T, s *server, field string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.proc.PID()))
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in /proc/PID/status", field)
	return 0
}
