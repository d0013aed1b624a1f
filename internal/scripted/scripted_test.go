package scripted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/internal/emulator"
)

func TestMain(m *testing.M) {
	emulator.LoopbackOnly()
	os.Exit(m.Run())
}

var tableT = TableName("p", "i", "t")

func dial(t *testing.T, s *Server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func set(family, column string, micros int64, value string) *bigtablepb.Mutation {
	return &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_SetCell_{SetCell: &bigtablepb.Mutation_SetCell{
		FamilyName: family, ColumnQualifier: []byte(column), TimestampMicros: micros, Value: []byte(value),
	}}}
}

func entry(key string, mutations ...*bigtablepb.Mutation) *Entry {
	return &Entry{RowKey: []byte(key), Mutations: mutations}
}

// entries are n good entries with the keys k0, k1, ...
func entries(n int) []*Entry {
	var es []*Entry
	for i := range n {
		es = append(es, entry(fmt.Sprintf("k%d", i), set("f", "q", 1000, "v")))
	}
	return es
}

// mutate makes one attempt. got is "CODE" per reported index.
func mutate(ctx context.Context, conn *grpc.ClientConn, table string, es []*Entry) (got map[int64]codes.Code, err error) {
	stream, err := bigtablepb.NewBigtableClient(conn).MutateRows(ctx, &bigtablepb.MutateRowsRequest{TableName: table, Entries: es})
	if err != nil {
		return nil, err
	}
	got = map[int64]codes.Code{}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		for _, e := range answer.GetEntries() {
			got[e.GetIndex()] = codes.Code(e.GetStatus().GetCode())
		}
	}
}

func keys(s *Server, table string) string {
	return strings.Join(slices.Sorted(maps.Keys(s.Rows(table))), " ")
}

func TestRealClientWritesAndCreates(t *testing.T) {
	s := New(t, Options{})
	conn := dial(t, s)
	admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	conf := &bigtable.TableConf{TableID: "t", ColumnFamilies: map[string]bigtable.Family{"f": {GCPolicy: bigtable.MaxVersionsPolicy(2)}}}
	if err := admin.CreateTableFromConf(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	if err := admin.CreateTableFromConf(t.Context(), conf); status.Code(err) != codes.AlreadyExists {
		t.Errorf("second create = %v, want AlreadyExists", err)
	}
	if err := admin.CreateColumnFamily(t.Context(), "t", "g"); err != nil {
		t.Fatal(err)
	}
	if err := admin.CreateColumnFamily(t.Context(), "t", "g"); status.Code(err) != codes.AlreadyExists {
		t.Errorf("second family = %v, want AlreadyExists", err)
	}
	info, err := admin.TableInfo(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	if slices.Sort(info.Families); !slices.Equal(info.Families, []string{"f", "g"}) {
		t.Errorf("families = %v", info.Families)
	}
	if rule := s.Families(tableT)["f"].GetGcRule().GetMaxNumVersions(); rule != 2 {
		t.Errorf("maxVersions of f = %d, want 2", rule)
	}
	if tables, err := admin.Tables(t.Context()); err != nil || !slices.Equal(tables, []string{"t"}) {
		t.Errorf("tables = %v, %v", tables, err)
	}

	client, err := bigtable.NewClientWithConfig(t.Context(), "p", "i",
		bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}, DisableSession: true, DisableDirectAccess: true},
		option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	m := bigtable.NewMutation()
	m.Set("f", "q", 2000, []byte("two"))
	m.Set("f", "q", 3000, []byte("three"))
	m.Set("f", "q", 2000, []byte("two again"))
	m.Set("g", "gone", 1000, []byte("x"))
	m.DeleteCellsInFamily("g")
	errs, err := client.Open("t").ApplyBulk(t.Context(), []string{"k"}, []*bigtable.Mutation{m})
	if errs != nil || err != nil {
		t.Fatalf("ApplyBulk = %v, %v", errs, err)
	}
	if err := client.Open("t").Apply(t.Context(), "single", m); err != nil || !s.Has(tableT, "single") {
		t.Errorf("Apply = %v, written %v", err, s.Has(tableT, "single"))
	}
	row := s.Row(tableT, "k")
	if len(row) != 1 || len(row["f:q"]) != 2 || string(row["f:q"][0].Value) != "three" || string(row["f:q"][1].Value) != "two again" {
		t.Errorf("row = %v", row)
	}
	if got := s.Stats(); got.Creates != 2 || got.Modifies != 2 || got.Requests != 2 || got.Entries != 2 || got.Applied != 2 || got.Open != 0 || got.MaxOpen != 1 {
		t.Errorf("stats = %+v", got)
	}
}

func TestDeletes(t *testing.T) {
	column := &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_DeleteFromColumn_{DeleteFromColumn: &bigtablepb.Mutation_DeleteFromColumn{FamilyName: "f", ColumnQualifier: []byte("q")}}}
	row := &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_DeleteFromRow_{DeleteFromRow: &bigtablepb.Mutation_DeleteFromRow{}}}
	for _, c := range []struct {
		name   string
		entry  *Entry
		remain string
	}{
		{"column", entry("k", column), "f:r"},
		{"row", entry("k", row), ""},
		{"row then set", entry("k", row, set("f", "n", 1000, "v")), "f:n"},
		{"set then row", entry("k", set("f", "n", 1000, "v"), row), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(t, Options{AnyTable: true})
			conn := dial(t, s)
			for _, e := range []*Entry{entry("k", set("f", "q", 1000, "v"), set("f", "q", 2000, "v"), set("f", "r", 1000, "v")), c.entry} {
				if _, err := mutate(t.Context(), conn, tableT, []*Entry{e}); err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.Join(slices.Sorted(maps.Keys(s.Row(tableT, "k"))), " "); got != c.remain {
				t.Errorf("columns = %q, want %q", got, c.remain)
			}
			if s.Has(tableT, "k") != (c.remain != "") {
				t.Errorf("Has = %v", s.Has(tableT, "k"))
			}
		})
	}
}

