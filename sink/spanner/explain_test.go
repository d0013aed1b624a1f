package spanner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

func recordOf(payload, id string) *schema.Record {
	return &schema.Record{Data: []byte(payload), ID: id}
}

// refuse answers every group with a status.
func refuse(code codes.Code) func(int, *sppb.BatchWriteRequest, sppb.Spanner_BatchWriteServer) error {
	return func(_ int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
		return s.Send(answer(code, indexes(0, len(req.MutationGroups))...))
	}
}

func text(s string) *structpb.Value { return structpb.NewStringValue(s) }

// TestSPCON07NotFoundHasFourMeanings.
func TestSPCON07NotFoundHasFourMeanings(t *testing.T) {
	const file = `
routes:
  patch: {onReject: drop, constraintViolations: reject, spanner: {database: @db, table: Orders, operation: update, columns: {Id: data.id, Total: data.total}}}
  lines: {spanner: {database: @db, table: Lines, columns: {Id: data.id, No: data.no, Sku: data.sku}}}
  orders: {spanner: {database: @db, table: Orders, columns: {Id: data.id, Total: data.total}}}
`
	cat := describeSchema(GoogleSQL,
		"Orders: Id STRING(36) key notnull, Total NUMERIC",
		"Lines: Id STRING(36) key notnull, No INT64 key notnull, Sku STRING(MAX) | | in Orders")
	gone := status.Error(codes.NotFound, "Table not found: secret-value")
	there := func(_ int, req *sppb.ReadRequest) ([][]*structpb.Value, error) {
		var rows [][]*structpb.Value
		for _, k := range req.KeySet.Keys {
			row := append(k.Values, structpb.NewNullValue())
			rows = append(rows, row)
		}
		return rows, nil
	}
	nothing := func(int, *sppb.ReadRequest) ([][]*structpb.Value, error) { return nil, nil }
	fails := func(err error) func(int, *sppb.ReadRequest) ([][]*structpb.Value, error) {
		return func(int, *sppb.ReadRequest) ([][]*structpb.Value, error) { return nil, err }
	}
	for _, tt := range []struct {
		name, route, payload string
		read                 func(int, *sppb.ReadRequest) ([][]*structpb.Value, error)
		want                 string
		scope                sink.Scope
		text                 string
	}{
		{"row to update", "patch", `{"id":"a","total":1}`, nothing, "rejected(constraint)", sink.ScopeEntry, "update of a row that is not there"},
		{"row to update, made meanwhile", "patch", `{"id":"a","total":1}`, there, "transient", sink.ScopeEntry, "is now"},
		{"table or column of an update", "patch", `{"id":"a","total":1}`, fails(gone), "fatal", sink.ScopeRoute, "does not fit"},
		{"unreadable", "patch", `{"id":"a","total":1}`, fails(status.Error(codes.Unavailable, "x")), "transient", sink.ScopeBatch, "Read"},
		{"read not understood", "patch", `{"id":"a","total":1}`, fails(status.Error(codes.InvalidArgument, "secret-value")), "transient", sink.ScopeEntry, "INVALID_ARGUMENT"},
		{"parent row", "lines", `{"id":"a","no":1,"sku":"s"}`, nothing, "transient", sink.ScopeEntry, "the parent row in Orders is not there yet"},
		{"table or column of a child", "lines", `{"id":"a","no":1,"sku":"s"}`, fails(gone), "fatal", sink.ScopeRoute, "does not fit"},
		{"nothing that is known", "orders", `{"id":"a","total":1}`, nothing, "fatal", sink.ScopeRoute, "NOT_FOUND"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{batchWrite: refuse(codes.NotFound), read: tt.read}
			h := setUp(t, f, cat, file, nil).open()
			outs := h.write(h.entry(tt.route, tt.payload))
			check(t, outs, tt.want)
			if o := outs[0]; o.Scope != tt.scope || !strings.Contains(o.Err.Error(), tt.text) {
				t.Errorf("scope %d, %v; want scope %d, …%s…", o.Scope, o.Err, tt.scope, tt.text)
			}
		})
	}
	t.Run("one read for all of a table", func(t *testing.T) {
		f := &fake{batchWrite: refuse(codes.NotFound), read: nothing}
		h := setUp(t, f, cat, file, nil).open()
		var es []sink.Entry
		for i := range 50 {
			es = append(es, h.entry("patch", fmt.Sprintf(`{"id":"a%d","total":1}`, i)))
		}
		check(t, h.write(es...), strings.TrimSpace(strings.Repeat("rejected(constraint) ", 50)))
		if f.reads.Load() != 1 {
			t.Errorf("%d reads, want 1", f.reads.Load())
		}
	})
}

