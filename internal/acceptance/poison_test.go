package acceptance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/pushsink/pushsink/internal/scripted"
)

// TestWR01OnePoisonRecordAmongAHundred: a service that fails a whole call for one bad
// entry costs the hundred callers at most 15 calls more, and only the bad one its write.
// Delivered again, amid others, the bad one costs one call: its own.
func TestWR01OnePoisonRecordAmongAHundred(t *testing.T) {
	for _, poisoned := range []bool{false, true} {
		t.Run(fmt.Sprintf("poisoned=%v", poisoned), func(t *testing.T) {
			l := startPoisonLab(t)
			ids := []string{"good-000-000"}
			if poisoned {
				ids[0] = "bad"
			}
			for i := range 99 {
				ids = append(ids, fmt.Sprintf("good-000-%03d", i+1))
			}
			before := l.bt.Stats()
			l.round(t, "hold-000", ids, func() bool { return l.bt.Stats().Entries >= before.Entries+101 })
			calls := l.bt.Stats().Requests - before.Requests
			t.Logf("%d calls", calls)
			if !poisoned {
				if calls != 2 {
					t.Errorf("%d calls for a held one and a hundred good ones, want 2", calls)
				}
				return
			}
			if extra := calls - 2; extra < 1 || extra > 15 {
				t.Errorf("the bad one cost %d calls more, want 1 to 15", extra)
			}
			for again := range 20 {
				ids := []string{"bad"}
				for i := range 100 {
					ids = append(ids, fmt.Sprintf("good-%03d-%03d", again+1, i))
				}
				before := l.badCalls(t)
				l.round(t, fmt.Sprintf("hold-%03d", again+1), ids, func() bool { return len(l.badCalls(t)) > len(before) })
				if calls := l.badCalls(t)[len(before):]; len(calls) != 1 || calls[0] != 1 {
					t.Errorf("delivery %d of the bad one: calls of %v entries held it, want one call of it alone", again+2, calls)
				}
			}
		})
	}
}

// poisonReason is what the scripted service says of a bad entry.
const poisonReason = "cell value rejected by the schema"

// poisonLab is a server whose service refuses rows named bad*, and holds the calls of
// rows named hold*.
type poisonLab struct {
	bt     *scripted.Server
	server *server
	client *http.Client
	gates  sync.Map // row key -> chan struct{} that lets its call go on
}

func startPoisonLab(t *testing.T) *poisonLab {
	t.Helper()
	l := &poisonLab{client: newClient(t)}
	l.bt = scripted.New(t, scripted.Options{Strict: true, Record: true, Script: func(c *scripted.Call) scripted.Plan {
		plan := scripted.Plan{Entry: func(_ int, e *scripted.Entry) error {
			if strings.HasPrefix(string(e.GetRowKey()), "bad") {
				return scripted.Status(codes.InvalidArgument, poisonReason, 0)
			}
			return nil
		}}
		if gate, ok := l.gates.Load(string(c.Entries[0].GetRowKey())); ok {
			plan.Until = gate.(chan struct{})
		}
		return plan
	}})
	l.bt.AddTable(tableName("json"), "f")
	l.server = startServer(t, serverBinary(t), l.bt.Addr(), jsonRoutes, map[string]string{
		"PUSHSINK_WRITER_MAX_TIME_IN_BUFFER": "400s", // only a full batch leaves the busy lane
	})
	return l
}

// badCalls are the numbers of entries of the calls so far that held a bad one.
func (l *poisonLab) badCalls(t *testing.T) []int {
	t.Helper()
	var sizes []int
	for _, call := range l.bt.Calls() {
		if slices.ContainsFunc(call.Keys, func(key string) bool { return strings.HasPrefix(key, "bad") }) {
			sizes = append(sizes, len(call.Keys))
		}
	}
	return sizes
}

// round pushes hold, whose call is held, then ids all at once, and lets the held call go on
// when enough says so. It checks every answer.
func (l *poisonLab) round(t *testing.T, hold string, ids []string, enough func() bool) {
	t.Helper()
	gate := make(chan struct{})
	l.gates.Store(hold, gate)
	before := l.bt.Stats().Requests
	var all sync.WaitGroup
	send := func(id string) {
		all.Go(func() {
			a := push(t.Context(), l.client, l.server.URL, "json", numbered(id).body(t))
			bad := strings.HasPrefix(id, "bad")
			switch {
			case bad && (a.Status != http.StatusUnprocessableEntity || !strings.Contains(a.Body, poisonReason)):
				t.Errorf("%s: %v, want 422 with the service's reason", id, a)
			case !bad && a.Status != http.StatusNoContent:
				t.Errorf("%s: %v, want 204", id, a)
			}
			if l.bt.Has(tableName("json"), id) == bad {
				t.Errorf("%s: stored %v", id, bad)
			}
		})
	}
	send(hold)
	eventually(t, "the held call", patience, func() bool { return l.bt.Stats().Requests == before+1 })
	for _, id := range ids {
		send(id)
	}
	eventually(t, "the calls that leave beside the held one", patience, enough)
	close(gate)
	all.Wait()
}
