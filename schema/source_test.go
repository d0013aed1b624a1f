package schema

import (
	"strings"
	"testing"
)

// A route's source is its entry as the file has it, comments and all.
func TestSourceIsTheFilesText(t *testing.T) {
	const a = `a:
  # what comes in
  bigtable:
    table: t

    rowKey: "{data.id}"   # the device
    set:
    - {family: m, column: c, value: data.c, as: string}
`
	const b = `b:
  spanner: {database: projects/p/instances/i/databases/d, table: T, columns: {Id: data.id}}
`
	text := "# head\nroutes:\n" + indented("    ", a) + "\n    # the second\n" + indented("    ", b)
	for name, text := range map[string]string{"LF": text, "CRLF": strings.ReplaceAll(text, "\n", "\r\n"), "byte order mark": "\ufeff" + text[len("# head\n"):]} {
		routes, err := Compile("routes.yaml", []byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		for i, want := range []string{a, b} {
			if got := routes.List[i].Source; got != want {
				t.Errorf("%s: the source of route %d is\n%s\nwant\n%s", name, i, got, want)
			}
		}
	}
	// All on one line: the line it stands on.
	const line = `routes: {a: {bigtable: {table: t, rowKey: "{data.id}", set: [{family: m, column: c, value: data.c, as: string}]}}}`
	routes, err := Compile("routes.yaml", []byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if got := routes.List[0].Source; got != line+"\n" {
		t.Errorf("source %q, want the line", got)
	}
}

func indented(by, text string) (out string) {
	for line := range strings.Lines(text) {
		if line != "\n" {
			line = by + line
		}
		out += line
	}
	return out
}
