package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/internal/scripted"
)

const telemetryRoutes = `
routes:
  telemetry:
    bigtable:
      table: readings
      rowKey: "{data.device}"
      create: ifNeeded
      families: {m: {gc: {maxVersions: 1}}}
      set:
        - {family: m, column: temp, value: data.temp, as: float64}
`

var readings = scripted.TableName("p", "instance", "readings")

// real is an environment that writes to the scripted service, and is patient.
func real(t testing.TB, bt *scripted.Server, more ...string) []string {
	t.Helper()
	return slices.Concat(plain(t, bt), patient, []string{"PUSHSINK_BIGTABLE_ATTEMPT_TIMEOUT=200s"}, more)
}

// plain is real with the defaults.
func plain(t testing.TB, bt *scripted.Server, more ...string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "routes.yaml")
	if err := os.WriteFile(file, []byte(telemetryRoutes), 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{
		"PORT=0", "PUSHSINK_ROUTES_FILE=" + file, "PUSHSINK_AUTH=none",
		"PUSHSINK_BIGTABLE_PROJECT=p", "PUSHSINK_BIGTABLE_INSTANCE=instance", "BIGTABLE_EMULATOR_HOST=" + bt.Addr(),
	}, more...)
}

func pushBody(device string, temp float64) string {
	data := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"device":%q,"temp":%g}`, device, temp))
	return fmt.Sprintf(`{"message":{"data":%q,"messageId":%q,"publishTime":"2026-11-30T08:00:00Z"},"subscription":"projects/p/subscriptions/s"}`, data, device)
}

// pushes sends a record per device, all at once, and returns their answers when wait is called.
func pushes(url string, devices ...string) (wait func() []answer) {
	answers := make([]answer, len(devices))
	var all sync.WaitGroup
	for i, device := range devices {
		all.Go(func() { answers[i] = post(url+"/v1/routes/telemetry/push", pushBody(device, 20.5)) })
	}
	return func() []answer { all.Wait(); return answers }
}

func devices(name string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return list
}

// held is a scripted service whose writes wait for release.
func held(t testing.TB) (bt *scripted.Server, release func()) {
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	bt = scripted.New(t, scripted.Options{Script: func(*scripted.Call) scripted.Plan { return scripted.Plan{Until: gate} }})
	bt.AddTable(readings, "m")
	return bt, release
}

// holds waits until the writer holds that many entries.
func holds(t testing.TB, metrics string, n int) {
	t.Helper()
	reaches(t, metrics, "pushsink_writer_entries_in_flight", n)
}

// reaches waits until the sum of a metric's series is n.
func reaches(t testing.TB, metrics, name string, n int) {
	t.Helper()
	eventually(t, func() (bool, string) {
		page := get(metrics + "/metrics")
		sum, found := 0.0, false
		for line := range strings.Lines(page.body) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if bare, _, _ := strings.Cut(series, "{"); bare == name {
				if open := strings.LastIndex(line, "} "); open >= 0 {
					value = strings.TrimSpace(line[open+2:])
				}
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatalf("metrics line %q: %v", line, err)
				}
				sum, found = sum+v, true
			}
		}
		return found && sum == float64(n), fmt.Sprintf("%s to be %d; it is %v (error %v)", name, n, sum, page.err)
	})
}

// shows waits until the metrics page holds each of texts: an answer may come before what it
// cost is counted.
func shows(t testing.TB, p *process, texts ...string) {
	t.Helper()
	for _, text := range texts {
		eventually(t, func() (bool, string) {
			return strings.Contains(get(metricsURL(p)+"/metrics").body, text), "metrics that hold " + text
		})
	}
}

// wantWritten wants 204 and the row of each device's push.
func wantWritten(t testing.TB, bt *scripted.Server, names []string, answers []answer) {
	t.Helper()
	for i, a := range answers {
		if there := bt.Has(readings, names[i]); a.status != 204 || !there {
			t.Errorf("request %d: %d %s %v, row there: %v; want 204 and the row", i, a.status, a.body, a.err, there)
		}
	}
}

func metricsURL(p *process) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(p.logged("listening")["metrics"].(string), "[::]"), ":")
	return "http://127.0.0.1:" + port
}

func TestSHUT01OpenRequestsAreAnsweredBeforeTheEnd(t *testing.T) {
	bt, release := held(t)
	p := start(t, real(t, bt, "PUSHSINK_METRICS_PORT=0"))
	names := devices("d", 10)
	wait := pushes(p.url(), names...)
	holds(t, metricsURL(p), 10)

	p.signal(syscall.SIGTERM)
	p.logged("stopping")
	if len(p.entries("stopped")) != 0 {
		t.Error("stopped while ten requests wait")
	}
	release()
	wantWritten(t, bt, names, wait())
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if all := p.output() + p.stderr.String(); strings.Contains(all, "Server closed") || strings.Contains(all, "closed network connection") {
		t.Errorf("the end of the listener is logged as a failure:\n%s", all)
	}
}

// 20 requests are blocked on the backend when the instance is stopped.
func TestRUN06StopInTheMiddleOfRequests(t *testing.T) {
	t.Run("the backend comes back", func(t *testing.T) {
		bt, release := held(t)
		p := start(t, real(t, bt, "PUSHSINK_METRICS_PORT=0"))
		names := devices("d", 20)
		wait := pushes(p.url(), names...)
		holds(t, metricsURL(p), 20)
		p.signal(syscall.SIGTERM)
		p.logged("stopping")
		release()
		wantWritten(t, bt, names, wait())
		if code := p.wait(); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
	})
	t.Run("the backend stays blocked", func(t *testing.T) {
		inBubble(t, setup{routes: telemetryRoutes, service: silent(), options: []string{"BIGTABLE_ATTEMPT_TIMEOUT=1h"}}, func(x *rig) {
			wait := x.pushes(devices("d", 20))
			stopped := x.stop()
			x.wantStatuses(wait(), all(20, 503))
			if err := stopped(); err != nil {
				t.Error(err)
			}
		})
	})
}

// Every time in here but the test's own is minutes: that it ends shows that the three
// did not wait for the linger.
func TestSHUT04LingeringRecordsAreFlushedAtOnce(t *testing.T) {
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	bt := scripted.New(t, scripted.Options{Script: func(c *scripted.Call) scripted.Plan {
		for _, e := range c.Entries {
			if string(e.RowKey) == "first" {
				return scripted.Plan{Until: gate}
			}
		}
		return scripted.Plan{}
	}})
	bt.AddTable(readings, "m")
	p := start(t, real(t, bt, "PUSHSINK_METRICS_PORT=0", "PUSHSINK_ACK_DEADLINE=600s", "PUSHSINK_REQUEST_TIMEOUT=500s",
		"PUSHSINK_WRITER_MAX_TIME_IN_BUFFER=400s", "PUSHSINK_BIGTABLE_ATTEMPT_TIMEOUT=450s", "PUSHSINK_SHUTDOWN_TIMEOUT=480s"))
	first := pushes(p.url(), "first")
	reaches(t, metricsURL(p), "pushsink_writer_requests_open", 1) // not only admitted: else the others share its request
	names := devices("buffered", 3)
	wait := pushes(p.url(), names...)
	holds(t, metricsURL(p), 4)

	p.signal(syscall.SIGTERM)
	wantWritten(t, bt, names, wait())
	release()
	if a := first()[0]; a.status != 204 {
		t.Errorf("the first request: %d %s %v, want 204", a.status, a.body, a.err)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestSHUT06SignalAtAnyMoment(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	bt.AddTable(readings, "m")
	reachable := real(t, bt)
	unreachable := with(reachable, "BIGTABLE_EMULATOR_HOST=127.0.0.1:1") // of two, a process gets the last
	// The moments are spread over what a start takes here, so that they fall before,
	// within and after it on a slow machine too.
	began := time.Now()
	p := start(t, reachable)
	p.url()
	span := 2*time.Since(began) + 100*time.Millisecond
	p.stop()

	slots := make(chan struct{}, 6)
	var all sync.WaitGroup
	for i := range 100 {
		environ := reachable
		if i%2 == 1 {
			environ = unreachable
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			delay := rand.N(span)
			p := start(t, environ)
			<-time.After(delay) // the case's own: a signal at a random moment
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("after %s: %v", delay, err)
				return
			}
			ended := make(chan int, 1)
			go func() { ended <- p.wait() }()
			select {
			case code := <-ended:
				// Before the program's first line the signal ends it as any process.
				early := code == -1 && p.output() == ""
				if code != 0 && !early {
					t.Errorf("signal after %s: exit code %d, output %s %s", delay, code, p.output(), p.stderr.String())
				}
			case <-time.After(patience):
				t.Errorf("signal after %s: still running %s later; output %s", delay, patience, p.output())
				p.cmd.Process.Kill()
				<-ended
			}
		})
	}
	all.Wait()
}

func TestSHUT07OrderOfTheStop(t *testing.T) {
	bt := scripted.New(t, scripted.Options{Latency: time.Millisecond})
	bt.AddTable(readings, "m")
	p := start(t, real(t, bt, "PUSHSINK_METRICS_PORT=0"))
	url := p.url()

	stop := make(chan struct{})
	var stopping atomic.Bool
	var load sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for worker := range 8 {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("w%d-%d", worker, i)
				a := post(url+"/v1/routes/telemetry/push", pushBody(key, 1))
				mu.Lock()
				statuses[a.status]++
				mu.Unlock()
				switch {
				case a.status == 204 && !bt.Has(readings, key):
					t.Errorf("%s was acknowledged and is not there", key)
				case a.err != nil && !stopping.Load():
					t.Errorf("a request failed before the stop: %v", a.err)
				case a.err == nil && a.status != 204 && a.status != 503:
					t.Errorf("status %d %s", a.status, a.body)
				}
				if a.err != nil {
					return // the listener is closed
				}
			}
		})
	}
	eventually(t, func() (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		return statuses[204] > 200, fmt.Sprintf("200 acknowledged pushes; statuses %v", statuses)
	})
	stopping.Store(true)
	p.signal(syscall.SIGTERM)
	code := p.wait()
	close(stop)
	load.Wait()
	if code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	var got []string
	for _, entry := range p.entries("stop step") {
		got = append(got, entry["step"].(string))
		if _, err := time.ParseDuration(entry["took"].(string)); err != nil {
			t.Errorf("step %s: %v", entry["step"], err)
		}
	}
	if want := "close listener, drain requests, close writer, close clients, flush telemetry"; strings.Join(got, ", ") != want {
		t.Errorf("steps %q, want %q", strings.Join(got, ", "), want)
	}
	if last := p.entries("stopped"); len(last) != 1 || last[0]["clean"] != true {
		t.Errorf("last line %v, want one that says clean", last)
	}
}

// A backend that never answers cannot hold the stop: with the default of 8 s the requests
// are answered after 5 s, with 1.2 s after 750 ms.
func TestShutdownTimeoutBoundsTheStop(t *testing.T) {
	for budget, answered := range map[time.Duration]time.Duration{8 * time.Second: 5 * time.Second, 1200 * ms: 750 * ms} {
		t.Run(budget.String(), func(t *testing.T) {
			inBubble(t, setup{routes: telemetryRoutes, service: silent(), options: []string{"SHUTDOWN_TIMEOUT=" + budget.String(), "BIGTABLE_ATTEMPT_TIMEOUT=1h", longAck, longRequest}}, func(x *rig) {
				wait := x.pushes(devices("d", 5))
				began := time.Now()
				stopped := x.stop()
				x.wantStatuses(wait(), all(5, 503))
				if took := time.Since(began); took != answered {
					t.Errorf("answered after %s, want %s", took, answered)
				}
				if err := stopped(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > budget {
					t.Errorf("stopped after %s", took)
				}
				if want := fmt.Sprintf(`"message":"stopping","budget":%q`, budget); !strings.Contains(x.log.String(), want) {
					t.Errorf("no line with %s in\n%s", want, x.log.String())
				}
			})
		})
	}
}

// slowBodies are options with which nothing but a stop of 3 s ends a body that still arrives.
var slowBodies = []string{"SHUTDOWN_TIMEOUT=3s", "READ_BODY_TIMEOUT=1h", "BATCH_TIMEOUT=500s", longAck, longRequest}

// wantHeld wants so many bytes of bodies, and every record that was admitted written.
func (x *rig) wantHeld(n int) {
	x.t.Helper()
	synctest.Wait()
	if held, open := x.metric("pushsink_http_body_held_bytes"), x.metric("pushsink_writer_requests_open"); held != float64(n) || open != 0 {
		x.t.Fatalf("%v bytes of bodies are held and %v requests open, want %d and none", held, open, n)
	}
}

// openRecord is what a batch holds for a record whose outcome it has not looked at yet.
const openRecord = 512

// A client that sends its body a byte now and then is answered too: nothing is its fault,
// and it should come again.
func TestStopDoesNotWaitForSlowBodies(t *testing.T) {
	for _, c := range []struct {
		name, path, media, part string
		held, written           int
	}{
		{"a push", "push", "application/json", `{"message":`, 11, 0},
		{"a batch", "records", "application/json", `[{"device":"a","temp":1},`, 25, 0},
		{"a stream", "records", "application/x-ndjson", "{\"device\":\"a\",\"temp\":1}\n{\"device\":", 10 + openRecord, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, setup{routes: telemetryRoutes, options: slowBodies}, func(x *rig) {
				conn, err := x.port.DialContext(x.t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				fmt.Fprintf(conn, "POST /v1/routes/telemetry/%s HTTP/1.1\r\nHost: h\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n%s", c.path, c.media, c.part)
				x.wantHeld(c.held)
				stopped := x.stop()
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatalf("no answer: %v", err)
				}
				var got struct {
					Received, Written int
					Truncated         bool
					Detail            string
				}
				if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(got.Detail, "shutting down") {
					t.Errorf("status %d, Retry-After %q, %q; want 503, when to come back, and why", resp.StatusCode, resp.Header.Get("Retry-After"), got.Detail)
				}
				if got.Written != c.written || x.bt.Len(readings) != c.written || got.Truncated != (c.name == "a stream") {
					t.Errorf("%+v, %d rows; want %d", got, x.bt.Len(readings), c.written)
				}
				if err := stopped(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
