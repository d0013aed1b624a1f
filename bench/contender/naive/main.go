// Command naive is the handler of a tutorial: decode the push, write the row, answer. One
// Apply per message.
package main

import (
	"context"
	"encoding/json"
	"io"
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
		var push reading.Push
		if err := json.NewDecoder(r.Body).Decode(&push); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		write(w, r, table, push.Message.Data)
	})
	mux.HandleFunc("POST /unwrapped", func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		write(w, r, table, data)
	})
	mux.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux))
}

func write(w http.ResponseWriter, r *http.Request, table *bigtable.Table, data []byte) {
	var row reading.Reading
	if err := json.Unmarshal(data, &row); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := table.Apply(r.Context(), row.Key(), row.Mutation()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
