package schema

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// compileOne compiles a file with one route t, whose inside is body, indented by 4.
func compileOne(t testing.TB, body string) *Route {
	t.Helper()
	routes, err := Compile("routes.yaml", []byte("routes:\n  t:\n    "+strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n    ")+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return routes.List[0]
}

func jsonRecord(data string) *Record {
	return &Record{Data: []byte(data), ID: "42", Published: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func wantCode(t *testing.T, err error, code Code, naming string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Detail, naming) {
		t.Errorf("got %v, want %s naming %q", err, code, naming)
	}
}

func TestBTVAL04RowKeyOver4KiB(t *testing.T) {
	r := compileOne(t, `bigtable: {table: t, rowKey: "{data.k}", set: [{family: m, column: v, value: "1", as: int64}]}`)
	m, err := r.Mapping.Apply(jsonRecord(`{"k":"` + strings.Repeat("é", 2048) + `"}`))
	if err != nil || len(m.Bigtable.Key) != 4096 {
		t.Fatalf("4096 bytes: %v", err)
	}
	_, err = r.Mapping.Apply(jsonRecord(`{"k":"x` + strings.Repeat("é", 2048) + `"}`))
	wantCode(t, err, TooLarge, "4096")
}

func TestBTVAL06MutationsOfOneEntry(t *testing.T) {
	r := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, each: data, column: "{index}", value: value, as: int64}]}`)
	list := strings.Repeat("1,", 100_000)
	m, err := r.Mapping.Apply(jsonRecord("[" + list[:len(list)-1] + "]"))
	if err != nil || len(m.Bigtable.Ops) != 100_000 {
		t.Fatalf("100,000 cells: %v", err)
	}
	_, err = r.Mapping.Apply(jsonRecord("[" + list + "1]"))
	wantCode(t, err, TooLarge, "100000")
}

func TestSpannerCellsOfOneRecord(t *testing.T) {
	r := compileOne(t, `spanner: {table: T, columns: {id: "1"}, children: [{table: C, each: data, columns: {n: index}}]}`)
	list := strings.Repeat("1,", MaxCells-1)
	if _, err := r.Mapping.Apply(jsonRecord("[" + list[:len(list)-1] + "]")); err != nil {
		t.Fatal(err)
	}
	_, err := r.Mapping.Apply(jsonRecord("[" + list + "1]"))
	wantCode(t, err, TooLarge, "80000")
}

func TestBTVAL12Qualifiers(t *testing.T) {
	r := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, column: "{data.q}", value: "1", as: int64}]}`)
	if _, err := r.Mapping.Apply(jsonRecord(`{"q":"` + strings.Repeat("q", 16384) + `"}`)); err != nil {
		t.Error(err)
	}
	_, err := r.Mapping.Apply(jsonRecord(`{"q":"` + strings.Repeat("q", 16385) + `"}`))
	wantCode(t, err, TooLarge, "16384")

	all := compileOne(t, `bigtable: {table: t, rowKey: k, all: {family: m}}`)
	if _, err := all.Mapping.Apply(jsonRecord(`{"` + strings.Repeat("q", 16384) + `":1}`)); err != nil {
		t.Error(err)
	}
	_, err = all.Mapping.Apply(jsonRecord(`{"` + strings.Repeat("q", 16385) + `":1}`))
	wantCode(t, err, TooLarge, "16384")

	_, err = Compile("f", []byte(`routes: {t: {bigtable: {table: t, rowKey: `+strings.Repeat("k", 4097)+`, set: [{family: m, column: `+strings.Repeat("q", 16385)+`, value: "1", as: int64}]}}}`))
	if err == nil || !strings.Contains(err.Error(), "4096") || !strings.Contains(err.Error(), "16384") {
		t.Errorf("names in the file: %v", err)
	}
}

