package spanner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dbadmin "cloud.google.com/go/spanner/admin/database/apiv1"
	"cloud.google.com/go/spanner/admin/database/apiv1/databasepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// methods are the ways a batch is written on the emulator: its own missing BatchWrite,
// one that a shim makes of commits, and Commit.
var methods = []struct {
	name   string
	change func(*Config)
}{
	{"fallback", func(*Config) {}},
	{"batchWrite", withBatchWrite},
	{"commit", useCommit},
}

// live is a harness over a database of the emulator.
func live(t *testing.T, e *emulator.SpannerEmulator, path, file string, change func(*Config)) *harness {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Endpoint = e.Addr
	cfg.Database = path
	cfg.schemaTimeout = 3 * time.Minute
	change(&cfg)
	list := routes(t, file)
	s, err := New(cfg, list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	h := &harness{t: t, sink: s, routes: make(map[string]*Route), source: make(map[string]*schema.Route)}
	for _, r := range list {
		rt, err := s.Route(r, &sink.Route{Name: r.Name})
		if err != nil {
			t.Fatal(err)
		}
		h.routes[r.Name], h.source[r.Name] = rt, r
	}
	h.opts = cfg.Options(DefaultOptions())
	h.opts.Retry = sink.Backoff{Initial: 2 * time.Millisecond, Max: 10 * time.Millisecond, MaxAttempts: 10_000}
	h.opts.Recovery = h.opts.Retry
	h.opts.AttemptTimeout, h.opts.AdmissionTimeout = 3*time.Minute, 3*time.Minute
	return h
}

// mustCheck is the start-up check.
func (h *harness) mustCheck() *harness {
	h.t.Helper()
	problems := h.sink.Check(h.t.Context())
	// As readiness does where it is not final: a machine that is busy may keep the emulator so.
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); {
		if len(problems) == 0 || slices.ContainsFunc(problems, func(p Problem) bool { return p.Final }) {
			break
		}
		problems = h.sink.Check(h.t.Context())
	}
	if len(problems) > 0 {
		h.t.Fatalf("%+v", problems)
	}
	return h
}

// sql runs a query and spells its rows, one a line.
func (h *harness) sql(path, query string, width int) string {
	h.t.Helper()
	d := h.sink.databases[path]
	c, err := d.hold()
	if err != nil {
		h.t.Fatal(err)
	}
	defer d.drop()
	var rows []string
	if err := c.query(h.t.Context(), query, width, func(v []*structpb.Value) {
		var words []string
		for _, x := range v {
			words = append(words, spell(x))
		}
		rows = append(rows, strings.Join(words, " "))
	}); err != nil {
		h.t.Fatalf("%s: %v", query, err)
	}
	return strings.Join(rows, "\n")
}

