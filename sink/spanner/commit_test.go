package spanner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pushsink/pushsink/sink"
)

func useCommit(c *Config) { c.WriteMethod = Commit }

// commitIDs lists the ids of a commit's mutations.
func commitIDs(req *sppb.CommitRequest) []string {
	var list []string
	for _, m := range req.Mutations {
		list = append(list, idOf(m))
	}
	return list
}

func TestCommitRequest(t *testing.T) {
	var got *sppb.CommitRequest
	delay := 123456789 * time.Nanosecond
	f := &fake{commit: func(_ context.Context, _ int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
		got = req
		return committed(), nil
	}}
	h := setUp(t, f, plainSchema(), plainRoutes, func(c *Config) {
		c.WriteMethod, c.MaxCommitDelay, c.Priority = Commit, &delay, "MEDIUM"
	}).open()
	es := h.entries("orders", orders(3)...)
	check(t, h.write(es...), "applied applied applied")
	if want := []string{"o000", "o001", "o002"}; !slices.Equal(commitIDs(got), want) {
		t.Errorf("mutations of %v, want %v", commitIDs(got), want)
	}
	if len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Error("the request has fields that the service does not know")
	}
	if got.GetSingleUseTransaction().GetReadWrite() == nil {
		t.Errorf("transaction %v", got.Transaction)
	}
	if d := got.GetMaxCommitDelay(); d.AsDuration() != delay {
		t.Errorf("SPBW-04 delay %v, want %v", d.AsDuration(), delay)
	}
	if o := got.GetRequestOptions(); o.GetPriority() != sppb.RequestOptions_PRIORITY_MEDIUM || o.GetTransactionTag() != "pushsink=orders" {
		t.Errorf("request options %v", o)
	}
	var sum int64
	for _, e := range es {
		sum += e.Bytes
	}
	head := proto.Clone(got).(*sppb.CommitRequest)
	head.Mutations = nil
	if want := int64(proto.Size(got) - proto.Size(head)); sum != want {
		t.Errorf("entries of %d bytes, their part of the request has %d", sum, want)
	}
	if f.batches.Load() != 0 || f.commits.Load() != 1 {
		t.Errorf("%d BatchWrites, %d Commits", f.batches.Load(), f.commits.Load())
	}
}

func TestCommitDelayIsUnsetByDefaultAndZeroWhenSaid(t *testing.T) {
	zero := time.Duration(0)
	for _, delay := range []*time.Duration{nil, &zero} {
		f := &fake{commit: func(_ context.Context, _ int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
			if said := req.MaxCommitDelay != nil; said != (delay != nil) {
				t.Errorf("delay %v, configured %v", req.MaxCommitDelay, delay)
			}
			return committed(), nil
		}}
		h := setUp(t, f, plainSchema(), plainRoutes, func(c *Config) { c.WriteMethod, c.MaxCommitDelay = Commit, delay }).open()
		check(t, h.write(h.entry("orders", order("a"))), "applied")
	}
}

// TestRefusedCommitIsBisected: 32 records, one of them bad.
func TestRefusedCommitIsBisected(t *testing.T) {
	for _, code := range []codes.Code{codes.FailedPrecondition, codes.OutOfRange, codes.InvalidArgument, codes.AlreadyExists} {
		t.Run(codeName(code), func(t *testing.T) {
			gate := make(chan struct{})
			f := &fake{commit: func(_ context.Context, n int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
				if n == 1 {
					<-gate
				}
				if slices.Contains(commitIDs(req), "o017") {
					return nil, status.Error(code, "row secret-value")
				}
				return committed(), nil
			}}
			h := setUp(t, f, plainSchema(), plainRoutes, useCommit)
			h.opts.MaxInFlightRequestsDest = 2
			w := h.writer()
			first := w.Submit(t.Context(), []sink.Entry{h.entry("orders", order("first"))})
			ticket := w.Submit(t.Context(), h.entries("orders", orders(32)...))
			close(gate)
			check(t, first.Wait(), "applied")
			outs := ticket.Wait()
			for i, o := range outs {
				if want := i != 17; o.Acknowledges() != want {
					t.Errorf("record %d: %v %v", i, o.Kind, o.Err)
				}
			}
			if outs[17].Kind != sink.Rejected || strings.Contains(outs[17].Err.Error(), "secret-value") {
				t.Errorf("the culprit: %v %v", outs[17].Kind, outs[17].Err)
			}
			if n := f.commits.Load(); n > 1+1+2*5+1 {
				t.Errorf("%d commits", n)
			}
		})
	}
}

