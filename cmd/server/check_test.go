package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func checked(t testing.TB, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := run(t.Context(), nil, append([]string{"check"}, args...), &out)
	return out.String(), err
}

func TestCheckCompiles(t *testing.T) {
	file := write(t, "routes.yaml", telemetryRoutes)
	if out, err := checked(t, "-routes", file); err != nil || out != file+": 1 route\n" {
		t.Errorf("got %q, error %v", out, err)
	}
	// What dev mode runs is a good routes file too.
	if out, err := checked(t, "-routes", "demo.yaml"); err != nil || out != "demo.yaml: 1 route\n" {
		t.Errorf("demo.yaml: got %q, error %v", out, err)
	}
}

func TestCheckShowsTheCompilersMessage(t *testing.T) {
	file := write(t, "routes.yaml", strings.Replace(telemetryRoutes, "rowKey:", "rowKy:", 1))
	_, err := checked(t, "-routes", file)
	if err == nil || !strings.Contains(err.Error(), file+":6:") || !strings.Contains(err.Error(), "rowKey") {
		t.Errorf("error %v, want the file, the line and the key that was meant", err)
	}
}

// What only the adapter knows is found as well: the name of a table.
func TestCheckAsksTheAdapter(t *testing.T) {
	file := write(t, "routes.yaml", strings.Replace(telemetryRoutes, "table: readings", "table: -readings", 1))
	if _, err := checked(t, "-routes", file); err == nil || !strings.Contains(err.Error(), "table") {
		t.Errorf("error %v, want a refusal of the table's name", err)
	}
}

func TestCheckSample(t *testing.T) {
	routes := write(t, "routes.yaml", telemetryRoutes)
	envelope := strings.Replace(pushBody("b", 2), `"messageId":"b"`, `"messageId":"77"`, 1)
	sample := write(t, "sample.ndjson", `{"device":"a","temp":1.5}

`+envelope+`
{"device":"c","temp":"warm"}
{"temp":1}
`)
	out, err := checked(t, "-routes", routes, "-sample", sample)
	if err == nil || err.Error() != sample+": 2 of 4 records failed" {
		t.Errorf("error %v, want 2 of 4 failed", err)
	}
	type line struct {
		Route  string
		Record struct {
			ID          string
			PublishTime string
		}
		Bigtable struct {
			Table, Key string
			Mutations  []struct {
				SetCell struct {
					Family, Column, As string
					Value              any
				}
			}
		}
		Line  int
		Error struct{ Code, Pointer, Detail string }
	}
	var got []line
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got = append(got, l)
	}
	if len(got) != 4 {
		t.Fatalf("%d lines, want one for each record:\n%s", len(got), out)
	}
	for i, key := range []string{"a", "b"} {
		l := got[i]
		if l.Route != "telemetry" || l.Bigtable.Table != "readings" || l.Bigtable.Key != key || len(l.Bigtable.Mutations) != 1 {
			t.Errorf("line %d: %+v", i, l)
			continue
		}
		if m := l.Bigtable.Mutations[0].SetCell; m.As != "float64" || m.Family != "m" || m.Column != "temp" || m.Value != 1.5+float64(i)/2 {
			t.Errorf("line %d: mutation %+v", i, m)
		}
	}
	if got[1].Record.ID != "77" || got[1].Record.PublishTime != "2026-11-30T08:00:00Z" {
		t.Errorf("the envelope's record: %+v", got[1].Record)
	}
	if e := got[2]; e.Line != 4 || e.Error.Code != "type_mismatch" || e.Error.Pointer != "/temp" {
		t.Errorf("the record with a text for a number: %+v", e)
	}
	if e := got[3]; e.Line != 5 || e.Error.Code != "key_part_missing" {
		t.Errorf("the record without a key: %+v", e)
	}

	sample = write(t, "good.ndjson", `{"device":"a","temp":1.5}`) // no newline at its end
	if out, err := checked(t, "-routes", routes, "-sample", sample); err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("a good sample: %q, error %v", out, err)
	}
}

func TestCheckNeedsTheSamplesRoute(t *testing.T) {
	two := write(t, "routes.yaml", telemetryRoutes+strings.Replace(strings.TrimPrefix(telemetryRoutes, "\nroutes:\n"), "telemetry:", "other:", 1))
	sample := write(t, "sample.ndjson", `{"device":"a","temp":1.5}`)
	if _, err := checked(t, "-routes", two, "-sample", sample); err == nil || !strings.Contains(err.Error(), "-route: telemetry, other") {
		t.Errorf("error %v, want one that names the routes", err)
	}
	if out, err := checked(t, "-routes", two, "-sample", sample, "-route", "other"); err != nil || !strings.Contains(out, `"route":"other"`) {
		t.Errorf("got %q, error %v", out, err)
	}
	if _, err := checked(t, "-routes", two, "-sample", sample, "-route", "third"); err == nil || !strings.Contains(err.Error(), "-route third: no such route") || !strings.Contains(err.Error(), "telemetry, other") {
		t.Errorf("an unknown route: error %v, want one that says so and names the routes", err)
	}
}

