// Package probe is what a contender of ours shows beside its work: whether it is ready,
// how much it has allocated, and its profiles.
package probe

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
)

// mux is what Serve serves.
var mux = http.NewServeMux()

// Ready answers GET /health/ready beside the profiles, for a contender that has no place
// for it on its own port.
func Ready(ready func() bool) {
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// Env names the variable with the address to listen on.
const Env = "BENCH_PROBE"

// Serve answers GET /metrics, with what the benchmark reads of a Prometheus page, and
// /debug/pprof/ on the address in the environment.
func Serve() {
	address := os.Getenv(Env)
	if address == "" {
		return
	}
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprintf(w, "go_memstats_mallocs_total %d\n", m.Mallocs)
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	go func() { _ = http.ListenAndServe(address, mux) }()
}
