package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pushsink/pushsink/internal/emulator"
)

// TestDevMode: `go run ./cmd/server` with nothing configured takes a push and reads it
// back.
func TestDevMode(t *testing.T) {
	port := emulator.FreePort(t)
	cmd := exec.Command("go", "run", "./cmd/server")
	cmd.Dir = filepath.Join("..", "..")
	for _, name := range []string{"PATH", "HOME", "GOPATH", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GONOSUMDB", "GOSUMDB", "GOTOOLCHAIN"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("PORT=%d", port))
	s := &server{URL: fmt.Sprintf("http://127.0.0.1:%d", port), proc: emulator.StartFor(t, cmd)}
	s.awaitReady(t)

	a := push(t.Context(), newClient(t), s.URL, "demo", message{ID: "77", Data: []byte(`{"greeting":"hello"}`)}.body(t))
	if a.Status != http.StatusNoContent {
		t.Fatalf("push: %v", a)
	}
	response, err := http.Get(s.URL + "/v1/routes/demo/rows?decode=1")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(rows), "hello") {
		t.Errorf("rows: %d %s %v", response.StatusCode, rows, err)
	}
	if !strings.Contains(s.proc.Output(), "curl") {
		t.Error("the banner has no curl line")
	}
	// The go command passes SIGTERM to nobody: the group gets it.
	if err := syscall.Kill(-s.proc.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.proc.Done()
}
