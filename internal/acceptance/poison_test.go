package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/pushsink/pushsink/internal/scripted"
)

// TestWR01OnePoisonRecordAmongAHundred: a service that fails a whole call for one bad
// entry costs the hundred callers at most 15 calls more, and only the bad one its write.
func TestWR01OnePoisonRecordAmongAHundred(t *testing.T) {
	const reason = "cell value rejected by the schema"
	calls := map[bool]int{}
	for _, poisoned := range []bool{false, true} {
		t.Run(fmt.Sprintf("poisoned=%v", poisoned), func(t *testing.T) {
			release := make(chan struct{})
			bt := scripted.New(t, scripted.Options{Strict: true, Script: func(c *scripted.Call) scripted.Plan {
				plan := scripted.Plan{Entry: func(_ int, e *scripted.Entry) error {
					if strings.HasPrefix(string(e.GetRowKey()), "bad") {
						return scripted.Status(codes.InvalidArgument, reason, 0)
					}
					return nil
				}}
				if c.N == 1 {
					plan.Until = release
				}
				return plan
			}})
			bt.AddTable(tableName("json"), "f")
			s := startServer(t, serverBinary(t), bt.Addr(), jsonRoutes, map[string]string{
				"PUSHSINK_WRITER_MAX_TIME_IN_BUFFER": "5s", // only a full batch leaves the busy lane
			})
			client := newClient(t)
			answers := make([]answer, 101)
			var all sync.WaitGroup
			send := func(i int, id string) {
				all.Go(func() { answers[i] = push(t.Context(), client, s.URL, "json", numbered(id).body(t)) })
			}
			send(100, "first")
			eventually(t, "the first call", patience, func() bool { return bt.Stats().Requests == 1 })
			for i := range 100 {
				id := fmt.Sprintf("good-%03d", i)
				if poisoned && i == 42 {
					id = "bad-042"
				}
				send(i, id)
			}
			// A full batch is due at once, beside the open request.
			eventually(t, "the batch of a hundred", patience, func() bool { return bt.Stats().Requests >= 2 })
			close(release)
			all.Wait()

			for i, a := range answers {
				want := http.StatusNoContent
				if poisoned && i == 42 {
					want = http.StatusUnprocessableEntity
					if !strings.Contains(a.Body, reason) {
						t.Errorf("the answer to the bad one does not give the reason: %v", a)
					}
				}
				if a.Status != want {
					t.Errorf("request %d: %v, want %d", i, a, want)
				}
			}
			rows := 101
			if poisoned {
				rows = 100
			}
			if got := bt.Len(tableName("json")); got != rows {
				t.Errorf("%d rows, want %d", got, rows)
			}
			calls[poisoned] = bt.Stats().Requests
			if !poisoned {
				return
			}
			for again := range 20 {
				before := bt.Stats().Requests
				a := push(t.Context(), client, s.URL, "json", numbered("bad-042").body(t))
				if a.Status != http.StatusUnprocessableEntity {
					t.Errorf("delivery %d of the bad one: %v", again+2, a)
				}
				if n := bt.Stats().Requests - before; n != 1 {
					t.Errorf("delivery %d of the bad one cost %d calls, want 1", again+2, n)
				}
			}
		})
	}
	if extra := calls[true] - calls[false]; extra > 15 || extra < 1 {
		t.Errorf("%d calls with the bad one, %d without: %d more, want 1 to 15", calls[true], calls[false], extra)
	}
	t.Logf("calls: %d without, %d with the bad one", calls[false], calls[true])
}
