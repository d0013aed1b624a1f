package bigtable

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// verdict is what a failure must end as.
type verdict struct {
	kind  sink.Kind
	scope sink.Scope
	max   int         // MaxAttempts
	code  schema.Code // of the *schema.Error in the chain; "" = none
}

func (v verdict) String() string {
	return fmt.Sprintf("%v scope=%d max=%d code=%s", v.kind, v.scope, v.max, v.code)
}

func verdictOf(o sink.Outcome) verdict {
	v := verdict{o.Kind, o.Scope, o.MaxAttempts, ""}
	var se *schema.Error
	if errors.As(o.Err, &se) {
		v.code = se.Code
	}
	return v
}

var (
	passing  = [2]verdict{{sink.Transient, sink.ScopeEntry, 0, ""}, {sink.Transient, sink.ScopeBatch, 0, ""}}
	thrice   = [2]verdict{{sink.Transient, sink.ScopeEntry, 3, ""}, {sink.Transient, sink.ScopeBatch, 3, ""}}
	bad      = [2]verdict{{sink.Rejected, sink.ScopeEntry, 0, schema.Constraint}, {sink.Rejected, sink.ScopeBatch, 0, schema.Constraint}}
	fatal    = [2]verdict{{sink.Fatal, sink.ScopeEntry, 0, ""}, {sink.Fatal, sink.ScopeBatch, 0, ""}}
	missing  = [2]verdict{{sink.Missing, sink.ScopeEntry, 0, ""}, {sink.Missing, sink.ScopeBatch, 0, ""}}
	noTable  = [2]verdict{{sink.Rejected, sink.ScopeEntry, 0, schema.NoSuchTable}, {sink.Rejected, sink.ScopeBatch, 0, schema.NoSuchTable}}
	noStatic = [2]verdict{{sink.Fatal, sink.ScopeBatch, 0, schema.NoSuchTable}, {sink.Fatal, sink.ScopeBatch, 0, schema.NoSuchTable}}
)

// classification is options.md's table: by code, for an entry's status and for a call's.
// The two that depend on the route are by create and static.
var classification = map[codes.Code][2]verdict{
	codes.Canceled:          thrice,
	codes.Unknown:           thrice,
	codes.InvalidArgument:   bad,
	codes.DeadlineExceeded:  passing,
	codes.AlreadyExists:     thrice,
	codes.PermissionDenied:  fatal,
	codes.ResourceExhausted: passing,
	codes.Aborted:           passing,
	codes.OutOfRange:        bad,
	codes.Unimplemented:     fatal,
	codes.Internal:          {bad[0], thrice[1]},
	codes.Unavailable:       passing,
	codes.DataLoss:          thrice,
	codes.Unauthenticated:   fatal,
	codes.Code(99):          thrice,
}

func expected(code codes.Code, whole, create, static bool) verdict {
	v, ok := classification[code]
	switch {
	case code == codes.NotFound && create, code == codes.FailedPrecondition && create:
		v = missing
	case code == codes.NotFound && static:
		v = noStatic
	case code == codes.NotFound:
		v = noTable
	case code == codes.FailedPrecondition:
		v = bad
	case !ok:
		panic(code)
	}
	if whole {
		return v[1]
	}
	return v[0]
}

