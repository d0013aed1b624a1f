package schema

import (
	"fmt"
	"strings"
	"testing"
)

// benchRecord is about 500 bytes.
const benchRecord = `{"device":"sensor-0042","site":"eu-west-1","kind":"reading","seq":9007199254740993,"temp":21.375,` +
	`"humidity":0.4825,"ok":true,"note":"after the filter was changed","tags":{"floor":"3","room":"b-17","owner":"facilities"},` +
	`"gps":{"lat":52.520008,"lon":13.404954,"alt":34.5},"history":[20.5,20.75,21.0,21.125,21.25],"firmware":{"version":"4.2.1","build":20260102},` +
	`"meta":{"source":"gateway-7","received":"2026-01-02T03:04:05.678Z","attempt":1,"signal":-71,"battery":88}}`

// The same row three ways: by plain paths, by templates of paths, by an expression in
// every cell.
var benchRoutes = map[string]string{
	"plain": `bigtable:
  table: t
  rowKey: "{data.device}"
  set:
    - {family: m, column: temp, value: data.temp, as: float64}
    - {family: m, column: seq, value: data.seq, as: int64}
    - {family: m, column: note, value: data.note, as: string}
    - {family: m, column: floor, value: data.tags.floor, as: string}
    - {family: m, column: lat, value: data.gps.lat, as: float64}`,
	"template": `bigtable:
  table: "t-{data.kind}"
  rowKey: "{data.site}#{data.device}#{data.seq}"
  set:
    - {family: m, column: "t-{data.kind}", value: data.temp, as: float64}
    - {family: m, column: "s-{data.kind}", value: data.seq, as: int64}
    - {family: m, column: "n-{data.kind}", value: data.note, as: string}
    - {family: m, column: "f-{data.kind}", value: data.tags.floor, as: string}
    - {family: m, column: "l-{data.kind}", value: data.gps.lat, as: float64}`,
	"cel": `bigtable:
  table: t
  rowKey: "{data.device + ''}"
  set:
    - {family: m, column: temp, value: data.temp * 1.0, as: float64}
    - {family: m, column: seq, value: data.seq + 0, as: int64}
    - {family: m, column: note, value: data.note + "", as: string}
    - {family: m, column: floor, value: data.tags.floor + "", as: string}
    - {family: m, column: lat, value: data.gps.lat * 1.0, as: float64}`,
	"functions": `where: data.kind != "heartbeat"
bigtable:
  table: "t-{date(message.publishTime)}"
  rowKey: "{pad(hash(data.device, 16), 2)}#{data.device}#{reverseMillis(timestamp(data.meta.received))}"
  timestamp: timestamp(data.meta.received)
  set:
    - {family: m, column: temp, value: data.temp, as: float64}
    - {family: m, column: hot, value: data.temp > 30.0, as: bool}
    - {family: m, each: data.tags, column: "{key}", value: value, as: string}`,
	"all": `bigtable: {table: t, rowKey: "{data.device}", all: {family: m}}`,
	"comprehension": `bigtable:
  table: t
  rowKey: "{data.device}"
  set:
    - {family: m, column: warm, value: "data.history.filter(h, h > 21.0).size()", as: int64}`,
	"spanner": `spanner:
  table: T
  columns: {Device: data.device, Seq: data.seq, Temp: data.temp, Note: data.note, Gps: data.gps, Floor: data.tags.floor}`,
}

func BenchmarkApply(b *testing.B) {
	for _, name := range []string{"plain", "template", "cel", "functions", "all", "comprehension", "spanner"} {
		b.Run(name, func(b *testing.B) {
			benchmarkApply(b, compileOne(b, benchRoutes[name]).Mapping, jsonRecord(benchRecord))
		})
	}
}

