package bigtable

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable/embedded"
)

const (
	testProject  = "p"
	testInstance = "inst"
	testPath     = "projects/p/instances/inst"
)

// service is a scripted Bigtable: each hook that is set answers its call, else the call
// succeeds. It records what came.
type service struct {
	btpb.UnimplementedBigtableServer
	adminpb.UnimplementedBigtableTableAdminServer

	mutate func(call int, req *btpb.MutateRowsRequest, stream btpb.Bigtable_MutateRowsServer) error
	read   func(call int, req *btpb.ReadRowsRequest, stream btpb.Bigtable_ReadRowsServer) error
	ping   func(ctx context.Context, req *btpb.PingAndWarmRequest) error
	get    func(call int, req *adminpb.GetTableRequest) (*adminpb.Table, error)
	create func(call int, req *adminpb.CreateTableRequest) error
	modify func(call int, req *adminpb.ModifyColumnFamiliesRequest) error

	mu       sync.Mutex
	calls    []string // names of the calls, in order
	mutates  []*btpb.MutateRowsRequest
	headers  []metadata.MD // of the MutateRows calls
	creates  []*adminpb.CreateTableRequest
	modifies []*adminpb.ModifyColumnFamiliesRequest
	reads    []*btpb.ReadRowsRequest
	pings    int
}

func (s *service) log(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *service) count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (s *service) MutateRows(req *btpb.MutateRowsRequest, stream btpb.Bigtable_MutateRowsServer) error {
	s.mu.Lock()
	s.calls = append(s.calls, "MutateRows")
	s.mutates = append(s.mutates, req)
	md, _ := metadata.FromIncomingContext(stream.Context())
	s.headers = append(s.headers, md)
	call := len(s.mutates)
	s.mu.Unlock()
	if s.mutate != nil {
		return s.mutate(call, req, stream)
	}
	return allOK(req, stream)
}

func allOK(req *btpb.MutateRowsRequest, stream btpb.Bigtable_MutateRowsServer) error {
	resp := &btpb.MutateRowsResponse{}
	for i := range req.Entries {
		resp.Entries = append(resp.Entries, entryStatus(i, codes.OK, ""))
	}
	return stream.Send(resp)
}

func entryStatus(i int, code codes.Code, text string) *btpb.MutateRowsResponse_Entry {
	return &btpb.MutateRowsResponse_Entry{Index: int64(i), Status: status.New(code, text).Proto()}
}

func (s *service) ReadRows(req *btpb.ReadRowsRequest, stream btpb.Bigtable_ReadRowsServer) error {
	s.mu.Lock()
	s.calls = append(s.calls, "ReadRows")
	s.reads = append(s.reads, req)
	call := len(s.reads)
	s.mu.Unlock()
	if s.read != nil {
		return s.read(call, req, stream)
	}
	return nil
}

func (s *service) PingAndWarm(ctx context.Context, req *btpb.PingAndWarmRequest) (*btpb.PingAndWarmResponse, error) {
	s.mu.Lock()
	s.pings++
	s.mu.Unlock()
	if s.ping != nil {
		return &btpb.PingAndWarmResponse{}, s.ping(ctx, req)
	}
	return &btpb.PingAndWarmResponse{}, nil
}

func (s *service) GetTable(ctx context.Context, req *adminpb.GetTableRequest) (*adminpb.Table, error) {
	s.log("GetTable")
	if s.get != nil {
		return s.get(s.count("GetTable"), req)
	}
	return nil, status.Errorf(codes.NotFound, "table %q not found", req.Name)
}

func (s *service) CreateTable(ctx context.Context, req *adminpb.CreateTableRequest) (*adminpb.Table, error) {
	s.mu.Lock()
	s.calls = append(s.calls, "CreateTable")
	s.creates = append(s.creates, req)
	call := len(s.creates)
	s.mu.Unlock()
	if s.create != nil {
		if err := s.create(call, req); err != nil {
			return nil, err
		}
	}
	return &adminpb.Table{Name: req.Parent + "/tables/" + req.TableId}, nil
}

func (s *service) ModifyColumnFamilies(ctx context.Context, req *adminpb.ModifyColumnFamiliesRequest) (*adminpb.Table, error) {
	s.mu.Lock()
	s.calls = append(s.calls, "ModifyColumnFamilies")
	s.modifies = append(s.modifies, req)
	call := len(s.modifies)
	s.mu.Unlock()
	if s.modify != nil {
		if err := s.modify(call, req); err != nil {
			return nil, err
		}
	}
	return &adminpb.Table{Name: req.Name}, nil
}

// serve runs s on an in-process listener and returns what connects to it.
func serve(t testing.TB, s *service) []grpc.DialOption {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(300 << 20))
	btpb.RegisterBigtableServer(srv, s)
	adminpb.RegisterBigtableTableAdminServer(srv, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return l.DialContext(ctx)
	})}
}

func testConfig(dial []grpc.DialOption) Config {
	cfg := DefaultConfig()
	cfg.Project, cfg.Instance = testProject, testInstance
	cfg.PoolSize = 1
	cfg.Endpoint, cfg.DialOptions = embedded.Endpoint, dial
	return cfg
}

