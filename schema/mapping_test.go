package schema

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

var update = flag.Bool("update", false, "write what the code says into testdata")

// The rows stand in testdata/mapping. A group is
//
//	== title
//	a routes file, or the inside of its only route
//
// and then either the problems it is refused with, or rows
//
//	-- what the row shows
//	in:  the payload, or in quotes with Go's escapes; left out = empty
//	msg: the message's other parts as JSON, beside id 42 and a publish time
//	out: the mutation as a dry run shows it
//	err: code, JSON pointer (or -), detail
func TestMapping(t *testing.T) {
	files, err := filepath.Glob("testdata/mapping/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rows: %v", err)
	}
	rows := 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			groups := parseGroups(t, string(text))
			for _, g := range groups {
				rows += len(g.rows)
				if len(g.rows) == 0 {
					rows++
				}
				t.Run(g.title, g.run)
			}
			if *update {
				if err := os.WriteFile(file, []byte(renderGroups(text, groups)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if rows < 300 {
		t.Errorf("%d rows, at least 300 are wanted", rows)
	}
	t.Logf("%d rows", rows)
}

type testGroup struct {
	title    string
	routes   string
	problems string
	rows     []*testRow
}

type testRow struct {
	title, in, msg, out, err string
	hasIn                    bool
}

func parseGroups(t testing.TB, text string) []*testGroup {
	t.Helper()
	var groups []*testGroup
	for i, block := range strings.Split("\n"+text, "\n== ") {
		if i == 0 {
			continue // the file's heading
		}
		title, body, _ := strings.Cut(block, "\n")
		g := &testGroup{title: title}
		parts := strings.Split("\n"+body, "\n-- ")
		g.routes = strings.TrimPrefix(parts[0], "\n")
		if before, after, ok := strings.Cut(g.routes, "problems:\n"); ok {
			g.routes, g.problems = before, strings.TrimRight(after, "\n")
		}
		for _, p := range parts[1:] {
			title, body, _ := strings.Cut(p, "\n")
			row := &testRow{title: title}
			for line := range strings.Lines(body) {
				key, val, ok := strings.Cut(strings.TrimRight(line, "\n"), ": ")
				val = strings.TrimLeft(val, " ")
				switch {
				case key == "in" && ok:
					row.in, row.hasIn = val, true
				case key == "msg" && ok:
					row.msg = val
				case key == "out" && ok:
					row.out = val
				case key == "err" && ok:
					row.err = val
				case strings.TrimSpace(line) != "":
					t.Fatalf("%s / %s: what is %q?", g.title, row.title, line)
				}
			}
			g.rows = append(g.rows, row)
		}
		groups = append(groups, g)
	}
	return groups
}

func renderGroups(old []byte, groups []*testGroup) string {
	head, _, _ := strings.Cut("\n"+string(old), "\n== ")
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(head, "\n"))
	for i, g := range groups {
		if i > 0 || head != "" {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "== %s\n%s\n", g.title, strings.TrimRight(g.routes, "\n"))
		if len(g.rows) == 0 {
			fmt.Fprintf(&b, "problems:\n%s\n", g.problems)
		}
		for _, r := range g.rows {
			fmt.Fprintf(&b, "-- %s\n", r.title)
			if r.hasIn {
				fmt.Fprintf(&b, "in:  %s\n", r.in)
			}
			if r.msg != "" {
				fmt.Fprintf(&b, "msg: %s\n", r.msg)
			}
			if r.err != "" {
				fmt.Fprintf(&b, "err: %s\n", r.err)
			} else {
				fmt.Fprintf(&b, "out: %s\n", r.out)
			}
		}
	}
	return b.String()
}

// file is the group's routes file; a route's inside gets its outside.
func (g *testGroup) file() string {
	if strings.HasPrefix(g.routes, "routes:") || len(g.rows) == 0 {
		return g.routes
	}
	return "routes:\n  t:\n    " + strings.ReplaceAll(strings.TrimRight(g.routes, "\n"), "\n", "\n    ") + "\n"
}

func (g *testGroup) run(t *testing.T) {
	routes, err := CompileWith("routes.yaml", []byte(g.file()), schemaFiles)
	if len(g.rows) == 0 {
		got := "none"
		if err != nil {
			got = err.Error()
		}
		if *update {
			g.problems = got
		}
		if got != g.problems {
			t.Errorf("problems:\n%s\nwant:\n%s", got, g.problems)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range g.rows {
		t.Run(row.title, func(t *testing.T) { row.run(t, routes.List[0]) })
	}
}

func (row *testRow) run(t *testing.T, route *Route) {
	rec := row.record(t)
	before := string(rec.Data)
	m, err := route.Mapping.Apply(rec)
	var out, fail string
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("the error is a %T", err)
		}
		fail = fmt.Sprintf("%s %s %s", e.Code, orDash(e.Pointer), e.Detail)
	} else {
		out = explained(t, route, rec, m)
		// The mutation stays the same when the payload's memory is used again.
		for i := range rec.Data {
			rec.Data[i] = '#'
		}
		again := &Record{Data: []byte(before), Attributes: rec.Attributes, ID: rec.ID, Published: rec.Published}
		if got := explained(t, route, again, m); got != out {
			t.Errorf("the mutation refers to the payload: %s, was %s", got, out)
		}
	}
	if *update {
		row.out, row.err = out, fail
	}
	if out != row.out || fail != row.err {
		t.Errorf("got  %s%s\nwant %s%s", out, fail, row.out, row.err)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// explained is the dry run without route and record.
func explained(t *testing.T, route *Route, rec *Record, m Mutation) string {
	t.Helper()
	b, err := route.Explain(rec, m)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(b, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bigtable", "spanner"} {
		if v, ok := members[name]; ok {
			return string(v)
		}
	}
	return "skipped: " + strings.Trim(string(members["reason"]), `"`)
}

func (row *testRow) record(t *testing.T) *Record {
	t.Helper()
	in := row.in
	if strings.HasPrefix(in, `"`) {
		var err error
		if in, err = strconv.Unquote(in); err != nil {
			t.Fatalf("in: %v", err)
		}
	}
	rec := &Record{Data: []byte(in), ID: "42", Published: time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)}
	if row.msg == "" {
		return rec
	}
	var m struct {
		ID, OrderingKey, Subscription, PublishTime *string
		Attributes                                 map[string]string
		Fold                                       bool
		Attempt                                    int
	}
	if err := json.Unmarshal([]byte(row.msg), &m); err != nil {
		t.Fatalf("msg: %v", err)
	}
	rec.Attributes, rec.FoldAttributes, rec.Attempt = m.Attributes, m.Fold, m.Attempt
	for _, f := range []struct {
		from *string
		to   *string
	}{{m.ID, &rec.ID}, {m.OrderingKey, &rec.OrderingKey}, {m.Subscription, &rec.Subscription}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if m.PublishTime != nil {
		rec.Published = time.Time{}
		if *m.PublishTime != "" {
			var err error
			if rec.Published, err = time.Parse(time.RFC3339Nano, *m.PublishTime); err != nil {
				t.Fatal(err)
			}
		}
	}
	return rec
}

// No error shows a value of the payload, the key that was made of it, or an attribute.
func TestErrorsShowNoValue(t *testing.T) {
	checked := 0
	for _, g := range testGroups(t, "*.txt") {
		routes, err := CompileWith("routes.yaml", []byte(g.file()), schemaFiles)
		if err != nil {
			continue
		}
		for _, row := range g.rows {
			rec := row.record(t)
			_, err := routes.List[0].Mapping.Apply(rec)
			if err == nil {
				continue
			}
			var v any
			if json.Unmarshal(rec.Data, &v) != nil {
				continue
			}
			values := leaves(v)
			for _, a := range rec.Attributes {
				values = append(values, a)
			}
			for _, value := range values {
				if len(value) < 3 || strings.Contains(g.routes, value) {
					continue
				}
				checked++
				if strings.Contains(err.Error(), value) {
					t.Errorf("%s / %s: %v shows %q", g.title, row.title, err, value)
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d values were looked for", checked)
	}
}

func leaves(v any) []string {
	var list []string
	switch v := v.(type) {
	case string:
		list = append(list, v)
	case float64:
		list = append(list, strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		for _, e := range v {
			list = append(list, leaves(e)...)
		}
	case map[string]any:
		for _, e := range v {
			list = append(list, leaves(e)...)
		}
	}
	return list
}

// schemaFiles opens the files with schemas that the tests' routes name.
func schemaFiles(name string) (io.ReadCloser, error) { return os.DirFS("testdata/payload").Open(name) }
