// Package docs_test runs what the documents show.
package docs_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

var update = flag.Bool("update", false, "write what the code says into mapping.md")

const document = "mapping.md"

// The document has these blocks, and no others:
//
//	```yaml           a routes file, or the inside of one route, that compiles
//	```yaml refused   one that does not; the ```text block after it is the whole message
//	```text           records and what the routes before them make of each (see transcript)
//	```json           the record of the table of expressions behind it
//	```json FILE      a schema that the routes behind it name; also ```proto FILE
//	```console        commands; they are shown, not run
//
// and three kinds of tables that are run: see tables.
func TestMappingDocument(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	d := &checker{t: t, counts: map[string]int{}}
	got := d.run(string(text))
	if *update && got != string(text) {
		if err := os.WriteFile(document, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for what, least := range map[string]int{"yaml": 20, "refused": 2, "result": 45, "expression": 50, "encoding": 15, "template": 15, "shown": 2} {
		if d.counts[what] < least {
			t.Errorf("%d of kind %q were run, at least %d are wanted: is a block not recognised?", d.counts[what], what, least)
		}
	}
	t.Logf("run: %v", d.counts)
}

type checker struct {
	t      *testing.T
	line   int
	counts map[string]int

	routes  *schema.Routes // of the last yaml block that compiled
	refusal string         // of the last yaml block, when it is a refused one
	record  string         // of the last json block
}

func (d *checker) errorf(format string, args ...any) {
	d.t.Helper()
	d.t.Errorf("%s:%d: %s", document, d.line, fmt.Sprintf(format, args...))
}

// run gives the document as it should be.
func (d *checker) run(text string) string {
	var out strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		d.line = i + 1
		fence, isFence := strings.CutPrefix(lines[i], "```")
		switch {
		case isFence:
			end := i + 1 + slices.Index(lines[i+1:], "```\n")
			if end == i {
				d.errorf("a block without an end")
				return text
			}
			body := strings.Join(lines[i+1:end], "")
			out.WriteString(lines[i] + d.block(strings.TrimSpace(fence), body) + lines[end])
			i = end
		case strings.HasPrefix(lines[i], "| "):
			end := i
			for end < len(lines) && strings.HasPrefix(lines[end], "|") {
				end++
			}
			for _, row := range d.table(lines[i:end]) {
				out.WriteString(row)
			}
			i = end - 1
		default:
			out.WriteString(lines[i])
		}
	}
	return out.String()
}

func (d *checker) block(kind, body string) string {
	refused := d.refusal
	d.refusal = ""
	if refused != "" && kind != "text" {
		d.errorf("a refused routes file is followed by its message")
	}
	switch kind {
	case "yaml", "yaml refused":
		routes, err := schema.CompileWith("routes.yaml", []byte(whole(body)), func(name string) (io.ReadCloser, error) {
			return os.Open(payloads + name)
		})
		switch {
		case kind == "yaml" && err != nil:
			d.errorf("%v", err)
		case kind == "yaml":
			d.routes = routes
			d.counts["yaml"]++
			for _, w := range routes.Warnings {
				if !strings.Contains(body, "# warns") {
					d.errorf("warns: %s", w)
				}
			}
		case err == nil:
			d.errorf("this is not refused")
		default:
			d.refusal = err.Error()
			d.counts["refused"]++
		}
	case "text":
		if refused == "" {
			return d.transcript(body)
		}
		if strings.TrimRight(body, "\n") != refused {
			d.differ(body, refused)
		}
		return refused + "\n"
	case "json":
		if !jsontext.Value(body).IsValid() {
			d.errorf("not JSON")
		}
		d.record = body
	case "console":
	default:
		if _, name, ok := strings.Cut(kind, " "); ok {
			d.shown(name, body)
			break
		}
		d.errorf("a block of kind %q", kind)
	}
	return body
}

// payloads holds the schemas that the document shows and its routes name.
const payloads = "../schema/testdata/payload/"

// shown holds a block against the file that it shows, whose comments at the top are its own.
func (d *checker) shown(name, body string) {
	text, err := os.ReadFile(payloads + name)
	if err != nil {
		d.errorf("%v", err)
		return
	}
	file := regexp.MustCompile(`^(//.*\n)+`).ReplaceAllString(string(text), "")
	if file != body {
		d.errorf("%s is\n%s", name, file)
	}
	d.counts["shown"]++
}

func (d *checker) differ(got, want string) {
	d.t.Helper()
	if !*update {
		d.errorf("the document says\n%s\nthe code says\n%s", got, want)
	}
}

// whole is a routes file. A block that begins with anything but routes: is the inside of
// a route.
func whole(body string) string {
	if strings.HasPrefix(body, "routes:") || strings.HasPrefix(body, "#") {
		return body
	}
	return "routes:\n  example:\n    " + strings.ReplaceAll(strings.TrimRight(body, "\n"), "\n", "\n    ") + "\n"
}

// transcript runs records:
//
//	message: the parts of the message beside its payload, where they are not the usual ones
//	record:  the payload; or, as bytes: the payload in base64
//	becomes: what a dry run prints, less route and record; white space is free
//	refused: code, detail and pointer
//
// Each takes as many lines as it wants, the later ones indented.
func (d *checker) transcript(body string) string {
	if d.routes == nil {
		d.errorf("records without routes")
		return body
	}
	var out strings.Builder
	rec, has := usual(), false
	for _, e := range regexp.MustCompile(`(?m)^(\w+): *((?:.*\n)(?:[ \t]+.*\n)*)`).FindAllStringSubmatch(body, -1) {
		key, text := e[1], strings.TrimSpace(e[2])
		switch key {
		case "message":
			d.message(rec, text)
		case "record":
			// A record is JSON, as a line of a sample is.
			rec.Data, rec.Encoding, has = []byte(text), schema.JSONEncoding, true
		case "bytes":
			var err error
			if rec.Data, err = base64.StdEncoding.DecodeString(text); err != nil {
				d.errorf("bytes: %v", err)
			}
			has = true
		case "becomes", "refused":
			if !has {
				d.errorf("a result without a record")
			}
			wantKey, want := d.result(rec)
			if wantKey != key || compact(text) != compact(want) {
				d.differ(key+": "+text, wantKey+": "+want)
				e[0] = fmt.Sprintf("%-9s", wantKey+":") + strings.ReplaceAll(want, "\n", "\n  ") + "\n"
			}
			d.counts["result"]++
			out.WriteString(e[0])
			rec, has = usual(), false
			out.WriteString("\n")
			continue
		default:
			d.errorf("what is %q?", key)
		}
		out.WriteString(e[0])
	}
	if has {
		d.errorf("a record without a result")
	}
	text := strings.TrimRight(out.String(), "\n") + "\n"
	if strings.Join(strings.Fields(text), "") != strings.Join(strings.Fields(body), "") && !*update && !d.t.Failed() {
		d.errorf("lines of this block were not read")
	}
	return text
}

// usual is the message that the document says its examples have.
func usual() *schema.Record {
	return &schema.Record{ID: "42", Published: time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)}
}

