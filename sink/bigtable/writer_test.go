package bigtable

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pushsink/pushsink/internal/scripted"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// The sink under the real writer. Times are exact: the tests run in bubbles, and the
// service is in the process.

// pipeline is a writer over a bench.
type pipeline struct {
	*bench
	w *sink.Writer
}

func newPipeline(b *bench, edit func(*sink.Options)) *pipeline {
	b.t.Helper()
	o := DefaultOptions()
	if edit != nil {
		edit(&o)
	}
	w, err := sink.New(b.Sink, o)
	if err != nil {
		b.t.Fatal(err)
	}
	p := &pipeline{b, w}
	b.t.Cleanup(p.close)
	return p
}

func (p *pipeline) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.w.Close(ctx); err != nil {
		p.t.Errorf("closing the writer: %v", err)
	}
	p.Close()
}

// send writes each mutation in a call of its own, all at once, within limit.
func (p *pipeline) send(limit time.Duration, es ...sink.Entry) []sink.Outcome {
	p.t.Helper()
	outs := make([]sink.Outcome, len(es))
	var wg sync.WaitGroup
	for i, e := range es {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		ticket := p.w.Submit(ctx, []sink.Entry{e})
		wg.Go(func() {
			defer cancel()
			outs[i] = ticket.Wait()[0]
		})
	}
	wg.Wait()
	return outs
}

// streak is the longest of the routes'.
func (p *pipeline) streak() int {
	n := 0
	for _, r := range p.w.Health().Routes {
		n = max(n, r.Streak)
	}
	return n
}

// held makes the first call take a second, so that what comes meanwhile is one batch.
func held(then func(call int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error) *service {
	return &service{mutate: func(call int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
		if call == 1 {
			time.Sleep(time.Second)
			return allOK(req, st)
		}
		return then(call-1, req, st)
	}}
}

// batches are the keys of each request after the one that holds the others back.
func (s *service) batches() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, m := range s.mutates[1:] {
		var keys []string
		for _, e := range m.Entries {
			keys = append(keys, string(e.RowKey))
		}
		out = append(out, strings.Join(keys, ","))
	}
	return out
}

// patient is for tests over real connections, where the machine or the service may stand
// still for seconds and no attempt ends for it.
func patient(o *sink.Options) { o.AttemptTimeout, o.AdmissionTimeout = 3*time.Minute, 3*time.Minute }

// one makes a lane send one request at a time.
func one(o *sink.Options) { o.MaxInFlightRequestsDest, o.MaxTimeInBuffer = 1, 5*time.Second }

// together sends rows a, b, c as one batch, behind a first one.
func together(t *testing.T, s *service, limit time.Duration, edit func(*sink.Options)) (*pipeline, []sink.Outcome) {
	t.Helper()
	p := newPipeline(newBench(t, testConfig(serve(t, s)), routeOf("r", nil)), func(o *sink.Options) {
		one(o)
		if edit != nil {
			edit(o)
		}
	})
	first := p.w.Submit(t.Context(), p.entries(0, row("first")))
	time.Sleep(500 * time.Millisecond)
	outs := p.send(limit, p.entries(0, row("a"), row("b"), row("c"))...)
	if o := first.Wait()[0]; o.Kind != sink.Applied {
		t.Fatalf("the first: %v", o.Err)
	}
	return p, outs
}

func TestWriterBTERR01OneOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := held(func(_ int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			resp := &btpb.MutateRowsResponse{}
			for i, e := range req.Entries {
				if string(e.RowKey) == "b" {
					resp.Entries = append(resp.Entries, entryStatus(i, codes.InvalidArgument, "the reason"))
				} else {
					resp.Entries = append(resp.Entries, entryStatus(i, codes.OK, ""))
				}
			}
			return st.Send(resp)
		})
		_, outs := together(t, s, 8*time.Second, nil)
		if kinds(outs) != "applied rejected applied" || !strings.Contains(outs[1].Err.Error(), "the reason") {
			t.Errorf("%s: %v", kinds(outs), outs[1].Err)
		}
		if got := s.batches(); !slices.Equal(got, []string{"a,b,c", "b"}) {
			t.Errorf("requests %q", got)
		}
	})
}

