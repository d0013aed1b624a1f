package spanner

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

const plainRoutes = `
routes:
  orders: {spanner: {database: @db, table: Orders, columns: {Id: data.id, Total: data.total}}}
  other: {spanner: {database: @db, table: Orders, columns: {Id: data.id, Total: data.total}}}
`

func plainSchema() *catalog {
	return describeSchema(GoogleSQL, "Orders: Id STRING(36) key notnull, Total NUMERIC")
}

func order(id string) string { return fmt.Sprintf(`{"id":%q,"total":1.5}`, id) }

func orders(n int) []string {
	var list []string
	for i := range n {
		list = append(list, order(fmt.Sprintf("o%03d", i)))
	}
	return list
}

func TestSPBW01AnswersOutOfOrderAndGrouped(t *testing.T) {
	f := &fake{batchWrite: func(_ int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
		for _, a := range []*sppb.BatchWriteResponse{
			answer(codes.OK, 2), answer(codes.FailedPrecondition, 0, 1), answer(codes.OK, indexes(3, 10)...),
		} {
			if err := s.Send(a); err != nil {
				return err
			}
		}
		return nil
	}}
	h := setUp(t, f, plainSchema(), plainRoutes, nil).open()
	outs := h.write(h.entries("orders", orders(10)...)...)
	check(t, outs, "rejected(constraint) rejected(constraint)"+strings.Repeat(" applied", 8))
	for i := range 2 {
		if !outs[i].Sole {
			t.Errorf("outcome %d is not the record's alone", i)
		}
	}
	if f.batches.Load() != 1 {
		t.Errorf("%d requests", f.batches.Load())
	}
}

func TestBatchWriteRequestIsWhatTheGeneratedMessageMarshalsTo(t *testing.T) {
	f := &fake{}
	h := setUp(t, f, plainSchema(), plainRoutes, func(c *Config) { c.Priority = "LOW" }).open()
	es := h.entries("orders", order("a"), order("b"))
	es = append(es, h.entry("other", order("c")))
	check(t, h.write(es...), "applied applied applied")
	got := f.seen[0]
	if want := []string{"a", "b", "c"}; !slices.Equal(ids(got), want) {
		t.Errorf("groups of %v, want %v", ids(got), want)
	}
	if len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Error("the request has fields that the service does not know")
	}
	if o := got.RequestOptions; o.GetPriority() != sppb.RequestOptions_PRIORITY_LOW || o.GetTransactionTag() != "pushsink=orders,other" {
		t.Errorf("request options %v", o)
	}
	if !strings.HasPrefix(got.Session, testDatabase+"/sessions/") {
		t.Errorf("session %q", got.Session)
	}
	w := got.MutationGroups[0].Mutations[0].GetInsertOrUpdate()
	if w.GetTable() != "Orders" || !slices.Equal(w.GetColumns(), []string{"Id", "Total"}) || w.Values[0].Values[1].GetStringValue() != "1.5" {
		t.Errorf("mutation %v", w)
	}
	// The sizes that the writer adds up are the request's, to the byte.
	var sum int64
	for _, e := range es {
		sum += e.Bytes
	}
	head := proto.Clone(got).(*sppb.BatchWriteRequest)
	head.MutationGroups = nil
	if want := int64(proto.Size(got) - proto.Size(head)); sum != want {
		t.Errorf("entries of %d bytes, their part of the request has %d", sum, want)
	}
}

func TestTransactionTagIsCutWhereTheServiceWould(t *testing.T) {
	name := strings.Repeat("r", 45)
	f := &fake{}
	h := setUp(t, f, plainSchema(), strings.ReplaceAll(plainRoutes, "orders:", name+":"), nil).open()
	h.write(h.entry(name, order("a")))
	if tag := f.seen[0].RequestOptions.TransactionTag; len(tag) != 50 || !strings.HasPrefix(tag, "pushsink=rrr") {
		t.Errorf("tag %q", tag)
	}
	if p := f.seen[0].RequestOptions.Priority; p != sppb.RequestOptions_PRIORITY_UNSPECIFIED {
		t.Errorf("priority %v", p)
	}
}

