package bigtable_test

import (
	"context"
	"fmt"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
	"github.com/pushsink/pushsink/sink/bigtable/embedded"
)

// A record becomes an entry, the writer makes its table and writes it, and it is read back.
func Example() {
	server, err := embedded.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	route := &schema.Route{Name: "telemetry", Bigtable: &schema.BigtableTarget{
		Table: "events", Create: true, Families: map[string]*schema.GCRule{"m": {MaxVersions: 1}}, Used: []string{"m"},
	}}
	config := bigtable.DefaultConfig()
	config.Project, config.Instance = "dev", "memory"
	config.Endpoint, config.DialOptions = embedded.Endpoint, server.DialOptions()
	backend, err := bigtable.New(config, []*schema.Route{route})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backend.Close()
	encoder, err := backend.Route(route, &sink.Route{Name: route.Name})
	if err != nil {
		fmt.Println(err)
		return
	}
	writer, err := sink.New(backend, bigtable.DefaultOptions())
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	entry, err := encoder.Encode(&schema.Record{ID: "1"}, &schema.Mutation{Bigtable: &schema.RowMutation{
		Key: "device-7", Ops: []schema.Op{{Kind: schema.SetCell, Family: "m", Column: "temp", Micros: 1_700_000_000_000_000, Value: []byte("21")}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(writer.Write(ctx, []sink.Entry{entry})[0].Kind)

	err = backend.ReadRows(ctx, bigtable.Query{Dest: entry.Dest, Prefix: "device-"}, func(r bigtable.Row) error {
		for _, c := range r.Cells {
			fmt.Printf("%s %s:%s=%s\n", r.Key, c.Family, c.Column, c.Value)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	if err := writer.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// applied
	// device-7 m:temp=21
}