// TestRoundTrip: what was sent is what a query returns, of every type, in both dialects,
// by every way to write.
func TestRoundTrip(t *testing.T) {
	e := emulator.Spanner(t)
	type column struct{ name, google, pg string }
	columns := []column{
		{"Bo", "BOOL", "boolean"}, {"I", "INT64", "bigint"}, {"F", "FLOAT64", "double precision"}, {"F4", "FLOAT32", "real"},
		{"N", "NUMERIC", "numeric"}, {"S", "STRING(5)", "varchar(5)"}, {"M", "STRING(MAX)", "text"}, {"Byt", "BYTES(4)", "bytea"},
		{"D", "DATE", "date"}, {"T", "TIMESTAMP", "timestamptz"}, {"J", "JSON", "jsonb"},
		{"Ai", "ARRAY<INT64>", "bigint[]"}, {"An", "ARRAY<NUMERIC>", "numeric[]"}, {"Aj", "ARRAY<JSON>", "jsonb[]"}, {"Ats", "ARRAY<TIMESTAMP>", "timestamptz[]"},
		{"Ab", "ARRAY<BYTES(MAX)>", "bytea[]"}, {"Ass", "ARRAY<STRING(MAX)>", "text[]"}, {"Abo", "ARRAY<BOOL>", "boolean[]"}, {"Af", "ARRAY<FLOAT64>", "double precision[]"}, {"Ad", "ARRAY<DATE>", "date[]"},
	}
	values := []struct {
		column, json string
		google, pg   string // as read; pg "" = as google
	}{
		{"Bo", `true`, "true", ""}, {"Bo", `false`, "false", ""}, {"Bo", `null`, "NULL", ""},
		{"I", `9007199254740993`, "9007199254740993", ""}, {"I", `-9223372036854775808`, "-9223372036854775808", ""}, {"I", `1e3`, "1000", ""}, {"I", `null`, "NULL", ""},
		{"F", `7`, "7", ""}, {"F", `-0`, "-0", ""}, {"F", `1.7976931348623157e308`, "1.7976931348623157e+308", ""}, {"F", `5e-324`, "5e-324", ""}, {"F", `null`, "NULL", ""},
		{"F4", `0.1`, "0.10000000149011612", ""}, {"F4", `3.4028234e38`, "3.4028234663852886e+38", ""}, {"F4", `null`, "NULL", ""},
		{"N", `0.1`, "0.1", ""}, {"N", `-99999999999999999999999999999.999999999`, "-99999999999999999999999999999.999999999", ""}, {"N", `1.500`, "1.5", ""}, {"N", `null`, "NULL", ""},
		{"S", `"ééééé"`, "ééééé", ""}, {"S", `""`, "", ""}, {"S", `"😀"`, "😀", ""}, {"S", `null`, "NULL", ""},
		{"M", `"line\nfeed \\ \""`, "line\nfeed \\ \"", ""}, {"M", `null`, "NULL", ""},
		{"Byt", `"AAEC/w=="`, "AAEC/w==", ""}, {"Byt", `""`, "", ""}, {"Byt", `null`, "NULL", ""},
		{"D", `"2024-02-29"`, "2024-02-29", ""}, {"D", `"0001-01-01"`, "0001-01-01", ""}, {"D", `"9999-12-31"`, "9999-12-31", ""}, {"D", `null`, "NULL", ""},
		{"T", `"2024-01-01T00:00:00.123456789+02:00"`, "2023-12-31T22:00:00.123456789Z", ""}, {"T", `"0001-01-01T00:00:00Z"`, "0001-01-01T00:00:00Z", ""},
		{"T", `"9999-12-31T23:59:59.999999999Z"`, "9999-12-31T23:59:59.999999999Z", ""}, {"T", `null`, "NULL", ""},
		{"J", `{"v":145688415796432520,"w":0.39240506000000003}`, `{"v":145688415796432520,"w":0.39240506000000003}`, `{"v": 145688415796432520, "w": 0.39240506000000003}`},
		{"J", `"text"`, `"text"`, ""}, {"J", `[]`, `[]`, ""}, {"J", `null`, "NULL", ""},
		{"Ai", `[1,null,-3]`, "(1 NULL -3)", ""}, {"Ai", `[]`, "()", ""}, {"Ai", `null`, "NULL", ""},
		{"An", `[1.5,null]`, "(1.5 NULL)", ""}, {"Aj", `[{"a":1},null]`, `({"a":1} NULL)`, `({"a": 1} NULL)`}, {"Ats", `["2024-01-01T00:00:00Z"]`, "(2024-01-01T00:00:00Z)", ""},
		{"Ab", `["AA==",null]`, "(AA== NULL)", ""}, {"Ass", `["a",""]`, "(a )", ""}, {"Abo", `[true,false]`, "(true false)", ""}, {"Af", `[1,2.5]`, "(1 2.5)", ""}, {"Ad", `["2024-02-29"]`, "(2024-02-29)", ""},
	}
	for _, d := range []Dialect{GoogleSQL, PostgreSQL} {
		for _, m := range methods {
			t.Run(d.String()+" "+m.name, func(t *testing.T) {
				var ddl, mapped []string
				for _, c := range columns {
					if d == GoogleSQL {
						ddl = append(ddl, c.name+" "+c.google)
					} else {
						ddl = append(ddl, `"`+c.name+`" `+c.pg)
					}
					mapped = append(mapped, fmt.Sprintf("%s: data.%s", c.name, c.name))
				}
				var path string
				if d == GoogleSQL {
					path = e.Database(t, "CREATE TABLE V (Id INT64 NOT NULL, Ts TIMESTAMP OPTIONS (allow_commit_timestamp=true), "+strings.Join(ddl, ", ")+") PRIMARY KEY (Id)")
				} else {
					path = e.PostgreSQL(t, `CREATE TABLE "V" ("Id" bigint PRIMARY KEY, "Ts" spanner.commit_timestamp, `+strings.Join(ddl, ", ")+")")
				}
				h := live(t, e, path, "routes: {v: {spanner: {table: V, columns: {Id: data.Id, Ts: commitTimestamp(), "+strings.Join(mapped, ", ")+"}}}}", m.change).mustCheck()
				var es []sink.Entry
				for i, v := range values {
					es = append(es, h.entry("v", fmt.Sprintf(`{"Id":%d,%q:%s}`, i, v.column, v.json)))
				}
				for i, o := range h.writer().Write(t.Context(), es) {
					if !o.Acknowledges() {
						t.Errorf("%s = %s: %v %v", values[i].column, values[i].json, o.Kind, o.Err)
					}
				}
				names := make([]string, len(columns))
				at := make(map[string]int)
				for i, c := range columns {
					names[i], at[c.name] = `"`+c.name+`"`, i
				}
				query := `SELECT "Id", "Ts", ` + strings.Join(names, ", ") + ` FROM "V"`
				if d == GoogleSQL {
					query = strings.ReplaceAll(query, `"`, "`")
				}
				found := 0
				c := h.sink.databases[path].current()
				if err := c.query(t.Context(), query, 2+len(columns), func(row []*structpb.Value) {
					found++
					var id int
					fmt.Sscan(row[0].GetStringValue(), &id)
					v := values[id]
					want := v.google
					if d == PostgreSQL && v.pg != "" {
						want = v.pg
					}
					if isNull(row[1]) {
						t.Errorf("row %d has no commit time", id)
					}
					for i, got := range row[2:] {
						switch {
						case i == at[v.column] && spell(got) != want:
							t.Errorf("%s = %s is read as %s, want %s", v.column, v.json, spell(got), want)
						case i != at[v.column] && !isNull(got):
							t.Errorf("%s = %s: column %s is %s", v.column, v.json, columns[i].name, spell(got))
						}
					}
				}); err != nil {
					t.Fatal(err)
				}
				if found != len(values) {
					t.Errorf("%d rows, want %d", found, len(values))
				}
			})
		}
	}
}

