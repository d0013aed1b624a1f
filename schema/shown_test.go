package schema

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestDecodeCell(t *testing.T) {
	for _, c := range []struct {
		as    Encoding
		value string
		want  string // empty = an error
	}{
		{AsString, "é", `"é"`}, {AsString, "\xff", ""}, {AsString, "", `""`},
		{AsText, "-1.50", "-1.50"}, {AsText, "true", "true"}, {AsText, `"x"`, ""}, {AsText, "x", ""}, {AsText, "null", ""},
		{AsBytes, "\xff", `"/w=="`},
		{AsJSON, ` {"a":1.0}`, ` {"a":1.0}`}, {AsJSON, "{", ""},
		{AsInt64, "\xff\xff\xff\xff\xff\xff\xff\xff", "-1"}, {AsInt64, "\x00\x00\x00\x00\x00\x00\x01\x00", "256"}, {AsInt64, "1", ""},
		{AsInt64, "\x80\x00\x00\x00\x00\x00\x00\x00", "-9223372036854775808"},
		{AsInt32, "\xff\xff\xff\xfe", "-2"}, {AsInt32, "\x00\x00\x00\x00\x00", ""},
		{AsFloat64, "\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"}, {AsFloat64, "\x7f\xf8\x00\x00\x00\x00\x00\x00", `"NaN"`},
		{AsFloat64, "\x7f\xf0\x00\x00\x00\x00\x00\x00", `"Infinity"`}, {AsFloat64, "\xff\xf0\x00\x00\x00\x00\x00\x00", `"-Infinity"`},
		{AsFloat64, "\x80\x00\x00\x00\x00\x00\x00\x00", "-0"},
		{AsFloat32, "\x3d\xcc\xcc\xcd", "0.1"}, {AsFloat32, "\x3d", ""},
		{AsBool, "\xff", "true"}, {AsBool, "\x00", "false"}, {AsBool, "\x01", ""}, {AsBool, "\x00\x00", ""},
		{"other", "x", ""},
	} {
		got, err := DecodeCell(c.as, []byte(c.value))
		if (err != nil) != (c.want == "") || string(got) != c.want {
			t.Errorf("%s %q: got %s, %v, want %s", c.as, c.value, got, err, c.want)
		}
	}
}

// The bytes of a cell, as ReadModifyWrite and HBase read them.
func TestJNUM06BigEndian(t *testing.T) {
	r := compileOne(t, `bigtable:
  table: t
  rowKey: k
  set:
    - {family: m, column: i64, value: data.n, as: int64}
    - {family: m, column: i32, value: data.n, as: int32}
    - {family: m, column: text, value: data.n, as: text}
    - {family: m, column: f64, value: data.n, as: float64}
    - {family: m, column: f32, value: data.n, as: float32}
    - {family: m, column: b, value: data.n < 0, as: bool}`)
	for in, want := range map[string][]string{
		"-1":  {"\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff", "-1", "\xbf\xf0\x00\x00\x00\x00\x00\x00", "\xbf\x80\x00\x00", "\xff"},
		"256": {"\x00\x00\x00\x00\x00\x00\x01\x00", "\x00\x00\x01\x00", "256", "\x40\x70\x00\x00\x00\x00\x00\x00", "\x43\x80\x00\x00", "\x00"},
	} {
		m, err := r.Mapping.Apply(jsonRecord(`{"n":` + in + `}`))
		if err != nil {
			t.Fatal(err)
		}
		for i, op := range m.Bigtable.Ops {
			if string(op.Value) != want[i] {
				t.Errorf("%s as %s is %x, want %x", in, op.As, op.Value, want[i])
			}
		}
	}
}

func TestEncodingOf(t *testing.T) {
	r := compileOne(t, `bigtable:
  table: t
  rowKey: k
  all: {family: rest}
  set:
    - {family: m, column: temp, value: data.temp, as: float64}
    - {family: tags, each: data.tags, column: "{key}", value: value, as: string}
    - {family: n, each: data.n, column: "a-{key}-{index}", value: value, as: int64}
    - {family: n, each: data.n, column: "b-{key}", value: value, as: bool}
    - {family: n, column: b-b, value: data.x, as: json}
    - {family: x, each: data.n, column: "{key}", value: value, as: int64}
    - {family: x, each: data.n, column: "{key}!", value: value, as: text}
    - {family: "f{data.f}", column: c, value: data.x, as: int32}`)
	for _, c := range []struct {
		family, column string
		want           Encoding
	}{
		{"m", "temp", AsFloat64}, {"m", "other", ""}, {"tags", "anything", AsString}, {"tags", "", ""},
		{"n", "a-x-1", AsInt64}, {"n", "a--", ""}, {"n", "a-x", ""}, {"n", "b-x", AsBool}, {"n", "b-b", AsJSON}, {"n", "c", ""},
		{"x", "y", AsInt64}, {"x", "y!", ""}, {"fz", "c", AsInt32}, {"f", "c", ""}, {"fz", "d", ""}, {"rest", "whatever", AsString}, {"none", "c", ""},
	} {
		got, ok := r.EncodingOf(c.family, c.column)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s:%s is %q, %v, want %q", c.family, c.column, got, ok, c.want)
		}
	}
	if _, ok := compileOne(t, `spanner: {table: T, columns: {a: "1"}}`).EncodingOf("m", "c"); ok {
		t.Error("a Spanner route has no cells")
	}
}

