package spanner

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pushsink/pushsink/schema"
)

var update = flag.Bool("update", false, "write docs/types.md")

// docValues are the values that docs/types.md shows, as an expression over data.v.
var docValues = []struct{ kind, expr, json string }{
	{"bool", "", `true`},
	{"int", "", `12`},
	{"int", "", `1e3`},
	{"int", "", `9007199254740993`},
	{"uint", "", `18446744073709551615`},
	{"number", "", `12.50`},
	{"number", "", `0.1234567891`},
	{"number", "", `-0`},
	{"number", "", `1e400`},
	{"double", "double(data.v)", `0.5`},
	{"double", "double(data.v)", `0.1`},
	{"double", "double(data.v) / 0.0", `1`},
	{"string", "", `"text"`},
	{"string", "", `"12"`},
	{"string", "", `"12.50"`},
	{"string", "", `"NaN"`},
	{"string", "", `"true"`},
	{"string", "", `"2026-11-30"`},
	{"string", "", `"2026-11-30T08:00:00.5+01:00"`},
	{"string", "", `"2026-11-30t08:00:00z"`},
	{"string", "", `"AAEC_w"`},
	{"string", "", `"3F2504E0-4F89-11D3-9A0C-0305E82C3301"`},
	{"bytes", "bytes(data.v)", `"text"`},
	{"timestamp", "timestamp(data.v)", `"2026-11-30T08:00:00.123456789Z"`},
	{"object", "", `{"b": 1.0, "a": [null]}`},
	{"list", "", `[1, "a"]`},
	{"commitTimestamp()", "commitTimestamp()", ``},
	{"null", "", `null`},
}

// converted shows what becomes of a value in a column, or "" and the reason.
func converted(col *column, v schema.Value, coerce bool) (shown, why string) {
	converted, bad := col.convert(&v, coerce)
	if bad != nil {
		return "", bad.detail
	}
	w, err := asProto(converted)
	if err != nil {
		return "", err.Error()
	}
	text, err := protojson.Marshal(w)
	if err != nil {
		return "", err.Error()
	}
	return "`" + strings.ReplaceAll(string(text), "|", `\|`) + "`", ""
}

// TestTypesDocument: docs/types.md is what the conversion does.
func TestTypesDocument(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "types.md")
	want := typesDocument(t)
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/types.md differs from what the conversion does; run\n\tgo test ./sink/spanner -run TypesDocument -update")
	}
}

func typesDocument(t *testing.T) string {
	values := make([]schema.Value, len(docValues))
	for i, d := range docValues {
		expr, payload := d.expr, `{"v":`+d.json+`}`
		if expr == "" {
			expr = "data.v"
		}
		if d.json == "" {
			payload = "{}"
		}
		values[i] = newValueMaker(t, expr).value(t, payload)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# How values become Spanner columns

Generated from the conversion itself by `+"`go test ./sink/spanner -run TypesDocument -update`"+`; a test keeps it so.

The live type of the column decides, read from INFORMATION_SCHEMA when the server starts and again when it changed.
A value is stored exactly or the record is rejected (`+"`type_mismatch`, `too_large`, `timestamp_out_of_range`"+`), with the
column's pointer and without the value. FLOAT32 and FLOAT64 alone take the nearest number that they have.
`+"`coerce: true`"+` on a route permits what the columns named after it say. In an ARRAY each element is converted so, and
may be null. An absent value leaves the column out; null is NULL.

## Types

| GoogleSQL | PostgreSQL | takes | with coerce also | most |
|---|---|---|---|---|
`)
	google, pg := namesOf(GoogleSQL, googleTypes), namesOf(PostgreSQL, pgTypes)
	all := map[scalar]bool{}
	for s := range google {
		all[s] = true
	}
	for s := range pg {
		all[s] = true
	}
	scalars := slices.Sorted(maps.Keys(all))
	for _, s := range scalars {
		strict, loose := takes(docColumn(s), values)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", list(google[s]), list(pg[s]), strings.Join(strict, ", "), strings.Join(loose, ", "), docLimit(s))
	}
	b.WriteString("\nEvery other type (PROTO, ENUM, TOKENLIST, …) is refused by the start-up check, which names route, column and type, and so is\n" +
		"a generated column. `commitTimestamp()` needs `allow_commit_timestamp` (GoogleSQL) or the type `spanner.commit_timestamp` (PostgreSQL).\n")
	for _, s := range scalars {
		name := slices.Concat(google[s], pg[s])
		fmt.Fprintf(&b, "\n## %s\n\n| value | stored, as the request spells it | with coerce |\n|---|---|---|\n", strings.Join(name, ", "))
		col := docColumn(s)
		for i, d := range docValues {
			strict, why := converted(col, values[i], false)
			loose, whyLoose := converted(col, values[i], true)
			if strict == "" && loose == "" && strings.Contains(why, ", want ") {
				continue // its kind is not in the table above
			}
			switch {
			case strict != "" && loose == strict:
				loose = "same"
			case strict == "" && loose == "" && why == whyLoose:
				loose = "same"
			case loose == "":
				loose = "refused: " + whyLoose
			}
			if strict == "" {
				strict = "refused: " + why
			}
			shown := d.json
			if d.expr != "" {
				shown = strings.ReplaceAll(d.expr, "data.v", d.json)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", shown, strict, loose)
		}
	}
	return b.String()
}

// namesOf lists the spellings of each type of a dialect.
func namesOf(d Dialect, types map[string]scalar) map[scalar][]string {
	out := map[scalar][]string{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if parsed := parseType(d, name).scalar; parsed != types[name] {
			panic(name)
		}
		out[types[name]] = append(out[types[name]], name)
	}
	return out
}

func list(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return strings.Join(names, ", ")
}

func docColumn(s scalar) *column {
	return &column{typ: columnType{scalar: s}, commitTime: s == typeTimestamp}
}

// takes lists the kinds of values of which some are taken, and those that only coerce
// takes some of.
func takes(col *column, values []schema.Value) (strict, loose []string) {
	for i, d := range docValues {
		if d.kind == "null" {
			continue
		}
		if shown, _ := converted(col, values[i], false); shown != "" && !slices.Contains(strict, d.kind) {
			strict = append(strict, d.kind)
		}
	}
	for i, d := range docValues {
		if shown, _ := converted(col, values[i], true); shown != "" && d.kind != "null" && !slices.Contains(strict, d.kind) && !slices.Contains(loose, d.kind) {
			loose = append(loose, d.kind)
		}
	}
	return strict, loose
}

// docLimit says the bounds that are checked before anything is sent.
func docLimit(s scalar) string {
	switch s {
	case typeString:
		return fmt.Sprintf("N characters, MAX = %d, and %d bytes", maxStringChars, maxCellBytes)
	case typeBytes:
		return fmt.Sprintf("N bytes, MAX = %d", maxCellBytes)
	case typeJSON, typePGJSONB:
		return fmt.Sprintf("%d bytes", maxCellBytes)
	case typeNumeric:
		return fmt.Sprintf("%d digits before the point, %d behind it", numericWhole, numericScale)
	case typePGNumeric:
		return fmt.Sprintf("%d digits before the point, %d behind it", pgNumericWhole, pgNumericScale)
	case typeDate, typeTimestamp:
		return "years 1 to 9999"
	case typeInt64:
		return "-2^63 to 2^63-1"
	}
	return ""
}