func (d *checker) message(rec *schema.Record, text string) {
	var m struct {
		ID          *string           `json:"id"`
		PublishTime *string           `json:"publishTime"`
		OrderingKey string            `json:"orderingKey"`
		Attributes  map[string]string `json:"attributes"`
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		d.errorf("message: %v", err)
	}
	rec.Attributes, rec.OrderingKey = m.Attributes, m.OrderingKey
	if m.ID != nil {
		rec.ID = *m.ID
	}
	if m.PublishTime != nil {
		at, err := time.Parse(time.RFC3339Nano, *m.PublishTime)
		if err != nil {
			d.errorf("message: %v", err)
		}
		rec.Published = at
	}
}

// result is what the document has to say of a record.
func (d *checker) result(rec *schema.Record) (key, text string) {
	route := d.routes.List[0]
	m, err := route.Mapping.Apply(rec)
	if err != nil {
		return "refused", refusal(err)
	}
	shown, err := route.Explain(rec, m)
	if err != nil {
		d.errorf("%v", err)
		return "becomes", ""
	}
	// The members behind record, spelled as they are.
	record := jsontext.Value(shown[slices.Index(shown, ',')+1:])
	dec := jsontext.NewDecoder(strings.NewReader("{" + string(record)))
	for range 2 { // {, "record"
		if _, err := dec.ReadToken(); err != nil {
			d.errorf("%v", err)
		}
	}
	if err := dec.SkipValue(); err != nil {
		d.errorf("%v", err)
	}
	rest := "{" + strings.TrimPrefix(("{" + string(record))[dec.InputOffset():], ",")
	if len(rest) > 100 {
		rest = strings.ReplaceAll(rest, `"mutations":[`, "\"mutations\":[\n")
		for _, op := range []string{"setCell", "deleteFromRow", "deleteFromFamily", "deleteFromColumn", "insertOrUpdate", "insert", "delete"} {
			rest = strings.ReplaceAll(rest, `},{"`+op+`"`, "},\n{\""+op+`"`)
		}
	}
	return "becomes", rest
}

func refusal(err error) string {
	var e *schema.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	w, _ := jsontext.AppendQuote(nil, e.Detail)
	text := fmt.Sprintf(`{"code":%q,"detail":%s`, e.Code, w)
	if e.Pointer != "" {
		w, _ = jsontext.AppendQuote(nil, e.Pointer)
		text += `,"pointer":` + string(w)
	}
	return text + "}"
}

// compact is a JSON text without the white space between its tokens.
func compact(text string) string {
	v := jsontext.Value(text)
	if err := v.Compact(jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true)); err != nil {
		return text
	}
	return string(v)
}

