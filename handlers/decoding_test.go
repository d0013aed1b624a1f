package handlers

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/schema"
)

// lending is an exchange that may decode in part of what the process has.
func lending(t *testing.T, h *api, timeout time.Duration) *exchange {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
	x := h.begin(&statusWriter{ResponseWriter: httptest.NewRecorder(), start: time.Now()}, r, timeout)
	t.Cleanup(x.end)
	return x
}

func code(err *schema.Error) schema.Code {
	if err == nil {
		return ""
	}
	return err.Code
}

// A record waits for memory as long as for its admission, then it is overloaded. One that can
// never have as much is too large, at once. What was lent comes back, however the wait ended.
func TestMemoryToDecodeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &api{limits: DefaultLimits(), decoding: newDecoding(1000)}
		first, second, third := lending(t, h, time.Minute), lending(t, h, time.Minute), lending(t, h, 100*time.Millisecond)
		if err := first.Reserve(1001); code(err) != schema.TooLarge || !strings.Contains(err.Detail, "BODY_BYTES_IN_FLIGHT") {
			t.Errorf("more than there is: %v", err)
		}
		if err := first.Reserve(600); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := second.Reserve(500); code(err) != schema.Overloaded || time.Since(start) != h.limits.AdmissionTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		start = time.Now()
		if err := third.Reserve(500); code(err) != schema.Deadline || time.Since(start) > 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		// What a record had goes back before it waits for more: two that each have half
		// never wait for one another.
		if err := first.Reserve(500); err != nil {
			t.Fatal(err)
		}
		if err := second.Reserve(500); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for _, x := range []*exchange{first, second} {
			both.Go(func() {
				if err := x.Reserve(900); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond) // it decodes
				x.decoded()
			})
		}
		both.Wait()
		if !h.decoding.free.TryAcquire(1000) {
			t.Error("not all came back")
		}
	})
}

// hungry is a mapping that wants so much memory for each record.
type hungry struct{ n int64 }

func (m hungry) Apply(r *schema.Record) (schema.Mutation, error) {
	if err := r.Memory.Reserve(m.n); err != nil {
		return schema.Mutation{}, err
	}
	return schema.Mutation{Skip: schema.SkippedWhere}, nil
}

// A record without memory to be decoded in is answered as one that was not admitted, never as
// one that was taken; where it can never have it, the route's policy takes it.
func TestNoMemoryToDecode(t *testing.T) {
	for _, c := range []struct {
		name, path, media string
		wants, taken      int64
		status            int
		code              string
	}{
		{"push", "push", "application/json", 1000, 1, 429, "overloaded"},
		{"array", "records", "application/json", 1000, 1, 429, "overloaded"},
		{"stream", "records", "application/x-ndjson", 1000, 1, 429, "overloaded"},
		{"push that fits", "push", "application/json", 1000, 0, 204, ""},
		{"push that never fits", "push", "application/json", 1 << 40, 0, 422, "too_large"},
		{"stream that never fits", "records", "application/x-ndjson", 1 << 40, 0, 422, "too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const most = 100_000
			f := newFixture(t, offline, func(f *fixture) {
				f.route.Mapper = hungry{c.wants}
				f.config.Limits.BodyBytesInFlight, f.config.Limits.MaxBodyBytes = most, most
				f.config.Limits.AdmissionTimeout = time.Millisecond
			})
			free := f.api.decoding.free
			if c.taken > 0 && !free.TryAcquire(most-c.wants+c.taken) {
				t.Fatal("no memory to begin with")
			}
			body := `{"id":"a"}`
			if c.path == "push" {
				body = `{"message":{"messageId":"1","data":"eyJpZCI6ImEifQ=="}}`
			}
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(context.Background(), "POST", "/v1/routes/r/"+c.path, bytes.NewReader([]byte(body)))
			r.Header.Set("Content-Type", c.media)
			f.handler.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.code) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if (w.Code == 429) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
			}
			if c.taken == 0 && !free.TryAcquire(most) {
				t.Error("the memory did not come back")
			}
		})
	}
}

