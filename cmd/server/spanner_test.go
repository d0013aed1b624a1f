package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/internal/scripted"
)

const ordersTable = `CREATE TABLE Orders (OrderId STRING(36) NOT NULL, Total NUMERIC, Note STRING(MAX), SeenAt TIMESTAMP, UpdatedAt TIMESTAMP OPTIONS (allow_commit_timestamp=true)) PRIMARY KEY (OrderId)`

const ordersRoutes = `
routes:
  orders:
    default: true
    spanner:
      table: Orders
      columns: {OrderId: data.id, SeenAt: message.publishTime, UpdatedAt: commitTimestamp()}
      columnsFrom: data
  once:
    spanner:
      table: Orders
      operation: insert
      columns: {OrderId: data.id, Total: data.total}
      dedup: {table: Seen}
  reordered:
    spanner:
      table: Orders
      columns: {OrderId: data.id, Total: data.total}
      dedup: {table: Seen, key: "{data.id}"}
`

// spannerEnv is an environment that writes to a database of the emulator.
func spannerEnv(t testing.TB, e *emulator.SpannerEmulator, database, routes string, more ...string) []string {
	return slices.Concat([]string{"PORT=0", "PUSHSINK_AUTH=none", "PUSHSINK_ROUTES_FILE=" + write(t, "routes.yaml", routes),
		"PUSHSINK_SPANNER_DATABASE=" + database, "SPANNER_EMULATOR_HOST=" + e.Addr}, patient, more)
}

