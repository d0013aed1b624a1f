package spanner

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

const testDatabase = "projects/test/instances/test/databases/db1"

// fake is a Spanner service whose every answer a test writes. The functions are called
// with the number of the call, from 1; a nil one answers that all is well.
type fake struct {
	sppb.UnimplementedSpannerServer

	batchWrite func(n int, req *sppb.BatchWriteRequest, stream sppb.Spanner_BatchWriteServer) error
	commit     func(ctx context.Context, n int, req *sppb.CommitRequest) (*sppb.CommitResponse, error)
	// read gives the rows of a read, or its error.
	read    func(n int, req *sppb.ReadRequest) ([][]*structpb.Value, error)
	session func(n int) error // of CreateSession

	batches, commits, reads, created atomic.Int64
	streams                          atomic.Int64 // open on the server's side

	// mu guards what follows.
	mu    sync.Mutex
	alive map[string]bool // sessions
	seen  []*sppb.BatchWriteRequest
}

func (f *fake) CreateSession(_ context.Context, req *sppb.CreateSessionRequest) (*sppb.Session, error) {
	n := int(f.created.Add(1))
	if f.session != nil {
		if err := f.session(n); err != nil {
			return nil, err
		}
	}
	if !req.GetSession().GetMultiplexed() {
		return nil, status.Error(codes.InvalidArgument, "not multiplexed")
	}
	s := &sppb.Session{Name: fmt.Sprintf("%s/sessions/%d", req.Database, n), Multiplexed: true}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alive[s.Name] = true
	return s, nil
}

// forget makes the service lose all sessions.
func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.alive)
}

func (f *fake) known(session string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.alive[session] {
		return nil
	}
	s, _ := status.New(codes.NotFound, "Session not found: "+session).WithDetails(&errdetails.ResourceInfo{ResourceType: sessionResource})
	return s.Err()
}

func (f *fake) GetSession(_ context.Context, req *sppb.GetSessionRequest) (*sppb.Session, error) {
	if err := f.known(req.Name); err != nil {
		return nil, err
	}
	return &sppb.Session{Name: req.Name}, nil
}

func (f *fake) BatchWrite(req *sppb.BatchWriteRequest, stream sppb.Spanner_BatchWriteServer) error {
	f.streams.Add(1)
	defer f.streams.Add(-1)
	n := int(f.batches.Add(1))
	f.mu.Lock()
	f.seen = append(f.seen, req)
	f.mu.Unlock()
	if err := f.known(req.Session); err != nil {
		return err
	}
	if f.batchWrite != nil {
		return f.batchWrite(n, req, stream)
	}
	return stream.Send(answer(codes.OK, indexes(0, len(req.MutationGroups))...))
}

func (f *fake) Commit(ctx context.Context, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
	n := int(f.commits.Add(1))
	if err := f.known(req.Session); err != nil {
		return nil, err
	}
	if f.commit != nil {
		return f.commit(ctx, n, req)
	}
	return committed(), nil
}

func (f *fake) StreamingRead(req *sppb.ReadRequest, stream sppb.Spanner_StreamingReadServer) error {
	f.streams.Add(1)
	defer f.streams.Add(-1)
	n := int(f.reads.Add(1))
	if err := f.known(req.Session); err != nil {
		return err
	}
	if f.read == nil {
		return status.Error(codes.Unimplemented, "no reads in this test")
	}
	rows, err := f.read(n, req)
	if err != nil {
		return err
	}
	part := &sppb.PartialResultSet{}
	for _, r := range rows {
		if len(r) != len(req.Columns) {
			return status.Errorf(codes.Internal, "the test answers %d values to columns %v", len(r), req.Columns)
		}
		part.Values = append(part.Values, r...)
	}
	return stream.Send(part)
}

func committed() *sppb.CommitResponse {
	return &sppb.CommitResponse{CommitTimestamp: timestamppb.New(time.Unix(1_700_000_000, 0))}
}

// answer is a BatchWriteResponse as the service sends it.
func answer(code codes.Code, groups ...int32) *sppb.BatchWriteResponse {
	a := &sppb.BatchWriteResponse{Indexes: groups, Status: &rpcstatus.Status{Code: int32(code), Message: "said of secret-value"}}
	if code == codes.OK {
		a.Status.Message = ""
		a.CommitTimestamp = committed().CommitTimestamp
	}
	return a
}

func indexes(from, to int) []int32 {
	var all []int32
	for i := from; i < to; i++ {
		all = append(all, int32(i))
	}
	return all
}

