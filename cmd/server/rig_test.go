package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pushsink/pushsink/internal/issuer"
	"github.com/pushsink/pushsink/internal/scripted"
)

// rig is the whole server as run composes it, from an environment, in this process. Its
// port and the scripted service are listeners in memory, so it runs in a synctest bubble,
// where time is exact and passes only while everything waits.
type rig struct {
	t     *testing.T
	bt    *scripted.Server
	srv   *server
	port  *memoryPort
	http  *http.Client
	log   lockedBuffer
	began time.Time
	// issuers answer for the keys of tokens, by URL; token is sent with every request.
	issuers issuers
	token   string
}

// issuers is a transport to identity providers by their URL. They are all there before the
// first token comes.
type issuers map[string]*issuer.Issuer

func (m issuers) RoundTrip(r *http.Request) (*http.Response, error) {
	if i := m[r.URL.String()]; i != nil {
		return i.RoundTrip(r)
	}
	return nil, errors.New("no such host")
}

// lockedBuffer may be written to by many goroutines.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// setup is what a rig starts with.
type setup struct {
	routes  string   // the routes file
	options []string // NAME=value without the prefix; they stand above the rig's own
	environ []string // variables without the prefix
	service scripted.Options
	missing bool // table readings, with family m, is not there
}

// inBubble runs do with a server that has ended its first check.
func inBubble(t *testing.T, c setup, do func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := newRig(t, c)
		synctest.Wait()
		do(x)
	})
}

func newRig(t *testing.T, c setup) *rig {
	t.Helper()
	x := &rig{t: t, port: newMemoryPort(), began: time.Now()}
	wire := bufconn.Listen(1 << 20)
	c.service.Listener, c.service.Record = wire, true
	x.bt = scripted.New(t, c.service)
	if !c.missing {
		x.bt.AddTable(readings, "m")
	}
	environ := append([]string{"BIGTABLE_EMULATOR_HOST=in-memory"}, c.environ...)
	for _, option := range c.options {
		environ = append(environ, prefix+"_"+option)
	}
	environ = append(environ, "PUSHSINK_ROUTES_FILE="+write(t, "routes.yaml", c.routes), "PUSHSINK_AUTH=none",
		"PUSHSINK_BIGTABLE_PROJECT=p", "PUSHSINK_BIGTABLE_INSTANCE=instance")

	x.start(t, environ, wire.DialContext)
	return x
}

// start composes the server from environ and opens it. dial reaches its scripted service.
func (x *rig) start(t *testing.T, environ []string, dial func(context.Context) (net.Conn, error)) {
	t.Helper()
	s, err := load(unsetForced(environ))
	if err != nil {
		t.Fatal(err)
	}
	resetForced(s)
	x.srv = newServer(s, platform{}, &x.log)
	x.srv.listener = x.port
	x.issuers = issuers{}
	x.srv.keysTransport = x.issuers
	x.srv.dial = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return dial(ctx)
	})}
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return x.port.DialContext(ctx) },
		MaxIdleConnsPerHost: 1000,
	}
	x.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		x.srv.stop()
	})
	if err := x.srv.open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stop begins the server's stop and returns what waits for its end.
func (x *rig) stop() (wait func() error) {
	srv, ended := x.srv, make(chan error, 1)
	x.srv = &server{settings: srv.settings} // nothing is left to stop
	go func() { ended <- srv.stop() }()
	return func() error { return <-ended }
}

// at is how long the rig runs.
func (x *rig) at() time.Duration { return time.Since(x.began) }

func (x *rig) do(method, path, mediaType string, body io.Reader) answer {
	req, err := http.NewRequestWithContext(context.WithoutCancel(x.t.Context()), method, "http://server"+path, body)
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", mediaType)
	if x.token != "" {
		req.Header.Set("Authorization", "Bearer "+x.token)
	}
	resp, err := x.http.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(text), resp.Header, err}
}

func (x *rig) get(path string) answer { return x.do("GET", path, "", nil) }