// A sample's line is one record, whatever JSON it is; a sample without any is an error.
func TestCheckSampleLines(t *testing.T) {
	routes := write(t, "routes.yaml", strings.NewReplacer("{data.device}", "{data[0]}", "data.temp", "'data[1]'").Replace(telemetryRoutes))
	out, err := checked(t, "-routes", routes, "-sample", write(t, "arrays.ndjson", `["a",1.5]`+"\n"+`["b",2.5]`))
	if err != nil || strings.Count(out, "setCell") != 2 || !strings.Contains(out, `"key":"b"`) {
		t.Errorf("arrays: %q, error %v; want a row for each line", out, err)
	}
	if _, err := checked(t, "-routes", routes, "-sample", write(t, "empty.ndjson", "\n \n")); err == nil || !strings.Contains(err.Error(), "there is no record in it") {
		t.Errorf("an empty sample: error %v, want one that says so", err)
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve"}, `unknown argument "serve": server without arguments serves`},
		{[]string{"-v"}, `unknown argument "-v"`},
		{[]string{"-v"}, "The commands are check, ddl, redrive, help; server -h lists it all"},
		{[]string{"-routes", "routes.yaml"}, `unknown argument "-routes": that is the environment variable PUSHSINK_ROUTES_FILE`},
		{[]string{"--routes-file=routes.yaml"}, `unknown argument "--routes-file": that is the environment variable PUSHSINK_ROUTES_FILE`},
		{[]string{"-config", "routes.yaml"}, "variable PUSHSINK_ROUTES_FILE"},
		{[]string{"routes.yaml"}, "the routes file is named by the environment variable PUSHSINK_ROUTES_FILE"},
		{[]string{"--port", "8081"}, "that is the environment variable PORT\n"},
		{[]string{"-addr=:8081"}, "that is the environment variable PORT\n"},
		{[]string{"--log-level=debug"}, "variable PUSHSINK_LOG_LEVEL"},
		{[]string{"--pushsink-auth=none"}, "variable PUSHSINK_AUTH\n"},
		{[]string{"-metrics-prot=9090"}, "variable PUSHSINK_METRICS_PORT"},
		{[]string{"--bigtable-emulator-host=localhost:1"}, "variable BIGTABLE_EMULATOR_HOST"},
		{[]string{"-zzzzzzzz"}, "unknown argument \"-zzzzzzzz\"\nserver alone serves; its options are environment variables"},
		{[]string{"--"}, "unknown argument \"--\"\n"},
		{[]string{""}, "unknown argument \"\"\n"},
		{[]string{"chek", "-routes", "a"}, "did you mean server check?"},
		{[]string{"check"}, "check needs -routes FILE"},
		{[]string{"check", "-routes", "a", "b"}, `unknown argument "b"`},
		{[]string{"check", "-routs", "a"}, "-routs; server check -h lists what there is"},
		{[]string{"ddl", "-routes", "a", "b"}, `unknown argument "b"; server ddl -h lists what there is`},
		{[]string{"redrive", "-topic", "t"}, "-topic; server redrive -h lists what there is"},
		{[]string{"check", "-routes", filepath.Join(t.TempDir(), "absent")}, "-routes: open "},
		{[]string{"ddl", "-routes", filepath.Join(t.TempDir(), "absent")}, "-routes: open "},
	} {
		var out strings.Builder
		if err := run(t.Context(), nil, c.args, &out); err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
			t.Errorf("%q: error %v and output %q, want an error with %q", c.args, err, out.String(), c.want)
		}
	}
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}} {
		var out strings.Builder
		if err := run(t.Context(), nil, args, &out); err != nil || !strings.HasPrefix(out.String(), "Usage: server") {
			t.Errorf("%q: error %v, output %.40q", args, err, out.String())
		}
	}
	var help strings.Builder
	if err := run(t.Context(), nil, []string{"check", "-h"}, &help); err != nil || help.String() != checkUsage {
		t.Errorf("check -h: error %v, output %q", err, help.String())
	}
	var out strings.Builder
	if err := run(t.Context(), nil, []string{"-version"}, &out); err != nil || !strings.Contains(out.String(), " go1.") {
		t.Errorf("-version: error %v, output %q", err, out.String())
	}
	// A bad environment does not keep from asking for help.
	if err := run(t.Context(), []string{"PUSHSINK_AUTH=x"}, []string{"-h"}, &out); err != nil {
		t.Errorf("-h with a bad environment: %v", err)
	}
}
