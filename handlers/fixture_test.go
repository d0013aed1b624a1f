package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/internal/fullduplex"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// fakeMapper is a mapping that a test steers by the payload: a JSON object whose id is the
// row key, and {"do":…} names what goes wrong. It keeps what it saw.
type fakeMapper struct {
	raw      bool // the payload is not JSON; the key is the record's id
	usesTime bool // the cell's time is the publish time

	mu   sync.Mutex
	seen []schema.Record
}

func (m *fakeMapper) Apply(r *schema.Record) (schema.Mutation, error) {
	kept := *r
	kept.Data, kept.Attributes = slices.Clone(r.Data), maps.Clone(r.Attributes)
	m.mu.Lock()
	m.seen = append(m.seen, kept)
	m.mu.Unlock()

	var none schema.Mutation
	var in struct {
		ID string `json:"id"`
		Do string `json:"do"`
	}
	if m.raw {
		in.ID = r.ID
	} else {
		var tree any
		if err := json.Unmarshal(r.Data, &tree); err != nil {
			return none, &schema.Error{Code: schema.BadJSON, Detail: "payload is not JSON"}
		}
		if err := json.Unmarshal(r.Data, &in); err != nil {
			return none, &schema.Error{Code: schema.TypeMismatch, Detail: "id is no string", Pointer: "/id"}
		}
	}
	if m.usesTime && r.Published.IsZero() {
		return none, &schema.Error{Code: schema.MissingField, Detail: "message.publishTime is missing"}
	}
	switch in.Do {
	case "skip":
		return schema.Mutation{Skip: schema.SkippedWhere}, nil
	case "empty":
		return schema.Mutation{Skip: schema.SkippedEmpty}, nil
	case "panic":
		panic("a value that must not be logged")
	case "mismatch":
		return none, &schema.Error{Code: schema.TypeMismatch, Detail: "do: not that", Pointer: "/do"}
	case "broken":
		return none, errors.New("not a schema.Error")
	case "tables":
		return none, &schema.Error{Code: schema.TooManyTables, Detail: "maxTables=1"}
	}
	if in.ID == "" {
		return none, &schema.Error{Code: schema.KeyPartMissing, Detail: "id is missing", Pointer: "/id"}
	}
	return schema.Mutation{Bigtable: &schema.RowMutation{Table: "t", Key: in.ID,
		Ops: []schema.Op{{Kind: schema.SetCell, Family: "f", Column: "raw", Micros: max(r.Published.UnixMicro(), 0), Value: bytes.Clone(r.Data), As: schema.AsString}}}}, nil
}

func (m *fakeMapper) records() []schema.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

// fakeTarget encodes without a sink. The payload is the mutation.
type fakeTarget struct{}

func (fakeTarget) Encode(r *schema.Record, m *schema.Mutation) (sink.Entry, error) {
	if m.Bigtable.Key == "encode-panic" {
		panic("a value that must not be logged")
	}
	return sink.Entry{Dest: sink.Dest{Instance: "i", Table: m.Bigtable.Table}, Key: m.Bigtable.Key, Bytes: int64(len(r.Data)) + 1, Cost: 1, Payload: m.Bigtable}, nil
}

// fakeWriter answers entries as a test says and keeps what it applied.
type fakeWriter struct {
	// outcome decides an entry; nil applies it. Its Applied entries are kept as rows.
	outcome func(sink.Entry) sink.Outcome
	// short cuts the last outcome of each call off.
	short bool
	// gate, when set, is received from before a call's outcomes are known.
	gate chan struct{}
	// refuse answers calls as not admitted.
	refuse func(call int) bool
	stuck  string

	mu    sync.Mutex
	state RouteState
	calls [][]sink.Entry
	rows  map[string]string
}

type fakeTicket struct {
	done     chan struct{}
	admitted bool
	outcomes []sink.Outcome
}

func (t *fakeTicket) Admitted() bool       { return t.admitted }
func (t *fakeTicket) Wait() []sink.Outcome { <-t.done; return t.outcomes }

