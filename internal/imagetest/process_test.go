package imagetest

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// process is the image's server.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *os.File
	done   chan struct{} // closed when it has ended
	stop   atomic.Bool   // it was told to stop
}

// startProcess starts cmd. It is killed by its id when the test ends before it does.
func startProcess(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, output: output, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	go func() {
		_ = cmd.Wait() // the state says how it ended
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if text, err := os.ReadFile(output.Name()); t.Failed() && err == nil {
			t.Logf("output of the server:\n%s", text)
		}
		_ = output.Close()
	})
	return p
}

// answers waits until url answers 200.
func (p *process) answers(url string) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		answer, err := http.Get(url)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-p.done:
			p.t.Fatalf("the server ended: %v", p.cmd.ProcessState)
		case <-deadline:
			p.t.Fatalf("%s does not answer 200", url)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isUnprivileged looks at the process from outside: its user, its capabilities, its
// number in its own space, and its root file system.
func (p *process) isUnprivileged() {
	p.t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range []string{`Uid:\t65532\t65532\t65532\t65532`, `Gid:\t65532\t65532\t65532\t65532`, `CapEff:\t0+`, `NSpid:\t\d+\t1`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(status) {
			p.t.Errorf("no %s in\n%s", line, status)
		}
	}
	if err := os.WriteFile(filepath.Join(proc, "root", "written"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		p.t.Errorf("writing to the root file system: %v, want that it is read-only", err)
	}
}

// told reports whether the server was told to stop.
func (p *process) told() bool { return p.stop.Load() }

// terminate sends SIGTERM and waits for the end, which has to be a clean one.
func (p *process) terminate() time.Duration {
	p.t.Helper()
	began := time.Now()
	p.stop.Store(true)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatal("the server does not end on SIGTERM")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("exit code %d (%v), want 0", code, p.cmd.ProcessState)
	}
	return time.Since(began)
}