func TestJSTR09DeepNestingIsCheap(t *testing.T) {
	r := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, column: v, value: data, as: json}]}`)
	rec := jsonRecord(strings.Repeat("[", 100_001) + strings.Repeat("]", 100_001))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := r.Mapping.Apply(rec)
	runtime.ReadMemStats(&after)
	wantCode(t, err, TooDeep, "64 levels at byte 64")
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("refusing it took %d bytes", grown)
	}
}

// Each look-up among many members is cheap: asking for all of them is not quadratic.
func TestLargeObject(t *testing.T) {
	r := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, column: v, value: "data.k.filter(x, x in data.o).size()", as: int64}]}`)
	var keys, members []string
	for i := range 20_000 {
		keys = append(keys, fmt.Sprintf(`"key-%d"`, i))
		members = append(members, fmt.Sprintf(`"key-%d":%d`, 2*i, i))
	}
	m, err := r.Mapping.Apply(jsonRecord(`{"k":[` + strings.Join(keys, ",") + `],"o":{` + strings.Join(members, ",") + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := DecodeCell(AsInt64, m.Bigtable.Ops[0].Value); string(got) != "10000" {
		t.Errorf("got %s", got)
	}
}

func TestExpressionTooCostly(t *testing.T) {
	one := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, column: v, value: "data.exists(a, data.exists(b, data.exists(c, a + b + c < 0)))", as: bool}]}`)
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	if _, err := one.Mapping.Apply(jsonRecord(list(10))); err != nil {
		t.Error(err)
	}
	// It ends at the bound: all that is asked for would take days.
	_, err := one.Mapping.Apply(jsonRecord(list(10_000)))
	wantCode(t, err, ExpressionTooCostly, "1000000")

	// Cheap expressions add up over the items of a record.
	many := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, each: data, column: "{index}", value: "value + 1", as: int64}]}`)
	m, err := many.Mapping.Apply(jsonRecord(list(50_000)))
	if err != nil || len(m.Bigtable.Ops) != 50_000 {
		t.Fatalf("50,000 sums: %v", err)
	}
	costly := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, each: data, column: "{index}", value: "value + 1 + value + 1 + value + 1 + value + 1 + value + 1 + value + 1 + value + 1 + value + 1 + value + 1 + value + 1", as: int64}]}`)
	_, err = costly.Mapping.Apply(jsonRecord(list(90_000)))
	wantCode(t, err, ExpressionTooCostly, "1000000")

	// A long string is no reason by itself, its repetition is.
	long := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, column: v, value: 'data.s.replace("a", data.s).size()', as: int64}]}`)
	if _, err := long.Mapping.Apply(jsonRecord(`{"s":"` + strings.Repeat("ab", 100) + `"}`)); err != nil {
		t.Error(err)
	}
	_, err = long.Mapping.Apply(jsonRecord(`{"s":"` + strings.Repeat("a", 20_000) + `"}`))
	wantCode(t, err, ExpressionTooCostly, "1000000")
}

// What an expression is bounded by before it runs is never below what it then costs.
func TestCostBoundHolds(t *testing.T) {
	for _, expr := range []string{
		`data.s + data.s`, `data.s == data.t`, `data.s < data.t`, `data.s.startsWith(data.t)`, `data.s.contains("xxxxxxxxxxxxxxxx")`,
		`string(data.b) + data.s`, `bytes(data.s)`, `data.s.lowerAscii()`, `data.s.trim()`, `data.s.substring(1)`, `data.s.charAt(0)`,
		`data.l == data.l`, `data.o == data.o`, `data.s in data.l`, `data.l + data.l + data.l`, `size(data.l) + size(data.s)`,
		`hash(data.s, 8)`, `uuid(data.s)`, `json(data.o)`, `pad(data.n, 4096)`, `base64.encode(bytes(data.s))`, `timestamp(data.d).getFullYear()`,
		`[data.s, data.t, data.s + data.t][1] + data.s`, `{"a": data.s}["a"] + data.s`, `data.?s.orValue("x") + data.s`, `math.greatest(data.n, 3, 5, 7, 9)`,
	} {
		r := compileOne(t, "bigtable: {table: t, rowKey: k, set: [{family: m, column: v, value: '"+"dyn("+expr+")"+"', as: json}]}")
		p, ok := r.Mapping.bigtable.set[0].value.(*program)
		if !ok || !p.shape.bounded {
			t.Errorf("%s: not bounded", expr)
			continue
		}
		for _, n := range []int{1, 100, 10_000} {
			text := strings.Repeat("x", n)
			rec := jsonRecord(`{"s":"` + text + `","t":"` + text + `y","b":"eA==","n":7,"d":"2026-01-02T03:04:05Z","l":["a","` +
				strings.Repeat(`x","`, n/10) + `"],"o":{"a":"` + text + `"}}`)
			s := newState(rec)
			if err := s.tree.decode(rec.Data); err != nil {
				t.Fatal(err)
			}
			s.decoded, s.exact = true, true
			if _, err := p.eval(s); err != nil {
				t.Errorf("%s: %v", expr, err)
			}
			if bound := p.shape.bound(len(rec.Data)); s.cost > bound {
				t.Errorf("%s with %d bytes costs %d, bounded by %d", expr, len(rec.Data), s.cost, bound)
			}
			s.release()
		}
	}
}

// A mutation is the same whether costs were measured or bounded.
func TestMeasuredOrBoundedAlike(t *testing.T) {
	r := compileOne(t, `bigtable: {table: t, rowKey: "{data.k}", set: [{family: m, each: data.l, column: "{index + 1}", value: "value * 2", as: int64}]}`)
	rec := jsonRecord(`{"k":"x","l":[` + strings.TrimSuffix(strings.Repeat("3,", 30_000), ",") + `]}`)
	m, err := r.Mapping.Apply(rec)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Bigtable.Ops) != 30_000 || m.Bigtable.Ops[29_999].Column != "30000" {
		t.Errorf("%d mutations", len(m.Bigtable.Ops))
	}
}