func TestExplainRecord(t *testing.T) {
	r := compileOne(t, `bigtable: {table: t, rowKey: "{message.id}", set: [{family: m, column: v, value: data.v, as: int64}]}`)
	rec := &Record{Data: []byte(`{"v": 1}`), ID: "7", OrderingKey: "o", Subscription: "projects/p/subscriptions/s", Attempt: 2,
		Attributes: map[string]string{"b": "2", "a": "1"}, Published: time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)}
	m, err := r.Mapping.Apply(rec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Explain(rec, m)
	want := `{"route":"t","record":{"id":"7","publishTime":"2026-01-02T03:04:05.6Z","orderingKey":"o","subscription":"projects/p/subscriptions/s",` +
		`"deliveryAttempt":2,"attributes":{"a":"1","b":"2"},"data":{"v": 1}},"bigtable":{"table":"t","key":"7","mutations":[` +
		`{"setCell":{"family":"m","column":"v","timestamp":"2026-01-02T03:04:05.6Z","value":1,"as":"int64"}}]}}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	if _, err := r.Explain(rec, Mutation{}); err == nil {
		t.Error("an empty mutation was shown")
	}
	skipped, err := r.Explain(&Record{Data: []byte{0xff}}, Mutation{Skip: SkippedWhere})
	if want := `{"route":"t","record":{"dataBase64":"/w=="},"skipped":true,"reason":"where"}`; err != nil || string(skipped) != want {
		t.Errorf("got %s, %v, want %s", skipped, err, want)
	}
}

func TestRoutesOfAFile(t *testing.T) {
	routes, err := Compile("r.yaml", []byte(`
routes:
  b:
    onReject: deadLetter
    deadLetterTopic: projects/p/topics/dead
    input: {envelope: unwrapped}
    bigtable:
      project: p
      instance: "{data.r}"
      allow: [eu, us]
      appProfile: batch
      table: "t-{data.kind}"
      maxTables: 7
      rowKey: k
      create: ifNeeded
      families:
        m: {gc: {union: [{maxVersions: 1}, {intersection: [{maxAge: 168h}, {maxVersions: 3}]}]}}
        keep: {}
      set: [{family: m, column: c, value: "1", as: int64}, {family: "{data.f}", column: c, value: "1", as: int64}]
      deleteWhen: data.gone
      delete: {family: keep}
  a:
    default: true
    bigtable: {table: t, maxTables: 5, rowKey: k, all: {family: z}}
  s:
    onReject: drop
    constraintViolations: retry
    spanner:
      database: projects/p/instances/i/databases/d
      table: s.T
      operation: insert
      dedup: {table: Seen}
      coerce: true
      columns: {A: data.a, B: commitTimestamp()}
      columnsFrom: data
      unknownFields: reject
      children: [{table: C, each: data.l, columns: {X: index}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(routes.List) != 3 || routes.List[0].Name != "b" || routes.Default != routes.List[1] {
		t.Fatalf("%+v", routes)
	}
	b := routes.List[0]
	if b.OnReject != DeadLetter || b.DeadLetterTopic != "projects/p/topics/dead" || b.Envelope != UnwrappedEnvelope || b.Format != "json" {
		t.Errorf("%+v", b)
	}
	bt := b.Bigtable
	if bt.Project != "p" || bt.Instance != "" || fmt.Sprint(bt.Allow) != "[eu us]" || bt.AppProfile != "batch" || bt.Table != "" ||
		bt.MaxTables != 7 || !bt.Create || fmt.Sprint(bt.Used) != "[keep m]" || len(bt.Families) != 2 || bt.Families["keep"] != nil {
		t.Errorf("%+v", bt)
	}
	gc := bt.Families["m"]
	if len(gc.Union) != 2 || gc.Union[0].MaxVersions != 1 || gc.Union[1].Intersection[0].MaxAge != 168*time.Hour {
		t.Errorf("%+v", gc)
	}
	if a := routes.List[1].Bigtable; a.Table != "t" || a.MaxTables != 1 || a.Create || fmt.Sprint(a.Used) != "[z]" {
		t.Errorf("%+v", a)
	}
	s := routes.List[2].Spanner
	if s.Database != "projects/p/instances/i/databases/d" || s.Table != "s.T" || s.Operation != Insert || s.DedupTable != "Seen" || !s.Coerce ||
		fmt.Sprint(s.Columns) != "[A B]" || !s.ColumnsFrom || !s.RejectUnknown || !s.RetryConstraints || s.DeleteWhen || s.OnDuplicate != "" ||
		len(s.Children) != 1 || s.Children[0].Table != "C" || fmt.Sprint(s.Children[0].Columns) != "[X]" {
		t.Errorf("%+v", s)
	}
	warnings := strings.Join(routes.Warnings, "\n")
	for _, want := range []string{"r.yaml:18:9: routes.b.bigtable.families.keep: has no gc rule", "every record goes to one row", "maxTables: has no effect"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no warning %q in:\n%s", want, warnings)
		}
	}

	only, err := Compile("f", []byte(`routes: {x: {bigtable: {table: "t{data.x}", rowKey: k, delete: row}}}`))
	if err != nil || only.Default != only.List[0] || only.List[0].Bigtable.MaxTables != MaxTablesDefault {
		t.Errorf("an only route: %+v, %v", only, err)
	}
	two, err := Compile("f", []byte(`routes: {x: {bigtable: {table: t, rowKey: k, delete: row}}, y: {bigtable: {table: t, rowKey: k, delete: row}}}`))
	if err != nil || two.Default != nil {
		t.Errorf("two routes: %+v, %v", two, err)
	}
}

// One mapping serves many goroutines.
func TestApplyFromManyGoroutines(t *testing.T) {
	r := compileOne(t, benchRoutes["functions"])
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				device := fmt.Sprintf("d-%d-%d", g, i)
				m, err := r.Mapping.Apply(jsonRecord(strings.Replace(benchRecord, "sensor-0042", device, 1)))
				if err != nil {
					t.Error(err)
					return
				}
				if !strings.Contains(m.Bigtable.Key, "#"+device+"#") || len(m.Bigtable.Ops) != 5 || string(m.Bigtable.Ops[2].Value) != "3" {
					t.Errorf("%+v", m.Bigtable)
				}
			}
		})
	}
	wg.Wait()
}

