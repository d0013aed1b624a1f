package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
)

// patience is how long a test waits for something that takes milliseconds.
const patience = 3 * time.Minute

// patient are the options of a server whose test is about none of them: with their defaults
// a machine that stands still for some seconds would decide what the answers are.
var patient = []string{"PUSHSINK_ACK_DEADLINE=600s", "PUSHSINK_REQUEST_TIMEOUT=300s", "PUSHSINK_BATCH_TIMEOUT=300s",
	"PUSHSINK_READ_HEADER_TIMEOUT=300s", "PUSHSINK_READ_BODY_TIMEOUT=300s", "PUSHSINK_SHUTDOWN_TIMEOUT=120s"}

// asServer, set in its environment, makes the test binary the server: the processes of
// these tests are real ones, of the code under test as it was built, race detector
// included.
const asServer = "RUN_AS_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
		os.Exit(0)
	}
	emulator.LoopbackOnly()
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 100
	http.DefaultClient.Timeout = patience
	os.Exit(m.Run())
}

// process is a running server.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stderr strings.Builder
	read   chan struct{} // closed when the output ended

	mu    sync.Mutex // guards what the reader writes
	lines []string
	grew  chan struct{} // closed and replaced with each line
}

// start runs the server with that environment alone. It is killed by its id when the test
// ends before it does.
func start(t testing.TB, environ []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self, args...), read: make(chan struct{}), grew: make(chan struct{})}
	p.cmd.Env = append([]string{asServer + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, environ...)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.collect(out)
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.wait()
		}
		if t.Failed() {
			t.Logf("output of the server:\n%s\n%s", p.output(), p.stderr.String())
		}
	})
	return p
}

func (p *process) collect(out io.Reader) {
	defer close(p.read)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lines.Text())
		close(p.grew)
		p.grew = make(chan struct{})
		p.mu.Unlock()
	}
}

// logged waits for a log line with that message and returns it.
func (p *process) logged(message string) map[string]any {
	p.t.Helper()
	deadline := time.After(patience)
	for from := 0; ; {
		p.mu.Lock()
		lines, grew := p.lines[from:], p.grew
		from = len(p.lines)
		p.mu.Unlock()
		for _, line := range lines {
			var entry map[string]any
			if json.Unmarshal([]byte(line), &entry) == nil && entry["message"] == message {
				return entry
			}
		}
		select {
		case <-grew:
		case <-p.read:
			select {
			case <-grew: // a line came before the end
			default:
				p.t.Fatalf("the server ended without logging %q; stderr: %s", message, p.stderr.String())
			}
		case <-deadline:
			p.t.Fatalf("no log line %q within %s", message, patience)
		}
	}
}

// entries returns the log lines so far with that message.
func (p *process) entries(message string) (list []map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["message"] == message {
			list = append(list, entry)
		}
	}
	return list
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// url is where the server listens, once it does.
func (p *process) url() string {
	p.t.Helper()
	_, port, err := net.SplitHostPort(p.logged("listening")["address"].(string))
	if err != nil {
		p.t.Fatal(err)
	}
	return "http://127.0.0.1:" + port
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns the exit code; -1 = ended by a signal.
func (p *process) wait() int {
	<-p.read // the pipe is read to its end before Wait closes it
	p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// stop sends SIGTERM and wants a clean end.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.t.Errorf("exit code %d, want 0", code)
	}
}

// answer is one HTTP answer, or the error instead.
type answer struct {
	status int
	body   string
	header http.Header
	err    error
}

func get(url string) answer { return do(http.NewRequest("GET", url, nil)) }

func post(url, body string) answer {
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return do(req, err)
}

func do(req *http.Request, err error) answer {
	if err != nil {
		return answer{err: err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(body), resp.Header, err}
}

// eventually polls until ok, which says what it still waits for.
func eventually(t testing.TB, ok func() (done bool, waiting string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		done, waiting := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, waiting)
		}
		<-tick.C
	}
}