func TestWriterBTERR03ForgottenEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := held(func(call int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			if call == 1 {
				return st.Send(&btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{entryStatus(0, codes.OK, ""), entryStatus(2, codes.OK, "")}})
			}
			return allOK(req, st)
		})
		p, outs := together(t, s, 8*time.Second, nil)
		if kinds(outs) != "applied applied applied" || p.streak() != 0 {
			t.Errorf("%s, streak %d", kinds(outs), p.streak())
		}
		if got := s.batches(); !slices.Equal(got, []string{"a,b,c", "b"}) {
			t.Errorf("requests %q", got)
		}
	})
}

func TestWriterBTERR04BrokenStream(t *testing.T) {
	for code, want := range map[codes.Code]string{codes.Unavailable: "applied applied applied", codes.PermissionDenied: "applied fatal fatal"} {
		synctest.Test(t, func(t *testing.T) {
			s := held(func(call int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
				if call == 1 || code == codes.PermissionDenied {
					_ = st.Send(&btpb.MutateRowsResponse{Entries: []*btpb.MutateRowsResponse_Entry{entryStatus(0, codes.OK, "")}})
					return status.Error(code, "broken")
				}
				return allOK(req, st)
			})
			p, outs := together(t, s, 8*time.Second, nil)
			if kinds(outs) != want || p.streak() != 0 {
				t.Errorf("%v: %s, want %s; streak %d", code, kinds(outs), want, p.streak())
			}
			if got := s.batches()[0]; got != "a,b,c" {
				t.Errorf("first batch %q", got)
			}
		})
	}
}

func TestWriterBTERR06ResourceExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, _ := status.New(codes.ResourceExhausted, "total mutations in your queue").
			WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
		s := &service{mutate: func(call int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			if call <= 3 {
				return slow.Err()
			}
			return allOK(req, st)
		}}
		p := newPipeline(newBench(t, testConfig(serve(t, s)), routeOf("r", nil)), nil)
		start := time.Now()
		if got := kinds(p.send(8*time.Second, p.entry(0, row("a")))); got != "applied" || p.streak() != 0 {
			t.Errorf("%s, streak %d", got, p.streak())
		}
		if d := time.Since(start); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("three hints of a second took %v", d)
		}
		// Past the deadline: unavailable, not a rejection.
		s.mutate = func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error { return slow.Err() }
		if got := kinds(p.send(2500*time.Millisecond, p.entry(0, row("b")))); got == "applied" || got == "rejected" || p.streak() != 0 {
			t.Errorf("%s, streak %d", got, p.streak())
		}
	})
}

func TestWriterBTERR09NotAllowed(t *testing.T) {
	for _, code := range []codes.Code{codes.PermissionDenied, codes.Unauthenticated} {
		synctest.Test(t, func(t *testing.T) {
			s := &service{mutate: func(int, *btpb.MutateRowsRequest, btpb.Bigtable_MutateRowsServer) error {
				return status.Error(code, "no")
			}}
			p := newPipeline(newBench(t, testConfig(serve(t, s)), routeOf("r", nil)), nil)
			start := time.Now()
			outs := p.send(8*time.Second, p.entries(0, row("a"), row("b"), row("c"))...)
			if kinds(outs) != "fatal fatal fatal" || time.Since(start) > 100*time.Millisecond || p.streak() != 0 {
				t.Errorf("%v: %s after %v, streak %d", code, kinds(outs), time.Since(start), p.streak())
			}
			if d := p.w.Health().Destinations; len(d) != 1 || !strings.Contains(d[0].Err.Error(), code.String()) {
				t.Errorf("%v: health %+v", code, d)
			}
		})
	}
}