func TestClassificationMatrix(t *testing.T) {
	all := []codes.Code{codes.Code(99)}
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		all = append(all, c)
	}
	const key, value = "secret-key-0001", "secret-value-0001"
	cases := 0
	for _, shape := range []string{"entry", "whole", "wrapped", "joined"} {
		for _, create := range []bool{false, true} {
			for _, static := range []bool{false, true} {
				var answer *status.Status
				s := &service{mutate: func(_ int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
					if shape != "entry" {
						return answer.Err()
					}
					resp := &btpb.MutateRowsResponse{}
					for i, e := range req.Entries {
						if string(e.RowKey) == key {
							resp.Entries = append(resp.Entries, &btpb.MutateRowsResponse_Entry{Index: int64(i), Status: answer.Proto()})
						} else {
							resp.Entries = append(resp.Entries, entryStatus(i, codes.OK, ""))
						}
					}
					return st.Send(resp)
				}}
				cfg := testConfig(serve(t, s))
				if shape == "wrapped" || shape == "joined" {
					cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(wrapErrors(shape == "joined")))
				}
				b := newBench(t, cfg, routeOf("r", func(b *schema.BigtableTarget) {
					if create {
						creating("f")(b)
					}
					if !static {
						b.Table = ""
					}
				}))
				if err := b.Open(t.Context(), testPath); err != nil {
					t.Fatal(err)
				}
				for _, code := range all {
					for _, retry := range []time.Duration{0, 1500 * time.Millisecond} {
						for _, alone := range []bool{false, true} {
							cases++
							name := fmt.Sprintf("%s create=%t static=%t %v retry=%v alone=%t", shape, create, static, code, retry, alone)
							answer = status.New(code, "Error while mutating the row '"+key+"' to '"+value+"'")
							if retry > 0 {
								answer, _ = answer.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
							}
							ms := []*schema.Mutation{row("other"), row(key, set("f", "q", value)), row("another")}
							if alone {
								ms = ms[1:2]
							}
							outs := b.write(b.entries(0, ms...)...)
							want := expected(code, shape != "entry", create, static)
							for i, o := range outs {
								if shape == "entry" && !alone && i != 1 {
									if o.Kind != sink.Applied {
										t.Errorf("%s: the neighbour is %v", name, o.Kind)
									}
									continue
								}
								if got := verdictOf(o); got != want {
									t.Errorf("%s: entry %d\n got %v\nwant %v", name, i, got, want)
								}
								if o.RetryAfter != retry {
									t.Errorf("%s: RetryAfter = %v", name, o.RetryAfter)
								}
								if text := o.Err.Error(); strings.Contains(text, "secret") {
									t.Errorf("%s: the error shows data: %s", name, text)
								}
								if want.kind == sink.Fatal && want.code == schema.NoSuchTable && !strings.Contains(o.Err.Error(), "create") {
									t.Errorf("%s: the error does not name create: %v", name, o.Err)
								}
							}
						}
					}
				}
			}
		}
	}
	if want := len(all) * 4 * 2 * 2 * 2 * 2; cases != want {
		t.Errorf("%d cases, want %d", cases, want)
	}
}

// wrapErrors hides a stream's status inside other errors, as an interceptor may.
func wrapErrors(join bool) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		st, err := streamer(ctx, desc, cc, method, opts...)
		return &wrappingStream{st, join}, err
	}
}

type wrappingStream struct {
	grpc.ClientStream
	join bool
}

func (w *wrappingStream) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	if _, ok := status.FromError(err); !ok || err == nil {
		return err
	}
	if w.join {
		return errors.Join(errors.New("first"), fmt.Errorf("second: %w", err))
	}
	return fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err))
}

