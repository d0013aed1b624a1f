package acceptance

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/internal/scripted"
)

const (
	project  = "test-project"
	instance = "test-instance"
)

// patient are the options of servers whose tests are not about time: the machine, the service
// or the client may stand still for seconds and no answer is another one for it.
var patient = map[string]string{
	"PUSHSINK_ACK_DEADLINE":             "600s",
	"PUSHSINK_REQUEST_TIMEOUT":          "500s",
	"PUSHSINK_BATCH_TIMEOUT":            "15m",
	"PUSHSINK_READ_HEADER_TIMEOUT":      "100s",
	"PUSHSINK_READ_BODY_TIMEOUT":        "100s",
	"PUSHSINK_IDLE_TIMEOUT":             "600s",
	"PUSHSINK_SHUTDOWN_TIMEOUT":         "100s",
	"PUSHSINK_WRITER_ADMISSION_TIMEOUT": "400s",
	"PUSHSINK_BIGTABLE_ATTEMPT_TIMEOUT": "400s",
}

// tableName is the full name of a table of the default instance.
func tableName(table string) string { return scripted.TableName(project, instance, table) }

// server is a server process that can be killed and started again on its port.
type server struct {
	URL    string
	binary string
	env    []string
	proc   *emulator.Process
}

// startServer runs the server on routes (a routes file's text) against the Bigtable at
// backend, patient, and waits until it is ready. env overrides or adds variables.
func startServer(t testing.TB, binary, backend, routes string, env map[string]string) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "routes.yaml")
	if err := os.WriteFile(file, []byte(routes), 0o600); err != nil {
		t.Fatal(err)
	}
	port := emulator.FreePort(t)
	all := map[string]string{
		"PORT":                       fmt.Sprint(port),
		"BIGTABLE_EMULATOR_HOST":     backend,
		"PUSHSINK_ROUTES_FILE":       file,
		"PUSHSINK_BIGTABLE_PROJECT":  project,
		"PUSHSINK_BIGTABLE_INSTANCE": instance,
		"PUSHSINK_AUTH":              "none",
	}
	maps.Copy(all, patient)
	maps.Copy(all, env)
	s := &server{URL: fmt.Sprintf("http://127.0.0.1:%d", port), binary: binary}
	for name, value := range all {
		s.env = append(s.env, name+"="+value) // and nothing that this process has
	}
	s.start(t)
	return s
}

func (s *server) start(t testing.TB) {
	t.Helper()
	s.launch(t)
	s.awaitReady(t)
}

// launch starts the process without waiting.
func (s *server) launch(t testing.TB) {
	t.Helper()
	cmd := exec.Command(s.binary)
	cmd.Env = s.env
	s.proc = emulator.StartFor(t, cmd)
	proc := s.proc
	t.Cleanup(func() { // before the kill that StartFor registered
		for _, bad := range []string{"WARNING: DATA RACE", "panic:", "fatal error:"} {
			if strings.Contains(proc.Output(), bad) {
				t.Errorf("the server printed %q", bad)
			}
		}
	})
}

func (s *server) awaitReady(t testing.TB) {
	t.Helper()
	last := "no answer"
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if s.proc.Exited() {
			t.Fatalf("the server ended: %v\n%s", s.proc.Err(), s.proc.Output())
		}
		response, err := http.Get(s.URL + "/health/ready")
		if err != nil {
			continue
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		last = fmt.Sprintf("%d %s", response.StatusCode, body)
	}
	t.Fatalf("not ready: %s", last)
}

// kill ends the server with SIGKILL.
func (s *server) kill() { s.proc.Kill() }

// terminate sends SIGTERM and returns the exit code and how long the end took.
func (s *server) terminate(t testing.TB) (code int, took time.Duration) {
	t.Helper()
	start := time.Now()
	if err := s.proc.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.proc.Done():
	case <-time.After(patience):
		t.Fatal("the server goes on after SIGTERM")
	}
	return s.proc.ExitCode(), time.Since(start)
}