func (w *fakeWriter) Submit(ctx context.Context, es []sink.Entry) Ticket {
	w.mu.Lock()
	w.calls = append(w.calls, slices.Clone(es))
	call := len(w.calls)
	w.mu.Unlock()
	t := &fakeTicket{done: make(chan struct{}), admitted: true}
	for _, e := range es {
		if e.Key == "writer-panic" {
			panic("a value that must not be logged")
		}
	}
	if w.refuse != nil && w.refuse(call) {
		t.admitted = false
		for range es {
			t.outcomes = append(t.outcomes, sink.Outcome{Kind: sink.Transient, Err: sink.ErrOverloaded})
		}
		close(t.done)
		return t
	}
	go func() {
		defer close(t.done)
		if w.gate != nil {
			select {
			case <-w.gate:
			case <-ctx.Done():
				for range es {
					t.outcomes = append(t.outcomes, sink.Outcome{Err: fmt.Errorf("%w", sink.ErrInFlight)})
				}
				return
			}
		}
		for _, e := range es {
			o := sink.Outcome{Kind: sink.Applied}
			if w.outcome != nil {
				o = w.outcome(e)
			}
			if o.Kind == sink.Applied && o.Err == nil {
				w.mu.Lock()
				if w.rows == nil {
					w.rows = make(map[string]string)
				}
				w.rows[e.Key] = string(e.Payload.(*schema.RowMutation).Ops[0].Value)
				w.mu.Unlock()
			}
			t.outcomes = append(t.outcomes, o)
		}
		if w.short {
			t.outcomes = t.outcomes[:len(t.outcomes)-1]
		}
	}()
	return t
}

func (w *fakeWriter) RouteState(*sink.Route) RouteState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *fakeWriter) Stuck() string { return w.stuck }

func (w *fakeWriter) row(key string) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.rows[key]
	return v, ok
}

func (w *fakeWriter) entries() (es []sink.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		es = append(es, c...)
	}
	return es
}

// fakeLetters keeps dead letters.
type fakeLetters struct {
	err error
	mu  sync.Mutex
	got []string // codes
}

func (d *fakeLetters) Publish(_ context.Context, _ *schema.Route, r *schema.Record, _ sink.Dest, reason *schema.Error) error {
	if d.err != nil {
		return d.err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, string(reason.Code))
	return nil
}

// counts is an Observer that adds up.
type counts struct {
	mu       sync.Mutex
	requests map[string]int // pattern method status
	records  map[string]int // result code
	body     int64
	age      time.Duration  // of the last durable record
	ofRoute  map[string]int // requests by route
}

func (c *counts) Request(pattern, route, method string, status int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[fmt.Sprint(pattern, " ", method, " ", status)]++
	if route != "" {
		if c.ofRoute == nil {
			c.ofRoute = map[string]int{}
		}
		c.ofRoute[route]++
	}
}

func (c *counts) Durable(route string, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records["durable "+route]++
	c.age = age
}

func (c *counts) Late(route string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records["late "+route]++
}

func (c *counts) Records(_ string, r Result, code schema.Code, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records[strings.TrimSpace(string(r)+" "+string(code))] += n
}

func (c *counts) AuthRefused(reason auth.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests["refused "+string(reason)]++
}

func (c *counts) BodyBytes(d int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.body += d
}

func (c *counts) of(m func(*counts) map[string]int, key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m(c)[key]
}

// fixture is a server on a loopback port; its handler is held to the contract.
type fixture struct {
	t       testing.TB
	api     *api
	config  Config
	server  *httptest.Server
	client  *http.Client
	route   *Route
	mapper  *fakeMapper
	writer  *fakeWriter
	letters *fakeLetters
	counts  *counts
	logs    *bytes.Buffer
	handler http.Handler
	// offline: there is no server; call goes straight to the handler.
	offline bool
}

func offline(f *fixture) { f.offline = true }

// patience is the least of a fixture's times outside bubbles.
const patience = 3 * time.Minute