// A code that passes wins wherever it stands in the tree, and an error without a status
// is told by what it is.
func TestInspect(t *testing.T) {
	st := func(c codes.Code) error { return status.Error(c, "x") }
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{st(codes.Internal), codes.Internal},
		{fmt.Errorf("%w after %w", st(codes.PermissionDenied), st(codes.Unavailable)), codes.Unavailable},
		{fmt.Errorf("a: %w", errors.Join(st(codes.InvalidArgument), fmt.Errorf("b: %w", st(codes.Aborted)))), codes.Aborted},
		{errors.Join(st(codes.ResourceExhausted), st(codes.NotFound)), codes.ResourceExhausted},
		{errors.Join(st(codes.NotFound), st(codes.Internal)), codes.NotFound},
		{fmt.Errorf("a: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
		{errors.Join(st(codes.Unknown), context.DeadlineExceeded), codes.DeadlineExceeded},
		{fmt.Errorf("a: %w", context.Canceled), codes.Canceled},
		{errors.New("no status"), codes.Unknown},
		{fakeOK{}, codes.Unknown},
	} {
		if got := inspect(c.err, true).code; got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// fakeOK is an error that says OK.
type fakeOK struct{}

func (fakeOK) Error() string              { return "fine" }
func (fakeOK) GRPCStatus() *status.Status { return status.New(codes.OK, "") }

// What our own client refuses to send is the record's fault; the same words from a server
// are its pressure, like every RESOURCE_EXHAUSTED.
func TestClassifyLargerThanMax(t *testing.T) {
	var text string
	s := &service{mutate: func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
		return status.Error(codes.ResourceExhausted, text)
	}}
	b := opened(t, s, routeOf("r", nil))
	for _, c := range []struct {
		text string
		want verdict
	}{
		{"trying to send message larger than max (269484124 vs. 268435456)", verdict{sink.Rejected, sink.ScopeBatch, 0, schema.TooLarge}},
		{"grpc: received message larger than max (5242941 vs. 4194304)", passing[1]},
	} {
		text = c.text
		if got := verdictOf(b.write(b.entry(0, row("a")))[0]); got != c.want {
			t.Errorf("%s: %v, want %v", c.text, got, c.want)
		}
	}
}

// EMU-04: a missing family ends the same under every code and text the service and the
// emulators use for it.
func TestEMU04MissingFamily(t *testing.T) {
	texts := map[string]string{
		"service":  "Error while mutating the row 'k1' (projects/p/instances/inst/tables/t) : Requested column family not found = %s",
		"emulator": `unknown family %q`,
	}
	kinds := []codes.Code{codes.NotFound, codes.Internal, codes.InvalidArgument, codes.FailedPrecondition}
	for _, declared := range []bool{true, false} {
		for from, format := range texts {
			for _, code := range kinds {
				for _, whole := range []bool{false, true} {
					name := fmt.Sprintf("declared=%t %s %v whole=%t", declared, from, code, whole)
					text := fmt.Sprintf(format, "f")
					s := &service{mutate: func(_ int, _ *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
						if whole {
							return status.Error(code, text)
						}
						return st.Send(&btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{entryStatus(0, code, text)}})
					}}
					var edit func(*schema.BigtableTarget)
					want := verdict{sink.Fatal, sink.ScopeRoute, 0, schema.NoSuchFamily}
					if declared {
						edit = creating("f")
						want = verdict{sink.Missing, sink.ScopeEntry, 0, ""}
						if whole {
							want.scope = sink.ScopeBatch
						}
					}
					b := opened(t, s, routeOf("r", edit))
					o := b.write(b.entry(0, row("k1")))[0]
					if got := verdictOf(o); got != want {
						t.Errorf("%s: %v, want %v", name, got, want)
					}
					if !declared && !strings.Contains(o.Err.Error(), `"f"`) {
						t.Errorf("%s: %v does not name the family", name, o.Err)
					}
					if strings.Contains(o.Err.Error(), "k1") {
						t.Errorf("%s: %v shows the key", name, o.Err)
					}
				}
			}
		}
	}
}

// The real emulator's answer: one entry's, the others are written.
func TestEMU04OnTheEmulator(t *testing.T) {
	b := onFake(t, routeOf("r", func(b *schema.BigtableTarget) { b.Used = []string{"f", "nofam"} }))
	b.makeTable("t", map[string]*adminpb.GcRule{"f": nil})
	outs := b.write(b.entries(0, row("a"), row("b", set("nofam", "q", "v")), row("c"))...)
	if kinds(outs) != "applied fatal applied" || outs[1].Scope != sink.ScopeRoute || !strings.Contains(outs[1].Err.Error(), `"nofam"`) {
		t.Fatalf("%s: %v", kinds(outs), outs[1].Err)
	}
}

// A call that fails for a family it does not name: nobody is blamed before it is certain.
func TestFamilyOfABatch(t *testing.T) {
	noFamily := func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
		return status.Error(codes.NotFound, "Requested column family not found")
	}
	names := func(family string) func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
		return func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
			return status.Errorf(codes.Internal, "unknown family %q", family)
		}
	}
	f, z := row("a"), row("b", set("z", "q", "v"))
	both := row("c", set("f", "q", "v"), set("z", "q", "v"))
	data := row("d", set("data", "q", "v")) // a family that no mapping names
	has := func(families ...string) func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) {
		return func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return tableWith(families...), nil }
	}
	for _, c := range []struct {
		name   string
		edit   func(*schema.BigtableTarget)
		fail   func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error
		get    func(int, *adminpb.GetTableRequest) (*adminpb.Table, error)
		rows   []*schema.Mutation
		first  string // kinds of the first attempt
		second string // and after an Ensure; "" = none is asked for
	}{
		{"undeclared, not named, together: found by sending apart", nil, noFamily, nil, []*schema.Mutation{f, z}, "rejected rejected", ""},
		{"undeclared, not named, alone", nil, noFamily, nil, []*schema.Mutation{z}, "fatal", ""},
		{"undeclared, named: only who uses it", nil, names("z"), nil, []*schema.Mutation{f, z, both}, "transient fatal fatal", ""},
		{"declared, not named", creating("f"), noFamily, has("f"), []*schema.Mutation{f, f}, "missing missing", "missing missing"},
		{"declared, named: only who uses it", creating("f", "g"), names("f"), has("f"), []*schema.Mutation{f, row("b", set("g", "q", "v"))}, "missing transient", "missing transient"},
		{"one of both, not named, absent after the Ensure", creating("f"), noFamily, has("f"), []*schema.Mutation{f, z, both}, "missing missing missing", "transient fatal fatal"},
		{"one of both, not named, there after the Ensure", creating("f"), noFamily, has("f", "z"), []*schema.Mutation{f, z, both}, "missing missing missing", "missing missing missing"},
		{"one of both, alone", creating("f"), noFamily, has("f"), []*schema.Mutation{both}, "missing", "fatal"},
		{"undeclared alone beside declared ones", creating("f"), noFamily, has("f"), []*schema.Mutation{z}, "fatal", ""},
		{"named by the record's data, alone", creating("f"), noFamily, nil, []*schema.Mutation{data}, "rejected", ""},
		{"named by the record's data, named", creating("f"), names("data"), nil, []*schema.Mutation{f, data}, "transient rejected", ""},
		{"named by the record's data, after the Ensure", creating("f"), noFamily, has("f"), []*schema.Mutation{f, data}, "missing missing", "transient rejected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{mutate: c.fail, get: c.get}
			b := opened(t, s, routeOf("r", func(b *schema.BigtableTarget) {
				b.Used = []string{"f", "g", "z"}
				if c.edit != nil {
					c.edit(b)
				}
			}))
			es := b.entries(0, c.rows...)
			if got := kinds(b.write(es...)); got != c.first {
				t.Fatalf("first: %s, want %s", got, c.first)
			}
			if c.second == "" {
				return
			}
			if e := b.Ensure(t.Context(), es[0].Dest); e.Kind != sink.Applied {
				t.Fatalf("Ensure: %v", e.Err)
			}
			if got := kinds(b.write(es...)); got != c.second {
				t.Errorf("second: %s, want %s", got, c.second)
			}
		})
	}
}

