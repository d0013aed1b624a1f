package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzJSON compares the decoder with two references: it accepts what jsontext accepts,
// to the depth of MaxDepth, and what it holds are the values that encoding/json finds.
func FuzzJSON(f *testing.F) {
	for _, row := range testRows(f, "json.txt", "numbers.txt", "functions.txt") {
		f.Add([]byte(row.in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newState(&Record{Data: data})
		defer s.release()
		err := s.tree.decode(data)
		valid := jsontext.Value(data).IsValid() && depth(data) <= MaxDepth
		if valid != (err == nil) {
			t.Fatalf("%q: valid is %v, decode says %v", data, valid, err)
		}
		if err != nil {
			if err.Code != BadJSON && err.Code != TooDeep || !strings.Contains(err.Detail, "at byte ") {
				t.Errorf("%v", err)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		same(t, &s.tree, s.tree.root(), want)
	})
}

// depth is how deep valid JSON nests.
func depth(data []byte) int {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	deepest := 0
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, dec.StackDepth())
	}
}

// same compares node i with what encoding/json made of it.
func same(t *testing.T, tr *tree, i int, want any) {
	t.Helper()
	n := &tr.nodes[i]
	switch want := want.(type) {
	case nil:
		if n.kind != null {
			t.Errorf("%s, want null", n.kind)
		}
	case bool:
		if n.kind != boolean || (n.bits == 1) != want {
			t.Errorf("%s, want %v", n.kind, want)
		}
	case string:
		if n.kind != text || tr.str(i) != want {
			t.Errorf("%q, want %q", tr.raw(i), want)
		}
	case json.Number:
		sameNumber(t, tr.value(i), string(want))
	case []any:
		first, count := n.children()
		if n.kind != list || count != len(want) {
			t.Fatalf("%s of %d, want a list of %d", n.kind, count, len(want))
		}
		for j := range want {
			same(t, tr, first+j, want[j])
		}
	case map[string]any:
		_, count := n.children()
		if n.kind != object || count != len(want) {
			t.Fatalf("%s of %d, want an object of %d", n.kind, count, len(want))
		}
		for name, v := range want {
			j := tr.member(i, name)
			if j < 0 || tr.nameOf(j) != name {
				t.Fatalf("member %q is not found", name)
			}
			same(t, tr, j, v)
		}
	}
	if !json.Valid([]byte(tr.raw(i))) {
		t.Errorf("the text of a value is no JSON: %q", tr.raw(i))
	}
	if p := tr.pointer(i); i != tr.root() && p == "" || i == tr.root() && p != "" {
		t.Errorf("pointer %q", p)
	}
}

func sameNumber(t *testing.T, v value, lit string) {
	t.Helper()
	if exp := strings.IndexAny(lit, "eE"); exp >= 0 && len(lit)-exp > 5 || len(lit) > 2000 {
		return // the reference would take for ever
	}
	want, _ := new(big.Rat).SetString(lit)
	got := new(big.Rat)
	switch v.kind {
	case integer:
		got.SetInt64(v.int())
	case unsigned:
		got.SetInt(new(big.Int).SetUint64(v.bits))
		if v.bits <= 1<<63-1 {
			t.Errorf("%s is a uint", lit)
		}
	case literal:
		got.SetString(v.text)
		if want.IsInt() && want.Num().IsUint64() && (want.Sign() != 0 || lit[0] != '-') ||
			want.IsInt() && want.Num().IsInt64() && want.Sign() != 0 {
			t.Errorf("%s is no integer", lit)
		}
	default:
		t.Fatalf("%s is %s", lit, v.kind)
	}
	if got.Cmp(want) != 0 {
		t.Errorf("%s is %s", lit, got)
	}
	if plain, err := appendText(nil, v); err == nil {
		back, ok := new(big.Rat).SetString(string(plain))
		if !ok || back.Cmp(want) != 0 || bytes.ContainsAny(plain, "eE+") {
			t.Errorf("%s in plain decimal is %s", lit, plain)
		}
		if again, _ := appendPlain(nil, string(plain)); !bytes.Equal(again, plain) {
			t.Errorf("%s has the plain forms %s and %s", lit, plain, again)
		}
	}
}

// FuzzTemplate: what a template is cut into makes the template again, and a template that
// compiles maps a record or says why not.
func FuzzTemplate(f *testing.F) {
	for _, g := range testGroups(f, "templates.txt", "rows.txt", "functions.txt", "refused.txt") {
		for piece := range strings.SplitSeq(g.routes, `"`) {
			f.Add(piece)
		}
	}
	c := newCompiler("f", nil)
	records := fuzzRecords()
	f.Fuzz(func(t *testing.T, text string) {
		pieces, at, problem := splitTemplate(text)
		if problem != "" && (at < 0 || at >= len(text)) {
			t.Fatalf("%s at %d of %d", problem, at, len(text))
		}
		var again strings.Builder
		escape := strings.NewReplacer("{", "{{", "}", "}}")
		for _, p := range pieces {
			if p.expr {
				if text[p.at:p.at+len(p.text)] != p.text {
					t.Errorf("%q is not at %d", p.text, p.at)
				}
				again.WriteString("{" + p.text + "}")
			} else {
				again.WriteString(escape.Replace(p.text))
			}
		}
		if problem == "" && again.String() != text {
			t.Errorf("%q became %q", text, again.String())
		}
		c.list = nil
		tmpl := c.template(&templateText{scalar{text: text, given: true}}, scope{each: true})
		if (tmpl == nil) != (len(c.list) > 0) {
			t.Fatalf("template %v, problems %v", tmpl, c.list)
		}
		if tmpl == nil {
			return
		}
		m := &Mapping{json: true, bigtable: &rowMapping{rules: c.rules, table: &template{}, rowKey: tmpl, delete: &deleteMapping{row: true}}}
		for _, rec := range records {
			mutation, err := m.Apply(rec)
			if err == nil && (len(mutation.Bigtable.Key) == 0 || len(mutation.Bigtable.Key) > MaxRowKey) {
				t.Errorf("a key of %d bytes", len(mutation.Bigtable.Key))
			}
			wellFormed(t, err)
		}
	})
}

func wellFormed(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Code == "" || e.Code == Internal || e.Detail == "" || !utf8.ValidString(e.Detail)) {
		t.Errorf("the error %q", err)
	}
}