func printed(t testing.TB, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), nil, args, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// statements splits what `server ddl` prints.
func statements(text string) (list []string) {
	for s := range strings.SplitSeq(text, ";") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// pushOf is a wrapped push of a message.
func pushOf(id, data string) string {
	body, err := json.Marshal(map[string]any{
		"message":      map[string]any{"data": []byte(data), "messageId": id, "publishTime": "2026-11-30T08:00:00.123456789Z"},
		"subscription": "projects/p/subscriptions/s",
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func ready(t testing.TB, url string) {
	t.Helper()
	eventually(t, func() (bool, string) {
		a := get(url + "/health/ready")
		return a.status == 200, fmt.Sprintf("ready: %d %s %v", a.status, a.body, a.err)
	})
}

func rowsOf(e *emulator.SpannerEmulator, t testing.TB, database, sql string) string {
	t.Helper()
	var lines []string
	for _, row := range e.Query(t, database, sql) {
		lines = append(lines, fmt.Sprint(row))
	}
	return strings.Join(lines, "\n")
}

// TestFromHTTPToSQL: what is posted is what a query returns, with both ways to write.
func TestFromHTTPToSQL(t *testing.T) {
	e := emulator.Spanner(t)
	for _, method := range []string{"batchWrite", "commit"} {
		t.Run(method, func(t *testing.T) {
			seen := statements(printed(t, "ddl", "-routes", write(t, "routes.yaml", ordersRoutes)))
			if len(seen) != 1 {
				t.Fatalf("statements %q, want one: the routes share a table", seen)
			}
			database := e.Database(t, ordersTable, seen[0])
			p := start(t, spannerEnv(t, e, database, ordersRoutes, "PUSHSINK_SPANNER_WRITE_METHOD="+method, "PUSHSINK_EXPOSE=rows,dryrun", "PUSHSINK_METRICS_PORT=0"))
			url := p.url()
			ready(t, url)
			if s := p.logged("listening"); s["spanner"] != "emulator at "+e.Addr || s["bigtable"] != nil {
				t.Errorf("summary %v", s)
			}

			if a := post(url+"/", pushOf("1", `{"id":"a","Total":12.345678901,"Note":"first","unknown":true}`)); a.status != 204 {
				t.Errorf("push: %d %s %v", a.status, a.body, a.err)
			}
			// One bad record is refused alone.
			a := post(url+"/v1/routes/orders/records?results=all", `[{"id":"b","Total":1},{"id":"c","Total":0.1234567891},{"id":"d","Total":null}]`)
			if a.status != 422 || !strings.Contains(a.body, `"written":2`) || !strings.Contains(a.body, `"pointer":"/Total"`) || strings.Contains(a.body, "0.1234567891") {
				t.Errorf("records: %d %s %v", a.status, a.body, a.err)
			}
			if got, want := rowsOf(e, t, database, "SELECT OrderId, Total, Note, SeenAt = TIMESTAMP '2026-11-30T08:00:00.123456789Z', UpdatedAt > TIMESTAMP '2020-01-01T00:00:00Z' FROM Orders ORDER BY OrderId"),
				"[a 12.345678901 first true true]\n[b 1 <nil> false true]\n[d <nil> <nil> false true]"; got != want {
				t.Errorf("rows\n%s\nwant\n%s", got, want)
			}

			// Three times the same message is one effect.
			for range 3 {
				if a := post(url+"/v1/routes/once/push", pushOf("7", `{"id":"once","total":1}`)); a.status != 204 {
					t.Errorf("insert: %d %s %v", a.status, a.body, a.err)
				}
			}
			// Another message of the same row is the data's own violation.
			if a := post(url+"/v1/routes/once/push", pushOf("8", `{"id":"once","total":2}`)); a.status != 422 || !strings.Contains(a.body, "already_exists") {
				t.Errorf("another message: %d %s %v", a.status, a.body, a.err)
			}
			wantKey(t, url)
			if got, want := rowsOf(e, t, database, "SELECT OrderId, Total FROM Orders WHERE OrderId LIKE 'o%' OR OrderId LIKE 'k%' ORDER BY OrderId"), "[k1 1]\n[k2 1]\n[once 1]"; got != want {
				t.Errorf("rows\n%s\nwant\n%s", got, want)
			}

			for path, want := range map[string]int{"/v1/routes/orders/rows": 404, "/health/routes/orders": 200, "/health/live": 200} {
				if a := get(url + path); a.status != want {
					t.Errorf("%s: %d %s, want %d", path, a.status, a.body, want)
				}
			}
			if a := post(url+"/v1/routes/orders/dryrun", `{"id":"x","Total":1}`); a.status != 200 || !strings.Contains(a.body, `{"insertOrUpdate":{"table":"Orders","columns":{"OrderId":"x"`) {
				t.Errorf("dry run: %d %s", a.status, a.body)
			}
			shows(t, p, `pushsink_writer_outcomes_total{outcome="applied",sink="spanner"}`, `pushsink_spanner_duplicates_total{route="once"} `)
			if strings.Contains(get(metricsURL(p)+"/metrics").body, `sink="bigtable"`) {
				t.Error("there is a writer of Bigtable, which no route writes to")
			}
			p.stop()
		})
	}
}

// wantKey: where the dedup key is the message id, a batch needs an Idempotency-Key; where
// the record has its own, it does not.
func wantKey(t *testing.T, url string) {
	t.Helper()
	if a := post(url+"/v1/routes/once/records", `{"id":"k0","total":1}`); a.status != 400 || !strings.Contains(a.body, `"code":"idempotency_key_required"`) || !strings.Contains(a.body, `"received":0`) {
		t.Errorf("without key: %d %s %v", a.status, a.body, a.err)
	}
	for range 2 {
		req, err := http.NewRequest("POST", url+"/v1/routes/once/records", strings.NewReader(`{"id":"k1","total":1}`))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", "order-1")
		}
		if a := do(req, err); a.status != 200 || !strings.Contains(a.body, `"written":1`) {
			t.Errorf("with key: %d %s %v", a.status, a.body, a.err)
		}
	}
	if a := post(url+"/v1/routes/reordered/records", `{"id":"k2","total":1}`); a.status != 200 {
		t.Errorf("key of the record's own: %d %s %v", a.status, a.body, a.err)
	}
}

// TestSpannerRouteThatDoesNotFit: a route whose types differ from the table's is named with
// both; the others go on, and the server comes back once the table fits.
func TestSpannerRouteThatDoesNotFit(t *testing.T) {
	e := emulator.Spanner(t)
	database := e.Database(t, "CREATE TABLE Orders (OrderId STRING(36) NOT NULL, Total BOOL) PRIMARY KEY (OrderId)")
	p := start(t, spannerEnv(t, e, database, `
routes:
  good: {spanner: {table: Orders, columns: {OrderId: data.id}}}
  bad: {spanner: {table: Orders, columns: {OrderId: data.id, Total: message.publishTime}}}
  lost: {spanner: {table: Nowhere, columns: {Id: data.id}}}
`))
	url := p.url()
	ready(t, url)
	eventually(t, func() (bool, string) {
		get(url + "/health/ready") // begins the next check, if the last one did not get so far
		var causes, missing []string
		for _, entry := range p.entries("route not ready") {
			causes = append(causes, fmt.Sprint(entry["cause"]))
		}
		for _, want := range []string{"route bad: ", "Total", "BOOL", "timestamp", "route lost: ", "Nowhere"} {
			if !strings.Contains(strings.Join(causes, "\n"), want) {
				missing = append(missing, want)
			}
		}
		return len(missing) == 0, fmt.Sprintf("causes %q lack %q", causes, missing)
	})
	if a := post(url+"/v1/routes/good/push", pushOf("1", `{"id":"a"}`)); a.status != 204 {
		t.Errorf("good: %d %s", a.status, a.body)
	}
	for _, route := range []string{"bad", "lost"} {
		if a := post(url+"/v1/routes/"+route+"/push", pushOf("1", `{"id":"a"}`)); a.status != 503 {
			t.Errorf("%s: %d %s, want 503", route, a.status, a.body)
		}
	}
	p.stop()
}

// TestTwoSinksInOneProcess: each kind of sink has a writer and caps of its own, and one
// that does not answer leaves the other alone.
func TestTwoSinksInOneProcess(t *testing.T) {
	e := emulator.Spanner(t)
	database := e.Database(t, ordersTable)
	bt := scripted.New(t, scripted.Options{})
	bt.AddTable(readings, "m")
	routes := telemetryRoutes + "  orders: {spanner: {table: Orders, columns: {OrderId: data.device}}}\n"
	p := start(t, append(real(t, bt), spannerEnv(t, e, database, routes, "PUSHSINK_METRICS_PORT=0")[2:]...))
	url := p.url()
	ready(t, url)
	for _, route := range []string{"telemetry", "orders"} {
		if a := post(url+"/v1/routes/"+route+"/push", pushBody("pump", 21.5)); a.status != 204 {
			t.Errorf("%s: %d %s %v", route, a.status, a.body, a.err)
		}
	}
	if row := bt.Row(readings, "pump"); len(row["m:temp"]) != 1 {
		t.Errorf("row %v, want one version of one cell", row)
	}
	if got := rowsOf(e, t, database, "SELECT OrderId FROM Orders"); got != "[pump]" {
		t.Errorf("rows %q", got)
	}
	for _, sink := range []string{"bigtable", "spanner"} {
		shows(t, p, fmt.Sprintf(`pushsink_writer_outcomes_total{outcome="applied",sink=%q} 1`, sink))
	}
	p.stop()
}

// TestCONN04SpannerOutOfReach: the port opens, ready says why and live does not fail, and
// no record is acknowledged, whether nothing listens or the database or table is missing.
func TestCONN04SpannerOutOfReach(t *testing.T) {
	e := emulator.Spanner(t)
	empty := e.Database(t)
	gone := empty[:strings.LastIndex(empty, "/")] + "/gone"
	for _, c := range []struct {
		name, address, database, want string
	}{
		{"nothing listens", "127.0.0.1:1", "projects/p/instances/i/databases/d", "projects/p/instances/i/databases/d"},
		{"the database is missing", e.Addr, gone, "Database not found"},
		{"the table is missing", e.Addr, empty, "Orders"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, []string{"PORT=0", "PUSHSINK_AUTH=none", "PUSHSINK_ROUTES_FILE=" + write(t, "routes.yaml", "routes: {orders: {spanner: {table: Orders, columns: {OrderId: data.id}}}}"),
				"PUSHSINK_SPANNER_DATABASE=" + c.database, "SPANNER_EMULATOR_HOST=" + c.address, "PUSHSINK_REQUEST_TIMEOUT=2s"})
			url := p.url()
			eventually(t, func() (bool, string) {
				a := get(url + "/health/startup")
				return a.status == 200, fmt.Sprintf("startup: %d %s %v", a.status, a.body, a.err)
			})
			eventually(t, func() (bool, string) {
				a := get(url + "/health/ready")
				if a.status == 200 {
					t.Fatalf("ready: %s", a.body)
				}
				return strings.Contains(a.body, c.want), fmt.Sprintf("ready: %d %s %v, want %q in the reasons", a.status, a.body, a.err, c.want)
			})
			if a := get(url + "/health/live"); a.status != 200 {
				t.Errorf("live: %d %s, want 200: a restart would not help", a.status, a.body)
			}
			if a := post(url+"/", pushOf("1", `{"id":"a"}`)); a.status != 503 {
				t.Errorf("push: %d %s %v", a.status, a.body, a.err)
			}
			p.stop()
		})
	}
}

// TestSpannerStartRefused: what cannot work stops the start.
func TestSpannerStartRefused(t *testing.T) {
	route := func(text string) string {
		return "PUSHSINK_ROUTES_FILE=" + write(t, "routes.yaml", "routes: {orders: {spanner: {"+text+"}}}")
	}
	good := route("table: Orders, columns: {OrderId: data.id}")
	for _, c := range []struct {
		name    string
		environ []string
		want    string
	}{
		{"no database", []string{good}, "PUSHSINK_SPANNER_DATABASE"},
		{"a delay with batch writes", []string{good, "PUSHSINK_SPANNER_MAX_COMMIT_DELAY=1ms"}, "PUSHSINK_SPANNER_WRITE_METHOD=commit"},
		{"an emulator on the platform", []string{good, "K_SERVICE=s", "SPANNER_EMULATOR_HOST=127.0.0.1:1"}, "SPANNER_EMULATOR_HOST"},
		{"an insert that says nothing of duplicates", []string{route("table: Orders, operation: insert, columns: {OrderId: data.id}")}, "onDuplicate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if err := run(t.Context(), append([]string{"PORT=0", "PUSHSINK_AUTH=none"}, c.environ...), nil, &out); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(c.want, "PUSHSINK_")) {
				t.Errorf("error %v, want one that names %s", err, c.want)
			}
		})
	}
}

