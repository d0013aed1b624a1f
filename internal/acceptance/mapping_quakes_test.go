package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
)

// catalogRoutes uses numbers, nulls, arrays, nested paths and event time of one real feed.
const catalogRoutes = `
routes:
  catalog:
    where: data.properties.type == "earthquake"
    bigtable:
      table: catalog
      rowKey: "{data.properties.net}#{reverseMillis(data.properties.time)}"
      timestamp: data.properties.time
      create: ifNeeded
      families:
        q: {gc: {maxVersions: 1}}
        maybe: {gc: {maxVersions: 1}}
        at: {gc: {maxVersions: 1}}
        xyz: {gc: {maxVersions: 1}}
        kinds: {gc: {maxVersions: 1}}
        top: {gc: {maxVersions: 1}}
      all: {family: top}
      set:
        - {family: q, column: mag, value: data.properties.mag, as: float64}
        - {family: q, column: magText, value: data.properties.mag, as: text}
        - {family: q, column: place, value: data.properties.place, as: string}
        - {family: q, column: sig, value: data.properties.sig, as: int32}
        - {family: q, column: updated, value: data.properties.updated, as: int64}
        - {family: q, column: tsunami, value: data.properties.tsunami == 1, as: bool}
        - {family: maybe, column: felt, value: data.properties.felt, as: int64}
        - {family: maybe, column: alert, value: data.properties.alert, as: string, null: empty}
        - {family: maybe, column: nst, value: data.properties.nst, as: int64, null: delete}
        - {family: maybe, column: gap, value: data.properties.?gap.orValue(-1), as: text}
        - {family: at, column: coordinates, value: data.geometry.coordinates, as: json}
        - {family: at, column: depth, value: "data.geometry.coordinates[2]", as: float64}
        - {family: xyz, each: data.geometry.coordinates, column: "{index}", value: value, as: text}
        - {family: kinds, each: "data.properties.types.split(',').filter(t, t != '')", column: "{value}", value: "true", as: bool}
`

// shownCell is a cell of a /rows line.
type shownCell struct {
	Family, Column string
	Timestamp      time.Time
	Value          json.RawMessage
}

// TestEarthquakesLandAsTheRoutesFileSays: the feed goes in as one stream of lines and is
// read back by /rows with decoded values. What each row should hold is worked out here,
// with encoding/json and math/big, from the input alone.
func TestEarthquakesLandAsTheRoutesFileSays(t *testing.T) {
	input, err := os.ReadFile("testdata/earthquakes.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	bt := emulator.Bigtable(t)
	s := startServer(t, serverBinary(t), bt, catalogRoutes, map[string]string{"PUSHSINK_EXPOSE": "rows"})
	client := newClient(t)

	want, skipped := map[string]map[string]string{}, 0
	times := map[string]int64{}
	var lines [][]byte
	for line := range bytes.Lines(input) {
		lines = append(lines, line)
		key, ms, row := wantCatalog(t, line)
		if row == nil {
			skipped++
			continue
		}
		want[key], times[key] = row, ms
	}
	a := postRecords(t.Context(), client, s.URL, "catalog", bytes.NewReader(input))
	b := a.batch(t)
	if b.Received != 1707 || b.Written+b.Failed != len(want) || b.Skipped != skipped {
		t.Fatalf("%v, want %d written and %d skipped", a, len(want), skipped)
	}
	resend(t, client, s.URL, "catalog", b, func(i int) []byte { return lines[i] })

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/routes/catalog/rows?decode=1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	shown := do(client, request, time.Now())
	if shown.Status != http.StatusOK {
		t.Fatal(shown)
	}
	rows, cells, last := 0, 0, ""
	for line := range strings.Lines(shown.Body) {
		var r struct {
			Key   string
			Cells []shownCell
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%.200s: %v", line, err)
		}
		if r.Key <= last {
			t.Errorf("%q comes after %q", r.Key, last)
		}
		last = r.Key
		rows++
		row := want[r.Key]
		if row == nil {
			t.Fatalf("unexpected row %q", r.Key)
		}
		if len(r.Cells) != len(row) {
			t.Errorf("row %q has %d cells, want %d", r.Key, len(r.Cells), len(row))
		}
		for _, c := range r.Cells {
			cells++
			name := c.Family + ":" + c.Column
			value, known := row[name]
			if !known || !same(string(c.Value), value) {
				t.Errorf("row %q, %s = %s, want %s", r.Key, name, c.Value, value)
			}
			if c.Timestamp.UnixMilli() != times[r.Key] {
				t.Errorf("row %q, %s is of %v, want %d ms", r.Key, name, c.Timestamp, times[r.Key])
			}
		}
	}
	if rows != len(want) {
		t.Errorf("%d rows, want %d", rows, len(want))
	}
	t.Logf("%d rows with %d cells agree with the input, %d events skipped", rows, cells, skipped)
}

// wantCatalog is the row of an event as JSON values; nil for one that is no earthquake.
func wantCatalog(t *testing.T, line []byte) (key string, ms int64, row map[string]string) {
	t.Helper()
	var top map[string]json.RawMessage
	var e struct {
		Properties map[string]json.RawMessage
		Geometry   struct{ Coordinates json.RawMessage }
	}
	var coordinates []json.RawMessage
	for _, into := range []any{&top, &e} {
		if err := json.Unmarshal(line, into); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(e.Geometry.Coordinates, &coordinates); err != nil {
		t.Fatal(err)
	}
	p := e.Properties
	text := func(name string) (s string) {
		if err := json.Unmarshal(p[name], &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if text("type") != "earthquake" {
		return "", 0, nil
	}
	ms, err := strconv.ParseInt(string(p["time"]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	is := func(name string) bool { return string(p[name]) != "null" }
	row = map[string]string{
		"q:mag": string(p["mag"]), "q:magText": string(p["mag"]), "q:place": string(p["place"]), "q:sig": string(p["sig"]),
		"q:updated": string(p["updated"]), "q:tsunami": strconv.FormatBool(string(p["tsunami"]) == "1"),
		"maybe:alert": `""`, "maybe:gap": "-1",
		"at:coordinates": string(e.Geometry.Coordinates), "at:depth": string(coordinates[2]),
	}
	for _, name := range []string{"felt", "nst", "alert", "gap"} {
		if is(name) {
			row["maybe:"+name] = string(p[name])
		}
	}
	for i, c := range coordinates {
		row[fmt.Sprintf("xyz:%d", i)] = string(c)
	}
	for kind := range strings.SplitSeq(text("types"), ",") {
		if kind != "" {
			row["kinds:"+kind] = "true"
		}
	}
	for name, value := range top {
		shown := string(value)
		if shown[0] != '"' { // stored as JSON, shown as the text that it is
			quoted, err := json.Marshal(shown)
			if err != nil {
				t.Fatal(err)
			}
			shown = string(quoted)
		}
		row["top:"+name] = shown
	}
	return fmt.Sprintf("%s#%019d", text("net"), math.MaxInt64-ms), ms, row
}

// same compares two JSON values: numbers by value, and what is shown of them has no
// exponent; texts by their characters; everything else by its text.
func same(got, want string) bool {
	if strings.HasPrefix(want, `"`) {
		var a, b string
		return json.Unmarshal([]byte(got), &a) == nil && json.Unmarshal([]byte(want), &b) == nil && a == b
	}
	a, isNumber := new(big.Rat).SetString(got)
	b, wantNumber := new(big.Rat).SetString(want)
	if isNumber && wantNumber {
		return a.Cmp(b) == 0 && !strings.ContainsAny(got, "eE")
	}
	return got == want
}