func (x *rig) records(mediaType, body string) answer {
	return x.do("POST", "/v1/routes/telemetry/records", mediaType, strings.NewReader(body))
}

// push delivers one message, whose id is the device's name. fields are names and values of
// its data beside device and temp.
func (x *rig) push(device string, fields ...string) answer {
	return x.do("POST", "/v1/routes/telemetry/push", "application/json", strings.NewReader(message(device, fields...)))
}

// pushAs is push with a token.
func (x *rig) pushAs(token, device string) answer {
	x.token = token
	defer func() { x.token = "" }()
	return x.push(device)
}

// message is a wrapped push.
func message(device string, fields ...string) string {
	data := map[string]any{"device": device, "temp": 20.5}
	for i := 0; i < len(fields); i += 2 {
		data[fields[i]] = fields[i+1]
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // strings and a number
	}
	return fmt.Sprintf(`{"message":{"data":%q,"messageId":%q,"publishTime":"2026-11-30T08:00:00Z"},"subscription":"projects/p/subscriptions/s"}`,
		base64.StdEncoding.EncodeToString(text), device)
}

// pushes delivers a message per device, each once the one before it waits, and returns what
// waits for their statuses.
func (x *rig) pushes(devices []string, fields ...string) (wait func() []int) {
	statuses := make([]int, len(devices))
	var all sync.WaitGroup
	for i, device := range devices {
		all.Go(func() { statuses[i] = x.push(device, fields...).status })
		synctest.Wait()
	}
	return func() []int { all.Wait(); return statuses }
}

// burst delivers a message per device, all at once, and returns their statuses.
func (x *rig) burst(devices []string) []int {
	statuses := make([]int, len(devices))
	var all sync.WaitGroup
	for i, device := range devices {
		all.Go(func() { statuses[i] = x.push(device).status })
	}
	all.Wait()
	return statuses
}

// all is n times the same status.
func all(n, status int) []int { return slices.Repeat([]int{status}, n) }

func (x *rig) wantStatuses(got []int, want ...[]int) {
	x.t.Helper()
	if flat := slices.Concat(want...); !slices.Equal(got, flat) {
		x.t.Errorf("statuses %v, want %v", got, flat)
	}
}

func (x *rig) wantStatus(what string, got answer, want int, says ...string) {
	x.t.Helper()
	if got.err != nil || got.status != want {
		x.t.Errorf("%s: %d %s %v, want %d", what, got.status, got.body, got.err, want)
		return
	}
	for _, text := range says {
		if !strings.Contains(got.body, text) {
			x.t.Errorf("%s: %s does not say %q", what, got.body, text)
		}
	}
}

// calls are the requests that the service answered, in the order in which they came.
func (x *rig) calls() []scripted.Record {
	synctest.Wait() // a call is recorded after its answer was sent
	calls := x.bt.Calls()
	slices.SortStableFunc(calls, func(a, b scripted.Record) int { return a.Start.Compare(b.Start) })
	return calls
}

// wantSizes wants requests of so many records.
func (x *rig) wantSizes(want ...int) {
	x.t.Helper()
	var got []int
	for _, c := range x.calls() {
		got = append(got, len(c.Keys))
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("requests of %v records, want %v", got, want)
	}
}

// page is what /metrics shows.
func (x *rig) page() string {
	w := httptest.NewRecorder()
	x.srv.telemetry.page.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// metric is the sum of the series whose text holds each of labels.
func (x *rig) metric(name string, labels ...string) (sum float64) {
	x.t.Helper()
lines:
	for line := range strings.Lines(x.page()) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		if end < 0 || line[0] == '#' {
			continue
		}
		series, value := line[:end], line[end+1:]
		if bare, _, _ := strings.Cut(series, "{"); bare != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue lines
			}
		}
		var v float64
		if _, err := fmt.Sscan(value, &v); err != nil {
			x.t.Fatalf("metrics line %q: %v", line, err)
		}
		sum += v
	}
	return sum
}