// routeOf makes a route; what edits the target may change anything of it.
func routeOf(name string, edit func(*schema.BigtableTarget)) *schema.Route {
	b := &schema.BigtableTarget{Table: "t", MaxTables: 1000, Used: []string{"f"}}
	if edit != nil {
		edit(b)
	}
	return &schema.Route{Name: name, OnReject: schema.Fail, Bigtable: b}
}

func creating(families ...string) func(*schema.BigtableTarget) {
	return func(b *schema.BigtableTarget) {
		b.Create = true
		b.Families = make(map[string]*schema.GCRule)
		for _, f := range families {
			b.Families[f] = nil
		}
	}
}

// bench is a sink with its routes' encoders, closed with the test.
type bench struct {
	*Sink
	t      testing.TB
	routes []*Route
}

func newBench(t testing.TB, cfg Config, routes ...*schema.Route) *bench {
	t.Helper()
	s, err := New(cfg, routes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	b := &bench{Sink: s, t: t}
	for _, r := range routes {
		rt, err := s.Route(r, &sink.Route{Name: r.Name})
		if err != nil {
			t.Fatal(err)
		}
		b.routes = append(b.routes, rt)
	}
	return b
}

// opened is newBench with the test instance's client open.
func opened(t testing.TB, s *service, routes ...*schema.Route) *bench {
	t.Helper()
	b := newBench(t, testConfig(serve(t, s)), routes...)
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	return b
}

// onFake is newBench over a real in-memory Bigtable, its client open.
func onFake(t testing.TB, routes ...*schema.Route) *bench {
	t.Helper()
	e, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	b := newBench(t, testConfig(e.DialOptions()), routes...)
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	return b
}

func set(family, column, value string) schema.Op {
	return schema.Op{Kind: schema.SetCell, Family: family, Column: column, Micros: 1_700_000_000_000_000, Value: []byte(value)}
}

func row(key string, ops ...schema.Op) *schema.Mutation {
	if len(ops) == 0 {
		ops = []schema.Op{set("f", "q", "v")}
	}
	return &schema.Mutation{Bigtable: &schema.RowMutation{Table: "t", Key: key, Ops: ops}}
}

func (b *bench) entry(route int, m *schema.Mutation) sink.Entry {
	b.t.Helper()
	e, err := b.routes[route].Encode(&schema.Record{ID: m.Bigtable.Key}, m)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func (b *bench) entries(route int, ms ...*schema.Mutation) []sink.Entry {
	b.t.Helper()
	es := make([]sink.Entry, len(ms))
	for i, m := range ms {
		es[i] = b.entry(route, m)
	}
	return es
}

func (b *bench) write(es ...sink.Entry) []sink.Outcome {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 3*time.Minute)
	defer cancel()
	outs := b.Write(ctx, es[0].Dest, es)
	if len(outs) != len(es) {
		b.t.Fatalf("%d outcomes for %d entries", len(outs), len(es))
	}
	for i, o := range outs {
		if (o.Kind == sink.Applied) != (o.Err == nil) {
			b.t.Fatalf("outcome %d is %v with error %v", i, o.Kind, o.Err)
		}
	}
	return outs
}

// makeTable creates the table of the first route with families, as somebody else would.
func (b *bench) makeTable(table string, families map[string]*adminpb.GcRule) {
	b.t.Helper()
	a, err := b.open(testPath).admin()
	if err != nil {
		b.t.Fatal(err)
	}
	cfs := make(map[string]*adminpb.ColumnFamily)
	for f, r := range families {
		cfs[f] = &adminpb.ColumnFamily{GcRule: r}
	}
	_, err = a.CreateTable(b.t.Context(), &adminpb.CreateTableRequest{Parent: testPath, TableId: table, Table: &adminpb.Table{ColumnFamilies: cfs}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// schemaOf is the table's families, each with its rule as text, sorted.
func (b *bench) schemaOf(table string) []string {
	b.t.Helper()
	a, err := b.open(testPath).admin()
	if err != nil {
		b.t.Fatal(err)
	}
	got, err := getTable(b.t.Context(), a, sink.Dest{Instance: testPath, Table: table})
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, f := range slices.Sorted(maps.Keys(got.ColumnFamilies)) {
		rule := got.ColumnFamilies[f].GcRule
		text := "keep"
		if rule != nil && rule.Rule != nil {
			b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(rule)
			text = fmt.Sprintf("%x", b)
		}
		out = append(out, f+"="+text)
	}
	return out
}

// cells reads the whole table as "key/family:column@micros=value" lines.
func (b *bench) cells(table string) []string {
	b.t.Helper()
	var out []string
	err := b.ReadRows(b.t.Context(), Query{Dest: sink.Dest{Instance: testPath, Table: table}}, func(r Row) error {
		for _, c := range r.Cells {
			out = append(out, fmt.Sprintf("%s/%s:%s@%d=%s", r.Key, c.Family, c.Column, c.TimestampMicros, c.Value))
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func tableWith(families ...string) *adminpb.Table {
	t := &adminpb.Table{ColumnFamilies: make(map[string]*adminpb.ColumnFamily)}
	for _, f := range families {
		t.ColumnFamilies[f] = &adminpb.ColumnFamily{}
	}
	return t
}

func kinds(outs []sink.Outcome) string {
	var ks []string
	for _, o := range outs {
		ks = append(ks, o.Kind.String())
	}
	return strings.Join(ks, " ")
}