func newFixture(t testing.TB, change ...func(*fixture)) *fixture {
	t.Helper()
	f := &fixture{t: t, mapper: &fakeMapper{}, writer: &fakeWriter{}, letters: &fakeLetters{}, logs: new(bytes.Buffer),
		counts: &counts{requests: map[string]int{}, records: map[string]int{}}}
	f.route = &Route{Route: &schema.Route{Name: "r", Format: "json", Envelope: schema.AutoEnvelope, OnReject: schema.Fail},
		Sink: &sink.Route{Name: "r"}, Target: fakeTarget{}, Writer: f.writer, Mapper: f.mapper}
	f.config = Config{Routes: []*Route{f.route}, Default: f.route, Limits: DefaultLimits(), Auth: NoAuth, Expose: ExposeAll(),
		DeadLetters: f.letters, Observer: f.counts, Logger: slog.New(slog.NewTextHandler(&lockedWriter{w: f.logs}, nil))}
	for _, c := range change {
		c(f)
	}
	if !f.offline { // over real connections, on a machine that may stand still for seconds
		l := &f.config.Limits
		l.ReadHeaderTimeout, l.ReadBodyTimeout = max(l.ReadHeaderTimeout, patience), max(l.ReadBodyTimeout, patience)
		l.RequestTimeout, l.BatchTimeout = max(l.RequestTimeout, patience), max(l.BatchTimeout, patience)
	}
	f.api = newAPI(f.config)
	f.api.buffers.scribble = true
	f.handler = heldTo(t, f.api.handler(f.config.Auth))
	if !f.offline {
		f.server = httptest.NewUnstartedServer(nil)
		f.server.Config = NewServer(f.handler, f.config.Limits)
		f.server.Listener = Listener(f.server.Listener)
		f.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		f.server.Start()
		t.Cleanup(f.server.Close)
		f.client = &http.Client{Transport: &http.Transport{DialContext: fullduplex.Dial, DisableCompression: true}}
		t.Cleanup(f.client.CloseIdleConnections)
	}
	t.Cleanup(func() {
		if used := f.api.budget.used.Load(); used != 0 && !t.Failed() {
			t.Errorf("%d bytes are still charged to the body budget", used)
		}
	})
	return f
}

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   string
	// the batch members and the problem's
	Received, Written, Skipped, Dropped, DeadLettered, Failed, Retryable int
	Truncated, ErrorsTruncated                                           bool
	Code, Detail, Pointer                                                string
	Errors, Results                                                      []recordAnswer
}

type recordAnswer struct {
	Index, Status                     int
	ID, Code, Detail, Pointer, Result string
	Retryable                         bool
}

func (f *fixture) do(r *http.Request) answer {
	f.t.Helper()
	if f.offline {
		if r.Body == nil {
			r.Body = http.NoBody
		}
		w := newRecorder()
		f.handler.ServeHTTP(w, r)
		return f.read(w.Result())
	}
	resp, err := f.client.Do(r)
	if err != nil {
		f.t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return f.read(resp)
}

func (f *fixture) read(resp *http.Response) answer {
	f.t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: string(b)}
	if resp.Header.Get("Content-Type") == problemType || strings.HasPrefix(a.body, `{"received":`) {
		if err := json.Unmarshal(b, &a, json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(false)); err != nil {
			f.t.Fatalf("answer is not JSON: %v: %s", err, b)
		}
	}
	return a
}

func (f *fixture) request(method, path, body string, header ...string) *http.Request {
	f.t.Helper()
	base := "http://127.0.0.1"
	if f.server != nil {
		base = f.server.URL
	}
	r, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func (f *fixture) push(body string, header ...string) answer {
	f.t.Helper()
	return f.do(f.request("POST", "/v1/routes/r/push", body, header...))
}

// records posts a batch; media is json or x-ndjson.
func (f *fixture) records(media, body string, header ...string) answer {
	f.t.Helper()
	return f.do(f.request("POST", "/v1/routes/r/records", body, append([]string{"Content-Type", "application/" + media}, header...)...))
}

func (f *fixture) want(what string, a answer, status int, code schema.Code) {
	f.t.Helper()
	if a.status != status || a.Code != string(code) {
		f.t.Errorf("%s: got %d %q, want %d %q: %.400s", what, a.status, a.Code, status, code, a.body)
	}
}

// TestMain keeps the tests on loopback.
func TestMain(m *testing.M) {
	http.DefaultTransport = http.NewFileTransport(http.Dir(os.DevNull))
	os.Exit(m.Run())
}
