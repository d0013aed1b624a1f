package schema

import (
	"fmt"
	"testing"
	"time"
)

func TestSmoke(t *testing.T) {
	routes, err := Compile("routes.yaml", []byte(`
routes:
  telemetry:
    where: data.kind != "heartbeat"
    bigtable:
      table: "telemetry-{date(message.publishTime)}"
      rowKey: "{data.device}#{reverseMillis(timestamp(data.ts))}"
      timestamp: timestamp(data.ts)
      create: ifNeeded
      families:
        m: {gc: {union: [{maxVersions: 1}, {maxAge: 168h}]}}
        tags: {gc: {maxVersions: 1}}
      set:
        - {family: m, column: temp, value: data.temp, as: float64}
        - {family: m, column: sum, value: data.temp + data.n, as: float64, "null": empty}
        - {family: m, column: c, value: "has(data.zz) ? data.zz : data.big", as: json}
        - {family: tags, each: data.tags, column: "{key}", value: value, as: string}
`))
	if err != nil {
		t.Fatal(err)
	}
	r := routes.List[0]
	rec := &Record{Data: []byte(`{"kind":"x","device":"d1","ts":"2026-01-02T03:04:05.678Z","temp":1.5,"n":2.25,"big":12345678901234567890123,"tags":{"a":"b","c\n":"d"}}`), Published: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	m, err := r.Mapping.Apply(rec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Explain(rec, m)
	fmt.Println(string(b), err)
	_, err = Compile("routes.yaml", []byte("routes:\n  a b:\n    wher: x\n    where: dta.x == 1 && fooo(data.x)\n    bigtable:\n      table: t\n      rowKey: \"x{message.ide}\"\n      set:\n      - {family: m, column: a, value: '1 + \"a\"', as: int65}\n      - {family: m, column: a, value: '1 + \"a\"', as: int64}\n"))
	fmt.Println(err)
}