func TestCommitStatuses(t *testing.T) {
	for _, tt := range []struct {
		code     codes.Code
		n        int
		want     string
		scope    sink.Scope
		attempts int
	}{
		{codes.Aborted, 2, "transient transient", sink.ScopeEntry, 0},
		{codes.Unavailable, 2, "transient transient", sink.ScopeBatch, 0},
		{codes.Internal, 2, "transient transient", sink.ScopeBatch, 3},
		{codes.PermissionDenied, 2, "fatal fatal", sink.ScopeBatch, 0},
		{codes.Unimplemented, 2, "fatal fatal", sink.ScopeBatch, 0},
		{codes.OutOfRange, 2, "rejected rejected", sink.ScopeBatch, 0},
		{codes.OutOfRange, 1, "rejected(constraint)", sink.ScopeEntry, 0},
	} {
		f := &fake{commit: func(context.Context, int, *sppb.CommitRequest) (*sppb.CommitResponse, error) {
			return nil, status.Error(tt.code, "x")
		}}
		h := setUp(t, f, plainSchema(), plainRoutes, useCommit).open()
		outs := h.write(h.entries("orders", orders(tt.n)...)...)
		check(t, outs, tt.want)
		if o := outs[0]; o.Scope != tt.scope || o.MaxAttempts != tt.attempts {
			t.Errorf("%s: scope %d, at most %d attempts", codeName(tt.code), o.Scope, o.MaxAttempts)
		}
	}
}

// TestCommitThatIsNoneYet: an answer without a time, or one that asks for another round,
// acknowledges nothing.
func TestCommitThatIsNoneYet(t *testing.T) {
	for name, answer := range map[string]*sppb.CommitResponse{
		"another round": {CommitTimestamp: committed().CommitTimestamp, MultiplexedSessionRetry: &sppb.CommitResponse_PrecommitToken{
			PrecommitToken: &sppb.MultiplexedSessionPrecommitToken{SeqNum: 1}}},
		"no time": {},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{commit: func(context.Context, int, *sppb.CommitRequest) (*sppb.CommitResponse, error) { return answer, nil }}
			h := setUp(t, f, plainSchema(), plainRoutes, useCommit).open()
			check(t, h.write(h.entries("orders", orders(2)...)...), "transient transient")
		})
	}
}

func TestAbortedCommitIsSentAgain(t *testing.T) {
	f := &fake{commit: func(_ context.Context, n int, _ *sppb.CommitRequest) (*sppb.CommitResponse, error) {
		if n <= 2 {
			return nil, status.Error(codes.Aborted, "contention")
		}
		return committed(), nil
	}}
	h := setUp(t, f, plainSchema(), plainRoutes, useCommit)
	check(t, h.writer().Write(t.Context(), h.entries("orders", orders(4)...)), "applied applied applied applied")
}

const dedupRoutes = `
routes:
  events:
    onReject: drop
    constraintViolations: reject
    spanner:
      database: @db
      table: Events
      operation: insert
      columns: {Id: data.id, Ref: data.ref}
      dedup: {table: Seen}
`

func dedupSchema() *catalog {
	return describeSchema(GoogleSQL,
		"Events: Id STRING(36) key notnull filled, Ref STRING(MAX) 1 | unique ByRef",
		"Seen: Hash BYTES(16) key notnull, At TIMESTAMP notnull committime")
}

// dedupTable is the state of the Seen table in a fake.
type dedupTableState map[string]bool

func (d dedupTableState) rows(req *sppb.ReadRequest) [][]*structpb.Value {
	var rows [][]*structpb.Value
	for _, k := range req.KeySet.Keys {
		if d[k.Values[0].GetStringValue()] {
			rows = append(rows, k.Values)
		}
	}
	return rows
}