func TestPlans(t *testing.T) {
	bad := func(i int, _ *Entry) error {
		if i == 1 {
			return status.Error(codes.InvalidArgument, "scripted")
		}
		return nil
	}
	const ok, invalid, notFound = codes.OK, codes.InvalidArgument, codes.NotFound
	for _, c := range []struct {
		name    string
		options Options
		plan    Plan
		es      []*Entry
		code    codes.Code
		got     map[int64]codes.Code
		keys    string
	}{
		{name: "all good", es: entries(3), got: map[int64]codes.Code{0: ok, 1: ok, 2: ok}, keys: "k0 k1 k2"},
		{name: "an entry by predicate", plan: Plan{Entry: bad}, es: entries(3),
			got: map[int64]codes.Code{0: ok, 1: invalid, 2: ok}, keys: "k0 k2"},
		{name: "strict", options: Options{Strict: true}, plan: Plan{Entry: bad}, es: entries(3), code: invalid},
		{name: "unknown family", es: append(entries(1), entry("u", set("f", "q", 1000, "v"), set("nope", "q", 1000, "v"))),
			got: map[int64]codes.Code{0: ok, 1: notFound}, keys: "k0"},
		{name: "unknown family as the emulator says", options: Options{UnknownFamily: codes.Internal},
			es: []*Entry{entry("u", set("nope", "q", 1000, "v"))}, got: map[int64]codes.Code{0: codes.Internal}},
		{name: "empty and long keys, no mutations, microseconds",
			es:  []*Entry{entry("", set("f", "q", 1000, "v")), entry(strings.Repeat("k", 4097), set("f", "q", 1000, "v")), entry("m"), entry("ts", set("f", "q", 1234, "v"))},
			got: map[int64]codes.Code{0: invalid, 1: invalid, 2: invalid, 3: invalid}},
		{name: "no entries", code: invalid},
		{name: "half, then unavailable", plan: Plan{Fail: Status(codes.Unavailable, "draining", 0), Apply: 2}, es: entries(4),
			code: codes.Unavailable, got: map[int64]codes.Code{}, keys: "k0 k1"},
		{name: "some statuses, then permission denied", plan: Plan{Fail: Status(codes.PermissionDenied, "no", 0), Apply: 1, Report: 1}, es: entries(3),
			code: codes.PermissionDenied, got: map[int64]codes.Code{0: ok}, keys: "k0"},
		{name: "forget", plan: Plan{Forget: func(i int) bool { return i == 1 }}, es: entries(3),
			got: map[int64]codes.Code{0: ok, 2: ok}, keys: "k0 k1 k2"},
		{name: "forget all", plan: Plan{Forget: func(int) bool { return true }}, es: entries(1), got: map[int64]codes.Code{}, keys: "k0"},
		{name: "keys only", options: Options{KeysOnly: true}, es: entries(2), got: map[int64]codes.Code{0: ok, 1: ok}, keys: "k0 k1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Script = InTurn(c.plan)
			s := New(t, c.options)
			if !c.options.KeysOnly {
				s.AddTable(tableT, "f")
			}
			got, err := mutate(t.Context(), dial(t, s), tableT, c.es)
			if status.Code(err) != c.code || (c.got != nil && !maps.Equal(got, c.got)) {
				t.Errorf("mutate = %v, %v; want %v, %v", got, err, c.got, c.code)
			}
			if k := keys(s, tableT); k != c.keys {
				t.Errorf("rows = %q, want %q", k, c.keys)
			}
		})
	}
}