func TestBatchWriteNeverAppliesWithoutAnOK(t *testing.T) {
	okNoTime := answer(codes.OK, 0)
	okNoTime.CommitTimestamp = nil
	nullStatus := answer(codes.OK, 0)
	nullStatus.Status = nil
	for _, tt := range []struct {
		name    string
		answers []*sppb.BatchWriteResponse
		end     error
		want    string
	}{
		{"nothing is answered", nil, nil, "undecided undecided"},
		{"one is left out", []*sppb.BatchWriteResponse{answer(codes.OK, 1)}, nil, "undecided applied"},
		{"an index outside the request", []*sppb.BatchWriteResponse{answer(codes.OK, 2, -1, 1<<30), answer(codes.OK, 1)}, nil, "undecided applied"},
		{"OK without a commit time", []*sppb.BatchWriteResponse{okNoTime, answer(codes.OK, 1)}, nil, "undecided applied"},
		{"no status, with a commit time", []*sppb.BatchWriteResponse{nullStatus}, nil, "applied undecided"},
		{"no index", []*sppb.BatchWriteResponse{answer(codes.OK)}, nil, "undecided undecided"},
		{"ended early", []*sppb.BatchWriteResponse{answer(codes.OK, 0)}, status.Error(codes.Unavailable, "reset"), "applied transient"},
		{"a refusal, then an OK", []*sppb.BatchWriteResponse{answer(codes.FailedPrecondition, 0), answer(codes.OK, 0, 1)}, nil, "applied applied"},
		{"an OK, then a refusal", []*sppb.BatchWriteResponse{answer(codes.OK, 0, 1), answer(codes.FailedPrecondition, 0)}, nil, "applied applied"},
		{"refused, then ended early", []*sppb.BatchWriteResponse{answer(codes.OutOfRange, 1)}, status.Error(codes.Internal, "x"), "transient rejected(constraint)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{batchWrite: func(_ int, _ *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
				for _, a := range tt.answers {
					if err := s.Send(a); err != nil {
						return err
					}
				}
				return tt.end
			}}
			h := setUp(t, f, plainSchema(), plainRoutes, nil).open()
			check(t, h.write(h.entries("orders", orders(2)...)...), tt.want)
		})
	}
}

func TestGroupStatuses(t *testing.T) {
	for _, tt := range []struct {
		code     codes.Code
		want     string
		scope    sink.Scope
		attempts int
	}{
		{codes.Aborted, "transient", sink.ScopeEntry, 0},
		{codes.Unavailable, "transient", sink.ScopeEntry, 0},
		{codes.DeadlineExceeded, "transient", sink.ScopeEntry, 0},
		{codes.ResourceExhausted, "transient", sink.ScopeEntry, 0},
		{codes.Internal, "transient", sink.ScopeEntry, 3},
		{codes.Unknown, "transient", sink.ScopeEntry, 3},
		{codes.DataLoss, "transient", sink.ScopeEntry, 3},
		{codes.Canceled, "transient", sink.ScopeEntry, 3},
		{codes.Code(77), "transient", sink.ScopeEntry, 3},
		{codes.PermissionDenied, "fatal", sink.ScopeRoute, 0},
		{codes.Unauthenticated, "fatal", sink.ScopeRoute, 0},
		{codes.Unimplemented, "fatal", sink.ScopeRoute, 0},
		{codes.InvalidArgument, "rejected(constraint)", sink.ScopeEntry, 0},
		{codes.AlreadyExists, "rejected(already_exists)", sink.ScopeEntry, 0},
		{codes.FailedPrecondition, "rejected(constraint)", sink.ScopeEntry, 0},
		{codes.OutOfRange, "rejected(constraint)", sink.ScopeEntry, 0},
	} {
		t.Run(codeName(tt.code), func(t *testing.T) {
			f := &fake{batchWrite: func(_ int, _ *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
				_ = s.Send(answer(tt.code, 0))
				return s.Send(answer(codes.OK, 1))
			}}
			h := setUp(t, f, plainSchema(), plainRoutes, nil).open()
			outs := h.write(h.entries("orders", orders(2)...)...)
			if tt.code == codes.PermissionDenied || tt.code == codes.ResourceExhausted || tt.code == codes.Unavailable ||
				tt.code == codes.DeadlineExceeded || tt.code == codes.Unauthenticated || tt.code == codes.Unimplemented {
				outs[0].Err = nil // their text is the service's, about no row
				outs[0].Err = fmt.Errorf("checked elsewhere")
			}
			check(t, outs, tt.want+" applied")
			if outs[0].Scope != tt.scope || outs[0].MaxAttempts != tt.attempts {
				t.Errorf("scope %d, at most %d attempts; want %d, %d", outs[0].Scope, outs[0].MaxAttempts, tt.scope, tt.attempts)
			}
		})
	}
}

