package schema_test

import (
	"fmt"
	"time"

	"github.com/pushsink/pushsink/schema"
)

func Example() {
	routes, err := schema.Compile("routes.yaml", []byte(`
routes:
  telemetry:
    where: data.kind != "heartbeat"
    bigtable:
      table: "telemetry-{date(message.publishTime)}"
      rowKey: "{data.device}#{reverseMillis(message.publishTime)}"
      set:
        - {family: m, column: temp, value: data.temp, as: float64}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	record := &schema.Record{
		Data:      []byte(`{"kind":"reading","device":"d1","temp":21.5}`),
		Published: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	mutation, err := routes.Default.Mapping.Apply(record)
	if err != nil {
		fmt.Println(err)
		return
	}
	row := mutation.Bigtable
	fmt.Println(row.Table, row.Key)
	for _, op := range row.Ops {
		shown, err := schema.DecodeCell(op.As, op.Value)
		fmt.Println(op.Family, op.Column, shown, err)
	}
	// Output:
	// telemetry-20260102 d1#9223370269531730807
	// m temp 21.5 <nil>
}

func ExampleCompile_problems() {
	_, err := schema.Compile("routes.yaml", []byte(`
routes:
  telemetry:
    bigtable:
      table: telemetry
      rowKey: "{data.device}#{reverseMilis(message.publishTime)}"
      set:
        - {family: m, column: temp, value: message.id, as: float64}
`))
	fmt.Println(err)
	// Output:
	// routes.yaml:6:43: routes.telemetry.bigtable.rowKey: unknown function "reverseMilis", did you mean "reverseMillis"? (in `reverseMilis(message.publishTime)`)
	//     6 |       rowKey: "{data.device}#{reverseMilis(message.publishTime)}"
	//       |                                           ^
	// routes.yaml:8:44: routes.telemetry.bigtable.set[0].value: gives string, wanted is a number (in `message.id`)
	//     8 |         - {family: m, column: temp, value: message.id, as: float64}
	//       |                                            ^
}
