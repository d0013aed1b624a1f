// Command backend is the null Bigtable and Spanner as a process of its own.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"

	"github.com/pushsink/pushsink/bench/null"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:9000", "address of the service")
	control := flag.String("control", "127.0.0.1:9001", "address of GET /counters")
	latency := flag.Duration("latency", 0, "of each write")
	flag.Parse()
	// The thread that paces the answers sleeps inside the kernel: it must not keep a
	// processor from the handlers meanwhile.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	s, err := null.Serve(l, null.Options{Latency: *latency})
	if err != nil {
		return err
	}
	http.HandleFunc("GET /counters", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.Counters())
	})
	return http.ListenAndServe(*control, nil)
}