// TestChildBeforeItsParentIsWrittenOnTheRetry: SPCON-06, and readiness is untouched.
func TestSPCON06ChildBeforeItsParentIsWrittenOnTheRetry(t *testing.T) {
	const file = `
routes:
  orders: {spanner: {database: @db, table: Orders, columns: {Id: data.id}}}
  lines: {spanner: {database: @db, table: Lines, columns: {Id: data.id, No: data.no}}}
`
	cat := describeSchema(GoogleSQL, "Orders: Id STRING(36) key notnull", "Lines: Id STRING(36) key notnull, No INT64 key notnull | | in Orders")
	f := &fake{read: func(int, *sppb.ReadRequest) ([][]*structpb.Value, error) { return nil, nil }}
	f.batchWrite = func(n int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
		for i, g := range req.MutationGroups {
			code := codes.OK
			if n == 1 && written(g.Mutations[0]).Table == "Lines" {
				code = codes.NotFound
			}
			if err := s.Send(answer(code, int32(i))); err != nil {
				return err
			}
		}
		return nil
	}
	h := setUp(t, f, cat, file, nil)
	w := h.writer()
	check(t, w.Write(t.Context(), []sink.Entry{h.entry("lines", `{"id":"a","no":1}`), h.entry("orders", `{"id":"a"}`)}), "applied applied")
	ready := func() {
		t.Helper()
		for _, r := range w.Health().Routes {
			if r.State != sink.OK {
				t.Errorf("route %s is %v: %v", r.Route.Name, r.State, r.Err)
			}
		}
	}
	ready()
	t.Run("it never comes", func(t *testing.T) {
		f.batchWrite = refuse(codes.NotFound)
		check(t, w.Write(t.Context(), []sink.Entry{h.entry("lines", `{"id":"a","no":1}`)}), "transient")
		if n := f.batches.Load(); n < 10 {
			t.Errorf("%d requests, the budget has 10", n)
		}
		ready()
	})
}

func TestConstraintViolationsRetry(t *testing.T) {
	const file = `routes: {orders: {constraintViolations: retry, spanner: {database: @db, table: Orders, columns: {Id: data.id}}}}`
	for _, code := range []codes.Code{codes.FailedPrecondition, codes.OutOfRange} {
		for _, method := range []WriteMethod{BatchWrite, Commit} {
			f := &fake{batchWrite: refuse(code)}
			f.commit = commitRefusing(code)
			h := setUp(t, f, plainSchema(), file, func(c *Config) { c.WriteMethod = method }).open()
			outs := h.write(h.entry("orders", `{"id":"a"}`))
			check(t, outs, "transient")
			if outs[0].Scope != sink.ScopeEntry {
				t.Errorf("scope %d", outs[0].Scope)
			}
		}
	}
}

const insertRoutes = `
routes:
  first:
    spanner:
      database: @db
      table: Orders
      operation: insert
      onDuplicate: ignore
      columns: {Id: data.id, N: data.n, At: data.at, Doc: data.doc, Tags: data.tags, F: data.f, Written: commitTimestamp()}
      children:
        - {table: Lines, each: data.lines, columns: {Id: data.id, No: index, Sku: value}}
  strict: {spanner: {database: @db, table: Orders, operation: insert, onDuplicate: reject, columns: {Id: data.id, N: data.n}}}
`

