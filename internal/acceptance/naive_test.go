package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/internal/scripted"
)

// naiveEnv makes this test binary the naive server: "listen address,backend address".
const naiveEnv = "PUSHSINK_TEST_NAIVE"

// runNaive serves pushes the way a first version does: decode, one Apply, answer.
func runNaive(addresses string) {
	listen, backend, _ := strings.Cut(addresses, ",")
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	_ = os.Setenv("BIGTABLE_EMULATOR_HOST", backend)
	client, err := bigtable.NewClientWithConfig(context.Background(), project, instance,
		bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}},
		option.WithGRPCConnectionPool(4),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	fail(err)
	table := client.Open("json")
	http.HandleFunc("POST /v1/routes/json/push", func(w http.ResponseWriter, r *http.Request) {
		var push struct {
			Message struct {
				Data        []byte    `json:"data"`
				PublishTime time.Time `json:"publishTime"`
			} `json:"message"`
		}
		var data struct {
			ID string `json:"id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&push); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := json.Unmarshal(push.Message.Data, &data); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m := bigtable.NewMutation()
		m.Set("f", "id", bigtable.Time(push.Message.PublishTime).TruncateToMilliseconds(), []byte(data.ID))
		if err := table.Apply(r.Context(), data.ID, m); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	http.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	listener, err := net.Listen("tcp", listen)
	fail(err)
	fail(http.Serve(listener, nil))
}

// BenchmarkAgainstNaive compares the server with a handler that calls Apply once per
// message: 256 connections, a backend of 5 ms. It prints requests a second and CPU time
// a request of both, and the ratios. The load generator and the backend share the
// machine with either.
func BenchmarkAgainstNaive(b *testing.B) {
	lasts := time.Duration(size(15, 3)) * time.Second
	measure := func(b *testing.B, start func(backend string) *server) (rate, cpu float64) {
		bt := scripted.New(b, scripted.Options{KeysOnly: true, Latency: 5 * time.Millisecond})
		bt.AddTable(tableName("json"), "f")
		s := start(bt.Addr())
		client := newClient(b)
		var n, bad atomic.Int64
		load := func(d time.Duration) {
			end := time.Now().Add(d)
			inParallel(256, 256, func(worker int) {
				for i := 0; time.Now().Before(end); i++ {
					a := push(b.Context(), client, s.URL, "json", numbered(fmt.Sprintf("%03d-%d", worker, i)).body(b))
					n.Add(1)
					if !a.acknowledged() {
						bad.Add(1)
					}
				}
			})
		}
		load(lasts / 3) // connections, pools, heap
		n.Store(0)
		used, began := cpuTime(b, s.proc.PID()), time.Now()
		load(lasts)
		took, used := time.Since(began), cpuTime(b, s.proc.PID())-used
		if bad.Load() > 0 {
			b.Errorf("%d of %d requests were not acknowledged", bad.Load(), n.Load())
		}
		return float64(n.Load()) / took.Seconds(), float64(used.Microseconds()) / float64(n.Load())
	}
	for b.Loop() {
		naiveRate, naiveCPU := measure(b, func(backend string) *server {
			port := emulator.FreePort(b)
			s := &server{URL: fmt.Sprintf("http://127.0.0.1:%d", port)}
			cmd := exec.Command(os.Args[0])
			cmd.Env = []string{fmt.Sprintf("%s=127.0.0.1:%d,%s", naiveEnv, port, backend)}
			s.proc = emulator.StartFor(b, cmd)
			s.awaitReady(b)
			return s
		})
		ourRate, ourCPU := measure(b, func(backend string) *server {
			return startServer(b, plainBinary(b), backend, jsonRoutes, nil)
		})
		b.ReportMetric(naiveRate, "naive-req/s")
		b.ReportMetric(ourRate, "server-req/s")
		b.ReportMetric(ourRate/naiveRate, "rate-ratio")
		b.ReportMetric(naiveCPU, "naive-cpu-us/req")
		b.ReportMetric(ourCPU, "server-cpu-us/req")
		b.ReportMetric(naiveCPU/ourCPU, "cpu-ratio")
	}
}

// cpuTime is what a process has used, user and system.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skipf("no /proc here: %v", err)
	}
	// After the name in parentheses: state is field 3, utime 14, stime 15 (proc(5)), in
	// ticks of 10 ms on every Linux that Go runs on.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
