package bigtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

func TestWriteOneCallWithHeaders(t *testing.T) {
	s := &service{}
	b := opened(t, s, routeOf("r", func(b *schema.BigtableTarget) { b.AppProfile = "batch" }))
	outs := b.write(b.entries(0, row("a"), row("b"), row("c"))...)
	if kinds(outs) != "applied applied applied" {
		t.Fatal(kinds(outs))
	}
	if len(s.mutates) != 1 {
		t.Fatalf("%d calls", len(s.mutates))
	}
	req := s.mutates[0]
	if req.TableName != testPath+"/tables/t" || req.AppProfileId != "batch" || len(req.Entries) != 3 {
		t.Errorf("request to %q, profile %q, %d entries", req.TableName, req.AppProfileId, len(req.Entries))
	}
	for h, want := range map[string]string{
		"google-cloud-resource-prefix": testPath + "/tables/t",
		"x-goog-request-params":        "table_name=projects%2Fp%2Finstances%2Finst%2Ftables%2Ft&app_profile_id=batch",
		"bigtable-features":            features,
	} {
		if got := s.headers[0].Get(h); len(got) != 1 || got[0] != want {
			t.Errorf("header %s = %q, want %q", h, got, want)
		}
	}
	if ua := s.headers[0].Get("user-agent"); len(ua) != 1 || !strings.HasPrefix(ua[0], "pushsink") {
		t.Errorf("user agent %q", ua)
	}
}

// One attempt is one call, whatever the code and whatever a service config asks for.
func TestWriteNeverRepeats(t *testing.T) {
	retrying := grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{"service": "google.bigtable.v2.Bigtable"}],
		"retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE", "ABORTED", "INTERNAL", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"]}}]}`)
	code := codes.OK
	s := &service{mutate: func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
		return status.Error(code, "no")
	}}
	cfg := testConfig(serve(t, s))
	cfg.DialOptions = append(cfg.DialOptions, retrying)
	b := newBench(t, cfg, routeOf("r", nil))
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	for code = codes.Canceled; code <= codes.Unauthenticated; code++ {
		s.mutates = nil
		b.write(b.entry(0, row("a")))
		if len(s.mutates) != 1 {
			t.Errorf("%v: %d calls", code, len(s.mutates))
		}
	}
}

func TestWriteMergesRows(t *testing.T) {
	s := &service{}
	b := opened(t, s, routeOf("r", nil))
	es := b.entries(0,
		row("a", set("f", "q", "1")), row("b", set("f", "q", "2")),
		row("a", schema.Op{Kind: schema.DeleteRow}, set("f", "q", "3")),
		row("c", set("f", "q", "4")), row("b", set("f", "q", "5")), row("a", set("f", "q", "6")))
	outs := b.write(es...)
	if kinds(outs) != strings.TrimSpace(strings.Repeat("applied ", 6)) {
		t.Fatal(kinds(outs))
	}
	var got []string
	for _, e := range s.mutates[0].Entries {
		line := string(e.RowKey) + ":"
		for _, m := range e.Mutations {
			if m.GetDeleteFromRow() != nil {
				line += " delete"
			} else {
				line += " " + string(m.GetSetCell().Value)
			}
		}
		got = append(got, line)
	}
	want := []string{"a: 1 delete 3 6", "b: 2 5", "c: 4"}
	if !slices.Equal(got, want) {
		t.Errorf("request holds %q, want %q", got, want)
	}
}

// The status of a merged row is that of every record in it.
func TestWriteMergedStatusReachesEachRecord(t *testing.T) {
	s := &service{mutate: func(_ int, req *btpb.MutateRowsRequest, stream btpb.Bigtable_MutateRowsServer) error {
		return stream.Send(&btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{
			entryStatus(1, codes.OK, ""), entryStatus(0, codes.InvalidArgument, "bad"),
		}})
	}}
	b := opened(t, s, routeOf("r", nil))
	outs := b.write(b.entries(0, row("a"), row("b"), row("a"))...)
	if kinds(outs) != "rejected applied rejected" {
		t.Fatal(kinds(outs))
	}
}