func insertSchema(d Dialect) *catalog {
	types := "N NUMERIC, At TIMESTAMP, Doc JSON, Tags ARRAY<STRING(MAX)>, F FLOAT32, Written TIMESTAMP committime"
	return describeSchema(d, "Orders: Id STRING(36) key notnull, "+types+" | unique ByN, ByAt",
		"Lines: Id STRING(36) key notnull, No INT64 key notnull, Sku STRING(MAX) | | in Orders")
}

// TestOnDuplicateIgnore: only an equal row is a success.
func TestOnDuplicateIgnore(t *testing.T) {
	const payload = `{"id":"a","n":1.50,"at":"2024-01-01T00:00:00.1Z","doc":{"b":1.0,"a":[1e2]},"tags":["x",null],"f":0.1,"lines":["s0","s1"]}`
	list := structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{text("x"), structpb.NewNullValue()}})
	equal := map[string]*structpb.Value{
		"Id": text("a"), "N": text("1.500"), "At": text("2024-01-01T00:00:00.100000Z"), "Doc": text(`{"a": [100], "b": 1}`),
		"Tags": list, "F": structpb.NewNumberValue(0.1), // as short as a float32 can be spelled
		"Written": text("2020-01-01T00:00:00Z"),
	}
	for _, tt := range []struct {
		name, column string
		value        *structpb.Value // instead, nil = the row is not there
		want         string
	}{
		{"equal", "", nil, "applied"},
		{"other commit time", "Written", text("2021-01-01T00:00:00Z"), "applied"},
		{"other number", "N", text("1.51"), "rejected(already_exists)"},
		{"NULL instead", "N", structpb.NewNullValue(), "rejected(already_exists)"},
		{"other time", "At", text("2024-01-01T00:00:00.2Z"), "rejected(already_exists)"},
		{"other member", "Doc", text(`{"a": [100], "b": 1, "c": null}`), "rejected(already_exists)"},
		{"no JSON", "Doc", structpb.NewNullValue(), "rejected(already_exists)"},
		{"shorter array", "Tags", structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{text("x")}}), "rejected(already_exists)"},
		{"other float", "F", structpb.NewNumberValue(0.2), "rejected(already_exists)"},
		{"no main row: a UNIQUE index", "Id", nil, "rejected(already_exists)"},
		{"one child less", "No", nil, "rejected(already_exists)"},
	} {
		for _, method := range []WriteMethod{BatchWrite, Commit} {
			t.Run(tt.name+" "+string(method), func(t *testing.T) {
				f := &fake{batchWrite: refuse(codes.AlreadyExists), commit: commitRefusing(codes.AlreadyExists)}
				f.read = func(_ int, req *sppb.ReadRequest) ([][]*structpb.Value, error) {
					var rows [][]*structpb.Value
					for i, k := range req.KeySet.Keys {
						if req.Table == "Lines" {
							if tt.column != "No" || i == 0 {
								rows = append(rows, []*structpb.Value{k.Values[0], k.Values[1], text("s" + k.Values[1].GetStringValue())})
							}
							continue
						}
						if tt.column == "Id" {
							continue
						}
						var row []*structpb.Value
						for _, c := range req.Columns {
							v := equal[c]
							if c == tt.column {
								v = tt.value
							}
							row = append(row, v)
						}
						rows = append(rows, row)
					}
					return rows, nil
				}
				h := setUp(t, f, insertSchema(GoogleSQL), insertRoutes, func(c *Config) { c.WriteMethod = method }).open()
				outs := h.write(h.entry("first", payload))
				check(t, outs, tt.want)
				if tt.column == "Id" && !strings.Contains(outs[0].Err.Error(), "ByN") {
					t.Errorf("SPCON-03 the index is not named: %v", outs[0].Err)
				}
			})
		}
	}
}