// readingRecord and readingRoutes are what bench/ sends: 500 bytes, five cells or eight
// columns.
const readingRecord = `{"device":"sensor-0042","seq":100000000000,"ts":"2026-11-30T08:00:00.123Z","temp":21.375,"humidity":0.4825,` +
	`"pressure":1013.25,"state":"running","note":"after the filter was changed","site":{"name":"eu-west-1","floor":3,"room":"b-17"},` +
	`"firmware":{"version":"4.2.1","build":20260102},"history":[20.5,20.75,21.0,21.125,21.25],"ok":true,` +
	`"source":"gateway-7","signal":-71,"battery":88,"owner":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` +
	`xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`

var readingRoutes = map[string]string{
	"bigtable": `bigtable:
  table: readings
  rowKey: "{data.device}#{data.seq}"
  timestamp: timestamp(data.ts)
  set:
    - {family: m, column: temp, value: data.temp, as: float64}
    - {family: m, column: humidity, value: data.humidity, as: float64}
    - {family: m, column: pressure, value: data.pressure, as: float64}
    - {family: m, column: state, value: data.state, as: string}
    - {family: m, column: note, value: data.note, as: string}`,
	"spanner": `spanner:
  database: projects/bench/instances/bench/databases/bench
  table: Readings
  columns: {Device: data.device, Seq: data.seq, Ts: data.ts, Temp: data.temp, Humidity: data.humidity, Pressure: data.pressure, State: data.state, Note: data.note}`,
}

func BenchmarkReading(b *testing.B) {
	for _, sink := range []string{"bigtable", "spanner"} {
		b.Run(sink, func(b *testing.B) {
			benchmarkApply(b, compileOne(b, readingRoutes[sink]).Mapping, jsonRecord(readingRecord))
		})
	}
}

// BenchmarkEarthquake maps the first of the real records: 16 cells, four of them by
// expressions.
func BenchmarkEarthquake(b *testing.B) {
	routes, err := CompileWith("earthquakes.yaml", []byte(schemaFile(b, "earthquakes.yaml")), schemaFiles)
	if err != nil {
		b.Fatal(err)
	}
	benchmarkApply(b, routes.List[0].Mapping, &Record{Data: quakes(b)[0]})
}

func benchmarkApply(b *testing.B, m *Mapping, rec *Record) {
	b.Helper()
	b.SetBytes(int64(len(rec.Data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Apply(rec); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	s := newState(jsonRecord(benchRecord))
	b.SetBytes(int64(len(benchRecord)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.tree.decode(s.rec.Data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	var file strings.Builder
	file.WriteString("routes:\n")
	for i := range 10 {
		fmt.Fprintf(&file, "  r%d:\n    %s\n", i, strings.ReplaceAll(benchRoutes["functions"], "\n", "\n    "))
	}
	for b.Loop() {
		if _, err := Compile("f", []byte(file.String())); err != nil {
			b.Fatal(err)
		}
	}
}

// A plain mapping of five cells stays cheap.
func TestAllocationsOfPlainMapping(t *testing.T) {
	r := compileOne(t, benchRoutes["plain"])
	rec := jsonRecord(benchRecord)
	got := testing.AllocsPerRun(200, func() {
		if _, err := r.Mapping.Apply(rec); err != nil {
			t.Fatal(err)
		}
	})
	if got > 15 {
		t.Errorf("%v allocations, at most 15 are wanted", got)
	}
}

// Paths and templates of paths never reach the evaluator.
func TestPathsAreNoPrograms(t *testing.T) {
	for _, name := range []string{"plain", "template"} {
		m := compileOne(t, benchRoutes[name]).Mapping.bigtable
		templates := []*template{m.table, m.rowKey}
		for _, c := range m.set {
			templates = append(templates, c.column)
			if _, ok := c.value.(*path); !ok {
				t.Errorf("%s: %s is a %T", name, c.place, c.value)
			}
		}
		for _, tmpl := range templates {
			for _, p := range tmpl.parts {
				if _, ok := p.expr.(*path); p.expr != nil && !ok {
					t.Errorf("%s: %s is a %T", name, tmpl.text, p.expr)
				}
			}
		}
	}
}