func TestWriteAnswers(t *testing.T) {
	send := func(stream btpb.Bigtable_MutateRowsServer, es ...*btpb.MutateRowsResponse_Entry) {
		_ = stream.Send(&btpb.MutateRowsResponse{Entries: es})
	}
	ok := func(i int) *btpb.MutateRowsResponse_Entry { return entryStatus(i, codes.OK, "") }
	for _, c := range []struct {
		name   string
		answer func(stream btpb.Bigtable_MutateRowsServer) error
		want   string
	}{
		{"BTERR-01 the middle entry fails", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(0), entryStatus(1, codes.InvalidArgument, "bad"), ok(2))
			return nil
		}, "applied rejected applied"},
		{"BTERR-03 one is left out", func(st btpb.Bigtable_MutateRowsServer) error { send(st, ok(0), ok(2)); return nil }, "applied undecided applied"},
		{"BTERR-03 a status is null", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(0), &btpb.MutateRowsResponse_Entry{Index: 1}, ok(2))
			return nil
		}, "applied undecided applied"},
		{"BTERR-03 nothing at all", func(btpb.Bigtable_MutateRowsServer) error { return nil }, "undecided undecided undecided"},
		{"empty messages", func(st btpb.Bigtable_MutateRowsServer) error { send(st); send(st, ok(1)); return nil }, "undecided applied undecided"},
		{"index outside the request", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(-1), ok(3), ok(1<<40), ok(0))
			return nil
		}, "applied undecided undecided"},
		{"one message each, backwards", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(2))
			send(st, ok(1))
			send(st, ok(0))
			return nil
		}, "applied applied applied"},
		{"BTERR-04 broken with UNAVAILABLE", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(0))
			return status.Error(codes.Unavailable, "reset")
		}, "applied transient transient"},
		{"BTERR-04 broken with PERMISSION_DENIED", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(0))
			return status.Error(codes.PermissionDenied, "no")
		}, "applied fatal fatal"},
		{"all answered, then an error", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(0), ok(1), ok(2))
			return status.Error(codes.Unavailable, "reset")
		}, "applied applied applied"},
		{"a second status contradicts the first", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(0), ok(1), entryStatus(1, codes.Internal, "no"), ok(2))
			return nil
		}, "applied undecided applied"},
		{"an OK after a refusal", func(st btpb.Bigtable_MutateRowsServer) error {
			send(st, ok(0), entryStatus(1, codes.InvalidArgument, "no"), ok(1), ok(2))
			return nil
		}, "applied rejected applied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{mutate: func(_ int, _ *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error { return c.answer(st) }}
			b := opened(t, s, routeOf("r", nil))
			if got := kinds(b.write(b.entries(0, row("a"), row("b"), row("c"))...)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// A stream that stalls ends with the attempt; what it answered stands. One that has
// answered everything is not waited for.
func TestWriteStalledStream(t *testing.T) {
	stall := func(n int) *service {
		return &service{mutate: func(_ int, _ *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			for i := range n {
				_ = st.Send(&btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{entryStatus(i, codes.OK, "")}})
			}
			<-st.Context().Done()
			return st.Context().Err()
		}}
	}
	synctest.Test(t, func(t *testing.T) {
		b := opened(t, stall(1), routeOf("r", nil))
		es := b.entries(0, row("a"), row("b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := kinds(b.Write(ctx, es[0].Dest, es)); got != "applied transient" {
			t.Errorf("stalled: %s", got)
		}
		b = opened(t, stall(2), routeOf("r", nil))
		es = b.entries(0, row("a"), row("b"))
		start := time.Now()
		if got := kinds(b.Write(t.Context(), es[0].Dest, es)); got != "applied applied" || time.Since(start) != 0 {
			t.Errorf("answered in full: %s after %v", got, time.Since(start))
		}
	})
}

func TestWriteWithoutClient(t *testing.T) {
	b := newBench(t, testConfig(serve(t, &service{})), routeOf("r", nil))
	if got := kinds(b.write(b.entry(0, row("a")))); got != "undecided" {
		t.Errorf("not open: %s", got)
	}
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	b.Release(testPath)
	if got := kinds(b.write(b.entry(0, row("a")))); got != "undecided" {
		t.Errorf("released: %s", got)
	}
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	if got := kinds(b.write(b.entry(0, row("a")))); got != "applied" {
		t.Errorf("opened again: %s", got)
	}
	e := b.entry(0, row("a"))
	e.Payload = nil
	if got := kinds(b.write(e, b.entry(0, row("b")))); got != "undecided applied" {
		t.Errorf("foreign entry: %s", got)
	}
}

// BTVAL-07: a request above the service's bound is not sent; our client's refusal names
// the bound and is decided record by record, and gRPC's own text means the same.
func TestWriteBTVAL07TooLarge(t *testing.T) {
	s := &service{}
	b := opened(t, s, routeOf("r", nil))
	b.maxRequest = 1000
	var es []sink.Entry
	for i := range 3 {
		es = append(es, b.entry(0, row(fmt.Sprint(i), set("f", "q", strings.Repeat("v", 400)))))
	}
	outs := b.write(es...)
	if len(s.mutates) != 0 || kinds(outs) != "rejected rejected rejected" {
		t.Fatalf("%d calls, %s", len(s.mutates), kinds(outs))
	}
	for _, o := range outs {
		var se *schema.Error
		if o.Scope != sink.ScopeBatch || !errors.As(o.Err, &se) || se.Code != schema.TooLarge || !strings.Contains(se.Detail, "256 MiB") {
			t.Errorf("outcome %+v", o)
		}
	}
	if got := kinds(b.write(es[:2]...)); got != "applied applied" {
		t.Errorf("below the bound: %s", got)
	}
}

// Routes of one table may use different app profiles. A request carries one; the others'
// entries follow, and a row's order is kept.
func TestWriteOneAppProfilePerRequest(t *testing.T) {
	s := &service{}
	b := opened(t, s, routeOf("r", nil), routeOf("other", func(b *schema.BigtableTarget) { b.AppProfile = "other" }))
	es := []sink.Entry{
		b.entry(0, row("a")), b.entry(1, row("b")), b.entry(0, row("b")), b.entry(0, row("c")), b.entry(1, row("d")),
	}
	outs := b.write(es...)
	if got := kinds(outs); got != "applied transient transient applied transient" {
		t.Fatal(got)
	}
	outs = b.write(es[1], es[2], es[4])
	if got := kinds(outs); got != "applied transient applied" {
		t.Fatal(got)
	}
	if got := kinds(b.write(es[2])); got != "applied" {
		t.Fatal(got)
	}
	var profiles []string
	for _, m := range s.mutates {
		profiles = append(profiles, m.AppProfileId)
	}
	if !slices.Equal(profiles, []string{"", "other", ""}) {
		t.Errorf("profiles %q", profiles)
	}
}

// BTREP-04: a delete and a set of one row act in arrival order, in one record and in two.
func TestBTREP04DeleteAndSet(t *testing.T) {
	b := onFake(t, routeOf("r", creating("f")))
	b.makeTable("t", map[string]*adminpb.GcRule{"f": nil})
	del := schema.Op{Kind: schema.DeleteRow}
	if got := kinds(b.write(b.entries(0, row("a", set("f", "q", "old")), row("b", set("f", "q", "old")))...)); got != "applied applied" {
		t.Fatal(got)
	}
	outs := b.write(b.entries(0,
		row("a", del, set("f", "q", "new")),
		row("b", del), row("b", set("f", "q", "new")),
		row("c", set("f", "q", "gone")), row("c", del))...)
	if got := kinds(outs); got != "applied applied applied applied applied" {
		t.Fatal(got)
	}
	want := []string{"a/f:q@1700000000000000=new", "b/f:q@1700000000000000=new"}
	if got := b.cells("t"); !slices.Equal(got, want) {
		t.Errorf("table holds %q, want %q", got, want)
	}
}

// BTREP-01: the cell's time is the record's, so a redelivery overwrites the same version.
// BTREP-03: two records of one millisecond and column are one version, the later one's.
func TestBTREP01And03Versions(t *testing.T) {
	b := onFake(t, routeOf("r", nil))
	b.makeTable("t", map[string]*adminpb.GcRule{"f": nil})
	for range 3 {
		if got := kinds(b.write(b.entry(0, row("BTREP-01")))); got != "applied" {
			t.Fatal(got)
		}
	}
	var es []sink.Entry
	for i := range 10 {
		es = append(es, b.entry(0, row("BTREP-03", set("f", "q", fmt.Sprint(i)))))
	}
	b.write(es...)
	want := []string{"BTREP-01/f:q@1700000000000000=v", "BTREP-03/f:q@1700000000000000=9"}
	if got := b.cells("t"); !slices.Equal(got, want) {
		t.Errorf("table holds %q, want %q", got, want)
	}
}

// The process's app profile is used where a route names none, for warming too.
func TestAppProfileOfTheProcess(t *testing.T) {
	var warmed string
	s := &service{ping: func(_ context.Context, req *btpb.PingAndWarmRequest) error { warmed = req.AppProfileId; return nil }}
	cfg := testConfig(serve(t, s))
	cfg.AppProfile = "process"
	b := newBench(t, cfg, routeOf("r", nil), routeOf("own", func(b *schema.BigtableTarget) { b.AppProfile = "own" }))
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	b.write(b.entry(0, row("a")))
	b.write(b.entry(1, row("a")))
	if got := []string{warmed, s.mutates[0].AppProfileId, s.mutates[1].AppProfileId}; !slices.Equal(got, []string{"process", "process", "own"}) {
		t.Errorf("app profiles %q", got)
	}
	if b.routes[0].AppProfile() != "process" || b.routes[1].AppProfile() != "own" {
		t.Error("not what the routes say")
	}
}

func TestRouteMaxTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		templated := routeOf("r", func(b *schema.BigtableTarget) { b.Table, b.MaxTables = "", 3 })
		cfg := testConfig(nil)
		cfg.DestinationIdleTimeout = 30 * time.Minute
		b := newBench(t, cfg, templated)
		r := b.routes[0]
		encode := func(table string) error {
			m := row("k")
			m.Bigtable.Table = table
			_, err := r.Encode(&schema.Record{}, m)
			return err
		}
		for _, table := range []string{"a", "b", "c", "a"} {
			if err := encode(table); err != nil {
				t.Fatalf("%s: %v", table, err)
			}
		}
		err := encode("d")
		var se *schema.Error
		if !errors.Is(err, ErrTooManyTables) || !errors.As(err, &se) || se.Code != schema.TooManyTables || !strings.Contains(se.Detail, "maxTables=3") {
			t.Fatalf("fourth table: %v", err)
		}
		for _, bad := range []string{"", "a/b", "-a", strings.Repeat("t", 51)} {
			if err := encode(bad); !errors.As(err, &se) || se.Code != schema.NoSuchTable {
				t.Errorf("table %q: %v", bad, err)
			}
		}
		time.Sleep(25 * time.Minute)
		if err := encode("a"); err != nil {
			t.Fatal(err)
		}
		b.lookup(sink.Dest{Instance: testPath, Table: "b"}).created.Store(true)
		time.Sleep(5*time.Minute + time.Second)
		// c was idle for more than the half hour: its place is free. b was made here: it counts.
		if err := encode("d"); err != nil {
			t.Fatalf("after c was forgotten: %v", err)
		}
		if err := encode("c"); !errors.Is(err, ErrTooManyTables) {
			t.Fatalf("a table too many again: %v", err)
		}
		if b.lookup(sink.Dest{Instance: testPath, Table: "c"}) != nil {
			t.Error("c is still known")
		}
	})
}