func TestDedupGroup(t *testing.T) {
	f := &fake{}
	h := setUp(t, f, dedupSchema(), dedupRoutes, nil).open()
	e := h.entry("events", `{"ref":"r"}`)
	check(t, h.write(e), "applied")
	g := f.seen[0].MutationGroups[0]
	if len(g.Mutations) != 2 {
		t.Fatalf("group %v", g)
	}
	w := g.Mutations[0].GetInsert()
	if w.GetTable() != "Seen" || !slices.Equal(w.GetColumns(), []string{"Hash", "At"}) || w.Values[0].Values[1].GetStringValue() != commitTimestamp {
		t.Errorf("dedup insert %v", w)
	}
	if raw, ok := decodeBase64(w.Values[0].Values[0].GetStringValue()); !ok || len(raw) != 16 {
		t.Errorf("dedup key of %d bytes", len(raw))
	}
	if e.Key != "" {
		t.Errorf("key %q, although the service makes the primary key", e.Key)
	}
	const cells = 2 + 2 // the dedup row; the event, whose column is in an index
	if e.Cost != cells || e.Mutations != 2 {
		t.Errorf("%d cells, %d mutations, want %d and 2", e.Cost, e.Mutations, cells)
	}
}

func TestDedupKeys(t *testing.T) {
	h := setUp(t, &fake{}, dedupSchema(), dedupRoutes+strings.Replace(strings.Split(dedupRoutes, "routes:")[1], "events:", "second:", 1)+`
  keyed:
    spanner: {database: @db, table: Events, operation: insert, columns: {Ref: data.ref}, dedup: {table: Seen, key: "{data.ref}"}}
`, nil)
	key := func(route, id, subscription, ref string) string {
		t.Helper()
		rec := recordOf(`{"ref":"`+ref+`"}`, id)
		rec.Subscription = subscription
		e, err := h.tryRecord(route, rec)
		if err != nil {
			t.Fatal(err)
		}
		return e.Payload.(*payload).dedup
	}
	same := []struct{ a, b string }{
		{key("events", "1", "s", "x"), key("events", "1", "s", "y")}, // a redelivery is one whatever it holds
		{key("keyed", "1", "s", "x"), key("keyed", "2", "t", "x")},
	}
	for i, p := range same {
		if p.a != p.b {
			t.Errorf("pair %d differs", i)
		}
	}
	different := []string{
		key("events", "1", "s", "x"), key("events", "2", "s", "x"), key("events", "1", "t", "x"), key("events", "1", "", "x"),
		key("second", "1", "s", "x"), key("keyed", "1", "s", "x"), key("keyed", "1", "s", "y"),
	}
	seen := map[string]int{}
	for i, k := range different {
		if j, ok := seen[k]; ok {
			t.Errorf("keys %d and %d are the same", i, j)
		}
		seen[k] = i
	}
	_, err := h.tryRecord("events", recordOf(`{"ref":"x"}`, ""))
	if e, ok := asSchemaError(err); !ok || e.Code != "dedup_id_missing" {
		t.Errorf("without a message id: %v", err)
	}
}

// TestDedupRedeliveryIsApplied: whatever the service says about the group, the dedup row
// decides.
func TestDedupRedeliveryIsApplied(t *testing.T) {
	for _, code := range []codes.Code{codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.NotFound, codes.InvalidArgument} {
		t.Run(codeName(code), func(t *testing.T) {
			state := dedupTableState{}
			f := &fake{
				batchWrite: func(_ int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
					return s.Send(answer(code, indexes(0, len(req.MutationGroups))...))
				},
				read: func(_ int, req *sppb.ReadRequest) ([][]*structpb.Value, error) {
					if req.Table != "Seen" {
						return nil, nil
					}
					if !req.GetTransaction().GetSingleUse().GetReadOnly().GetStrong() {
						t.Error("the read is not strong")
					}
					return state.rows(req), nil
				},
			}
			h := setUp(t, f, dedupSchema(), dedupRoutes, nil).open()
			seen, fresh := h.entry("events", `{"ref":"seen"}`), h.entry("events", `{"ref":"fresh"}`)
			state[seen.Payload.(*payload).dedup] = true
			want := "applied rejected(constraint)"
			switch code {
			case codes.AlreadyExists:
				want = "applied rejected(already_exists)"
			case codes.NotFound:
				want = "applied fatal"
			}
			check(t, h.write(seen, fresh), want)
		})
	}
	t.Run("the read fails", func(t *testing.T) {
		f := &fake{
			batchWrite: func(_ int, _ *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
				return s.Send(answer(codes.AlreadyExists, 0))
			},
			read: func(int, *sppb.ReadRequest) ([][]*structpb.Value, error) {
				return nil, status.Error(codes.Unavailable, "x")
			},
		}
		h := setUp(t, f, dedupSchema(), dedupRoutes, nil).open()
		check(t, h.write(h.entry("events", `{"ref":"r"}`)), "transient")
	})
}