func TestCallStatuses(t *testing.T) {
	missing := func(resource string) error {
		s, _ := status.New(codes.NotFound, "not found").WithDetails(&errdetails.ResourceInfo{ResourceType: resource})
		return s.Err()
	}
	for _, tt := range []struct {
		name     string
		err      error
		groups   int
		want     string
		scope    sink.Scope
		attempts int
	}{
		{"UNAVAILABLE", status.Error(codes.Unavailable, "x"), 2, "transient transient", sink.ScopeBatch, 0},
		{"RESOURCE_EXHAUSTED", status.Error(codes.ResourceExhausted, "x"), 2, "transient transient", sink.ScopeBatch, 0},
		{"ABORTED", status.Error(codes.Aborted, "x"), 2, "transient transient", sink.ScopeEntry, 0},
		{"INTERNAL", status.Error(codes.Internal, "secret-value"), 2, "transient transient", sink.ScopeBatch, 3},
		{"UNKNOWN", status.Error(codes.Unknown, "secret-value"), 2, "transient transient", sink.ScopeBatch, 3},
		{"PERMISSION_DENIED", status.Error(codes.PermissionDenied, "x"), 2, "fatal fatal", sink.ScopeBatch, 0},
		{"UNAUTHENTICATED", status.Error(codes.Unauthenticated, "x"), 2, "fatal fatal", sink.ScopeBatch, 0},
		{"database missing", missing(databaseResource), 2, "fatal fatal", sink.ScopeBatch, 0},
		{"instance missing", missing(instanceResource), 2, "fatal fatal", sink.ScopeBatch, 0},
		{"INVALID_ARGUMENT with others", status.Error(codes.InvalidArgument, "secret-value"), 2, "rejected rejected", sink.ScopeBatch, 0},
		{"INVALID_ARGUMENT alone", status.Error(codes.InvalidArgument, "secret-value"), 1, "rejected(constraint)", sink.ScopeEntry, 0},
		{"FAILED_PRECONDITION with others", status.Error(codes.FailedPrecondition, "secret-value"), 2, "rejected rejected", sink.ScopeBatch, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{batchWrite: func(int, *sppb.BatchWriteRequest, sppb.Spanner_BatchWriteServer) error { return tt.err }}
			h := setUp(t, f, plainSchema(), plainRoutes, nil).open()
			outs := h.write(h.entries("orders", orders(tt.groups)...)...)
			check(t, outs, tt.want)
			for _, o := range outs {
				if o.Scope != tt.scope || o.MaxAttempts != tt.attempts {
					t.Errorf("scope %d, at most %d attempts; want %d, %d", o.Scope, o.MaxAttempts, tt.scope, tt.attempts)
				}
				if alone := tt.groups == 1; o.Kind == sink.Rejected && o.Sole != alone {
					t.Errorf("sole %v, want %v", o.Sole, alone)
				}
			}
			if n := f.batches.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// TestOnlyUndecidedGroupsAreSentAgain: {a OK, b ABORTED, c unreported}.
func TestOnlyUndecidedGroupsAreSentAgain(t *testing.T) {
	f := &fake{batchWrite: func(n int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
		if n > 1 {
			return s.Send(answer(codes.OK, indexes(0, len(req.MutationGroups))...))
		}
		_ = s.Send(answer(codes.Aborted, 1))
		return s.Send(answer(codes.OK, 0))
	}}
	h := setUp(t, f, plainSchema(), plainRoutes, nil)
	outs := h.writer().Write(t.Context(), h.entries("orders", order("a"), order("b"), order("c")))
	check(t, outs, "applied applied applied")
	var again []string
	for _, req := range f.seen[1:] {
		again = append(again, ids(req)...)
	}
	slices.Sort(again)
	if want := []string{"b", "c"}; !slices.Equal(ids(f.seen[0]), []string{"a", "b", "c"}) || !slices.Equal(again, want) {
		t.Errorf("sent %v, then %v; want %v", ids(f.seen[0]), again, want)
	}
}

// TestSPBW03OneRequestPerAttempt: the fake counts; the writer alone repeats.
func TestSPBW03OneRequestPerAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{batchWrite: func(_ int, _ *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
			return status.Error(codes.Unavailable, "down")
		}}
		h := setUp(t, f, plainSchema(), plainRoutes, nil)
		h.opts.AttemptTimeout = 2 * time.Second
		h.opts.Retry = sink.Backoff{Initial: 500 * time.Millisecond, Max: 10 * time.Second, MaxAttempts: 3}
		h.opts.Recovery = h.opts.Retry
		w, err := sink.New(h.sink, h.opts)
		if err != nil {
			t.Fatal(err)
		}
		outs := w.Write(t.Context(), h.entries("orders", order("a")))
		check(t, outs, "transient")
		if n := f.batches.Load(); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		h.sink.Close()
	})
}

