package spanner

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// groupOf decodes an entry's mutations, which are encoded as the generated message is.
func groupOf(t testing.TB, e sink.Entry) []*sppb.Mutation {
	t.Helper()
	var g sppb.BatchWriteRequest_MutationGroup
	wire := e.Payload.(*payload).wire
	if err := proto.Unmarshal(wire, &g); err != nil {
		t.Fatal(err)
	}
	if generated, err := proto.Marshal(&g); err != nil || !bytes.Equal(generated, wire) {
		t.Errorf("the group is encoded as %x, the generated message as %x (%v)", wire, generated, err)
	}
	return g.Mutations
}

// spellMutation shows a mutation as "insert Orders(Id=a Total=NULL)".
func spellMutation(m *sppb.Mutation) string {
	if d := m.GetDelete(); d != nil {
		var words []string
		for _, v := range d.KeySet.Keys[0].Values {
			words = append(words, spell(v))
		}
		return "delete " + d.Table + "(" + strings.Join(words, " ") + ")"
	}
	op := strings.TrimPrefix(fmt.Sprintf("%T", m.Operation), "*spannerpb.Mutation_")
	w := written(m)
	var words []string
	for i, c := range w.Columns {
		words = append(words, c+"="+spell(w.Values[0].Values[i]))
	}
	return op + " " + w.Table + "(" + strings.Join(words, " ") + ")"
}

func spellGroup(t testing.TB, e sink.Entry) string {
	var all []string
	for _, m := range groupOf(t, e) {
		all = append(all, spellMutation(m))
	}
	return strings.Join(all, "; ")
}