// The list of tables is searched for idle ones at most once a second, however many records
// ask for a table too many.
func TestRouteMaxTablesSearchesSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(nil)
		cfg.DestinationIdleTimeout = time.Second
		b := newBench(t, cfg, routeOf("r", func(b *schema.BigtableTarget) { b.Table, b.MaxTables = "", 1 }))
		refused := func(table string) bool {
			m := row("k")
			m.Bigtable.Table = table
			_, err := b.routes[0].Encode(&schema.Record{}, m)
			return errors.Is(err, ErrTooManyTables)
		}
		if refused("a") {
			t.Fatal("the first table is refused")
		}
		time.Sleep(minHold - 100*time.Millisecond)
		if !refused("b") {
			t.Error("a is idle for less than entries may take, and forgotten")
		}
		time.Sleep(200 * time.Millisecond)
		if !refused("b") {
			t.Error("searched twice in a second")
		}
		time.Sleep(time.Second)
		if refused("b") {
			t.Error("a is not forgotten")
		}
	})
}

func TestRouteInstances(t *testing.T) {
	b := newBench(t, testConfig(nil),
		routeOf("own", func(b *schema.BigtableTarget) { b.Project, b.Instance = "other", "mine" }),
		routeOf("listed", func(b *schema.BigtableTarget) { b.Allow = []string{"eu", "us"} }))
	m := row("k")
	if e := b.entry(0, m); e.Dest.Instance != "projects/other/instances/mine" {
		t.Errorf("own: %+v", e.Dest)
	}
	m.Bigtable.Instance = "us"
	if e := b.entry(1, m); e.Dest.Instance != "projects/p/instances/us" {
		t.Errorf("listed: %+v", e.Dest)
	}
	for _, id := range []string{"asia", ""} {
		m.Bigtable.Instance = id
		if _, err := b.routes[1].Encode(&schema.Record{}, m); err == nil {
			t.Errorf("instance %q accepted", id)
		}
	}
}
