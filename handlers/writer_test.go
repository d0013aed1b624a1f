package handlers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/internal/fullduplex"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

const testRoutes = `
routes:
  r:
    onReject: %s
    bigtable:
      table: t
      rowKey: "{data.id}"
      timestamp: timestamp("2026-01-02T03:04:05Z")
      families: {f: {gc: {maxVersions: 1}}}
      create: ifNeeded
      set:
        - {family: f, column: v, value: data.v, as: string}
        - {family: f, column: id, value: data.id, as: string}
`

// real puts the compiled mapping and the bounded writer under a fixture; only the service
// behind the writer is made up.
func real(t *testing.T, policy schema.Policy, b *sinktest.Backend, change func(*sink.Options)) func(*fixture) {
	return func(f *fixture) {
		t.Helper()
		b.Merge = true // as Bigtable does
		text := fmt.Sprintf(testRoutes, policy)
		if policy == schema.DeadLetter {
			text = strings.Replace(text, "    bigtable:", "    deadLetterTopic: projects/p/topics/t\n    bigtable:", 1)
		}
		routes, err := schema.Compile("routes.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o := sink.DefaultBigtableOptions()
		if change != nil {
			change(&o)
		}
		w, err := sink.New(b, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := w.Close(ctx); err != nil {
				t.Error(err)
			}
			if v := b.Violations(); len(v) > 0 {
				t.Errorf("the writer broke its rules: %q", v)
			}
		})
		f.route.Route = routes.Default
		f.route.Mapper = nil
		f.route.Sink = &sink.Route{Name: "r", Trips: policy != schema.Fail}
		f.route.Writer = SinkWriter(w, sink.Dest{Instance: "i", Table: "t"})
	}
}

func TestACK07OverloadAnswersQuickly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := sinktest.New()
		block := make(chan struct{})
		b.Inject(sinktest.Stall(block))
		f := newFixture(t, offline, real(t, schema.Fail, b, func(o *sink.Options) {
			o.MaxBuffered = 10
			o.MaxInFlightRequests, o.MaxInFlightRequestsDest, o.MaxBatchEntries = 2, 2, 1
			o.AttemptTimeout = time.Minute
		}))
		start := time.Now()
		type timedAnswer struct {
			answer
			took time.Duration
		}
		answers := make(chan timedAnswer, 200)
		for i := range 200 {
			go func() {
				a := f.push(wrap(fmt.Sprintf(`{"id":"k%d"}`, i), fmt.Sprint("m", i)))
				answers <- timedAnswer{a, time.Since(start)}
			}()
		}
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		refused := len(answers)
		if refused < 200-10-2-2 { // a cap is passed by at most one entry
			t.Errorf("ACK-07 only %d of 200 are answered", refused)
		}
		for range refused {
			a := <-answers
			if a.status != 429 && a.status != 503 || a.header.Get("Retry-After") == "" || a.took > 900*time.Millisecond {
				t.Errorf("ACK-07 got %d after %v: %s", a.status, a.took, a.body)
			}
		}
		close(block)
		for range 200 - refused {
			f.want("ACK-07 admitted", (<-answers).answer, 204, "")
		}
	})
}

func TestSRV06OneCallerLeavesTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := sinktest.New()
		b.Latency = time.Second
		f := newFixture(t, offline, real(t, schema.Fail, b, nil))
		p := servePipes(t, f)
		c := p.client(false)
		send := func(ctx context.Context, i int) (int, error) {
			r := post(t, "/v1/routes/r/push", strings.NewReader(wrap(fmt.Sprintf(`{"id":"k%d"}`, i), fmt.Sprint("m", i))), -1)
			resp, err := c.Do(r.WithContext(ctx))
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			return resp.StatusCode, nil
		}
		// The first request keeps the lane busy, so that the next ten share a batch.
		go send(t.Context(), 99)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int, 10)
		for i := range 10 {
			go func() {
				ctx := ctx
				if i != 1 {
					ctx = t.Context()
				}
				status, err := send(ctx, i)
				if err != nil && i != 1 {
					t.Error(err)
				}
				done <- status
			}()
		}
		time.Sleep(500 * time.Millisecond)
		cancel()
		ok := 0
		for range 10 {
			if <-done == 204 {
				ok++
			}
		}
		if ok != 9 || b.Stored("m1") != 1 {
			t.Errorf("SRV-06 %d answered 204, the leaver's record is stored %d times", ok, b.Stored("m1"))
		}
	})
}