func TestEncodeOperations(t *testing.T) {
	const file = `
routes:
  upsert:
    spanner:
      database: @db
      table: orders
      deleteWhen: has(data.gone)
      columns: {ID: data.id, Total: data.total, Note: "data.note + '!'"}
      children:
        - {table: LINES, each: data.lines, columns: {id: data.id, no: index, sku: value}}
  insert: {spanner: {database: @db, table: Orders, operation: insert, onDuplicate: reject, columns: {Id: data.id, Total: data.total}}}
  update: {spanner: {database: @db, table: Orders, operation: update, columns: {Id: data.id, Total: data.total}}}
  replace: {spanner: {database: @db, table: Orders, operation: replace, columns: {Id: data.id, Total: data.total}}}
  delete: {spanner: {database: @db, table: Lines, operation: delete, columns: {No: data.no, Id: data.id}}}
  from: {spanner: {database: @db, table: Orders, columns: {Id: data.id, Total: data.sum}, columnsFrom: data}}
  strict: {spanner: {database: @db, table: Orders, columns: {Id: data.id}, columnsFrom: data, unknownFields: reject}}
`
	cat := describeSchema(GoogleSQL,
		"Orders: Id STRING(36) key notnull, Total NUMERIC 2, Note STRING(8) 1, Low STRING(MAX) generated, P PROTO<a.B> | ByTotal, ByNote",
		"Lines: Id STRING(36) key notnull, No INT64 key notnull, Sku STRING(MAX) | | in Orders")
	h := setUp(t, &fake{}, cat, file, nil)
	for _, tt := range []struct {
		name, route, payload string
		want                 string
		cells                int
		code                 schema.Code
		text                 string
	}{
		{"whole", "upsert", `{"id":"a","total":1.50,"note":"n","lines":["x","y"]}`,
			"InsertOrUpdate Orders(Id=a Total=1.5 Note=n!); InsertOrUpdate Lines(Id=a No=0 Sku=x); InsertOrUpdate Lines(Id=a No=1 Sku=y)", 1 + 3 + 2 + 3 + 3, "", ""},
		{"JSTR-10 null is NULL", "insert", `{"id":"a","total":null}`, "Insert Orders(Id=a Total=NULL)", 1 + 3, "", ""},
		{"JSTR-10 absent is left alone", "update", `{"id":"a"}`, "Update Orders(Id=a)", 1, "", ""},
		{"replace", "replace", `{"id":"a","total":0}`, "Replace Orders(Id=a Total=0)", 1 + 3, "", ""},
		{"deleteWhen needs the key alone", "upsert", `{"id":"a","gone":true,"total":"no number"}`, "delete Orders(a)", 1 + 2, "", ""},
		{"delete orders the key", "delete", `{"id":"a","no":7}`, "delete Lines(a 7)", 1, "", ""},
		{"delete without a part of the key", "delete", `{"id":"a"}`, "", 0, schema.KeyPartMissing, "column No"},
		{"delete with a bad key", "delete", `{"id":"a","no":"x"}`, "", 0, schema.TypeMismatch, "column No (INT64)"},
		{"nothing to write", "upsert", `{"note":null,"lines":[]}`, "", 0, schema.MissingField, ""},
		{"over-length", "upsert", `{"id":"a","note":"123456789","lines":[]}`, "", 0, schema.TooLarge, "route upsert: table Orders: column Note (STRING(8))"},
		{"columns by name", "from", `{"id":"a","sum":2,"note":"n","TOTAL":99,"other":{}}`, "InsertOrUpdate Orders(Id=a Total=2 Note=n)", 1 + 3 + 2, "", ""},
		{"fields that are one column", "from", `{"id":"a","note":"n","Note":"m"}`, "", 0, schema.UnknownField, `fields "note" and "Note"`},
		{"a generated column is left out", "from", `{"id":"a","low":"x"}`, "InsertOrUpdate Orders(Id=a)", 1, "", ""},
		{"a PROTO column by name", "from", `{"id":"a","p":"x"}`, "", 0, schema.TypeMismatch, "PROTO<a.B>"},
		{"unknown field refused", "strict", `{"id":"a","other":1}`, "", 0, schema.UnknownField, `field "other" is no column`},
		{"generated column refused", "strict", `{"id":"a","Low":"x"}`, "", 0, schema.UnknownField, "generated"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, err := h.try(tt.route, tt.payload)
			if tt.want == "" {
				se, ok := asSchemaError(err)
				if !ok || se.Code != tt.code || !strings.Contains(se.Error(), tt.text) {
					t.Errorf("got %v, want %s …%s…", err, tt.code, tt.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := spellGroup(t, e); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if want := len(groupOf(t, e)); e.Cost != tt.cells || e.Mutations != want {
				t.Errorf("%d cells, %d mutations, want %d and %d", e.Cost, e.Mutations, tt.cells, want)
			}
		})
	}
}

func TestCellsAreCountedAsSpannerCounts(t *testing.T) {
	const file = `
routes:
  write: {spanner: {database: @db, table: T, columns: {Id: data.id, A: data.a, B: data.b}}}
  delete: {spanner: {database: @db, table: T, operation: delete, columns: {Id: data.id}}}
`
	cat := describeSchema(GoogleSQL, "T: Id INT64 key notnull, A INT64 3, B INT64 1 | X, Y, Z")
	h := setUp(t, &fake{}, cat, file, nil)
	for _, tt := range []struct {
		route, payload string
		want           int
	}{
		{"write", `{"id":1}`, 1},
		{"write", `{"id":1,"a":1}`, 1 + 4},
		{"write", `{"id":1,"a":null,"b":1}`, 1 + 4 + 2},
		{"delete", `{"id":1}`, 1 + 3},
	} {
		if e := h.entry(tt.route, tt.payload); e.Cost != tt.want {
			t.Errorf("%s %s costs %d cells, want %d", tt.route, tt.payload, e.Cost, tt.want)
		}
	}
}

func TestKeyOrdersByThePrimaryKeyOfTheMainRow(t *testing.T) {
	const file = `
routes:
  a: {spanner: {database: @db, table: T, columns: {N: data.n, S: data.s, V: data.v}}}
  b: {spanner: {database: @db, table: t, operation: delete, columns: {s: data.s, n: data.n}}}
  u: {spanner: {database: @db, table: U, columns: {N: data.n, S: data.s}}}
  made: {spanner: {database: @db, table: Made, columns: {V: data.v}}}
  timed: {spanner: {database: @db, table: Timed, columns: {Id: data.n, At: commitTimestamp()}}}
`
	cat := describeSchema(GoogleSQL,
		"T: N NUMERIC key, S STRING(MAX) key, V INT64", "U: N NUMERIC key, S STRING(MAX) key",
		"Made: Id STRING(36) key notnull filled, V INT64", "Timed: Id INT64 key, At TIMESTAMP key committime")
	h := setUp(t, &fake{}, cat, file, nil)
	key := func(route, payload string) string { return h.entry(route, payload).Key }
	first := key("a", `{"n":1.5,"s":"x","v":1}`)
	for _, same := range []string{
		key("a", `{"n":15e-1,"s":"x","v":2}`), key("a", `{"n":1.500,"s":"x"}`), key("b", `{"n":1.5,"s":"x"}`),
	} {
		if first == "" || same != first {
			t.Errorf("key %q, want %q", same, first)
		}
	}
	list := []string{first, key("a", `{"n":1.5,"s":"y"}`), key("a", `{"n":1.5,"s":null}`), key("a", `{"n":null,"s":"x"}`),
		key("u", `{"n":1.5,"s":"x"}`), key("a", `{"n":1.5,"s":"NULL"}`), key("a", `{"n":1.5,"s":""}`)}
	slices.Sort(list)
	if n := len(slices.Compact(slices.Clone(list))); n != len(list) {
		t.Errorf("keys of different rows are the same: %q", list)
	}
	for route, payload := range map[string]string{
		"made": `{"v":1}`, "timed": `{"n":1}`, // made by the service
		"a": `{"n":1}`, // incomplete
	} {
		if k := key(route, payload); k != "" {
			t.Errorf("%s %s has the key %q", route, payload, k)
		}
	}
}

// TestSPVAL09InvalidUTF8: the bad record is refused, the others are written.
func TestSPVAL09InvalidUTF8(t *testing.T) {
	const file = `routes: {r: {input: {format: bytes}, spanner: {database: @db, table: T, coerce: true, columns: {Id: message.id, S: raw}}}}`
	f := &fake{}
	h := setUp(t, f, describeSchema(GoogleSQL, "T: Id STRING(MAX) key, S STRING(MAX)"), file, nil)
	var es []sink.Entry
	for i := range 9 {
		e, err := h.tryRecord("r", recordOf(fmt.Sprintf("good %d \ufffd", i), fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		es = append(es, e)
	}
	for _, bad := range []string{"\xff\xfe", "a\xc3", "\xed\xa0\x80"} {
		if _, err := h.tryRecord("r", recordOf(bad, "x")); err == nil || !strings.Contains(err.Error(), "not valid UTF-8") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	check(t, h.writer().Write(t.Context(), es), strings.TrimSpace(strings.Repeat("applied ", 9)))
	for _, req := range f.seen {
		for _, g := range req.MutationGroups {
			if s := written(g.Mutations[0]).Values[0].Values[1].GetStringValue(); !strings.HasSuffix(s, "\ufffd") {
				t.Errorf("stored %q", s)
			}
		}
	}
	t.Run("in a string that the mapping made", func(t *testing.T) {
		g := &schema.GroupMutation{Row: schema.RowChange{Table: "T", Operation: schema.InsertOrUpdate,
			Columns: []schema.Column{{Name: "Id", Value: schema.Value{Kind: schema.String, Text: "a\xff"}}}}}
		if _, err := h.routes["r"].Encode(&schema.Record{}, &schema.Mutation{Spanner: g}); err == nil {
			t.Error("accepted")
		}
	})
}

// TestRouteDoesNotFit: every problem, by route, table, column and type.
func TestRouteDoesNotFit(t *testing.T) {
	google := describeSchema(GoogleSQL,
		"Orders: Id STRING(36) key notnull, Total NUMERIC notnull, Low STRING(MAX) generated, P PROTO<a.B>, E ENUM<a.C>, At TIMESTAMP",
		"Shards: Shard INT64 key generated, Id INT64 key notnull",
		"Made: Id STRING(36) key notnull filled, V INT64")
	pg := describeSchema(PostgreSQL, "t: id bigint key notnull, MixedCase bigint, n numeric, j jsonb")
	for _, tt := range []struct {
		name    string
		cat     *catalog
		spanner string
		want    []string
	}{
		{"fits", google, `{table: orders, columns: {ID: data.id, total: data.t}}`, nil},
		{"no table", google, `{table: Nope, columns: {Id: data.id}}`, []string{"table Nope: no such table"}},
		{"no column", google, `{table: Orders, columns: {Id: data.id, Total: data.t, Nope: data.x}}`, []string{"table Orders: column Nope: no such column"}},
		{"SPCON-09 generated", google, `{table: Orders, columns: {Id: data.id, Total: data.t, Low: data.x}}`, []string{"column Low (STRING(MAX)): generated columns are not writable"}},
		{"SPVAL-12 PROTO and ENUM", google, `{table: Orders, columns: {Id: data.id, Total: data.t, P: data.x, E: data.y}}`,
			[]string{"column P (PROTO<a.B>): columns of this type are not supported", "column E (ENUM<a.C>): columns of this type are not supported"}},
		{"twice", google, `{table: Orders, columns: {Id: data.id, Total: data.t, TOTAL: data.u}}`, []string{"columns Total and TOTAL are the same column"}},
		{"no key", google, `{table: Orders, columns: {Total: data.t}}`, []string{"column Id (STRING(36)): part of the primary key"}},
		{"no key, by name perhaps", google, `{table: Orders, columnsFrom: data}`, nil},
		{"NOT NULL left out", google, `{table: Orders, columns: {Id: data.id}}`, []string{"column Total (NUMERIC): NOT NULL without a default"}},
		{"NOT NULL left out of an update", google, `{table: Orders, operation: update, columns: {Id: data.id}}`, nil},
		{"key with a default", google, `{table: Made, columns: {V: data.v}}`, nil},
		{"key with a default, deleted", google, `{table: Made, deleteWhen: has(data.gone), columns: {V: data.v}}`, []string{"deleteWhen can't delete a row without it"}},
		{"key with a default, updated", google, `{table: Made, operation: update, columns: {V: data.v}}`, []string{"column Id (STRING(36)): part of the primary key"}},
		{"generated key", google, `{table: Shards, columns: {Id: data.id}}`, nil},
		{"generated key, deleted", google, `{table: Shards, operation: delete, columns: {Id: data.id}}`, []string{"column Shard (INT64): part of the primary key"}},
		{"child table", google, `{table: Orders, columns: {Id: data.id, Total: data.t}, children: [{table: Kids, each: data.k, columns: {Id: data.id}}]}`, []string{"table Kids: no such table"}},
		{"both types", google, `{table: Made, columns: {Id: '"x"', V: message.publishTime}}`, []string{"column V (INT64): the mapping gives timestamp"}},
		{"a stand-in that never fits", google, `{table: Made, columns: {Id: data.id, V: 'has(data.v) ? data.v : "none"'}}`, []string{"column V (INT64): the mapping gives string"}},
		{"SPCON-12 commit timestamp", google, `{table: Orders, columns: {Id: data.id, Total: data.t, At: commitTimestamp()}}`, []string{"column At (TIMESTAMP): the mapping gives commitTimestamp()"}},
		{"SPVAL-13 exact", pg, `{table: t, columns: {id: data.id, MixedCase: data.m, n: data.n, j: data.j}}`, nil},
		{"SPVAL-13 default schema", pg, `{table: public.t, columns: {id: data.id}}`, nil},
		{"SPVAL-13 ID", pg, `{table: t, columns: {ID: data.id, id: data.i}}`, []string{"column ID: no such column; there is id (PostgreSQL names are case-sensitive)"}},
		{"SPVAL-13 mixedcase", pg, `{table: t, columns: {id: data.id, mixedcase: data.m}}`, []string{"column mixedcase: no such column; there is MixedCase (PostgreSQL"}},
		{"SPVAL-13 table", pg, `{table: T, columns: {id: data.id}}`, []string{"table T: no such table; there is t (PostgreSQL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := setUp(t, &fake{}, tt.cat, "routes: {r: {spanner: "+strings.Replace(tt.spanner, "{", "{database: @db, ", 1)+"}}", nil)
			got := h.routes["r"].target.fit(tt.cat).problems
			if len(got) != len(tt.want) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if i < len(got) && !strings.Contains(got[i], want) {
					t.Errorf("problem %q, want …%s…", got[i], want)
				}
			}
			found := h.sink.Check(t.Context())
			if len(found) != len(tt.want) {
				t.Errorf("the check says %+v", found)
			}
			for _, p := range found {
				if p.Route != "r" || !p.Final || strings.Contains(p.Text, "route r") {
					t.Errorf("problem %+v", p)
				}
			}
		})
	}
}

// TestSPVAL13FieldsOfAnotherCase: under columnsFrom a field that differs from a column in
// case only would be lost in silence.
func TestSPVAL13FieldsOfAnotherCase(t *testing.T) {
	const file = `routes: {r: {spanner: {database: @db, table: t, columns: {id: data.id}, columnsFrom: data}}}`
	cat := describeSchema(PostgreSQL, "t: id bigint key notnull, MixedCase bigint")
	h := setUp(t, &fake{}, cat, file, nil)
	if _, err := h.try("r", `{"id":1,"mixedcase":2}`); err == nil || !strings.Contains(err.Error(), `field "mixedcase" is no column; there is MixedCase`) {
		t.Errorf("got %v", err)
	}
	if got, want := spellGroup(t, h.entry("r", `{"id":1,"MixedCase":2,"mixedcase":3}`)), "InsertOrUpdate t(id=1 MixedCase=2)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestSPCON12CommitTimestampNeedsTheOption: it is the mapping's fault, so no record is
// rejected for it, also where only a record shows it.
func TestSPCON12CommitTimestampNeedsTheOption(t *testing.T) {
	const file = `routes: {r: {onReject: drop, constraintViolations: reject, spanner: {database: @db, table: T, columns: {Id: data.id, At: 'data.soon ? commitTimestamp() : timestamp(data.at)'}}}}`
	cat := describeSchema(GoogleSQL, "T: Id INT64 key, At TIMESTAMP")
	h := setUp(t, &fake{}, cat, file, nil)
	if found := h.sink.Check(t.Context()); len(found) > 0 {
		t.Errorf("the check says %+v", found)
	}
	outs := h.writer().Write(t.Context(), h.entries("r", `{"id":1,"soon":true}`))
	check(t, outs, "fatal")
	if outs[0].Scope != sink.ScopeRoute || !strings.Contains(outs[0].Err.Error(), "column At (TIMESTAMP)") {
		t.Errorf("%+v", outs[0])
	}
	h = setUp(t, &fake{}, describeSchema(GoogleSQL, "T: Id INT64 key, At TIMESTAMP committime"), file, nil)
	if got, want := spellGroup(t, h.entry("r", `{"id":1,"soon":true}`)), "InsertOrUpdate T(Id=1 At=spanner.commit_timestamp())"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFitKnowsWhatTheMappingGives(t *testing.T) {
	kinds := []schema.ValueKind{schema.Bool, schema.Int, schema.Double, schema.String, schema.Bytes, schema.Timestamp, schema.List, schema.Object}
	for spelled, want := range map[string]string{ // strict / with coerce
		"BOOL": "bool / bool string", "INT64": "int / int string", "FLOAT64": "int double / int double string",
		"NUMERIC": "int double / int double string", "STRING(MAX)": "string / bool int double string bytes timestamp",
		"BYTES(MAX)": "string bytes / string bytes", "DATE": "string / string timestamp", "TIMESTAMP": "string timestamp / string timestamp",
		"JSON": "bool int double string timestamp list object / bool int double string timestamp list object",
		"UUID": "string / string", "ARRAY<INT64>": "list / list",
	} {
		col := &column{typ: parseType(GoogleSQL, spelled)}
		var got [2][]string
		for i, coerce := range []bool{false, true} {
			for _, k := range kinds {
				if col.accepts(k, coerce) {
					got[i] = append(got[i], k.String())
				}
			}
		}
		if s := strings.Join(got[0], " ") + " / " + strings.Join(got[1], " "); s != want {
			t.Errorf("%s takes %s, want %s", spelled, s, want)
		}
	}
}

func TestNewRefusesRoutesAndOptions(t *testing.T) {
	good := func() *schema.Route {
		return &schema.Route{Name: "r", Spanner: &schema.SpannerTarget{Database: testDatabase, Table: "T", Operation: schema.Insert, OnDuplicate: "reject", Columns: []string{"Id"}}}
	}
	for _, tt := range []struct {
		name   string
		config func(*Config)
		route  func(*schema.SpannerTarget)
		want   string
	}{
		{"good", nil, nil, ""},
		{"no database", nil, func(s *schema.SpannerTarget) { s.Database = "" }, "PUSHSINK_SPANNER_DATABASE"},
		{"the process's database", func(c *Config) { c.Database = testDatabase }, func(s *schema.SpannerTarget) { s.Database = "" }, ""},
		{"bad database", nil, func(s *schema.SpannerTarget) { s.Database = "db" }, "projects/P/instances/I/databases/D"},
		{"insert that says nothing of duplicates", nil, func(s *schema.SpannerTarget) { s.OnDuplicate = "" }, "onDuplicate"},
		{"insert with dedup", nil, func(s *schema.SpannerTarget) { s.OnDuplicate, s.DedupTable = "", "Seen" }, ""},
		{"no operation", nil, func(s *schema.SpannerTarget) { s.Operation = "" }, "operation"},
		{"bad default database", func(c *Config) { c.Database = "x" }, nil, "PUSHSINK_SPANNER_DATABASE"},
		{"write method", func(c *Config) { c.WriteMethod = "" }, nil, "PUSHSINK_SPANNER_WRITE_METHOD"},
		{"priority", func(c *Config) { c.Priority = "low" }, nil, "PUSHSINK_SPANNER_RPC_PRIORITY"},
		{"no cells", func(c *Config) { c.MaxBatchCells = 0 }, nil, "PUSHSINK_SPANNER_MAX_BATCH_CELLS=0"},
		{"most cells", func(c *Config) { c.MaxBatchCells = 80000 }, nil, ""},
		{"CFG-03 too many cells", func(c *Config) { c.MaxBatchCells = 80001 }, nil, "PUSHSINK_SPANNER_MAX_BATCH_CELLS=80001"},
		{"no mutations", func(c *Config) { c.MaxBatchMutations = 0 }, nil, "PUSHSINK_SPANNER_MAX_BATCH_MUTATIONS=0"},
		{"too many mutations", func(c *Config) { c.MaxBatchMutations = 80001 }, nil, "PUSHSINK_SPANNER_MAX_BATCH_MUTATIONS=80001"},
		{"no connections", func(c *Config) { c.PoolSize = 0 }, nil, "PoolSize"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, r := DefaultConfig(), good()
			if tt.config != nil {
				tt.config(&cfg)
			}
			if tt.route != nil {
				tt.route(r.Spanner)
			}
			s, err := New(cfg, []*schema.Route{r, {Name: "another sink's", Bigtable: &schema.BigtableTarget{}}})
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Route(r, &sink.Route{}); err != nil {
					t.Error(err)
				}
				if _, err := s.Route(good(), &sink.Route{}); err == nil {
					t.Error("a route of nobody is accepted")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want …%s…", err, tt.want)
			}
		})
	}
	t.Run("every problem at once", func(t *testing.T) {
		cfg, r := DefaultConfig(), good()
		cfg.Priority, cfg.MaxBatchCells, r.Spanner.OnDuplicate = "x", 0, ""
		_, err := New(cfg, []*schema.Route{r})
		for _, want := range []string{"RPC_PRIORITY", "MAX_BATCH_CELLS", "onDuplicate"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v lacks %s", err, want)
			}
		}
	})
}

func TestOptionsHoldBothBounds(t *testing.T) {
	for _, tt := range []struct{ cells, mutations, entries int }{
		{5000, 500, 500}, {5000, 300, 300}, {10, 500, 500}, {1, 1, 1}, {80000, 80000, 500}, {79999, 80000, 500},
	} {
		c := DefaultConfig()
		c.MaxBatchCells, c.MaxBatchMutations = tt.cells, tt.mutations
		o := c.Options(DefaultOptions())
		if o.MaxBatchCost != tt.cells || o.MaxBatchMutations != tt.mutations || o.MaxBatchEntries != tt.entries || !o.LoneOverCost || o.MergeKeys {
			t.Errorf("%d cells, %d mutations: %+v", tt.cells, tt.mutations, o)
		}
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
	o := DefaultOptions()
	if o.MaxBatchEntries != 500 || o.MaxBatchCost != 5000 || o.MaxBatchMutations != 500 || o.MaxBatchBytes != 1<<20 || !o.LoneOverCost || o.MergeKeys ||
		o.AttemptTimeout != 30*time.Second || o.Retry != o.Recovery || o.Retry.MaxAttempts != 10 || o.Retry.Initial != 500*time.Millisecond || o.Retry.Max != 10*time.Second {
		t.Errorf("defaults %+v", o)
	}
}

func TestDDL(t *testing.T) {
	dedup := func(table string) *schema.Route {
		return &schema.Route{Spanner: &schema.SpannerTarget{DedupTable: table}}
	}
	list := []*schema.Route{dedup("Seen"), dedup("SEEN"), dedup(""), {Bigtable: &schema.BigtableTarget{}}, dedup("app.Other")}
	got := DDL(list, GoogleSQL)
	want := "CREATE TABLE `Seen` (\n  Id BYTES(16) NOT NULL,\n  WrittenAt TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)\n" +
		") PRIMARY KEY (Id), ROW DELETION POLICY (OLDER_THAN(WrittenAt, INTERVAL 14 DAY));\n"
	if !strings.HasPrefix(got, want) || strings.Count(got, "CREATE TABLE") != 2 || !strings.Contains(got, "`app`.`Other`") {
		t.Errorf("got\n%s", got)
	}
	if got := DDL(list, PostgreSQL); strings.Count(got, "CREATE TABLE") != 3 || !strings.Contains(got, `"SEEN"`) {
		t.Errorf("got\n%s", got)
	}
	if got := DDL(nil, GoogleSQL); got != "" {
		t.Errorf("got %q", got)
	}
}