func TestWriterBTERR10BatchTooLargeForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{mutate: func(call int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			select {
			case <-time.After(time.Duration(len(req.Entries)) * 10 * time.Millisecond):
				return allOK(req, st)
			case <-st.Context().Done():
				return status.FromContextError(st.Context().Err()).Err()
			}
		}}
		p := newPipeline(newBench(t, testConfig(serve(t, s)), routeOf("r", nil)), func(o *sink.Options) {
			o.AttemptTimeout = 500 * time.Millisecond
			one(o)
		})
		var ms []*schema.Mutation
		for i := range 201 {
			ms = append(ms, row(fmt.Sprintf("k%03d", i)))
		}
		for i, o := range p.w.Write(t.Context(), p.entries(0, ms...)) {
			if o.Kind != sink.Applied {
				t.Fatalf("entry %d: %v", i, o.Err)
			}
		}
		most := 0
		for _, m := range s.mutates {
			most = max(most, len(m.Entries))
		}
		if most != 100 {
			t.Errorf("largest batch %d: nothing ran into its time", most)
		}
	})
}

// bigtableOf is a service that keeps tables and shows one to writes only some time after
// it was made, while the administration sees it at once.
type bigtableOf struct {
	*service
	mu     sync.Mutex
	tables map[string]*adminpb.Table
	made   map[string]time.Time
	rows   map[string]int // writes by key
}

func showing(after time.Duration) *bigtableOf {
	f := &bigtableOf{service: &service{}, tables: map[string]*adminpb.Table{}, made: map[string]time.Time{}, rows: map[string]int{}}
	f.create = func(_ int, req *adminpb.CreateTableRequest) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		name := req.Parent + "/tables/" + req.TableId
		if f.tables[name] != nil {
			return status.Error(codes.AlreadyExists, name)
		}
		f.tables[name], f.made[name] = req.Table, time.Now()
		return nil
	}
	f.get = func(_ int, req *adminpb.GetTableRequest) (*adminpb.Table, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if t := f.tables[req.Name]; t != nil {
			return proto.Clone(t).(*adminpb.Table), nil
		}
		return nil, status.Error(codes.NotFound, req.Name)
	}
	f.mutate = func(_ int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.tables[req.TableName] == nil || time.Since(f.made[req.TableName]) < after {
			return status.Errorf(codes.NotFound, "table %q not found", req.TableName)
		}
		for _, e := range req.Entries {
			f.rows[string(e.RowKey)]++
		}
		return allOK(req, st)
	}
	return f
}

func TestWriterBTREP06FiftyRecordsOneTable(t *testing.T) {
	for _, limit := range []time.Duration{8 * time.Second, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := showing(3 * time.Second)
			p := newPipeline(newBench(t, testConfig(serve(t, s.service)), routeOf("r", creating("f"))), nil)
			var es []sink.Entry
			for i := range 50 {
				es = append(es, p.entry(0, row(fmt.Sprintf("k%02d", i))))
			}
			start := time.Now()
			outs := p.send(limit, es...)
			if d := time.Since(start); d > limit {
				t.Errorf("answered after %v, limit %v", d, limit)
			}
			var again []sink.Entry
			for i, o := range outs {
				switch {
				case o.Kind == sink.Applied && limit < 3*time.Second, o.Kind == sink.Rejected, o.Kind == sink.Fatal:
					t.Fatalf("limit %v: entry %d: %v %v", limit, i, o.Kind, o.Err)
				case o.Kind != sink.Applied && limit > 3*time.Second:
					t.Fatalf("limit %v: entry %d: %v %v", limit, i, o.Kind, o.Err)
				case o.Kind != sink.Applied:
					again = append(again, es[i])
				}
			}
			if len(again) > 0 {
				time.Sleep(2 * time.Second) // the redelivery
				for i, o := range p.send(limit, again...) {
					if o.Kind != sink.Applied {
						t.Fatalf("redelivered entry %d: %v", i, o.Err)
					}
				}
			}
			if len(s.creates) != 1 || len(s.rows) != 50 || p.streak() != 0 {
				t.Errorf("limit %v: %d creates, %d rows, streak %d", limit, len(s.creates), len(s.rows), p.streak())
			}
		})
	}
}