func TestCheckSpannerRoutes(t *testing.T) {
	routes := write(t, "routes.yaml", ordersRoutes)
	sample := write(t, "sample.ndjson", `{"id":"a","Total":1.50,"Note":null}`+"\n"+pushOf("9", `{"id":"b"}`)+"\n"+`{"id":"c","id":"d"}`)
	out, err := checked(t, "-routes", routes, "-sample", sample)
	if err == nil || err.Error() != sample+": 1 of 3 records failed" {
		t.Errorf("error %v, want 1 of 3 failed", err)
	}
	if lines := strings.Split(out, "\n"); len(lines) < 3 || !strings.Contains(lines[0], `"OrderId":"a"`) || !strings.Contains(lines[0], `1.50`) || !strings.Contains(lines[1], `"OrderId":"b"`) {
		t.Errorf("got %s%v", out, err)
	}
	// What only the adapter knows is found as well.
	bad := write(t, "routes.yaml", "routes: {r: {spanner: {database: projects/p, table: T, columns: {Id: data.id}}}}")
	if out, err := checked(t, "-routes", bad); err == nil || !strings.Contains(err.Error(), "database") {
		t.Errorf("got %s%v, want a refusal of the database", out, err)
	}
}

func TestDDL(t *testing.T) {
	routes := write(t, "routes.yaml", ordersRoutes)
	for _, args := range [][]string{{"ddl", "-routes", routes}, {"ddl", "-routes", routes, "-dialect", "googlesql"}} {
		if got := printed(t, args...); !strings.HasPrefix(got, "CREATE TABLE `Seen` (\n") || strings.Count(got, ";") != 1 || !strings.HasSuffix(got, ";\n") {
			t.Errorf("%v prints %q, want one plain statement", args, got)
		}
	}
	if got := printed(t, "ddl", "-routes", routes, "-dialect", "postgresql"); !strings.HasPrefix(got, "CREATE TABLE \"Seen\" (\n") || !strings.Contains(got, "bytea") {
		t.Errorf("PostgreSQL: %q", got)
	}
	if got := printed(t, "ddl", "-routes", "demo.yaml"); got != "" {
		t.Errorf("without dedup: %q, want nothing", got)
	}
	for _, c := range []struct{ args, want string }{
		{"ddl", "-routes FILE"}, {"ddl -routes " + routes + " more", "more"}, {"ddl -routes " + routes + " -dialect mysql", "googlesql or postgresql"}, {"ddl -routes /nowhere", "/nowhere"}, {"ddl -x", "-x"},
	} {
		var out strings.Builder
		if err := run(t.Context(), nil, strings.Fields(c.args), &out); err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
			t.Errorf("%s: %q, error %v, want %q in it", c.args, out.String(), err, c.want)
		}
	}
}