// A message's attributes are counted while they are held, and its id holds no more than itself.
func TestManyNamesAreCounted(t *testing.T) {
	body := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"` + strings.Repeat("a", 3) + string(rune('A'+i%26)) + strconv.Itoa(i) + `":""`)
		}
		return `{"message":{"messageId":"1","data":"eyJpZCI6ImEifQ==","attributes":{` + b.String()[1:] + `}}}`
	}
	f := newFixture(t, offline, func(f *fixture) {
		f.config.Limits.BodyBytesInFlight, f.config.Limits.MaxBodyBytes = 1<<20, 1<<20
	})
	for _, c := range []struct{ attributes, status int }{{100, 204}, {1000, 204}, {5000, 429}, {20_000, 413}} {
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), "POST", "/v1/routes/r/push", strings.NewReader(body(c.attributes))))
		if w.Code != c.status {
			t.Errorf("%d attributes: %d %s, want %d", c.attributes, w.Code, w.Body, c.status)
		}
	}
}

// crowded is a mapping for whose first record others took the memory.
type crowded struct {
	fakeMapper
	first sync.Once
}

func (m *crowded) Apply(r *schema.Record) (out schema.Mutation, err error) {
	m.first.Do(func() {
		if refused := r.Memory.Reserve(2); refused != nil {
			err = refused
		}
	})
	if err != nil {
		return schema.Mutation{}, err
	}
	return m.fakeMapper.Apply(r)
}

// After a record that got no memory nothing more of its request is submitted, so that it is not
// sent again after what followed it was written.
func TestNothingIsSubmittedAfterARecordWithoutMemory(t *testing.T) {
	for media, body := range map[string]string{
		"application/json":     `[{"id":"a"},{"id":"a"},{"id":"b"}]`,
		"application/x-ndjson": "{\"id\":\"a\"}\n{\"id\":\"a\"}\n{\"id\":\"b\"}\n",
	} {
		f := newFixture(t, offline, func(f *fixture) {
			f.route.Mapper = new(crowded)
			f.config.Limits.AdmissionTimeout = time.Millisecond
		})
		if !f.api.decoding.free.TryAcquire(f.api.decoding.max - 1) {
			t.Fatal("no memory to begin with")
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(context.Background(), "POST", "/v1/routes/r/records", strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		f.handler.ServeHTTP(w, r)
		if w.Code != 429 || len(f.writer.entries()) != 0 || !strings.Contains(w.Body.String(), `"failed":3,"retryable":3`) {
			t.Errorf("%s: %d %s, submitted %v", media, w.Code, w.Body, f.writer.entries())
		}
	}
}

// Only names of an envelope are counted: not what looks like them in a payload.
func TestOnlyNamesOfAnEnvelopeAreCounted(t *testing.T) {
	const times = 10_000
	payload := `{"id":"a","times":"` + strings.Repeat("12:00:", times) + `"}`
	named := `{"id":"a"` + func() string {
		var b strings.Builder
		for i := range times {
			b.WriteString(`,"` + strconv.Itoa(i) + `":0`)
		}
		return b.String()
	}() + `}`
	event := map[string]string{"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "s", "Ce-Type": "t", "Content-Type": "application/json"}
	structured := map[string]string{"Content-Type": cloudEventType}
	for _, c := range []struct {
		name, path, body string
		header           map[string]string
		status           int
	}{
		{"times in an event's own body", "push", payload, event, 204},
		{"names in an event's own body", "push", named, event, 204},
		{"times in a structured event", "push", `{"specversion":"1.0","id":"1","source":"s","type":"t","data":` + payload + `}`, structured, 204},
		{"names in a structured event", "push", `{"specversion":"1.0","id":"1","source":"s","type":"t","data":` + named + `}`, structured, 413},
		{"a dry run of a payload", "dryrun", named, nil, 200},
		{"a dry run of a delivery", "dryrun", `{"message":{"messageId":"1","attributes":` + named + `}}`, nil, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, offline, func(f *fixture) {
				f.config.Limits.BodyBytesInFlight, f.config.Limits.MaxBodyBytes = 1<<20, 1<<20
				f.config.Expose.Dryrun = true
			})
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(context.Background(), "POST", "/v1/routes/r/"+c.path, strings.NewReader(c.body))
			for name, v := range c.header {
				r.Header.Set(name, v)
			}
			f.handler.ServeHTTP(w, r)
			if w.Code != c.status || (w.Code == 413) != strings.Contains(w.Body.String(), "names in one envelope") {
				t.Errorf("%d %.300s, want %d", w.Code, w.Body, c.status)
			}
		})
	}
}

// late is a mapping that wants memory for a record's payload, where its id says so.
type late struct{ fakeMapper }

func (m *late) Apply(r *schema.Record) (schema.Mutation, error) {
	if strings.Contains(string(r.Data), "large") {
		if err := r.Memory.Reserve(2); err != nil {
			return schema.Mutation{}, err
		}
		time.Sleep(time.Millisecond) // it decodes
	}
	return m.fakeMapper.Apply(r)
}

// What stands before a record that waits for memory does not wait with it. Where the writer has
// no room for that, the record is not waited for.
func TestRecordsBeforeOneThatWaitsForMemoryAreSubmitted(t *testing.T) {
	for _, refused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, offline, func(f *fixture) {
				f.route.Mapper = new(late)
				f.writer.refuse = func(int) bool { return refused }
			})
			free := f.api.decoding.free
			if !free.TryAcquire(f.api.decoding.max - 1) {
				t.Fatal("no memory to begin with")
			}
			w := httptest.NewRecorder()
			start, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				r := httptest.NewRequestWithContext(context.Background(), "POST", "/v1/routes/r/records",
					strings.NewReader(`[{"id":"a"},{"id":"b"},{"id":"large1"},{"id":"c"},{"id":"large2"},{"id":"d"}]`))
				r.Header.Set("Content-Type", "application/json")
				f.handler.ServeHTTP(w, r)
			}()
			if refused {
				<-done
				if w.Code != 429 || len(f.writer.entries()) != 2 || time.Since(start) > 0 {
					t.Errorf("%d %s after %v, submitted %v", w.Code, w.Body, time.Since(start), f.writer.entries())
				}
				return
			}
			for _, want := range []int{2, 4} {
				synctest.Wait()
				if n := len(f.writer.entries()); n != want {
					t.Errorf("%d records are submitted, want %d", n, want)
				}
				free.Release(1)
				synctest.Wait()
				_ = free.Acquire(context.Background(), 1) // when the record has done, before the next
			}
			<-done
			if w.Code != 200 || len(f.writer.entries()) != 6 || !strings.Contains(w.Body.String(), `"written":6`) {
				t.Errorf("%d %s, submitted %v", w.Code, w.Body, f.writer.entries())
			}
		})
	}
}

// watched is a client that may take its time with an answer.
type watched struct {
	*httptest.ResponseRecorder
	wrote func()
}

func (w watched) Write(b []byte) (int, error) {
	w.wrote()
	return w.ResponseRecorder.Write(b)
}

// An answer is written with no memory to decode in.
func TestAnswersHoldNoMemoryToDecodeIn(t *testing.T) {
	for path, body := range map[string]string{
		"push":    `{"message":{"messageId":"1","data":"eyJpZCI6ImEifQ=="}}`,
		"records": `{"id":"a"}`,
		"dryrun":  `{"id":"a"}`,
	} {
		f := newFixture(t, offline, func(f *fixture) { f.route.Mapper = hungry{1000} })
		w := watched{httptest.NewRecorder(), func() {
			if !f.api.decoding.free.TryAcquire(f.api.decoding.max) {
				t.Errorf("%s: some is held", path)
			}
		}}
		r := httptest.NewRequestWithContext(context.Background(), "POST", "/v1/routes/r/"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		f.handler.ServeHTTP(w, r)
		if w.Code >= 300 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