// Tables whose making fails for a while, each once per round, and the error is theirs.
func TestWriterBTERR07SchemaChanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := showing(0)
		have := map[string]*adminpb.ColumnFamily{"a": {}}
		s.get = func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return proto.Clone(&adminpb.Table{ColumnFamilies: have}).(*adminpb.Table), nil
		}
		s.modify = func(call int, req *adminpb.ModifyColumnFamiliesRequest) error {
			if call <= 2 {
				return status.Error(codes.FailedPrecondition, "another change is running")
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			have["f"] = &adminpb.ColumnFamily{}
			return nil
		}
		failed := false
		s.mutate = func(_ int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			switch {
			case have["f"] == nil:
				return status.Error(codes.NotFound, serviceNoFamily)
			case !failed:
				failed = true
				return status.Error(codes.FailedPrecondition, "another change is running")
			}
			return allOK(req, st)
		}
		p := newPipeline(newBench(t, testConfig(serve(t, s.service)), routeOf("r", creating("a", "f"))), nil)
		if outs := p.send(8*time.Second, p.entry(0, row("k"))); kinds(outs) != "applied" || p.streak() != 0 {
			t.Errorf("%s: %v", kinds(outs), outs[0].Err)
		}
		if len(s.modifies) != 3 {
			t.Errorf("%d attempts to add the family", len(s.modifies))
		}
	})
}

// FAILED_PRECONDITION of a record, on a table that is as it should be, ends as that
// record's rejection, and its neighbours are written.
func TestWriterFailedPreconditionOfARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := showing(0)
		s.tables[testPath+"/tables/t"] = tableWith("f")
		s.mutate = func(_ int, req *btpb.MutateRowsRequest, st btpb.Bigtable_MutateRowsServer) error {
			for _, e := range req.Entries {
				if string(e.RowKey) == "bad" {
					return status.Error(codes.FailedPrecondition, "not this one")
				}
			}
			return allOK(req, st)
		}
		p := newPipeline(newBench(t, testConfig(serve(t, s.service)), routeOf("r", creating("f"))), one)
		outs := p.send(8*time.Second, p.entries(0, row("a"), row("bad"), row("b"), row("c"))...)
		if got := kinds(outs); got != "applied rejected applied applied" {
			t.Errorf("%s: %v", got, outs[1].Err)
		}
		if n := s.count("CreateTable") + s.count("ModifyColumnFamilies"); n != 0 {
			t.Errorf("%d changes", n)
		}
	})
}

func TestWriterBTVAL06TwoOf60000(t *testing.T) {
	s := &service{}
	p := newPipeline(newBench(t, testConfig(serve(t, s)), routeOf("r", nil)), func(o *sink.Options) {
		patient(o) // 60,000 mutations take longer than usual under the race detector
	})
	ops := make([]schema.Op, 60_000)
	for i := range ops {
		ops[i] = set("f", "q", "")
	}
	outs := p.w.Write(t.Context(), p.entries(0, row("a", ops...), row("b", ops...)))
	if kinds(outs) != "applied applied" || len(s.mutates) != 2 {
		t.Errorf("%s in %d requests", kinds(outs), len(s.mutates))
	}
}

func TestWriterBTVAL07RequestsBelowTheByteBound(t *testing.T) {
	s := &service{}
	p := newPipeline(newBench(t, testConfig(serve(t, s)), routeOf("r", nil)), func(o *sink.Options) {
		// A slow machine must not make the lane look down: half of this is its share then.
		o.MaxInFlightRequestsDest, o.MaxInFlightBytes = 1, 256<<20
		patient(o) // 20 MiB take longer than usual under the race detector
	})
	var es []sink.Entry
	value := strings.Repeat("v", 1<<20)
	for i := range 40 {
		es = append(es, p.entry(0, row(fmt.Sprint(i), set("f", "q", value))))
	}
	for i, o := range p.w.Write(t.Context(), es) {
		if o.Kind != sink.Applied {
			t.Fatalf("entry %d: %v", i, o.Err)
		}
	}
	rows := 0
	for _, m := range s.mutates {
		rows += len(m.Entries)
		if n := proto.Size(m); n > 20<<20+headerSize(tableT, "") {
			t.Errorf("a request of %d bytes", n)
		}
	}
	if rows != 40 || len(s.mutates) < 3 {
		t.Errorf("%d rows in %d requests", rows, len(s.mutates))
	}
}