// TestSPCON01LostAnswerOfAnInsert: the first attempt was applied and its answer lost.
func TestSPCON01LostAnswerOfAnInsert(t *testing.T) {
	for _, method := range []WriteMethod{BatchWrite, Commit} {
		t.Run(string(method), func(t *testing.T) {
			f := &fake{read: func(_ int, req *sppb.ReadRequest) ([][]*structpb.Value, error) {
				var rows [][]*structpb.Value
				for range req.KeySet.Keys {
					var row []*structpb.Value
					for _, c := range req.Columns {
						row = append(row, map[string]*structpb.Value{"Id": text("a"), "N": text("1"), "Written": text("2024-01-01T00:00:00Z")}[c])
					}
					rows = append(rows, row)
				}
				return rows, nil
			}}
			lost := status.Error(codes.Unavailable, "connection reset")
			f.batchWrite = func(n int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
				if n == 1 {
					return lost
				}
				return s.Send(answer(codes.AlreadyExists, 0))
			}
			f.commit = commitRefusing(codes.AlreadyExists)
			refusing := f.commit
			f.commit = func(ctx context.Context, n int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
				if n == 1 {
					return nil, lost
				}
				return refusing(ctx, n, req)
			}
			h := setUp(t, f, insertSchema(GoogleSQL), insertRoutes, func(c *Config) { c.WriteMethod = method })
			check(t, h.writer().Write(t.Context(), h.entries("first", `{"id":"a","n":1,"lines":[]}`)), "applied")
		})
	}
	t.Run("a redelivered batch in commit mode costs no bisect", func(t *testing.T) {
		f := &fake{commit: commitRefusing(codes.AlreadyExists)}
		f.read = func(_ int, req *sppb.ReadRequest) ([][]*structpb.Value, error) {
			var rows [][]*structpb.Value
			for _, k := range req.KeySet.Keys {
				row := []*structpb.Value{}
				for _, c := range req.Columns {
					row = append(row, map[string]*structpb.Value{"Id": k.Values[0], "N": text("1"), "Written": text("2024-01-01T00:00:00Z")}[c])
				}
				rows = append(rows, row)
			}
			return rows, nil
		}
		h := setUp(t, f, insertSchema(GoogleSQL), insertRoutes, useCommit).open()
		var es []sink.Entry
		for i := range 20 {
			es = append(es, h.entry("first", fmt.Sprintf(`{"id":"a%d","n":1,"lines":[]}`, i)))
		}
		// The one that differs is the writer's to isolate.
		es = append(es, h.entry("first", `{"id":"b","n":2,"lines":[]}`))
		check(t, h.write(es...), strings.Repeat("applied ", 20)+"rejected")
		if f.commits.Load() != 1 || f.reads.Load() != 1 {
			t.Errorf("%d commits, %d reads", f.commits.Load(), f.reads.Load())
		}
	})
}

func TestOnDuplicateReject(t *testing.T) {
	f := &fake{batchWrite: refuse(codes.AlreadyExists)}
	h := setUp(t, f, insertSchema(GoogleSQL), insertRoutes, nil).open()
	check(t, h.write(h.entry("strict", `{"id":"a","n":1}`)), "rejected(already_exists)")
	if f.reads.Load() != 0 {
		t.Error("rows were read")
	}
}

