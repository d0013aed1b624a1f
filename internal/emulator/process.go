package emulator

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a child process in a process group of its own. It is signalled by its pid,
// never by a name.
type Process struct {
	cmd  *exec.Cmd
	out  *tail
	done chan struct{} // closed when the process was reaped; err is set before
	err  error
}

// Start runs cmd with its output kept (the last 256 KiB). The kernel kills the child
// when this process dies, however it dies.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, out: &tail{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	cmd.WaitDelay = 5 * time.Second // a grandchild may hold the pipe
	cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	go func() {
		// The parent-death signal follows the thread that forked, not the process: this
		// goroutine keeps its thread until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// StartFor is Start for a test: the process is killed when t ends, and its output is
// logged if t failed.
func StartFor(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p, err := Start(cmd)
	if err != nil {
		t.Fatalf("start %s: %v", cmd.Path, err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", cmd.Path, p.Output())
		}
	})
	return p
}

// PID is also the process group's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ExitCode waits for the end. -1 = ended by a signal.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Err waits for the end and says how it was, as exec.Cmd.Wait does.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Output is the end of what the process printed so far.
func (p *Process) Output() string { return p.out.String() }

// Signal signals the process alone, not its group.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill kills the whole group and returns when the process has ended.
func (p *Process) Kill() {
	if !p.Exited() {
		if err := killGroup(p.PID()); err != nil && !p.Exited() {
			_ = p.cmd.Process.Kill()
		}
	}
	<-p.done
}

// maxTail bounds what is kept of a child's output.
const maxTail = 256 << 10

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut int64
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if over := len(b.buf) - maxTail; over > 0 {
		b.cut += int64(over)
		b.buf = append(b.buf[:0], b.buf[over:]...)
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut > 0 {
		return fmt.Sprintf("[%d bytes before this]\n%s", b.cut, b.buf)
	}
	return string(b.buf)
}