func TestSHUT03BackendFaultsNeverAcknowledge(t *testing.T) {
	for name, fault := range map[string]sinktest.Fault{
		"panic": sinktest.Panic(), "short": sinktest.Short(), "long": sinktest.Long(), "denied": sinktest.FailWhole(sinktest.Denied),
		"unavailable for ever": sinktest.FailWhole(sinktest.Unavailable), "applied but unavailable": sinktest.ApplyAndFail(sinktest.Unavailable),
		"forgotten": sinktest.Forget("m"), "no outcomes": func(context.Context, *sinktest.Request) []sink.Outcome { return []sink.Outcome{} },
	} {
		t.Run("SHUT-03 "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := sinktest.New()
				b.Inject(fault)
				f := newFixture(t, offline, real(t, schema.Drop, b, nil))
				a := f.push(wrap(`{"id":"a"}`, "m"))
				if a.status != 503 {
					t.Errorf("push: %d %s", a.status, a.body)
				}
				a = f.records("x-ndjson", "{\"id\":\"b\"}\n", "Idempotency-Key", "m")
				if name != "forgotten" && a.status != 503 && a.status != 504 {
					t.Errorf("batch: %d %s", a.status, a.body)
				}
			})
		})
	}
}

func TestTrippedRouteDropsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := sinktest.New()
		b.Inject(func(_ context.Context, r *sinktest.Request) []sink.Outcome {
			out := make([]sink.Outcome, len(r.Entries))
			for i, e := range r.Entries {
				out[i] = sink.Outcome{Kind: sink.Applied}
				if strings.HasPrefix(e.Key, "bad") {
					out[i] = sinktest.Refused
				}
			}
			return out
		})
		f := newFixture(t, offline, real(t, schema.Drop, b, func(o *sink.Options) { o.MaxConsecutiveRejections = 3 }))
		n := 0
		send := func(id string, status int, code schema.Code) {
			t.Helper()
			n++
			f.want(id, f.push(wrap(`{"id":"`+id+`"}`, fmt.Sprint("m", n))), status, code)
		}
		health := func(want int) {
			t.Helper()
			for _, path := range []string{"routes/r", "ready"} {
				if s, _, why := f.probe(path); s != want {
					t.Errorf("%s: %d %q", path, s, why)
				}
			}
		}
		// HEALTH-03: mapping failures and undecodable payloads are dropped and never count.
		for range 10 {
			f.want("mapping", f.push(wrap(`{"v":"x"}`, "m")), 204, "")
			f.want("payload", f.push(wrap(`{`, "m")), 204, "")
		}
		health(200)
		send("bad1", 204, "")
		send("bad2", 204, "")
		send("good", 204, "") // HEALTH-01: sets the streak to 0
		send("bad1", 204, "")
		send("bad2", 204, "")
		health(200)
		send("bad3", 204, "") // trips, and is still routed
		health(503)
		if _, _, why := f.probe("ready"); !strings.Contains(why, "WRITER_MAX_CONSECUTIVE_REJECTIONS=3") || !strings.Contains(why, "3 rejections") {
			t.Errorf("ready: %q", why)
		}
		send("bad4", 503, schema.Tripped)
		send("good", 503, schema.Tripped)
		f.want("mapping while tripped", f.push(wrap(`{"v":"x"}`, "m")), 503, schema.Tripped)
		f.want("payload while tripped", f.push(wrap(`{`, "m")), 503, schema.Tripped)

		time.Sleep(f.config.Limits.TrialInterval)
		if s, state, _ := f.probe("ready"); s != 200 || state != "trial" {
			t.Errorf("half-open: %d %s", s, state)
		}
		f.want("mapping while half-open", f.push(wrap(`{"v":"x"}`, "m")), 503, schema.Tripped)
		send("bad5", 503, schema.Tripped)
		health(503)
		time.Sleep(f.config.Limits.TrialInterval)
		send("good", 204, "")
		health(200)
		f.want("mapping after", f.push(wrap(`{"v":"x"}`, "m")), 204, "")
	})
}