// TestJSTR10NullVersusAbsentOnAStoredRow.
func TestJSTR10NullVersusAbsentOnAStoredRow(t *testing.T) {
	e := emulator.Spanner(t)
	path := e.Database(t, "CREATE TABLE T (Id INT64, S STRING(MAX), N INT64) PRIMARY KEY (Id)")
	h := live(t, e, path, "routes: {t: {spanner: {table: T, columns: {Id: data.id, S: data.s, N: data.n}}}}", useCommit).mustCheck()
	w := h.writer()
	for _, payload := range []string{`{"id":1,"s":"old","n":1}`, `{"id":2,"s":"old","n":1}`, `{"id":1,"s":null}`, `{"id":2,"n":null}`} {
		check(t, w.Write(t.Context(), h.entries("t", payload)), "applied")
	}
	if got, want := h.sql(path, "SELECT Id, S, N FROM T ORDER BY Id", 3), "1 NULL 1\n2 old NULL"; got != want {
		t.Errorf("rows\n%s\nwant\n%s", got, want)
	}
}

// TestConstraintsOnTheEmulator: SPCON by its real statuses.
func TestConstraintsOnTheEmulator(t *testing.T) {
	e := emulator.Spanner(t)
	ddl := []string{
		"CREATE TABLE Orders (Id STRING(8) NOT NULL, Pos INT64, U STRING(MAX), Must INT64 NOT NULL DEFAULT (0), CONSTRAINT Positive CHECK (Pos > 0)) PRIMARY KEY (Id)",
		"CREATE UNIQUE INDEX OrdersByU ON Orders (U)",
		"CREATE TABLE Plain (Id STRING(8) NOT NULL, N INT64) PRIMARY KEY (Id)",
		"CREATE TABLE Refs (Id STRING(8) NOT NULL, Plain STRING(8), CONSTRAINT ToPlain FOREIGN KEY (Plain) REFERENCES Plain (Id)) PRIMARY KEY (Id)",
		"CREATE TABLE Kids (Id STRING(8) NOT NULL, Num INT64 NOT NULL, V STRING(MAX)) PRIMARY KEY (Id, Num), INTERLEAVE IN PARENT Plain",
	}
	const file = `
routes:
  orders: {spanner: {table: Orders, columns: {Id: data.id, Pos: data.pos, U: data.u, Must: data.must}}}
  refs: {spanner: {table: Refs, columns: {Id: data.id, Plain: data.plain}}}
  plain: {spanner: {table: Plain, columns: {Id: data.id, N: data.n}}}
  kids: {spanner: {table: Kids, columns: {Id: data.id, Num: data.num, V: data.v}}}
  family:
    spanner:
      table: Plain
      columns: {Id: data.id, N: data.n}
      children: [{table: Kids, each: data.kids, columns: {Id: data.id, Num: index, V: value}}]
  insert: {spanner: {table: Plain, operation: insert, onDuplicate: reject, columns: {Id: data.id, N: data.n}}}
  once: {spanner: {table: Plain, operation: insert, onDuplicate: ignore, columns: {Id: data.id, N: data.n}}}
  update: {spanner: {table: Plain, operation: update, columns: {Id: data.id, N: data.n}}}
  delete: {spanner: {table: Plain, operation: delete, columns: {Id: data.id}}}
`
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			path := e.Database(t, ddl...)
			h := live(t, e, path, file, m.change).mustCheck()
			w := h.writer()
			write := func(want string, pairs ...string) []sink.Outcome {
				t.Helper()
				var es []sink.Entry
				for i := 0; i < len(pairs); i += 2 {
					es = append(es, h.entry(pairs[i], pairs[i+1]))
				}
				outs := w.Write(t.Context(), es)
				check(t, outs, want)
				return outs
			}
			t.Run("SPCON-04 CHECK among good rows", func(t *testing.T) {
				outs := write("applied rejected(constraint) applied", "orders", `{"id":"a","pos":1,"u":"a"}`, "orders", `{"id":"b","pos":-1,"u":"b"}`, "orders", `{"id":"c","pos":2,"u":"c"}`)
				if !outs[1].Sole && outs[1].Kind != sink.Rejected {
					t.Errorf("outcome %+v", outs[1])
				}
			})
			t.Run("SPCON-03 UNIQUE index and NULLs", func(t *testing.T) {
				write("applied", "orders", `{"id":"n1"}`)
				write("applied", "orders", `{"id":"n0","u":"n0"}`)
				outs := write("rejected(already_exists)", "orders", `{"id":"n2","u":null}`)
				if !strings.Contains(outs[0].Err.Error(), "OrdersByU") {
					t.Errorf("the index is not named: %v", outs[0].Err)
				}
			})
			t.Run("NOT NULL", func(t *testing.T) {
				write("rejected(constraint) applied", "orders", `{"id":"m1","must":null,"u":"m1"}`, "orders", `{"id":"m2","u":"m2"}`)
			})
			t.Run("foreign key", func(t *testing.T) {
				write("rejected(constraint)", "refs", `{"id":"r","plain":"none"}`)
			})
			t.Run("SPCON-06 a child before its parent", func(t *testing.T) {
				write("applied applied", "kids", `{"id":"p1","num":1}`, "plain", `{"id":"p1"}`)
			})
			t.Run("SPCON-06 a family in one group", func(t *testing.T) {
				write("applied", "family", `{"id":"p2","n":1,"kids":["x","y"]}`)
				if got := h.sql(path, "SELECT Num, V FROM Kids WHERE Id = 'p2' ORDER BY Num", 2); got != "0 x\n1 y" {
					t.Errorf("children %q", got)
				}
			})
			t.Run("SPCON-10 one key twice", func(t *testing.T) {
				write("applied rejected(already_exists) applied", "insert", `{"id":"k"}`, "insert", `{"id":"k"}`, "insert", `{"id":"other"}`)
			})
			t.Run("SPCON-01 an insert delivered again", func(t *testing.T) {
				write("applied", "once", `{"id":"o1","n":5}`)
				write("applied applied", "once", `{"id":"o1","n":5}`, "once", `{"id":"o2","n":null}`)
				write("rejected(already_exists)", "once", `{"id":"o1","n":6}`)
			})
			t.Run("SPCON-13 deletes, SPCON-07 a row to update", func(t *testing.T) {
				write("applied", "plain", `{"id":"d"}`)
				for range 3 {
					write("applied", "delete", `{"id":"d"}`)
				}
				outs := write("rejected(constraint)", "update", `{"id":"d","n":1}`)
				if !strings.Contains(outs[0].Err.Error(), "update of a row that is not there") {
					t.Errorf("%v", outs[0].Err)
				}
			})
		})
	}
}