// TestSPBW10StallEndsAtTheTimeout: what was answered before it stays.
func TestSPBW10StallEndsAtTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{batchWrite: func(n int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
			if n > 1 {
				return s.Send(answer(codes.OK, indexes(0, len(req.MutationGroups))...))
			}
			if err := s.Send(answer(codes.OK, 1)); err != nil {
				return err
			}
			<-s.Context().Done()
			return s.Context().Err()
		}}
		h := setUp(t, f, plainSchema(), plainRoutes, nil)
		h.opts.AttemptTimeout = time.Second
		h.opts.Retry = sink.Backoff{Initial: 100 * time.Millisecond, Max: 100 * time.Millisecond, MaxAttempts: 5}
		h.opts.Recovery = h.opts.Retry
		w, err := sink.New(h.sink, h.opts)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		outs := w.Write(t.Context(), h.entries("orders", order("a"), order("b"), order("c")))
		check(t, outs, "applied applied applied")
		if took := time.Since(start); took < time.Second+75*time.Millisecond || took > time.Second+400*time.Millisecond {
			t.Errorf("took %v: the attempt has 1s, the backoff 100ms +-25%%", took)
		}
		var again []string
		for _, req := range f.seen[1:] {
			again = append(again, ids(req)...)
		}
		slices.Sort(again)
		if want := []string{"a", "c"}; !slices.Equal(again, want) {
			t.Errorf("sent again %v, want %v", again, want)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		h.sink.Close()
	})
}

// TestAttemptTimeoutIsSaidAsSuch: callers and the writer tell it from other ends.
func TestAttemptTimeoutIsSaidAsSuch(t *testing.T) {
	f := &fake{batchWrite: func(_ int, _ *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
		<-s.Context().Done()
		return s.Context().Err()
	}}
	h := setUp(t, f, plainSchema(), plainRoutes, nil).open()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	outs := h.sink.Write(ctx, sink.Dest{Instance: testDatabase}, h.entries("orders", orders(2)...))
	check(t, outs, "transient transient")
	for _, o := range outs {
		if o.Scope != sink.ScopeBatch || !strings.Contains(o.Err.Error(), "DEADLINE_EXCEEDED") {
			t.Errorf("outcome %+v", o)
		}
	}
}

func TestSPBW04CommitDelayNeedsCommit(t *testing.T) {
	delay := 100 * time.Millisecond
	for _, tt := range []struct {
		method WriteMethod
		delay  time.Duration
		want   string // in the error; "" = accepted
	}{
		{Commit, delay, ""},
		{Commit, 0, ""},
		{Commit, 500 * time.Millisecond, ""},
		{Commit, 500*time.Millisecond + 1, "0 to 500ms"},
		{Commit, -1, "0 to 500ms"},
		{BatchWrite, delay, "PUSHSINK_SPANNER_WRITE_METHOD=commit"},
		{BatchWrite, 0, "PUSHSINK_SPANNER_WRITE_METHOD=commit"},
	} {
		c := DefaultConfig()
		c.WriteMethod, c.MaxCommitDelay = tt.method, &tt.delay
		err := c.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s with a delay of %v: %v, want %q", tt.method, tt.delay, err, tt.want)
		}
	}
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestSPBW07TooLargeIsNotResourceExhausted(t *testing.T) {
	big := fmt.Sprintf(`{"id":"a","total":1,"pad":%q}`, strings.Repeat("x", 2<<20))
	const file = `routes: {orders: {spanner: {database: @db, table: Orders, columns: {Id: data.id, Pad: data.pad}}}}`
	cat := describeSchema(GoogleSQL, "Orders: Id STRING(36) key notnull, Pad STRING(MAX)")
	t.Run("larger than we may send", func(t *testing.T) {
		f := &fake{}
		h := setUp(t, f, cat, file, func(c *Config) { c.maxRequest = 1 << 20 }).open()
		outs := h.write(h.entry("orders", big))
		check(t, outs, "rejected(too_large)")
		if !outs[0].Sole || f.batches.Load() != 0 {
			t.Errorf("sole %v, %d requests", outs[0].Sole, f.batches.Load())
		}
		// With others the writer has to find out which one it is.
		outs = h.write(h.entry("orders", big), h.entry("orders", `{"id":"b","pad":"x"}`))
		check(t, outs, "rejected(too_large) rejected(too_large)")
		if outs[0].Sole || outs[0].Scope != sink.ScopeBatch {
			t.Errorf("outcome %+v", outs[0])
		}
		outs = h.writer().Write(t.Context(), []sink.Entry{h.entry("orders", big), h.entry("orders", `{"id":"b","pad":"x"}`)})
		check(t, outs, "rejected(too_large) applied")
	})
	t.Run("with RetryInfo", func(t *testing.T) {
		f := &fake{batchWrite: func(n int, _ *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
			if n > 1 {
				return s.Send(answer(codes.OK, 0))
			}
			st, _ := status.New(codes.ResourceExhausted, "slow down").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(30 * time.Millisecond)})
			return st.Err()
		}}
		h := setUp(t, f, cat, file, nil)
		start := time.Now()
		check(t, h.writer().Write(t.Context(), h.entries("orders", `{"id":"a","pad":"x"}`)), "applied")
		if took := time.Since(start); took < 30*time.Millisecond || f.batches.Load() != 2 {
			t.Errorf("%d requests in %v; want 2, the second after 30ms", f.batches.Load(), took)
		}
	})
	t.Run("without RetryInfo", func(t *testing.T) {
		f := &fake{batchWrite: func(int, *sppb.BatchWriteRequest, sppb.Spanner_BatchWriteServer) error {
			return status.Error(codes.ResourceExhausted, "slow down")
		}}
		h := setUp(t, f, cat, file, nil)
		h.opts.Retry.MaxAttempts = 4
		h.opts.Recovery = h.opts.Retry
		check(t, h.writer().Write(t.Context(), h.entries("orders", `{"id":"a","pad":"x"}`)), "transient")
		if f.batches.Load() != 4 {
			t.Errorf("%d requests, want 4", f.batches.Load())
		}
	})
}