// What an Ensure saw before an entry failed says nothing of what is there now.
func TestFamilyKnowledgeIsNotOld(t *testing.T) {
	s := &service{
		mutate: func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
			return status.Error(codes.NotFound, serviceNoFamily)
		},
		get: func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return tableWith("f"), nil },
	}
	b := opened(t, s, routeOf("r", func(b *schema.BigtableTarget) { creating("f")(b); b.Used = []string{"f", "z"} }))
	ensure := func() {
		t.Helper()
		if e := b.Ensure(t.Context(), tableT); e.Kind != sink.Applied {
			t.Fatal(e.Err)
		}
	}
	ensure()
	e := b.entry(0, row("a", set("f", "q", "v"), set("z", "q", "v")))
	for range 2 {
		if got := kinds(b.write(e)); got != "missing" {
			t.Fatal(got)
		}
	}
	ensure()
	if got := kinds(b.write(e)); got != "fatal" {
		t.Fatal(got)
	}
}

// Records merged into one row share its status. Where it does not name the family, each is
// sent alone before any is blamed.
func TestFamilyOfAMergedRow(t *testing.T) {
	s := &service{mutate: func(_ int, _ *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
		return st.Send(&btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{entryStatus(0, codes.NotFound, serviceNoFamily)}})
	}}
	b := opened(t, s, routeOf("r", nil), routeOf("other", func(b *schema.BigtableTarget) { b.Used = []string{"z"} }))
	outs := b.write(b.entry(0, row("a")), b.entry(1, row("a", set("z", "q", "v"))))
	for _, o := range outs {
		if got, want := verdictOf(o), (verdict{sink.Rejected, sink.ScopeEntry, 0, schema.NoSuchFamily}); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// An entry whose table was forgotten while it was on its way is still its route's: the
// table is made for it.
func TestForgottenTableComesBack(t *testing.T) {
	s := &service{mutate: func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
		return status.Error(codes.NotFound, "table not found")
	}}
	templated := func(family string) func(*schema.BigtableTarget) {
		return func(b *schema.BigtableTarget) { creating(family)(b); b.Table = "" }
	}
	b := opened(t, s, routeOf("one", templated("f")), routeOf("two", templated("g")))
	e := b.entry(0, row("a"))
	b.unshare(b.lookup(tableT), b.routes[0].target)
	if b.lookup(tableT) != nil {
		t.Fatal("not forgotten")
	}
	b.entry(1, row("b", set("g", "q", "v"))) // another route's state of the same table
	if got := kinds(b.write(e)); got != "missing" {
		t.Fatal(got)
	}
	if e := b.Ensure(t.Context(), tableT); e.Kind != sink.Applied {
		t.Fatal(e.Err)
	}
	if families := s.creates[0].Table.ColumnFamilies; len(families) != 2 {
		t.Errorf("made with families %v", families)
	}
}

