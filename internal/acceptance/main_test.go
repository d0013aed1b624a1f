package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
)

// patience bounds every wait for something that has to come. It is no measurement: what
// is waited for takes a tenth of it at most.
const patience = 3 * time.Minute

var soak = os.Getenv("SOAK") == "1"

// size is the full size with SOAK=1, and the short one otherwise.
func size(full, short int) int {
	if soak {
		return full
	}
	return short
}

var binaries struct {
	dir         string
	race, plain func() (string, error)
}

func TestMain(m *testing.M) {
	if what := os.Getenv(attackEnv); what != "" {
		runAttack(what)
		return
	}
	emulator.LoopbackOnly()
	dir, err := os.MkdirTemp("", "pushsink-acceptance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries.dir = dir
	binaries.race = sync.OnceValues(func() (string, error) { return build("server-race", "-race") })
	binaries.plain = sync.OnceValues(func() (string, error) { return build("server") })
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the server from this module.
func build(name string, flags ...string) (string, error) {
	file := filepath.Join(binaries.dir, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", file}, flags...), "./cmd/server")...)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return file, nil
}

// serverBinary is the server, with the race detector when this test has it.
func serverBinary(t testing.TB) string {
	t.Helper()
	if !raceEnabled {
		return plainBinary(t)
	}
	file, err := binaries.race()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// plainBinary is the server as it is deployed: for memory and time.
func plainBinary(t testing.TB) string {
	t.Helper()
	file, err := binaries.plain()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