// TestSPCON07WhatIsGoneOnTheEmulator: table, column and database are nobody's record's
// fault. They go away behind the schema's back.
func TestSPCON07WhatIsGoneOnTheEmulator(t *testing.T) {
	e := emulator.Spanner(t)
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			path := e.Database(t, "CREATE TABLE Plain (Id STRING(8) NOT NULL, N INT64) PRIMARY KEY (Id)")
			for _, tt := range []struct {
				name, table, columns, payload, op string
			}{
				{"column", "Plain", "Id: data.id, Gone: data.n", `{"id":"a","n":1}`, "insertOrUpdate"},
				{"column of an update", "Plain", "Id: data.id, Gone: data.n", `{"id":"a","n":1}`, "update"},
				{"table", "Gone", "Id: data.id, N: data.n", `{"id":"a","n":1}`, "insertOrUpdate"},
				{"table of an update", "Gone", "Id: data.id, N: data.n", `{"id":"a","n":1}`, "update"},
				{"table of a delete", "Gone", "Id: data.id", `{"id":"a"}`, "delete"},
			} {
				t.Run(tt.name, func(t *testing.T) {
					file := fmt.Sprintf("routes: {r: {onReject: drop, constraintViolations: reject, spanner: {table: %s, operation: %s, columns: {%s}}}}", tt.table, tt.op, tt.columns)
					h := live(t, e, path, file, m.change)
					stale := describeSchema(GoogleSQL, "Plain: Id STRING(8) key notnull, N INT64, Gone INT64", "Gone: Id STRING(8) key notnull, N INT64")
					cache := &h.sink.databases[path].schema
					cache.known.Store(stale)
					outs := h.writer().Write(t.Context(), h.entries("r", tt.payload))
					check(t, outs, "fatal")
					if outs[0].Scope != sink.ScopeRoute || !strings.Contains(outs[0].Err.Error(), "Gone: no such") {
						t.Errorf("outcome %+v", outs[0])
					}
					if cache.known.Load() == stale {
						t.Error("the schema was not read again")
					}
				})
			}
			t.Run("database", func(t *testing.T) {
				h := live(t, e, strings.Replace(path, "/db", "/gone", 1), "routes: {r: {spanner: {table: Plain, columns: {Id: data.id}}}}", m.change)
				if p := h.sink.Check(t.Context()); len(p) != 1 || p[0].Route != "r" || p[0].Final || !strings.Contains(p[0].Text, "Database not found") {
					t.Errorf("the check says %+v", p)
				}
				cache := &h.sink.databases[strings.Replace(path, "/db", "/gone", 1)].schema
				cache.known.Store(describeSchema(GoogleSQL, "Plain: Id STRING(8) key notnull"))
				outs := h.writer().Write(t.Context(), h.entries("r", `{"id":"a"}`))
				check(t, outs, "fatal")
				if outs[0].Scope != sink.ScopeBatch {
					t.Errorf("scope %d", outs[0].Scope)
				}
			})
		})
	}
}