// Texts that no memory holds are refused before they are made.
func TestGrowthIsRefused(t *testing.T) {
	big := `{"s":"` + strings.Repeat("a", 200_000) + `","l":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 1000), ",") + `]}`
	for expr, code := range map[string]Code{
		`data.s.replace("a", data.s)`:       ExpressionTooCostly,
		`data.s.replace("", data.s)`:        ExpressionTooCostly,
		`data.s.replace("a", data.s, 1000)`: ExpressionTooCostly,
		`data.l.join(data.s)`:               ExpressionTooCostly,
		`json(data.l.map(x, data.s))`:       ExpressionTooCostly,
	} {
		r := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, column: v, value: '`+expr+`', as: json}]}`)
		_, err := r.Mapping.Apply(jsonRecord(big))
		if e, ok := err.(*Error); !ok || e.Code != code {
			t.Errorf("%s: %v", expr, err)
		}
	}
	for expr, want := range map[string]string{
		`"abcabc".replace("b", "xyz")`:    `"axyzcaxyzc"`,
		`"abcabc".replace("b", "xyz", 1)`: `"axyzcabc"`,
		`"abc".replace("", "-")`:          `"-a-b-c-"`,
		`"abc".replace("b", "", 0)`:       `"abc"`,
		`["a", "b"].join()`:               `"ab"`,
		`["a", "b"].join(", ")`:           `"a, b"`,
		`[].join(", ")`:                   `""`,
	} {
		r := compileOne(t, `bigtable: {table: t, rowKey: k, set: [{family: m, column: v, value: 'data.x ? `+expr+` : "no"', as: json}]}`)
		m, err := r.Mapping.Apply(jsonRecord(`{"x":true}`))
		if err != nil || string(m.Bigtable.Ops[0].Value) != want {
			t.Errorf("%s: %v, want %s", expr, err, want)
		}
	}
}