// A record cannot pass for a missing family by what it holds, and one whose key happens to
// be a piece of the text does not hide a family that is missing.
func TestFamilyTextIsNotTheRecords(t *testing.T) {
	for _, c := range []struct {
		name, key, text string
		want            verdict
	}{
		{"a key with the words", `unknown family "f"`, `bad row unknown family "f"`, bad[0]},
		{"a key with the service's words", serviceNoFamily, "bad row '" + serviceNoFamily + "'", bad[0]},
		{"a key that is a piece of the words", "family", `unknown family "zz"`, verdict{sink.Transient, sink.ScopeEntry, 0, ""}},
		{"a key of one letter", "o", `Requested column family not found`, verdict{sink.Fatal, sink.ScopeRoute, 0, schema.NoSuchFamily}},
	} {
		s := &service{mutate: func(_ int, _ *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			return st.Send(&btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{entryStatus(0, codes.InvalidArgument, c.text)}})
		}}
		b := opened(t, s, routeOf("r", nil))
		if got := verdictOf(b.write(b.entry(0, row(c.key)))[0]); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// FAILED_PRECONDITION is waited for until an Ensure changed nothing and it came back.
func TestBTERR07FailedPrecondition(t *testing.T) {
	have := []string{"f"}
	s := &service{
		mutate: func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
			return status.Error(codes.FailedPrecondition, "schema is changing")
		},
		get: func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return tableWith(have...), nil },
	}
	b := opened(t, s, routeOf("r", creating("f", "g")))
	one, two := b.entry(0, row("a")), b.entry(0, row("b"))
	ensure := func() {
		t.Helper()
		if e := b.Ensure(t.Context(), one.Dest); e.Kind != sink.Applied {
			t.Fatal(e.Err)
		}
	}
	step := func(want string) {
		t.Helper()
		if got := kinds(b.write(one)); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	step("missing")
	step("missing") // no Ensure in between says anything
	ensure()        // adds g
	step("missing")
	have = []string{"f", "g"}
	ensure() // nothing to do, but the change is young
	step("missing")
	b.lookup(one.Dest).changedAt = time.Now().Add(-propagation)
	ensure()
	step("rejected")
	// Another entry is given its own chance.
	if got := kinds(b.write(two)); got != "missing" {
		t.Errorf("another entry: %s", got)
	}
	if got := kinds(b.write(two)); got != "missing" {
		t.Errorf("another entry, again without an Ensure: %s", got)
	}
	ensure()
	if got := kinds(b.write(two)); got != "rejected" {
		t.Errorf("another entry after an Ensure: %s", got)
	}
}

// The service's words are kept where they are about the request, and dropped where they
// quote the record in any form.
func TestErrorsQuoteNoData(t *testing.T) {
	const key, value, column = "device-0042", "top secret value that is long", "user@example.org"
	quotes := []string{
		key, value, column, value[:needle],
		fmt.Sprintf("%q", "\n"+key),
		hex.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte(value)),
	}
	text := ""
	s := &service{mutate: func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
		return status.Error(codes.InvalidArgument, text)
	}}
	b := opened(t, s, routeOf("r", nil))
	e := b.entry(0, row(key, set("f", column, value)))
	for _, q := range quotes {
		text = "bad mutation: " + q + "!"
		err := b.write(e)[0].Err
		if strings.Contains(err.Error(), "bad mutation") || strings.Contains(err.Error(), q) {
			t.Errorf("quoting %q: %v", q, err)
		}
		if got := inspect(err, true).code; got != codes.InvalidArgument {
			t.Errorf("the cause is lost: %v", got)
		}
	}
	text = "Timestamp granularity mismatch. Expected a multiple of 1000"
	if err := b.write(e)[0].Err; !strings.Contains(err.Error(), text) {
		t.Errorf("%v does not say why", err)
	}
	text = strings.Repeat("é", 1000)
	if err := b.write(e)[0].Err; len(err.Error()) > 500 || !strings.Contains(err.Error(), "...") {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}