// TestDedupOnTheEmulator: a mapping that makes a row of its own for every delivery, each
// message delivered five times at once: as many rows as messages.
func TestDedupOnTheEmulator(t *testing.T) {
	e := emulator.Spanner(t)
	const messages = 30
	for _, d := range []Dialect{GoogleSQL, PostgreSQL} {
		for _, m := range methods {
			t.Run(d.String()+" "+m.name, func(t *testing.T) {
				file := `routes: {events: {spanner: {table: Events, operation: insert, columns: {Ref: data.ref}, dedup: {table: Seen}}}}`
				table := "CREATE TABLE Events (Id STRING(36) NOT NULL DEFAULT (GENERATE_UUID()), Ref STRING(MAX)) PRIMARY KEY (Id)"
				make := e.Database
				if d == PostgreSQL {
					file = strings.NewReplacer("Events", "events", "Ref", "ref", "Seen", "seen").Replace(file)
					table = "CREATE TABLE events (id varchar DEFAULT spanner.generate_uuid() PRIMARY KEY, ref text)"
					make = e.PostgreSQL
				}
				dedup := strings.TrimSuffix(strings.TrimSpace(DDL(routes(t, file), d)), ";")
				path := make(t, table, dedup)
				h := live(t, e, path, file, m.change).mustCheck()
				name := h.source["events"].Spanner.Table
				w := h.writer()
				var wg sync.WaitGroup
				for delivery := range 5 {
					wg.Go(func() {
						for i := range messages {
							rec := recordOf(fmt.Sprintf(`{"ref":"r%d","Ref":%d}`, i, delivery), fmt.Sprint("m", i))
							mut, err := h.source["events"].Mapping.Apply(rec)
							if err != nil {
								t.Error(err)
								return
							}
							entry, err := h.routes["events"].Encode(rec, &mut)
							if err != nil {
								t.Error(err)
								return
							}
							ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
							if o := w.Write(ctx, []sink.Entry{entry})[0]; !o.Acknowledges() {
								t.Errorf("message %d: %v %v", i, o.Kind, o.Err)
							}
							cancel()
						}
					})
				}
				wg.Wait()
				if got, want := h.sql(path, "SELECT COUNT(*), COUNT(DISTINCT ref) FROM "+name, 2), fmt.Sprintf("%d %d", messages, messages); got != want {
					t.Errorf("rows and distinct messages %s, want %s", got, want)
				}
			})
		}
	}
}

