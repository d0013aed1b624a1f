package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process is a child that was started here.
type Process struct {
	Name   string
	cmd    *exec.Cmd
	output tail
	done   chan struct{}
	// Began is when it was started.
	Began time.Time
}

// tail keeps the last of what a process prints.
type tail struct {
	mu   sync.Mutex // guards last
	last []byte
}

const tailMost = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if len(t.last) > tailMost {
		t.last = bytes.Clone(t.last[len(t.last)-tailMost:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}

// Start runs binary with env and nothing else of this process's environment.
func Start(name, binary string, env []string, args ...string) (*Process, error) {
	p := &Process{Name: name, done: make(chan struct{})}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.WaitDelay = time.Second
	endWithParent(p.cmd)
	p.Began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	return p, nil
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is the last of what it printed.
func (p *Process) Output() string { return p.output.String() }

// Exited reports whether it has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop asks it to end, and after 10 s ends it. It returns when it is gone.
func (p *Process) Stop() {
	if p.Exited() {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// AwaitReady polls url until it answers 200, and returns how long after the start that was.
func (p *Process) AwaitReady(url string, patience, pause time.Duration) (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	last := errors.New("no answer")
	for time.Since(p.Began) < patience {
		if p.Exited() {
			return 0, fmt.Errorf("%s ended: %s", p.Name, p.Output())
		}
		response, err := client.Get(url)
		if err == nil {
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return time.Since(p.Began), nil
			}
			err = fmt.Errorf("%d %s", response.StatusCode, text)
		}
		last = err
		time.Sleep(pause)
	}
	return 0, fmt.Errorf("%s is not ready: %w\n%s", p.Name, last, p.Output())
}

// FreePort is a TCP port of loopback that nobody listens on.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