// tables, by their heading:
//
//	| expression | gives |     of the last ```json block's record, as JSON, or the error
//	| template | gives |       likewise, as text
//	| `as` | value | bytes |   the bytes of a cell in hexadecimal
func (d *checker) table(rows []string) []string {
	if len(rows) < 3 {
		d.errorf("a table without rows")
		return rows
	}
	head := cellsOf(rows[0])
	var f func(cells []string) string
	switch {
	case slices.Equal(head, []string{"expression", "gives"}):
		f = d.expression
	case slices.Equal(head, []string{"template", "gives"}):
		f = d.template
	case slices.Equal(head, []string{"as", "value", "bytes"}):
		f = d.encoding
	default:
		return rows
	}
	out := slices.Clone(rows)
	for i, row := range rows[2:] {
		d.line++
		cells := cellsOf(row)
		if len(cells) != len(head) {
			d.errorf("%d cells", len(cells))
			continue
		}
		want := f(cells)
		if got := cells[len(cells)-1]; got != want {
			d.differ(got, want)
			cells[len(cells)-1] = want
			for i := range cells {
				cells[i] = quoted(cells[i])
			}
			out[i+2] = "| " + strings.Join(cells, " | ") + " |\n"
		}
	}
	return out
}

func cellsOf(row string) (cells []string) {
	row = strings.ReplaceAll(strings.TrimSpace(row), `\|`, "\x00")
	for cell := range strings.SplitSeq(strings.Trim(row, "|"), "|") {
		cell = strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|")
		for _, quote := range []string{"`` ", " ``", "`"} {
			cell = strings.TrimSuffix(strings.TrimPrefix(cell, quote), quote)
		}
		cells = append(cells, cell)
	}
	return cells
}

// quoted is the way back.
func quoted(cell string) string {
	cell = strings.ReplaceAll(cell, "|", `\|`)
	if strings.Contains(cell, "`") {
		return "`` " + cell + " ``"
	}
	return "`" + cell + "`"
}

// apply runs one cell of the table's record.
func (d *checker) apply(column, value, as string) (*schema.Op, string) {
	q := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	file := fmt.Sprintf("routes: {t: {bigtable: {table: t, rowKey: k, set: [{family: m, column: %s, value: %s, as: %s}]}}}", q(column), q(value), as)
	routes, err := schema.Compile("f", []byte(file))
	if err != nil {
		message, _, _ := strings.Cut(err.Error(), "\n")
		_, message, _ = strings.Cut(message, ": ")
		_, message, _ = strings.Cut(message, ": ")
		return nil, message
	}
	rec := usual()
	rec.Data = []byte(d.record)
	m, err := routes.Default.Mapping.Apply(rec)
	var e *schema.Error
	switch {
	case errors.As(err, &e):
		_, detail, _ := strings.Cut(e.Detail, ": ")
		return nil, string(e.Code) + ": " + detail
	case err != nil:
		return nil, err.Error()
	case m.Bigtable == nil:
		return nil, "nothing"
	default:
		return &m.Bigtable.Ops[0], ""
	}
}

func (d *checker) expression(cells []string) string {
	d.counts["expression"]++
	op, problem := d.apply("v", cells[0], "json")
	if op == nil {
		return problem
	}
	return string(op.Value)
}

func (d *checker) template(cells []string) string {
	d.counts["template"]++
	op, problem := d.apply(cells[0], "1", "json")
	if op == nil {
		return problem
	}
	return op.Column
}

func (d *checker) encoding(cells []string) string {
	d.counts["encoding"]++
	op, problem := d.apply("v", cells[1], cells[0])
	if op == nil {
		return problem
	}
	return hex.EncodeToString(op.Value)
}

// The document speaks of every key of a routes file, every word that a key may have, every
// function, and every code that a mapping gives.
func TestMappingDocumentIsComplete(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("../schema/routes.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var routes any
	if err := json.Unmarshal(file, &routes); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	collect(routes, names)
	if len(names) < 50 {
		t.Fatalf("only %d names in the JSON Schema", len(names))
	}
	for _, f := range []string{"reverseMillis", "date", "hash", "pad", "uuid", "json", "commitTimestamp"} {
		names[f+"("] = true
	}
	for _, code := range []schema.Code{schema.BadJSON, schema.KeyPartMissing, schema.TypeMismatch, schema.MissingField, schema.TooLarge,
		schema.TooDeep, schema.TimestampOutOfRange, schema.ExpressionTooCostly, schema.NoSuchTable, schema.NoSuchFamily, schema.DedupIDMissing} {
		names["`"+string(code)+"`"] = true
	}
	for name := range names {
		if !regexp.MustCompile(`(^|[^A-Za-z])` + regexp.QuoteMeta(name)).Match(text) {
			t.Errorf("%s does not speak of %s", document, name)
		}
	}
}

// collect gathers the properties and the allowed words of a JSON Schema.
func collect(v any, names map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			collect(e, names)
		}
	case map[string]any:
		if p, ok := v["properties"].(map[string]any); ok {
			for name := range p {
				names[name] = true
			}
		}
		if words, ok := v["enum"].([]any); ok {
			for _, w := range words {
				if s, ok := w.(string); ok {
					names[s] = true
				}
			}
		}
		for _, e := range v {
			collect(e, names)
		}
	}
}
