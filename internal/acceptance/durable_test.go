package acceptance

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pushsink/pushsink/internal/scripted"
)

const jsonRoutes = `
routes:
  json:
    input: {format: json}
    bigtable:
      table: json
      rowKey: "{data.id}"
      set:
        - {family: f, column: id, value: data.id, as: string}
`

// numbered is a message of jsonRoutes whose row key is its id.
func numbered(id string) message {
	return message{ID: id, Data: fmt.Appendf(nil, `{"id":%q}`, id)}
}

// TestEveryAcknowledgedRowIsStored: the service applies half of every tenth call and
// breaks it with UNAVAILABLE, breaks others after all or nothing was applied, forgets
// statuses and resets all connections every two seconds (short: 200 ms). Whatever is acknowledged is in
// the store the moment its answer is there.
func TestEveryAcknowledgedRowIsStored(t *testing.T) {
	n := size(50_000, 3_000)
	bt := scripted.New(t, scripted.Options{
		Latency:    2 * time.Millisecond,
		ResetEvery: time.Duration(size(2000, 200)) * time.Millisecond,
		Script: func(c *scripted.Call) scripted.Plan {
			down := scripted.Status(codes.Unavailable, "the connection is draining", 0)
			switch rand.IntN(40) {
			case 0, 1, 2, 3:
				return scripted.Plan{Fail: down, Apply: (len(c.Entries) + rand.IntN(2)) / 2, Shuffle: true}
			case 4:
				return scripted.Plan{Fail: down, Apply: len(c.Entries)}
			case 5:
				return scripted.Plan{Fail: down, Apply: len(c.Entries), Report: len(c.Entries) / 2}
			case 6:
				return scripted.Plan{Forget: func(int) bool { return rand.IntN(2) == 0 }}
			case 7:
				return scripted.Plan{Entry: func(int, *scripted.Entry) error {
					if rand.IntN(4) == 0 {
						return scripted.Status(codes.Unavailable, "tablet is moving", 0)
					}
					return nil
				}}
			}
			return scripted.Plan{}
		},
	})
	bt.AddTable(tableName("json"), "f")
	s := startServer(t, serverBinary(t), bt.Addr(), jsonRoutes, nil)
	client := newClient(t)

	var missing, nacked atomic.Int64
	start, before := time.Now(), bt.Stats()
	inParallel(64, n, func(i int) {
		id := fmt.Sprintf("%06d", i)
		body := numbered(id).body(t)
		for { // as Pub/Sub does: until it is acknowledged
			a := push(t.Context(), client, s.URL, "json", body)
			if a.acknowledged() {
				if !bt.Has(tableName("json"), id) {
					missing.Add(1)
				}
				return
			}
			nacked.Add(1)
			if a.Err != nil || (a.Status != 503 && a.Status != 429) {
				t.Errorf("%s: %v", id, a)
				return
			}
			if t.Context().Err() != nil {
				return
			}
		}
	})
	took, stats := time.Since(start), bt.Stats()
	if missing.Load() != 0 {
		t.Errorf("%d rows were acknowledged and not stored", missing.Load())
	}
	if got := bt.Len(tableName("json")); got != n {
		t.Errorf("%d rows, want %d", got, n)
	}
	for key, row := range bt.Rows(tableName("json")) {
		if cells := row["f:id"]; len(row) != 1 || len(cells) != 1 || string(cells[0].Value) != key {
			t.Fatalf("row %q = %v", key, row)
		}
	}
	if stats.ServerTimes != 0 {
		t.Errorf("%d cells asked for the server's time", stats.ServerTimes)
	}
	if stats.Resets == before.Resets {
		t.Error("no connection was reset")
	}
	if stats.Applied <= n {
		t.Errorf("%d entries applied for %d rows: the script never made the server write one twice", stats.Applied, n)
	}
	t.Logf("%d requests in %v: %d acknowledged but missing; %d answered 503 or 429 and sent again; %d backend calls with %d entries, %d resets",
		n, took.Round(time.Millisecond), missing.Load(), nacked.Load(), stats.Requests, stats.Entries, stats.Resets-before.Resets)
}