// FuzzRoutesFile: a file compiles or is refused with places that are in it; what compiles
// maps records to something that a dry run can show, or says why not.
func FuzzRoutesFile(f *testing.F) {
	for _, g := range testGroups(f, "*.txt") {
		f.Add([]byte(g.file()))
	}
	records := fuzzRecords()
	f.Fuzz(func(t *testing.T, text []byte) {
		routes, err := Compile("f.yaml", text)
		if err != nil {
			var fe *FileError
			if !errors.As(err, &fe) || len(fe.Problems) == 0 {
				t.Fatalf("a %T: %v", err, err)
			}
			lines := strings.Count(lineBreaks.Replace(string(text)), "\n") + 1
			for _, p := range fe.Problems {
				if p.Line < 1 || p.Line > lines+1 || p.Column < 1 || p.Message == "" {
					t.Errorf("%+v in a file of %d lines", p, lines)
				}
			}
			return
		}
		for _, r := range routes.List {
			for _, rec := range records {
				before := bytes.Clone(rec.Data)
				m, err := r.Mapping.Apply(rec)
				wellFormed(t, err)
				if err != nil {
					continue
				}
				if (m.Skip != NotSkipped) == (m.Bigtable != nil || m.Spanner != nil) {
					t.Errorf("%+v", m)
				}
				shown, err := r.Explain(rec, m)
				if err != nil {
					t.Fatal(err)
				}
				for i := range rec.Data {
					rec.Data[i] = 0
				}
				copy(rec.Data, before)
				if again, err := r.Explain(rec, m); err != nil || !bytes.Equal(shown, again) {
					t.Errorf("%s, then %s: %v", shown, again, err)
				}
			}
		}
	})
}

func fuzzRecords() []*Record {
	return []*Record{
		{},
		jsonRecord(benchRecord),
		jsonRecord(`{"id":1,"a":null,"b":"","t":"2026-01-02T03:04:05Z","n":-1.5,"l":[1,null,{"v":2}],"o":{"x":{"y":[]}},"tags":{"a":"b"}}`),
		jsonRecord(`[1,"\u00e9",18446744073709551615,1e400]`),
		{Data: []byte{0xff, 0xfe}, Attributes: map[string]string{"tenant": "x"}, FoldAttributes: true, Attempt: 2},
	}
}

func testGroups(t testing.TB, patterns ...string) []*testGroup {
	t.Helper()
	var groups []*testGroup
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("testdata/mapping", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			groups = append(groups, parseGroups(t, string(text))...)
		}
	}
	return groups
}

func testRows(t testing.TB, patterns ...string) []*testRow {
	t.Helper()
	var rows []*testRow
	for _, g := range testGroups(t, patterns...) {
		rows = append(rows, g.rows...)
	}
	return rows
}

// The bits of a value survive the way through the expression language and back.
func TestValuesSurviveTheEvaluator(t *testing.T) {
	s := newState(jsonRecord(`{}`))
	defer s.release()
	for _, v := range []value{{kind: null}, boolValue(true), boolValue(false), intValue(-5), {kind: unsigned, bits: 1 << 63},
		floatValue(1.5), textValue(""), textValue("é"), {kind: octets, text: "\xff"}} {
		if got := fromRef(s.toRef(v)); !reflect.DeepEqual(got, v) {
			t.Errorf("%s became %s", fmt.Sprint(v), fmt.Sprint(got))
		}
	}
}