// ids lists the value of the first column of each group's last mutation.
func ids(req *sppb.BatchWriteRequest) []string {
	var list []string
	for _, g := range req.MutationGroups {
		list = append(list, idOf(g.Mutations[len(g.Mutations)-1]))
	}
	return list
}

func idOf(m *sppb.Mutation) string {
	if d := m.GetDelete(); d != nil {
		return d.KeySet.Keys[0].Values[0].GetStringValue()
	}
	return written(m).Values[0].Values[0].GetStringValue()
}

func written(m *sppb.Mutation) *sppb.Mutation_Write {
	for _, w := range []*sppb.Mutation_Write{m.GetInsert(), m.GetUpdate(), m.GetInsertOrUpdate(), m.GetReplace()} {
		if w != nil {
			return w
		}
	}
	return nil
}

// describeSchema builds a catalog from lines like
//
//	Orders: Id INT64 key, Total NUMERIC notnull, At TIMESTAMP committime +2 | ByAt, unique ByTotal | in Customers
//
// where +2 is how many indexes hold a column.
func describeSchema(d Dialect, lines ...string) *catalog {
	cat := &catalog{dialect: d, tables: make(map[string]*table)}
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, ": ")
		parts := append(strings.Split(rest, "|"), "", "")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		tb := &table{wire: name, columns: make(map[string]*column)}
		tb.parent = strings.TrimPrefix(parts[2], "in ")
		for _, spec := range strings.Split(parts[0], ", ") {
			words := strings.Fields(spec)
			col := &column{name: words[0], nullable: true, typ: parseType(d, words[1])}
			for _, w := range words[2:] {
				switch w {
				case "key":
					tb.key = append(tb.key, col)
					col.keyPart = len(tb.key)
				case "notnull":
					col.nullable = false
				case "generated":
					col.generated = true
				case "filled":
					col.filled = true
				case "committime":
					col.commitTime = true
				default:
					col.indexes, _ = strconv.Atoi(w)
				}
			}
			tb.columns[d.fold(col.name)] = col
			tb.order = append(tb.order, col)
		}
		for _, x := range strings.Split(parts[1], ", ") {
			if x != "" {
				name, unique := strings.CutPrefix(x, "unique ")
				tb.indexes = append(tb.indexes, &index{name: name, unique: unique})
			}
		}
		cat.tables[d.fold(name)] = tb
	}
	return cat
}

// harness is a sink over a fake, with the routes of one file.
type harness struct {
	t      testing.TB
	fake   *fake
	sink   *Sink
	routes map[string]*Route
	source map[string]*schema.Route
	opts   sink.Options
	conns  atomic.Int64 // open on the server's side
}

// setUp serves f and makes the sink of the routes file, whose database has the schema
// cat; nil = it has to be read. change, which may be nil, adjusts the configuration.
func setUp(t testing.TB, f *fake, cat *catalog, file string, change func(*Config)) *harness {
	t.Helper()
	h := &harness{t: t, fake: f, routes: make(map[string]*Route), source: make(map[string]*schema.Route)}
	f.alive = make(map[string]bool)
	lis := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(1<<28), grpc.StatsHandler(h))
	sppb.RegisterSpannerServer(srv, f)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)

	cfg := DefaultConfig()
	cfg.Endpoint = "fake"
	cfg.PoolSize = 1
	cfg.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return lis.DialContext(ctx)
	})}
	if change != nil {
		change(&cfg)
	}
	list := routes(t, file)
	s, err := New(cfg, list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	h.sink = s
	if cat != nil {
		cat.read = cfg.now()
		s.databases[testDatabase].schema.known.Store(cat)
		s.databases[testDatabase].schema.tried = cfg.now()
	}
	for _, r := range list {
		rt, err := s.Route(r, &sink.Route{Name: r.Name, Trips: r.OnReject != schema.Fail})
		if err != nil {
			t.Fatal(err)
		}
		h.routes[r.Name], h.source[r.Name] = rt, r
	}
	h.opts = cfg.Options(DefaultOptions())
	h.opts.Retry = sink.Backoff{Initial: time.Millisecond, Max: time.Millisecond, MaxAttempts: 10}
	h.opts.Recovery = h.opts.Retry
	return h
}

func (h *harness) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (h *harness) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (h *harness) HandleRPC(context.Context, stats.RPCStats)                         {}
func (h *harness) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		h.conns.Add(1)
	case *stats.ConnEnd:
		h.conns.Add(-1)
	}
}

