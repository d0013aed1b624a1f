// Command naivespanner is the handler of a tutorial for Spanner: one Apply per message. The
// row may be written twice, so it asks for a single round trip (ApplyAtLeastOnce), which
// is the fastest way to write one.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"

	"cloud.google.com/go/spanner"

	"github.com/pushsink/pushsink/bench/contender"
	"github.com/pushsink/pushsink/bench/probe"
	"github.com/pushsink/pushsink/bench/reading"
)

func main() {
	probe.Serve()
	client, err := contender.Spanner(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		var push reading.Push
		if err := json.NewDecoder(r.Body).Decode(&push); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var row reading.Reading
		if err := json.Unmarshal(push.Message.Data, &row); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, err := client.Apply(r.Context(), []*spanner.Mutation{row.Row()}, spanner.ApplyAtLeastOnce()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux))
}