// TestSPBW09NothingIsLeftBehind: goroutines and streams are back to what they were.
func TestSPBW09NothingIsLeftBehind(t *testing.T) {
	base := runtime.NumGoroutine()
	f := &fake{batchWrite: func(n int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
		if n <= 2000 {
			return s.Send(answer(codes.FailedPrecondition, indexes(0, len(req.MutationGroups))...))
		}
		_ = s.Send(answer(codes.OK, 0))
		<-s.Context().Done()
		return s.Context().Err()
	}}
	h := setUp(t, f, plainSchema(), plainRoutes, nil).open()
	e := h.entries("orders", orders(2)...)
	for range 2000 {
		if got := kinds(h.write(e...)); got != "rejected(constraint) rejected(constraint)" {
			t.Fatal(got)
		}
	}
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			// On a busy machine the first answer may come too late as well.
			if o := h.sink.Write(ctx, sink.Dest{Instance: testDatabase}, e); o[1].Kind != sink.Transient {
				t.Errorf("outcome %v", o[1])
			}
		})
	}
	wg.Wait()
	if n := f.created.Load(); n != 1 {
		t.Errorf("%d sessions were made", n)
	}
	h.sink.Release(testDatabase)
	deadline := time.Now().Add(3 * time.Minute)
	for f.streams.Load() != 0 || h.conns.Load() != 0 || runtime.NumGoroutine() > base+5 { // the fake's own
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d streams, %d connections, %d goroutines (%d before)\n%s", f.streams.Load(), h.conns.Load(),
				runtime.NumGoroutine(), base, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

func TestSPBW12NoSessionPoolOptions(t *testing.T) {
	typ := reflect.TypeOf(Config{})
	for i := range typ.NumField() {
		if name := typ.Field(i).Name; strings.Contains(strings.ToLower(name), "session") {
			t.Errorf("option %s: sessions are not the user's to set", name)
		}
	}
}

func TestLostSessionIsRenewed(t *testing.T) {
	f := &fake{}
	h := setUp(t, f, plainSchema(), plainRoutes, nil).open()
	check(t, h.write(h.entry("orders", order("a"))), "applied")
	f.forget()
	check(t, h.write(h.entry("orders", order("b"))), "applied")
	check(t, h.write(h.entry("orders", order("c"))), "applied")
	if f.created.Load() != 2 || f.batches.Load() != 4 {
		t.Errorf("%d sessions and %d requests, want 2 and 4", f.created.Load(), f.batches.Load())
	}
	t.Run("the database is gone too", func(t *testing.T) {
		f.session = func(int) error {
			s, _ := status.New(codes.NotFound, "Database not found").WithDetails(&errdetails.ResourceInfo{ResourceType: databaseResource})
			return s.Err()
		}
		f.forget()
		outs := h.write(h.entry("orders", order("d")))
		check(t, outs, "fatal")
		if outs[0].Scope != sink.ScopeBatch || !strings.Contains(outs[0].Err.Error(), "Database not found") {
			t.Errorf("outcome %+v", outs[0])
		}
	})
}

func TestSessionNotFoundWithoutDetailsIsLookedUp(t *testing.T) {
	lost := true
	f := &fake{}
	f.batchWrite = func(_ int, _ *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
		if lost {
			lost = false
			f.forget()
			return status.Error(codes.NotFound, "who knows")
		}
		return s.Send(answer(codes.OK, 0))
	}
	h := setUp(t, f, plainSchema(), plainRoutes, nil).open()
	check(t, h.write(h.entry("orders", order("a"))), "applied")
	if f.created.Load() != 2 {
		t.Errorf("%d sessions, want 2", f.created.Load())
	}
}

func TestSessionRotation(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	made, fail := 0, false
	s := &sessions{now: func() time.Time { return now }, create: func(context.Context) (string, error) {
		made++
		if fail {
			return "", status.Error(codes.Unavailable, "down")
		}
		return fmt.Sprintf("s%d", made), nil
	}}
	get := func(want string, creations int) {
		t.Helper()
		got, err := s.get(t.Context())
		if want == "" {
			if err == nil {
				t.Errorf("got %q, want an error", got)
			}
		} else if err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		if made != creations {
			t.Errorf("%d creations, want %d", made, creations)
		}
	}
	get("s1", 1)
	now = now.Add(sessionRotate - 1)
	get("s1", 1)
	now = now.Add(1)
	get("s2", 2) // rotated at 6 days
	now = now.Add(sessionRotate)
	fail = true
	get("s2", 3) // a failed rotation: the old one is good still
	get("s2", 3) // and not tried again at once
	now = now.Add(rotateRetry)
	get("s2", 4)
	now = now.Add(sessionLife - sessionRotate)
	get("", 5) // too old to use
	fail = false
	get("s6", 6)
	s.lost("s2") // not the current one
	get("s6", 6)
	s.lost("s6")
	get("s7", 7)
}

func TestSessionIsMadeOnceForAll(t *testing.T) {
	release := make(chan struct{})
	var mu sync.Mutex
	made := 0
	s := &sessions{now: time.Now, create: func(context.Context) (string, error) {
		mu.Lock()
		made++
		mu.Unlock()
		<-release
		return "s", nil
	}}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got, err := s.get(context.Background()); got != "s" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	close(release)
	wg.Wait()
	if made != 1 {
		t.Errorf("%d sessions, want 1", made)
	}
}

func TestEMU01WithoutBatchWriteEachGroupIsACommit(t *testing.T) {
	log := &notices{}
	f := &fake{
		batchWrite: func(int, *sppb.BatchWriteRequest, sppb.Spanner_BatchWriteServer) error {
			return status.Error(codes.Unimplemented, "")
		},
		commit: func(_ context.Context, _ int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
			switch id := idOf(req.Mutations[0]); {
			case strings.HasPrefix(id, "bad"):
				return nil, status.Error(codes.FailedPrecondition, "secret-value")
			case strings.HasPrefix(id, "busy"):
				return nil, status.Error(codes.Aborted, "one transaction at a time")
			}
			return committed(), nil
		},
	}
	h := setUp(t, f, plainSchema(), plainRoutes, func(c *Config) { c.Log = slog.New(log) }).open()
	check(t, h.write(h.entries("orders", order("a"), order("bad"), order("busy"), order("b"))...), "applied rejected(constraint) transient applied")
	check(t, h.write(h.entries("orders", order("c"))...), "applied")
	if got := log.all(); len(got) != 1 || !strings.Contains(got[0], "no BatchWrite") {
		t.Errorf("logged %q", got)
	}
	if f.batches.Load() != 1 || f.commits.Load() != 5 {
		t.Errorf("%d BatchWrites and %d Commits, want 1 and 5", f.batches.Load(), f.commits.Load())
	}
}

func TestEMU01ServiceWithoutBatchWriteIsAStartError(t *testing.T) {
	f := &fake{batchWrite: func(int, *sppb.BatchWriteRequest, sppb.Spanner_BatchWriteServer) error {
		return status.Error(codes.Unimplemented, "")
	}}
	h := setUp(t, f, plainSchema(), plainRoutes, func(c *Config) { c.asService = true }).open()
	for _, p := range h.sink.Check(t.Context()) {
		if !p.Final || !strings.Contains(p.Text, "PUSHSINK_SPANNER_WRITE_METHOD=commit") {
			t.Errorf("the check says %+v", p)
		}
	}
	if n := len(h.sink.Check(t.Context())); n != 2 {
		t.Errorf("%d problems for two routes", n)
	}
	outs := h.write(h.entry("orders", order("a")))
	check(t, outs, "fatal")
	if outs[0].Scope != sink.ScopeBatch || f.commits.Load() != 0 {
		t.Errorf("outcome %+v, %d commits", outs[0], f.commits.Load())
	}
}

func TestWriteWithoutAClientOrWithForeignEntries(t *testing.T) {
	h := setUp(t, &fake{}, plainSchema(), plainRoutes, nil)
	e := h.entry("orders", order("a"))
	check(t, h.write(e), "transient")
	h.open()
	check(t, h.write(sink.Entry{Payload: "another sink's"}, e, sink.Entry{}), "undecided applied undecided")
	check(t, h.sink.Write(t.Context(), sink.Dest{Instance: "projects/p/instances/i/databases/other"}, []sink.Entry{e}), "transient")
	if got := h.sink.Ensure(t.Context(), e.Dest); got.Kind != sink.Fatal {
		t.Errorf("Ensure says %v", got.Kind)
	}
}

// TestBatchesKeepTheirBounds: cells, with indexes; mutations, children counted; bytes.
func TestBatchesKeepTheirBounds(t *testing.T) {
	const file = `
routes:
  orders:
    spanner:
      database: @db
      table: Orders
      columns: {Id: data.id, A: data.a, B: data.b}
      children:
        - {table: Lines, each: data.lines, columns: {Id: data.id, No: index, Sku: value}}
`
	cat := describeSchema(GoogleSQL,
		"Orders: Id STRING(36) key notnull, A STRING(MAX) 2, B STRING(MAX) 1 | ByA, ByAB",
		"Lines: Id STRING(36) key notnull, No INT64 key notnull, Sku STRING(MAX) | | in Orders")
	const maxBytes = 3000
	for _, tt := range []struct {
		name                    string
		maxCells, maxMutations  int
		lines, pad              func(i int) int
		cells, mutations, bytes int // what some request has to reach
	}{
		{"one cheap mutation each", 5000, 3, func(int) int { return 0 }, func(int) int { return 1 }, 0, 3, 0},
		{"bounds that share no factor", 61, 7, func(int) int { return 0 }, func(int) int { return -1 }, 0, 7, 0},
		{"cells bind", 42, 500, func(int) int { return 0 }, func(int) int { return 1 }, 42, 0, 0},
		{"children count", 5000, 12, func(int) int { return 3 }, func(int) int { return 1 }, 0, 12, 0},
		{"bytes bind", 5000, 500, func(int) int { return 0 }, func(int) int { return 700 }, 0, 0, maxBytes - 800},
		{"a mixture", 60, 8, func(i int) int { return i % 5 }, func(i int) int { return i * 3 % 400 }, 20, 5, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gate := make(chan struct{})
			f := &fake{batchWrite: func(n int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
				if n == 1 {
					<-gate // so that the others gather behind it
				}
				return s.Send(answer(codes.OK, indexes(0, len(req.MutationGroups))...))
			}}
			h := setUp(t, f, cat, file, func(c *Config) { c.MaxBatchCells, c.MaxBatchMutations = tt.maxCells, tt.maxMutations })
			h.opts.MaxBatchBytes = maxBytes
			h.opts.MaxInFlightRequestsDest = 1
			var es []sink.Entry
			for i := range 100 {
				lines := strings.Join(slices.Repeat([]string{`"sku"`}, tt.lines(i)), ",")
				pad := ""
				if n := tt.pad(i); n >= 0 {
					pad = fmt.Sprintf(`"a":%q,"b":"",`, strings.Repeat("x", n))
				}
				es = append(es, h.entry("orders", fmt.Sprintf(`{"id":"o%03d",%s"lines":[%s]}`, i, pad, lines)))
			}
			w := h.writer()
			ticket := w.Submit(t.Context(), es)
			close(gate)
			check(t, ticket.Wait(), "applied"+strings.Repeat(" applied", 99))
			var most [3]int
			groups := 0
			for _, req := range f.seen {
				cells, mutations, bytes := 0, 0, 0
				for _, g := range req.MutationGroups {
					groups++
					for _, m := range g.Mutations {
						mutations++
						for _, c := range written(m).Columns {
							cells += map[string]int{"Id": 1, "A": 3, "B": 2, "No": 1, "Sku": 1}[c]
						}
					}
					bytes += proto.Size(&sppb.BatchWriteRequest{MutationGroups: []*sppb.BatchWriteRequest_MutationGroup{g}})
				}
				if cells > tt.maxCells || mutations > tt.maxMutations || bytes > maxBytes {
					t.Errorf("a request of %d cells, %d mutations, %d bytes", cells, mutations, bytes)
				}
				most[0], most[1], most[2] = max(most[0], cells), max(most[1], mutations), max(most[2], bytes)
			}
			if groups != 100 {
				t.Errorf("%d groups were sent, want 100", groups)
			}
			if most[0] < tt.cells || most[1] < tt.mutations || most[2] < tt.bytes {
				t.Errorf("at most %d cells, %d mutations, %d bytes in a request; the bounds allow %d, %d, %d",
					most[0], most[1], most[2], tt.cells, tt.mutations, tt.bytes)
			}
		})
	}
}