func TestReadRows(t *testing.T) {
	s := text
	list := func(v ...*structpb.Value) *structpb.Value {
		return structpb.NewListValue(&structpb.ListValue{Values: v})
	}
	null := structpb.NewNullValue()
	part := func(chunked bool, v ...*structpb.Value) *sppb.PartialResultSet {
		return &sppb.PartialResultSet{Values: v, ChunkedValue: chunked}
	}
	for _, tt := range []struct {
		name  string
		parts []*sppb.PartialResultSet
		want  string
	}{
		{"nothing", nil, "[]"},
		{"whole rows", []*sppb.PartialResultSet{part(false, s("a"), s("b"), s("c"), s("d"))}, "[a b|c d]"},
		{"a row over two messages", []*sppb.PartialResultSet{part(false, s("a")), part(false, s("b"))}, "[a b]"},
		{"a text in three pieces", []*sppb.PartialResultSet{part(true, s("a"), s("b")), part(true, s("c")), part(false, s("d"), s("e"), s("f"))}, "[a bcd|e f]"},
		{"an empty message between", []*sppb.PartialResultSet{part(true, s("a")), part(true), part(false, s("b"), s("c"))}, "[ab c]"},
		{"a list in pieces", []*sppb.PartialResultSet{part(true, s("a"), list(s("x"), s("y"))), part(false, list(s("z"), null))}, "[a (x yz NULL)]"},
		{"a list cut at a NULL", []*sppb.PartialResultSet{part(true, s("a"), list(s("x"), null)), part(false, list(null))}, "[a (x NULL NULL)]"},
		{"a list cut at its end", []*sppb.PartialResultSet{part(true, s("a"), list()), part(false, list(s("x")))}, "[a (x)]"},
		{"ended inside a row", []*sppb.PartialResultSet{part(false, s("a"))}, "error"},
		{"ended inside a value", []*sppb.PartialResultSet{part(true, s("a"), s("b"))}, "error"},
		{"pieces that do not fit", []*sppb.PartialResultSet{part(true, s("a")), part(false, list())}, "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var rows []string
			err := readRows(&parts{tt.parts}, 2, func(v []*structpb.Value) { rows = append(rows, spell(v[0])+" "+spell(v[1])) })
			got := "[" + strings.Join(rows, "|") + "]"
			if err != nil {
				got = "error"
			}
			if got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
		})
	}
}

func TestSchemaIsReadAgainAtMostOnceAMinute(t *testing.T) {
	// The fake answers no query, so every reading fails, which is what is counted.
	now := time.Unix(1_700_000_000, 0)
	const file = `routes: {orders: {spanner: {database: @db, table: Orders, columns: {Id: data.id}, columnsFrom: data}}}`
	f := &fake{}
	h := setUp(t, f, plainSchema(), file, func(c *Config) { c.clock = func() time.Time { return now } })
	cache := &h.sink.databases[testDatabase].schema
	tried := cache.tried
	h.entry("orders", `{"id":"a","unheard":1}`)
	if !cache.tried.Equal(tried) {
		t.Error("read again at once")
	}
	now = now.Add(rereadEvery)
	h.entry("orders", `{"id":"a","unheard":1}`)
	if !cache.tried.Equal(now) {
		t.Error("not read again after a minute")
	}
	tried = now
	now = now.Add(rereadEvery - 1)
	h.entry("orders", `{"id":"a","unheard":1}`)
	if !cache.tried.Equal(tried) {
		t.Error("read again within a minute of a try that failed")
	}
	now = now.Add(time.Hour)
	h.entry("orders", `{"id":"a","total":1}`)
	if !cache.tried.Equal(tried) {
		t.Error("read again although nothing was unknown")
	}
}

func TestEncodeWithoutASchemaIsNobodysFault(t *testing.T) {
	f := &fake{session: func(int) error { return status.Error(codes.Unavailable, "down") }}
	h := setUp(t, f, nil, plainRoutes, nil)
	e := h.entry("orders", order("a")) // no error: the record is not at fault
	if e.Bytes != 1 || e.Cost != 1 || e.Dest.Instance != testDatabase {
		t.Errorf("entry %+v", e)
	}
	outs := h.writer().Write(t.Context(), []sink.Entry{e})
	check(t, outs, "transient")
	if !strings.Contains(outs[0].Err.Error(), "UNAVAILABLE") {
		t.Errorf("%v", outs[0].Err)
	}
}

func TestEncodeOfARouteThatDoesNotFitIsFatalForTheRoute(t *testing.T) {
	cat := describeSchema(GoogleSQL, "Orders: Id STRING(36) key notnull")
	h := setUp(t, &fake{}, cat, plainRoutes, nil)
	w := h.writer()
	outs := w.Write(t.Context(), []sink.Entry{h.entry("orders", order("a"))})
	check(t, outs, "fatal")
	if outs[0].Scope != sink.ScopeRoute || !strings.Contains(outs[0].Err.Error(), "route orders: table Orders: column Total: no such column") {
		t.Errorf("outcome %+v", outs[0])
	}
	if h.fake.batches.Load() != 0 {
		t.Error("it was sent")
	}
}
