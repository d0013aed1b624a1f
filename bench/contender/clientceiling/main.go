// Command clientceiling is a ceiling: the official client's ApplyBulk in a loop, 100 rows a
// call and eight calls at a time, without HTTP and JSON. It goes on until it is ended.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/pushsink/pushsink/bench/contender"
	"github.com/pushsink/pushsink/bench/probe"
	"github.com/pushsink/pushsink/bench/reading"
)

const rows, calls = 100, 8

func main() {
	probe.Serve()
	client, err := contender.Bigtable(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	table := client.Open(reading.TableName)
	var seq atomic.Int64
	seq.Store(reading.FirstSeq)
	for range calls {
		go func() {
			keys := make([]string, rows)
			mutations := make([]*bigtable.Mutation, rows)
			row := reading.Reading{
				Device: "sensor-0042", Ts: time.Now(), Temp: 21.375, Humidity: .4825, Pressure: 1013.25,
				State: "running", Note: "after the filter was changed",
			}
			for {
				for i := range rows {
					row.Seq = seq.Add(1)
					keys[i], mutations[i] = row.Key(), row.Mutation()
				}
				if failed, err := table.ApplyBulk(context.Background(), keys, mutations); err != nil || failed != nil {
					log.Fatal(err, failed)
				}
			}
		}()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux))
}