// try encodes a record of the route; the record's id is its payload.
func (h *harness) try(route, payload string) (sink.Entry, error) {
	return h.tryRecord(route, &schema.Record{Data: []byte(payload), ID: payload})
}

func (h *harness) tryRecord(route string, rec *schema.Record) (sink.Entry, error) {
	h.t.Helper()
	m, err := h.source[route].Mapping.Apply(rec)
	if err != nil {
		return sink.Entry{}, err
	}
	return h.routes[route].Encode(rec, &m)
}

func (h *harness) entry(route, payload string) sink.Entry {
	h.t.Helper()
	e, err := h.try(route, payload)
	if err != nil {
		h.t.Fatalf("%s: %v", payload, err)
	}
	return e
}

func (h *harness) entries(route string, payloads ...string) []sink.Entry {
	h.t.Helper()
	var es []sink.Entry
	for _, p := range payloads {
		es = append(es, h.entry(route, p))
	}
	return es
}

// open does what the writer does before the first Write.
func (h *harness) open() *harness {
	h.t.Helper()
	if err := h.sink.Open(h.t.Context(), testDatabase); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// write is one attempt, without the writer.
func (h *harness) write(es ...sink.Entry) []sink.Outcome {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 3*time.Minute)
	defer cancel()
	return h.sink.Write(ctx, sink.Dest{Instance: testDatabase}, es)
}

// writer is a writer over the sink, closed with the test.
func (h *harness) writer() *sink.Writer {
	h.t.Helper()
	w, err := sink.New(h.sink, h.opts)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			h.t.Errorf("close the writer: %v", err)
		}
	})
	return w
}

// kinds spells outcomes as "applied rejected(already_exists) …".
func kinds(outs []sink.Outcome) string {
	var words []string
	for _, o := range outs {
		word := o.Kind.String()
		if e, ok := asSchemaError(o.Err); ok {
			word += "(" + string(e.Code) + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func asSchemaError(err error) (*schema.Error, bool) {
	for err != nil {
		if e, ok := err.(*schema.Error); ok {
			return e, true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return nil, false
		}
		err = u.Unwrap()
	}
	return nil, false
}

// check compares outcomes, and that none shows what a row or a status held.
func check(t testing.TB, outs []sink.Outcome, want string) {
	t.Helper()
	if got := kinds(outs); got != want {
		t.Errorf("outcomes %s, want %s", got, want)
	}
	for _, o := range outs {
		if (o.Kind == sink.Applied) != (o.Err == nil) {
			t.Errorf("outcome %v with error %v", o.Kind, o.Err)
		}
		if o.Err != nil {
			t.Logf("  %v %v", o.Kind, o.Err)
			if strings.Contains(o.Err.Error(), "secret-value") {
				t.Errorf("the error shows a value: %v", o.Err)
			}
		}
	}
}

// notices collects log messages.
type notices struct {
	mu   sync.Mutex
	text []string
}

func (n *notices) Enabled(context.Context, slog.Level) bool { return true }
func (n *notices) WithAttrs([]slog.Attr) slog.Handler       { return n }
func (n *notices) WithGroup(string) slog.Handler            { return n }
func (n *notices) Handle(_ context.Context, r slog.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = append(n.text, r.Message)
	return nil
}

func (n *notices) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.text)
}

// commitRefusing answers every commit with a status.
func commitRefusing(code codes.Code) func(context.Context, int, *sppb.CommitRequest) (*sppb.CommitResponse, error) {
	return func(context.Context, int, *sppb.CommitRequest) (*sppb.CommitResponse, error) {
		return nil, status.Error(code, "said of secret-value")
	}
}

// parts is the stream of a read.
type parts struct{ left []*sppb.PartialResultSet }

func (p *parts) Recv() (*sppb.PartialResultSet, error) {
	if len(p.left) == 0 {
		return nil, io.EOF
	}
	next := p.left[0]
	p.left = p.left[1:]
	return next, nil
}

// spell shows a value.
func spell(v *structpb.Value) string {
	switch x := v.GetKind().(type) {
	case *structpb.Value_ListValue:
		var words []string
		for _, e := range x.ListValue.GetValues() {
			words = append(words, spell(e))
		}
		return "(" + strings.Join(words, " ") + ")"
	case *structpb.Value_StringValue:
		return x.StringValue
	case *structpb.Value_NullValue:
		return "NULL"
	default:
		return fmt.Sprint(v.AsInterface())
	}
}

func appendText(list []*structpb.Value, s string) []*structpb.Value {
	return append(list, structpb.NewStringValue(s))
}