func TestJSTRPayloads(t *testing.T) {
	for _, c := range []struct {
		name, payload string
		push          int
		code          schema.Code
	}{
		{"JSTR-03 second value", `{"id":"1"} {"id":"2"}`, 422, schema.BadJSON},
		{"JSTR-03 junk", `{"id":"1"}xyz`, 422, schema.BadJSON},
		{"JSTR-03 blank end", "{\"id\":\"1\"}\n\n", 204, ""},
		{"JSTR-04 two objects", `{"id":"1"}{"id":"2"}`, 422, schema.BadJSON},
		{"JSTR-06 invalid UTF-8", "{\"id\":\"a\xffb\"}", 422, schema.BadJSON},
		{"JSTR-06 U+FFFD", "{\"id\":\"a\uFFFDb\"}", 204, ""},
		{"JSTR-07 lone surrogate", `{"id":"\ud800"}`, 422, schema.BadJSON},
		{"JSTR-07 pair", `{"id":"\ud83d\ude00"}`, 204, ""},
		{"JSTR-09 deep", strings.Repeat("[", 100_001) + strings.Repeat("]", 100_001), 422, schema.TooDeep},
		{"JSTR-09 101 levels", `{"id":"a","v":` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + `}`, 422, schema.TooDeep},
		{"JSTR-01 duplicate", `{"id":"a","id":"b"}`, 422, schema.BadJSON},
		{"BTVAL-03 empty key", `{"id":""}`, 422, schema.KeyPartMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := sinktest.New()
			f := newFixture(t, real(t, schema.Fail, b, nil))
			f.want("push", f.push(wrap(c.payload, "m")), c.push, c.code)
			if want := map[bool]int{true: 1}[c.push == 204]; b.Stored("m") != want {
				t.Errorf("stored %d times", b.Stored("m"))
			}
			// As a line among good ones it costs itself only.
			if strings.Contains(c.payload, "\n") {
				return
			}
			a := f.records("x-ndjson", "{\"id\":\"x\"}\n"+c.payload+"\n{\"id\":\"y\"}\n")
			if a.status != map[bool]int{true: 200, false: 422}[c.push == 204] || a.Received != 3 || c.push != 204 && (a.Written != 2 || a.Errors[0].Index != 1 || a.Errors[0].Code != string(c.code)) {
				t.Errorf("line: %d %.300s", a.status, a.body)
			}
		})
	}
	f := newFixture(t, real(t, schema.Fail, sinktest.New(), nil))
	if a := f.push(wrap("{\"id\":\"a\xffb\"}", "m")); !strings.Contains(a.Detail, "8") || strings.Contains(a.body, "\xff") {
		t.Errorf("JSTR-06 the byte is not named: %s", a.body)
	}
}

func TestStreamOverloadWithTheRealWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := sinktest.New()
		block := make(chan struct{})
		b.Inject(sinktest.Stall(block))
		f := newFixture(t, offline, real(t, schema.Fail, b, func(o *sink.Options) {
			o.MaxInFlightEntries, o.MaxBuffered = 40, 40
			o.AttemptTimeout = time.Minute
		}))
		sent := 0
		r := f.request("POST", "/v1/routes/r/records", "", "Content-Type", "application/x-ndjson")
		r.Body, r.ContentLength = io.NopCloser(readerFunc(func(p []byte) (int, error) {
			if sent == 100_000 {
				return 0, io.EOF
			}
			sent++
			return copy(p, fmt.Sprintf("{\"id\":\"k%d\"}\n", sent)), nil
		})), -1
		done := make(chan answer)
		go func() { done <- f.do(r) }()
		time.Sleep(2 * time.Second)
		close(block)
		a := <-done
		if (a.status != 429 && a.status != 503) || !a.Truncated && a.status == 429 || a.Written == 0 || a.Written > 41 || sent == 100_000 && a.status == 429 {
			t.Errorf("got %d after %d lines: %.400s", a.status, sent, a.body)
		}
		for i := 1; i <= a.Written; i++ {
			if len(b.Applied(sink.Dest{Instance: "i", Table: "t"}, fmt.Sprint("k", i))) != 1 {
				t.Errorf("line %d is not stored", i)
			}
		}
	})
}

// WR-13: what a blocked sink lets the process hold is bounded by bytes.
func TestWR13MemoryIsBounded(t *testing.T) {
	b := sinktest.New()
	block := make(chan struct{})
	b.Inject(sinktest.Stall(block))
	const record, inFlight, bodies = 512 << 10, 4 << 20, 4 << 20
	f := newFixture(t, real(t, schema.Fail, b, func(o *sink.Options) { o.MaxInFlightBytes = inFlight; o.AttemptTimeout = patience }), func(f *fixture) {
		f.config.Limits.BodyBytesInFlight, f.config.Limits.MaxBodyBytes = bodies, bodies
	})
	f.api.buffers.scribble = false
	payload := wrap(`{"id":"a","v":"`+strings.Repeat("x", record)+`"}`, "m")
	answers := make(chan int, 300)
	tr := &http.Transport{DialContext: fullduplex.Dial}
	defer tr.CloseIdleConnections()
	var refused int
	grown := heapPeak(t, func() {
		for range 300 {
			go func() {
				resp, err := (&http.Client{Transport: tr}).Post(f.server.URL+"/v1/routes/r/push", "", strings.NewReader(payload))
				if err != nil {
					answers <- 0 // the server closed while the body was on its way
					return
				}
				resp.Body.Close()
				answers <- resp.StatusCode
			}()
		}
		for refused = 0; refused < 300-inFlight/record-2; refused++ {
			if s := <-answers; s != 429 && s != 503 && s != 0 {
				t.Errorf("WR-13 answered %d", s)
			}
		}
	})
	if bound := uint64(2.5*(inFlight+bodies)) + 64<<20; grown > bound {
		t.Errorf("WR-13 memory grew by %d MiB, the bound is %d MiB", grown>>20, bound>>20)
	}
	close(block)
	for range 300 - refused {
		if s := <-answers; s != 204 && s != 429 && s != 503 && s != 0 {
			t.Errorf("WR-13 answered %d", s)
		}
	}
}