func TestMissingTable(t *testing.T) {
	s := New(t, Options{})
	if _, err := mutate(t.Context(), dial(t, s), tableT, entries(1)); status.Code(err) != codes.NotFound {
		t.Errorf("err = %v, want NotFound", err)
	}
}

func TestCreatedTableIsVisibleLater(t *testing.T) {
	for after, becomes := range map[time.Duration]bool{300 * time.Millisecond: true, time.Hour: false} {
		s := New(t, Options{VisibleAfter: after})
		conn := dial(t, s)
		admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", option.WithGRPCConn(conn))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := admin.CreateTableFromConf(t.Context(), &bigtable.TableConf{TableID: "t", ColumnFamilies: map[string]bigtable.Family{"f": {}}}); err != nil {
			t.Fatal(err)
		}
		for {
			_, err := mutate(t.Context(), conn, tableT, entries(1))
			if err != nil && status.Code(err) != codes.NotFound {
				t.Fatal(err)
			}
			if err != nil && becomes {
				continue
			}
			if took := time.Since(start); err == nil && took < after {
				t.Errorf("visible after %v, want %v at least", took, after)
			}
			break
		}
	}
}

// giveUpWhen makes a call and cancels it once the server is so far.
func giveUpWhen(t *testing.T, s *Server, soFar func() bool, es []*Entry) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for !soFar() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := mutate(ctx, dial(t, s), tableT, es)
	return err
}

func TestStallLatencyAndLate(t *testing.T) {
	t.Run("stall ends with the caller", func(t *testing.T) {
		s := New(t, Options{AnyTable: true, Script: InTurn(Plan{Stall: true, Apply: 1})})
		err := giveUpWhen(t, s, func() bool { return s.Has(tableT, "k0") }, entries(2))
		if status.Code(err) != codes.Canceled {
			t.Errorf("err = %v, want Canceled", err)
		}
		if k := keys(s, tableT); k != "k0" {
			t.Errorf("rows = %q, want k0", k)
		}
	})
	t.Run("latency of call and entries", func(t *testing.T) {
		s := New(t, Options{AnyTable: true, Latency: 20 * time.Millisecond, EntryLatency: 10 * time.Millisecond})
		start := time.Now()
		if _, err := mutate(t.Context(), dial(t, s), tableT, entries(3)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 50*time.Millisecond {
			t.Errorf("took %v, want 50ms at least", took)
		}
	})
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("given up, late=%v", late), func(t *testing.T) {
			release := make(chan struct{})
			s := New(t, Options{AnyTable: true, Script: InTurn(Plan{Until: release, Late: late})})
			err := giveUpWhen(t, s, func() bool { return s.Stats().Open == 1 }, entries(1))
			if status.Code(err) != codes.Canceled {
				t.Fatalf("err = %v", err)
			}
			if !late {
				for s.Stats().Open > 0 { // the server hears of the end a little later
					time.Sleep(time.Millisecond)
				}
			}
			close(release)
			for s.Stats().Open > 0 {
				time.Sleep(time.Millisecond)
			}
			if s.Has(tableT, "k0") != late {
				t.Errorf("written = %v", s.Has(tableT, "k0"))
			}
		})
	}
}

func TestShuffleChangesTheLastWriter(t *testing.T) {
	s := New(t, Options{AnyTable: true, Script: func(*Call) Plan { return Plan{Shuffle: true} }})
	conn := dial(t, s)
	seen := map[string]bool{}
	for range 200 {
		if _, err := mutate(t.Context(), conn, tableT, []*Entry{entry("k", set("f", "q", 1000, "a")), entry("k", set("f", "q", 1000, "b"))}); err != nil {
			t.Fatal(err)
		}
		seen[string(s.Row(tableT, "k")["f:q"][0].Value)] = true
	}
	if len(seen) != 2 {
		t.Errorf("last writers in 200 shuffles: %v, want both", seen)
	}
}