// A service that fails a whole call for one bad entry, without naming the family: the
// other route's records are written, the bad one is fatal for its route alone.
func TestWriterStrictServiceUnknownFamily(t *testing.T) {
	srv := scripted.New(t, scripted.Options{Strict: true})
	srv.AddTable(testPath+"/tables/t", "f")
	cfg := testConfig(nil)
	cfg.Endpoint = srv.Addr()
	p := newPipeline(newBench(t, cfg, routeOf("good", nil),
		routeOf("bad", func(b *schema.BigtableTarget) { b.Used = []string{"nofam"} })), func(o *sink.Options) { one(o); patient(o) })
	es := []sink.Entry{p.entry(0, row("first"))}
	for i := range 20 {
		es = append(es, p.entry(0, row(fmt.Sprintf("g%02d", i))))
	}
	es = append(es, p.entry(1, row("bad", set("nofam", "q", "v"))))
	outs := p.send(3*time.Minute, es...)
	for i, o := range outs[:21] {
		if o.Kind != sink.Applied {
			t.Errorf("entry %d: %v", i, o.Err)
		}
	}
	last := outs[21]
	if last.Kind != sink.Fatal || last.Scope != sink.ScopeRoute || !strings.Contains(last.Err.Error(), `"nofam"`) {
		t.Errorf("the bad one: %v %v", last.Kind, last.Err)
	}
	if h := p.w.Health(); len(h.Destinations) != 0 {
		t.Errorf("health %+v", h)
	}
}

// CONN-06, the adapter's side: 200 tables on 20 instances with 4 clients at most. Every
// row is written, no more clients exist at any time, and all that was opened is closed
// once nothing comes any more.
func TestCONN06ManyInstances(t *testing.T) {
	s := &service{}
	const instances, tables = 20, 10
	cfg := testConfig(nil)
	cfg.Endpoint, cfg.PoolSize, cfg.MaxActiveInstances = tcp(t, s), 2, 4
	ids := make([]string, instances)
	for i := range ids {
		ids[i] = fmt.Sprintf("i%02d", i)
	}
	b := newBench(t, cfg, routeOf("r", func(b *schema.BigtableTarget) { b.Table, b.Allow = "", ids }))
	before := usage([2]int{1 << 30, 1 << 30})
	o := DefaultOptions()
	o.MaxActiveInstances, o.IdleTimeout = 4, time.Second
	w, err := sink.New(&counting{Sink: b.Sink, t: t, bound: 4}, o)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, id := range ids {
		for table := range tables {
			wg.Go(func() {
				m := row("k")
				m.Bigtable.Instance, m.Bigtable.Table = id, fmt.Sprint("t", table)
				e, err := b.routes[0].Encode(&schema.Record{}, m)
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				for {
					out := w.Write(ctx, []sink.Entry{e})[0]
					if out.Kind == sink.Applied {
						return
					}
					if ctx.Err() != nil {
						t.Errorf("%v", out.Err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	written := make(map[string]bool)
	for _, m := range s.mutates {
		written[m.TableName] = true
	}
	if len(written) != instances*tables {
		t.Errorf("%d tables written", len(written))
	}
	// A second of quiet closes everything by itself.
	quiet := usage(before)
	for range 5 {
		if quiet[0] <= before[0] && quiet[1] <= before[1] {
			break
		}
		quiet = usage(before)
	}
	if h := w.Health(); quiet[0] > before[0] || quiet[1] > before[1] || h.OpenInstances != 0 || h.Lanes != 0 {
		t.Errorf("when idle: goroutines and files %v, before %v; %d clients, %d lanes", quiet, before, h.OpenInstances, h.Lanes)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Error(err)
	}
	b.Close()
	if got := usage(before); got[0] > before[0] || got[1] > before[1] {
		t.Errorf("goroutines and files %v, before %v", got, before)
	}
}

// counting checks the number of clients at each Open.
type counting struct {
	*Sink
	t     *testing.T
	bound int
}

func (c *counting) Open(ctx context.Context, instance string) error {
	err := c.Sink.Open(ctx, instance)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.clients) + c.closing; n > c.bound {
		c.t.Errorf("%d clients open or closing", n)
	}
	return err
}