// alter runs DDL on a database.
func alter(t *testing.T, e *emulator.SpannerEmulator, path string, ddl ...string) {
	t.Helper()
	admin, err := dbadmin.NewDatabaseAdminClient(t.Context(), option.WithEndpoint("passthrough:///"+e.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	op, err := admin.UpdateDatabaseDdl(t.Context(), &databasepb.UpdateDatabaseDdlRequest{Database: path, Statements: ddl})
	if err == nil {
		err = op.Wait(t.Context())
	}
	if err != nil {
		t.Fatalf("%q: %v", ddl, err)
	}
}

// TestSchemaChangeIsNoticed: a column that a record names is there since after the start.
func TestSchemaChangeIsNoticed(t *testing.T) {
	e := emulator.Spanner(t)
	path := e.Database(t, "CREATE TABLE T (Id INT64 NOT NULL) PRIMARY KEY (Id)")
	now := time.Now()
	h := live(t, e, path, "routes: {t: {spanner: {table: T, columns: {Id: data.Id}, columnsFrom: data, unknownFields: reject}}}", func(c *Config) {
		useCommit(c)
		c.clock = func() time.Time { return now }
	}).mustCheck()
	const payload = `{"Id":1,"late":"x"}`
	if _, err := h.try("t", payload); err == nil {
		t.Error("the column is known before it is there")
	}
	alter(t, e, path, "ALTER TABLE T ADD COLUMN Late STRING(MAX)")
	if _, err := h.try("t", payload); err == nil {
		t.Error("the schema was read twice within a minute")
	}
	now = now.Add(rereadEvery)
	check(t, h.writer().Write(t.Context(), h.entries("t", payload)), "applied")
	if got := h.sql(path, "SELECT Id, Late FROM T", 2); got != "1 x" {
		t.Errorf("row %q", got)
	}
}

// TestCheckOnTheEmulator: also, that the check leaves a warm client to the writer, and
// nothing after the end.
func TestCheckOnTheEmulator(t *testing.T) {
	e := emulator.Spanner(t)
	path := e.Database(t, "CREATE TABLE T (Id INT64 NOT NULL) PRIMARY KEY (Id)")
	h := live(t, e, path, "routes: {good: {spanner: {table: T, columns: {Id: data.id}}}, bad: {spanner: {table: T, columns: {Id: data.id, X: data.x}}}}", func(*Config) {})
	problems := h.sink.Check(t.Context())
	if want := (Problem{"bad", "table T: column X: no such column", true}); len(problems) != 1 || problems[0] != want {
		t.Errorf("the check says %+v, want %+v", problems, want)
	}
	d := h.sink.databases[path]
	warm := d.current()
	if warm == nil || !warm.perGroup.Load() {
		t.Fatal("no warm client")
	}
	h.open()
	_ = h.sink.Open(t.Context(), path)
	if d.current() != warm {
		t.Error("the writer did not take the warm client over")
	}
}
