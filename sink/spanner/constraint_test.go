package spanner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/sink"
)

// SPCON-04: a CHECK violation is OUT_OF_RANGE. It is one record's, is not tried again, and
// counts once.
func TestSPCON04ViolationIsTheRecordsAndFinal(t *testing.T) {
	const file = `routes: {orders: {onReject: drop, constraintViolations: reject, spanner: {database: @db, table: Orders, columns: {Id: data.id, Total: data.total}}}}`
	for _, code := range []codes.Code{codes.OutOfRange, codes.FailedPrecondition} {
		for _, method := range []WriteMethod{BatchWrite, Commit} {
			t.Run(codeName(code)+" "+string(method), func(t *testing.T) {
				f := &fake{}
				var mu sync.Mutex
				alone := 0 // requests that held the bad one and nothing else
				bad := func(list []string) bool {
					mu.Lock()
					defer mu.Unlock()
					if len(list) == 1 && list[0] == "bad" {
						alone++
					}
					return slices.Contains(list, "bad")
				}
				f.batchWrite = func(_ int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
					for i, id := range ids(req) {
						c := codes.OK
						if id == "bad" {
							c = code
							bad([]string{id})
						}
						if err := s.Send(answer(c, int32(i))); err != nil {
							return err
						}
					}
					return nil
				}
				f.commit = func(_ context.Context, _ int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
					if bad(commitIDs(req)) {
						return nil, status.Error(code, "said of secret-value")
					}
					return committed(), nil
				}
				h := setUp(t, f, plainSchema(), file, func(c *Config) { c.WriteMethod = method })
				w := h.writer()
				// The bad one last, so that no success of its neighbours hides what it counts.
				check(t, w.Write(t.Context(), h.entries("orders", order("a"), order("b"))), "applied applied")
				check(t, w.Write(t.Context(), h.entries("orders", order("bad"))), "rejected(constraint)")
				routes := w.Health().Routes
				if len(routes) != 1 || routes[0].Streak != 1 || routes[0].State != sink.OK {
					t.Errorf("SPCON-04 health %+v, want a streak of 1", routes)
				}
				if alone != 1 {
					t.Errorf("SPCON-04 the bad record was tried %d times by itself", alone)
				}
				outs := w.Write(t.Context(), h.entries("orders", order("c"), order("bad"), order("d")))
				check(t, outs, "applied rejected(constraint) applied")
				if alone != 2 {
					t.Errorf("SPCON-04 among good ones it was tried %d times by itself", alone-1)
				}
			})
		}
	}
}

// SPCON-10: no request holds a key twice. The service would refuse all of a commit for it,
// which the writer would find its way out of, at the price of many more.
func TestSPCON10NoRequestHoldsAKeyTwice(t *testing.T) {
	const file = `
routes:
  insert: {spanner: {database: @db, table: Orders, operation: insert, onDuplicate: reject, columns: {Id: data.id, Total: data.total}}}
  upsert: {spanner: {database: @db, table: ORDERS, columns: {ID: data.id, Total: data.total}}}
  delete: {spanner: {database: @db, table: Orders, operation: delete, columns: {Id: data.id}}}
`
	for _, method := range []WriteMethod{BatchWrite, Commit} {
		t.Run(string(method), func(t *testing.T) {
			var mu sync.Mutex
			there := map[string]bool{}
			var refused int
			// apply is the service's: an insert of a row that is there refuses its transaction.
			apply := func(ms ...*sppb.Mutation) bool {
				mu.Lock()
				defer mu.Unlock()
				seen := map[string]bool{}
				for _, m := range ms {
					id := idOf(m)
					if seen[id] {
						t.Errorf("SPCON-10 a transaction holds %s twice", id)
					}
					seen[id] = true
					if m.GetInsert() != nil && there[id] {
						refused++
						return false
					}
				}
				for _, m := range ms {
					there[idOf(m)] = m.GetDelete() == nil
				}
				return true
			}
			f := &fake{
				batchWrite: func(_ int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
					seen := map[string]bool{}
					for i, g := range req.MutationGroups {
						id := idOf(g.Mutations[0])
						if seen[id] {
							t.Errorf("SPCON-10 a request holds %s twice: its groups have no order", id)
						}
						seen[id] = true
						code := codes.OK
						if !apply(g.Mutations...) {
							code = codes.AlreadyExists
						}
						if err := s.Send(answer(code, int32(i))); err != nil {
							return err
						}
					}
					return nil
				},
				commit: func(_ context.Context, _ int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
					if !apply(req.Mutations...) {
						return nil, status.Error(codes.AlreadyExists, "said of secret-value")
					}
					return committed(), nil
				},
			}
			h := setUp(t, f, plainSchema(), file, func(c *Config) { c.WriteMethod = method })
			w := h.writer()
			check(t, w.Write(t.Context(), h.entries("insert", order("k"), order("k"), order("other"))), "applied rejected(already_exists) applied")
			if refused == 0 {
				t.Error("the second one was never tried")
			}
			// The order of a key is that of arrival, across operations and spellings of a name.
			var es []sink.Entry
			for range 20 {
				es = append(es, h.entry("upsert", order("x")), h.entry("delete", `{"id":"x"}`), h.entry("insert", order("x")), h.entry("upsert", order("y")))
			}
			check(t, w.Write(t.Context(), append(es[:0:0], es[:4]...)), "applied applied applied applied")
			check(t, w.Write(t.Context(), es[4:]), strings.TrimSpace(strings.Repeat("applied ", len(es)-4)))
		})
	}
}

// SPBW-01: after a first answer that left groups out, indexes are those of the next request.
func TestSPBW01IndexesAreThoseOfTheirRequest(t *testing.T) {
	var mu sync.Mutex
	var sent [][]string
	f := &fake{batchWrite: func(n int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
		list := ids(req)
		mu.Lock()
		sent = append(sent, list)
		mu.Unlock()
		if n == 1 { // odd ones are answered, the last first; even ones are left out
			for i := len(list) - 1; i >= 0; i-- {
				if i%2 == 0 {
					continue
				}
				code := codes.OK
				if i == 3 {
					code = codes.FailedPrecondition
				}
				if err := s.Send(answer(code, int32(i))); err != nil {
					return err
				}
			}
			return nil
		}
		var good, bad []int32
		for i, id := range list {
			if id == "o004" {
				bad = append(bad, int32(i))
			} else {
				good = append(good, int32(i))
			}
		}
		slices.Reverse(good)
		if len(bad) > 0 {
			if err := s.Send(answer(codes.FailedPrecondition, bad...)); err != nil {
				return err
			}
		}
		if len(good) > 0 {
			return s.Send(answer(codes.OK, good...))
		}
		return nil
	}}
	h := setUp(t, f, plainSchema(), plainRoutes, nil)
	outs := h.writer().Write(t.Context(), h.entries("orders", orders(10)...))
	if len(sent[0]) != 10 {
		t.Fatalf("the first request holds %q", sent[0])
	}
	var want []string
	for i := range 10 {
		if i == 3 || i == 4 {
			want = append(want, "rejected(constraint)")
		} else {
			want = append(want, "applied")
		}
	}
	check(t, outs, strings.Join(want, " "))
	times := map[string]int{}
	for _, id := range slices.Concat(sent...) {
		times[id]++
	}
	for i := range 10 {
		if id := fmt.Sprintf("o%03d", i); times[id] != 1+(i+1)%2 {
			t.Errorf("SPBW-01 %s was sent %d times", id, times[id])
		}
	}
}