func TestSPBW06OneRecordAboveTheBounds(t *testing.T) {
	var columns, spec []string
	var fields []string
	for i := range 12 {
		columns = append(columns, fmt.Sprintf("C%d: data.c%d", i, i))
		spec = append(spec, fmt.Sprintf("C%d STRING(MAX)", i))
		fields = append(fields, fmt.Sprintf(`"c%d":"x"`, i))
	}
	spec[0] = "C0 STRING(MAX) key"
	file := "routes: {wide: {spanner: {database: @db, table: Wide, columns: {" + strings.Join(columns, ", ") + "}}}}"
	cat := describeSchema(GoogleSQL, "Wide: "+strings.Join(spec, ", "))
	f := &fake{}
	h := setUp(t, f, cat, file, func(c *Config) { c.MaxBatchCells = 10 })
	small := func(i int) string { return fmt.Sprintf(`{"c0":"s%d"}`, i) }
	payloads := []string{small(0), "{" + strings.Join(fields, ",") + "}", small(1), fmt.Sprintf(`{"c0":"big","c1":%q}`, strings.Repeat("x", 3<<20/2)), small(2)}
	outs := h.writer().Write(t.Context(), h.entries("wide", payloads...))
	check(t, outs, "applied applied applied applied applied")
	for _, req := range f.seen {
		if list := ids(req); len(list) > 1 && (slices.Contains(list, "x") || slices.Contains(list, "big")) {
			t.Errorf("a record above the bounds was sent with others: %v", list)
		}
	}
	t.Run("above the service's cells", func(t *testing.T) {
		many := describeSchema(GoogleSQL, "Wide: "+strings.Replace(strings.Join(spec, ", "), "C1 STRING(MAX)", "C1 STRING(MAX) 80000", 1))
		h := setUp(t, &fake{}, many, file, nil)
		_, err := h.try("wide", `{"c0":"a","c1":"x"}`)
		if e, ok := asSchemaError(err); !ok || e.Code != "too_large" || !strings.Contains(e.Detail, "80000") {
			t.Errorf("got %v", err)
		}
		at := describeSchema(GoogleSQL, "Wide: "+strings.Replace(strings.Join(spec, ", "), "C1 STRING(MAX)", "C1 STRING(MAX) 79998", 1))
		h = setUp(t, &fake{}, at, file, nil)
		h.entry("wide", `{"c0":"a","c1":"x"}`) // exactly 80,000
	})
	t.Run("above the service's bytes", func(t *testing.T) {
		h := setUp(t, &fake{}, cat, file, nil)
		m, err := h.source["wide"].Mapping.Apply(&schema.Record{Data: []byte(`{"c0":"a","c1":"xxxxxxxx"}`)})
		if err != nil {
			t.Fatal(err)
		}
		size := int(h.entry("wide", `{"c0":"a","c1":"xxxxxxxx"}`).Bytes) - 2 // as a group of its own
		for limit, fits := range map[int]bool{size: true, size - 1: false} {
			e := &encoder{route: h.routes["wide"], plan: h.routes["wide"].plan(cat), limit: limit}
			err := e.group(m.Spanner, "")
			if (err == nil) != fits || !fits && err.Code != schema.TooLarge {
				t.Errorf("%d bytes where %d are allowed: %v", len(e.wire), limit, err)
			}
		}
	})
}
