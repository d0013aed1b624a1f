package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pushsink/pushsink/bench/contender"
	"github.com/pushsink/pushsink/bench/load"
	"github.com/pushsink/pushsink/bench/probe"
	"github.com/pushsink/pushsink/bench/process"
	"github.com/pushsink/pushsink/bench/reading"
)

// packages are the servers of this module, by contender.
var packages = map[string]string{
	"backend":        "./backend",
	naive:            "./contender/naive",
	"naive-batch":    "./contender/naivebatch",
	"naive-spanner":  "./contender/naivespanner",
	benthos:          "./contender/benthos",
	benthosMapped:    "./contender/benthos",
	"decode":         "./contender/decode",
	"client-ceiling": "./contender/clientceiling",
}

// bulkOptions are what docs/sizing.md sets for bulk loads.
var bulkOptions = []string{
	"PUSHSINK_BIGTABLE_MAX_IN_FLIGHT_ENTRIES=5000",
	"PUSHSINK_BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD=1000",
	"PUSHSINK_WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION=4",
}

// isOurs: the contender is the server of this project.
func isOurs(name string) bool { return name == ours || name == bulk }

// binaries are where the servers were built, by contender.
type binaries struct {
	root string // of the project
	// dir is where they stay: what is built already is not linked again.
	dir string
	// temp is a folder of this run.
	temp string
	// release builds them as they are shipped: static, stripped. Else go build's own cache
	// serves, which a test wants.
	release bool
	// profile builds pushsink with a listener for its profiles.
	profile bool
	built   map[string]string
}

// path builds what is not built yet.
func (b *binaries) path(ctx context.Context, name string) (string, error) {
	if path := b.built[name]; path != "" {
		return path, nil
	}
	path := filepath.Join(b.dir, name)
	if isOurs(name) {
		path = filepath.Join(b.dir, ours)
		if b.profile {
			path += "-profiled"
		}
	}
	args := []string{"build", "-o", path}
	env := os.Environ()
	if b.release {
		args = append(args, "-trimpath", "-ldflags=-s -w")
		env = append(env, "CGO_ENABLED=0")
	}
	dir, pkg := filepath.Join(b.root, "bench"), packages[name]
	if isOurs(name) {
		dir, pkg = b.root, "./cmd/server"
		if b.profile {
			overlay, err := b.overlay()
			if err != nil {
				return "", err
			}
			args = append(args, "-overlay", overlay)
		}
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = dir
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build of %s: %w\n%s", name, err, out)
	}
	b.built[name] = path
	return path, nil
}

// profiler is added to the server's package main where its profiles are wanted.
const profiler = `package main

import (
	"net/http"
	_ "net/http/pprof"
	"os"
)

func init() {
	if address := os.Getenv("` + probe.Env + `"); address != "" {
		go http.ListenAndServe(address, nil)
	}
}
`

// overlay is a file for go build -overlay that adds the profiler.
func (b *binaries) overlay() (string, error) {
	source, overlay := filepath.Join(b.temp, "profiler.go"), filepath.Join(b.temp, "overlay.json")
	target := filepath.Join(b.root, "cmd", "server", "zz_profiler.go")
	text := fmt.Sprintf(`{"Replace":{%q:%q}}`, target, source)
	if err := os.WriteFile(source, []byte(profiler), 0o600); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, []byte(text), 0o600)
}

// server is a running contender.
type server struct {
	*process.Process
	name    string
	addr    string
	metrics string // URL of its allocations
	probe   string // address of its profiles
	ready   time.Duration
}

// path of a request to it.
func (s *server) path(shape load.Shape) string {
	switch {
	case isOurs(s.name) && shape == load.NDJSON:
		return "/v1/routes/readings/records"
	case isOurs(s.name):
		return "/v1/routes/readings/push"
	case shape == load.Unwrapped:
		return "/unwrapped"
	default:
		return "/"
	}
}

// start runs a contender against the backend and waits until it is ready.
func (b *binaries) start(ctx context.Context, name string, s *scenario, backend string) (*server, error) {
	binary, err := b.path(ctx, name)
	if err != nil {
		return nil, err
	}
	var ports [3]int
	for i := range ports {
		if ports[i], err = process.FreePort(); err != nil {
			return nil, err
		}
	}
	x := &server{
		name:    name,
		addr:    fmt.Sprintf("127.0.0.1:%d", ports[0]),
		probe:   fmt.Sprintf("127.0.0.1:%d", ports[1]),
		metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[1]),
	}
	env := []string{fmt.Sprintf("PORT=%d", ports[0]), probe.Env + "=" + x.probe}
	if isOurs(name) {
		x.metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[2])
		more, err := b.configure(s, backend, ports[2])
		if err != nil {
			return nil, err
		}
		env = append(env, more...)
		if name == bulk {
			env = append(env, bulkOptions...)
		}
	} else {
		shape := "push"
		if s.shape == load.NDJSON {
			shape = "ndjson"
		}
		env = append(env, contender.Env+"="+backend, contender.ShapeEnv+"="+shape)
		if name == benthosMapped {
			env = append(env, contender.MappingEnv+"=bloblang")
		}
	}
	if x.Process, err = process.Start(name, binary, env); err != nil {
		return nil, err
	}
	ready := "http://" + x.addr + "/health/ready"
	if packages[name] == packages[benthos] { // its own paths are the input's
		ready = "http://" + x.probe + "/health/ready"
	}
	if x.ready, err = x.AwaitReady(ready, time.Minute, time.Millisecond); err != nil {
		x.Stop()
		return nil, err
	}
	return x, nil
}

// configure is the environment of pushsink: as in production, but for authentication.
func (b *binaries) configure(s *scenario, backend string, metrics int) ([]string, error) {
	routes, store := reading.Routes, "BIGTABLE_EMULATOR_HOST"
	if s.spanner {
		routes, store = reading.SpannerRoutes, "SPANNER_EMULATOR_HOST"
	}
	file := filepath.Join(b.temp, strings.ToLower(store)+".yaml")
	if err := os.WriteFile(file, []byte(routes), 0o600); err != nil {
		return nil, err
	}
	env := []string{
		store + "=" + backend,
		"PUSHSINK_ROUTES_FILE=" + file,
		"PUSHSINK_AUTH=none",
		fmt.Sprintf("PUSHSINK_METRICS_PORT=%d", metrics),
		"OTEL_TRACES_SAMPLER=parentbased_traceidratio",
		"OTEL_TRACES_SAMPLER_ARG=0.01",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + backend,
		"OTEL_EXPORTER_OTLP_TRACES_INSECURE=true",
	}
	if !s.spanner {
		env = append(env, "PUSHSINK_BIGTABLE_PROJECT="+reading.Project, "PUSHSINK_BIGTABLE_INSTANCE="+reading.Instance)
	}
	return env, nil
}
