// Command naivebatch takes NDJSON the plain way: one ApplyBulk per request.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"cloud.google.com/go/bigtable"

	"github.com/pushsink/pushsink/bench/contender"
	"github.com/pushsink/pushsink/bench/probe"
	"github.com/pushsink/pushsink/bench/reading"
)

func main() {
	probe.Serve()
	client, err := contender.Bigtable(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	table := client.Open(reading.TableName)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		var (
			keys      []string
			mutations []*bigtable.Mutation
		)
		lines := bufio.NewScanner(r.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var row reading.Reading
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			keys = append(keys, row.Key())
			mutations = append(mutations, row.Mutation())
		}
		if err := lines.Err(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		failed, err := table.ApplyBulk(r.Context(), keys, mutations)
		if err != nil || failed != nil {
			http.Error(w, fmt.Sprint(err, failed), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
	mux.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux))
}