func TestResets(t *testing.T) {
	s := New(t, Options{AnyTable: true, ResetEvery: 100 * time.Millisecond, Script: InTurn(Plan{Stall: true})})
	conn := dial(t, s)
	if _, err := mutate(t.Context(), conn, tableT, entries(1)); status.Code(err) != codes.Unavailable {
		t.Errorf("call under a reset = %v, want Unavailable", err)
	}
	if s.Stats().Resets == 0 {
		t.Error("no resets counted")
	}
	// Another reset may meet the next call, too.
	for {
		_, err := bigtablepb.NewBigtableClient(conn).PingAndWarm(t.Context(), &bigtablepb.PingAndWarmRequest{}, grpc.WaitForReady(true))
		if err == nil {
			break
		}
		if status.Code(err) != codes.Unavailable {
			t.Fatalf("after the reset: %v", err)
		}
	}
	if s.Stats().Pings < 1 {
		t.Errorf("pings = %d", s.Stats().Pings)
	}
}

func TestGoAway(t *testing.T) {
	s := New(t, Options{AnyTable: true, MaxConnectionAge: 50 * time.Millisecond})
	raw, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	const goAway = 7 // RFC 9113, 6.8
	header := make([]byte, 9)
	for {
		if _, err := io.ReadFull(raw, header); err != nil {
			t.Fatalf("no GOAWAY before %v", err)
		}
		if header[3] == goAway {
			return
		}
		if _, err := io.CopyN(io.Discard, raw, int64(header[0])<<16|int64(header[1])<<8|int64(header[2])); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFirstCallOfAConnection(t *testing.T) {
	const first = 200 * time.Millisecond
	s := New(t, Options{AnyTable: true, FirstCall: first})
	conn := dial(t, s)
	start := time.Now()
	if _, err := bigtablepb.NewBigtableClient(conn).PingAndWarm(t.Context(), &bigtablepb.PingAndWarmRequest{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < first {
		t.Errorf("first call took %v, want %v at least", took, first)
	}
	var state any
	s.warm.Range(func(_, at any) bool { state = at; return true })
	if left := time.Until(state.(time.Time).Add(first)); left > 0 {
		t.Errorf("the connection is warm only in %v", left)
	}
}

func TestCountersAndCalls(t *testing.T) {
	release := make(chan struct{})
	s := New(t, Options{AnyTable: true, Record: true, Script: func(c *Call) Plan {
		if c.N <= 8 {
			return Plan{Until: release}
		}
		return Plan{}
	}})
	conn := dial(t, s)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			if _, err := mutate(t.Context(), conn, tableT, []*Entry{entry(fmt.Sprint(i), set("f", "q", -1, "v"))}); err != nil {
				t.Error(err)
			}
		})
	}
	for s.Stats().Open < 8 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	calls.Wait()
	if got := s.Stats(); got.Requests != 8 || got.MaxOpen != 8 || got.Open != 0 || got.ServerTimes != 8 || got.Applied != 8 {
		t.Errorf("stats = %+v", got)
	}
	seen := map[string]bool{}
	for _, c := range s.Calls() {
		seen[strings.Join(c.Keys, " ")] = true
		if c.Table != tableT || c.Err != nil || c.End.Before(c.Start) {
			t.Errorf("call = %+v", c)
		}
	}
	if len(seen) != 8 || s.Len(tableT) != 8 {
		t.Errorf("recorded %v, %d rows", seen, s.Len(tableT))
	}
}

func TestAdminScript(t *testing.T) {
	s := New(t, Options{Admin: func(method string, n int) error {
		if method == "ModifyColumnFamilies" && n <= 2 {
			return status.Error(codes.FailedPrecondition, "schema is changing")
		}
		return nil
	}})
	s.AddTable(tableT, "f")
	admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", option.WithGRPCConn(dial(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []codes.Code{codes.FailedPrecondition, codes.FailedPrecondition, codes.OK} {
		if err := admin.CreateColumnFamily(t.Context(), "t", "g"); status.Code(err) != want {
			t.Errorf("call %d = %v, want %v", i, err, want)
		}
	}
}

func TestStatusCarriesRetryInfo(t *testing.T) {
	s := New(t, Options{AnyTable: true, Script: InTurn(Plan{Fail: Status(codes.ResourceExhausted, "slow down", time.Second)})})
	_, err := mutate(t.Context(), dial(t, s), tableT, entries(1))
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted || len(st.Details()) != 1 {
		t.Fatalf("err = %v, details %v", err, st.Details())
	}
	if info, ok := st.Details()[0].(*errdetails.RetryInfo); !ok || info.GetRetryDelay().AsDuration() != time.Second {
		t.Errorf("detail = %v", st.Details()[0])
	}
}