// TestDedupCommitReadsFirst: a redelivered batch is one read and no commit, and what is
// new in it is one commit.
func TestDedupCommitReadsFirst(t *testing.T) {
	state := dedupTableState{}
	var sent [][]string
	f := &fake{
		commit: func(_ context.Context, _ int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
			var keys []string
			for i := 0; i < len(req.Mutations); i += 2 {
				key := idOf(req.Mutations[i])
				if state[key] {
					return nil, status.Error(codes.AlreadyExists, "x")
				}
				keys = append(keys, key)
			}
			for _, k := range keys {
				if state[k] {
					return nil, status.Error(codes.AlreadyExists, "the same key twice")
				}
				state[k] = true
			}
			sent = append(sent, keys)
			return committed(), nil
		},
		read: func(_ int, req *sppb.ReadRequest) ([][]*structpb.Value, error) { return state.rows(req), nil },
	}
	h := setUp(t, f, dedupSchema(), dedupRoutes, useCommit).open()
	var es []sink.Entry
	for i := range 10 {
		es = append(es, h.entry("events", fmt.Sprintf(`{"ref":"r%d"}`, i)))
	}
	check(t, h.write(es...), "applied"+strings.Repeat(" applied", 9))
	check(t, h.write(es...), "applied"+strings.Repeat(" applied", 9))
	if len(sent) != 1 || f.commits.Load() != 1 || f.reads.Load() != 2 {
		t.Errorf("%d commits and %d reads, want 1 and 2", f.commits.Load(), f.reads.Load())
	}
	// Half of it new, and one record twice in the batch.
	a, b := h.entry("events", `{"ref":"new a"}`), h.entry("events", `{"ref":"new b"}`)
	check(t, h.write(es[0], a, es[1], b, a), "applied applied applied applied applied")
	if len(sent) != 2 || len(sent[1]) != 2 {
		t.Errorf("commits of %v", sent)
	}
}

// TestDedupCommitFollowersShareNoRefusal: the record that was not sent is not refused
// with the one that was.
func TestDedupCommitFollowersShareNoRefusal(t *testing.T) {
	f := &fake{
		commit: func(context.Context, int, *sppb.CommitRequest) (*sppb.CommitResponse, error) {
			return nil, status.Error(codes.OutOfRange, "x")
		},
		read: func(int, *sppb.ReadRequest) ([][]*structpb.Value, error) { return nil, nil },
	}
	h := setUp(t, f, dedupSchema(), dedupRoutes, useCommit).open()
	e := h.entry("events", `{"ref":"r"}`)
	outs := h.write(e, e)
	check(t, outs, "rejected(constraint) undecided")
	if !outs[0].Sole {
		t.Error("the one record that was sent is not refused for itself")
	}
	other := h.entry("events", `{"ref":"s"}`)
	outs = h.write(e, other, e)
	check(t, outs, "rejected rejected undecided")
	// Through the writer everything ends.
	check(t, h.writer().Write(t.Context(), []sink.Entry{e, other, e}), "rejected(constraint) rejected(constraint) rejected(constraint)")
}

func TestDedupTableShape(t *testing.T) {
	for _, tt := range []struct{ table, want string }{
		{"Seen: Hash BYTES(16) key notnull, At TIMESTAMP notnull committime", ""},
		{"Seen: Hash BYTES(MAX) key notnull, At TIMESTAMP committime, Note STRING(MAX)", ""},
		{"Seen: Hash BYTES(15) key notnull, At TIMESTAMP committime", "one BYTES column"},
		{"Seen: Hash STRING(MAX) key notnull, At TIMESTAMP committime", "one BYTES column"},
		{"Seen: Hash BYTES(16) key notnull, Two INT64 key notnull, At TIMESTAMP committime", "one BYTES column"},
		{"Seen: Hash BYTES(16) key notnull, At TIMESTAMP", "one BYTES column"},
		{"Seen: Hash BYTES(16) key notnull, At TIMESTAMP committime, Must INT64 notnull", "Must (INT64): NOT NULL"},
		{"Other: Hash BYTES(16) key notnull, At TIMESTAMP committime", "table Seen: no such table"},
	} {
		cat := describeSchema(GoogleSQL, "Events: Id STRING(36) key notnull filled, Ref STRING(MAX)", tt.table)
		h := setUp(t, &fake{}, cat, dedupRoutes, nil)
		got := strings.Join(h.routes["events"].target.fit(cat).problems, "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s\n\tgives %q, want %q", tt.table, got, tt.want)
		}
	}
}
