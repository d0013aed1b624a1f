package handlers

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

func gz(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		z := gzip.NewWriter(&b)
		z.Write([]byte(p))
		z.Close()
	}
	return b.String()
}

func zst(t testing.TB, parts ...string) string {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var b []byte
	for _, p := range parts {
		b = z.EncodeAll([]byte(p), b)
	}
	return string(b)
}

func TestACK06EveryRecordHasItsOutcome(t *testing.T) {
	f := newFixture(t, func(f *fixture) {
		f.writer.outcome = func(e sink.Entry) sink.Outcome {
			if e.Key == "b" {
				return sink.Outcome{Kind: sink.Rejected, Err: errors.New("x")}
			}
			return sink.Outcome{Kind: sink.Applied}
		}
	})
	for name, send := range map[string]func(header ...string) answer{
		"json": func(h ...string) answer { return f.records("json", `[{"id":"a"},{"id":"b"},{"id":"c"}]`, h...) },
		"ndjson": func(h ...string) answer {
			return f.records("x-ndjson", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}", h...)
		},
	} {
		a := send()
		f.want("ACK-06 "+name, a, 422, schema.Constraint)
		if a.Received != 3 || a.Written != 2 || a.Failed != 1 || a.Retryable != 0 || len(a.Errors) != 1 || a.Errors[0].Index != 1 || a.Errors[0].Status != 422 || a.Errors[0].Code != "constraint" {
			t.Errorf("ACK-06 %s: %s", name, a.body)
		}
		a = send("Prefer", "handling=lenient")
		f.want("ACK-06 lenient", a, 207, "")
		if a.header.Get("Preference-Applied") != "handling=lenient" || len(a.Errors) != 1 {
			t.Errorf("lenient: %v %s", a.header, a.body)
		}
		for _, key := range []string{"a", "c"} {
			if _, ok := f.writer.row(key); !ok {
				t.Errorf("row %s is missing", key)
			}
		}
	}
	a := f.do(f.request("POST", "/v1/routes/r/records?results=all", `[{"id":"a"},{"do":"skip"},{"id":"b"},{"do":"mismatch"}]`, "Content-Type", "application/json"))
	f.want("all", a, 422, a2code(a))
	var got []string
	for _, r := range a.Results {
		got = append(got, fmt.Sprint(r.Index, " ", r.Status, " ", r.Result, r.Code))
	}
	if want := []string{"0 200 written", "1 200 skipped", "2 422 constraint", "3 422 type_mismatch"}; !slices.Equal(got, want) {
		t.Errorf("results: %q, want %q", got, want)
	}
	if a.Errors[1].Pointer != "/do" || a.Skipped != 1 || a.Written != 1 || a.Failed != 2 {
		t.Errorf("got %s", a.body)
	}
}

// a2code is the problem's code where several records failed, which is one of theirs.
func a2code(a answer) schema.Code { return schema.Code(a.Code) }

func TestJSTRDocuments(t *testing.T) {
	deep := strings.Repeat("[", 100_001) + strings.Repeat("]", 100_001)
	for _, c := range []struct {
		name, body string
		status     int
		code       schema.Code
		written    int
		detail     string
	}{
		{"JSTR-03 second value", `{"id":"1"} {"id":"2"}`, 400, schema.BadJSON, 0, "data after"},
		{"JSTR-03 junk", `{"id":"1"}xyz`, 400, schema.BadJSON, 0, "at byte 10"},
		{"JSTR-03 bracket", `{"id":"1"}]`, 400, schema.BadJSON, 0, "at byte 10"},
		{"JSTR-03 brace after array", `[{"id":"1"}]}`, 400, schema.BadJSON, 0, "at byte 12"},
		{"JSTR-03 blank end", "{\"id\":\"1\"}\n\n", 200, "", 1, ""},
		{"array cut", `[{"id":"1"},{"id":"2"}`, 400, schema.BadJSON, 0, "ends early"},
		{"array with a bad end", `[{"id":"1"},{"id":"2"},]`, 400, schema.BadJSON, 0, ""},
		{"scalar", `1`, 400, schema.BadJSON, 0, "object or an array"},
		{"null", `null`, 400, schema.BadJSON, 0, "object or an array"},
		{"empty", ``, 400, schema.BadJSON, 0, "empty"},
		{"empty array", `[]`, 200, "", 0, ""},
		{"JSTR-06 invalid UTF-8", "{\"id\":\"a\xffb\"}", 400, schema.BadJSON, 0, "invalid UTF-8 at byte 8"},
		{"a byte order mark", "\ufeff{\"id\":\"a\"}", 400, schema.BadJSON, 0, "not strict JSON at byte 0"},
		{"a hard space", "{\u00a0\"id\":\"a\"}", 400, schema.BadJSON, 0, "not strict JSON at byte 1"},
		{"JSTR-06 legitimate U+FFFD", "{\"id\":\"a\uFFFDb\"}", 200, "", 1, ""},
		{"JSTR-07 lone surrogate", `{"id":"\ud800"}`, 400, schema.BadJSON, 0, "lone surrogate"},
		{"JSTR-07 pair", `{"id":"\ud83d\ude00"}`, 200, "", 1, ""},
		{"JSTR-09 depth", deep, 400, schema.TooDeep, 0, "10000"},
		{"JSTR-01 duplicate costs the record only", `[{"id":"a","id":"b"},{"id":"c"}]`, 422, schema.BadJSON, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			a := f.records("json", c.body)
			f.want(c.name, a, c.status, c.code)
			if n := len(f.writer.entries()); n != c.written || a.Written != c.written {
				t.Errorf("%d entries, %d written, want %d", n, a.Written, c.written)
			}
			if !strings.Contains(a.Detail, c.detail) {
				t.Errorf("detail %q, want %q in it", a.Detail, c.detail)
			}
		})
	}
}

func TestNDJSONLines(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		keys       string // those written
		errs       string // index code
	}{
		{"plain", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", 200, "a b", ""},
		{"no final newline", "{\"id\":\"a\"}\n{\"id\":\"b\"}", 200, "a b", ""},
		{"CRLF", "{\"id\":\"a\"}\r\n{\"id\":\"b\"}\r\n", 200, "a b", ""},
		{"blank lines", "\n\r\n  \t\n{\"id\":\"a\"}\n\n\n{\"id\":\"b\"}\n\n", 200, "a b", ""},
		{"empty", "", 200, "", ""},
		{"JSTR-04 two on one line", "{\"id\":\"1\"}{\"id\":\"2\"}\n{\"id\":\"3\"}\n", 422, "3", "0 bad_json"},
		{"JSTR-04 junk after", "{\"id\":\"1\"} x\n{\"id\":\"3\"}\n", 422, "3", "0 bad_json"},
		{"JSTR-06 invalid UTF-8", "{\"id\":\"a\xffb\"}\n{\"id\":\"3\"}\n", 422, "3", "0 bad_json"},
		{"JSTR-07 lone surrogate", "{\"id\":\"a\"}\n{\"id\":\"\\ud800\"}\n", 422, "a", "1 bad_json"},
		{"JSTR-09 depth", strings.Repeat("[", 100_001) + "\n{\"id\":\"a\"}\n", 422, "a", "0 bad_json"},
		{"a bad last line", "{\"id\":\"a\"}\n{\"id\":", 422, "a", "1 bad_json"},
		{"a pretty printed object", "{\n\"id\":\"a\"\n}\n{\"id\":\"b\"}", 422, "b", "0 bad_json,1 bad_json,2 bad_json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// In one piece and byte by byte: the same lines.
			for _, body := range []func(*http.Request){func(*http.Request) {}, trickle} {
				f := newFixture(t, func(f *fixture) { f.route.OnReject = schema.Drop })
				r := f.request("POST", "/v1/routes/r/records", c.body, "Content-Type", "application/x-ndjson")
				if len(c.body) < 1000 {
					body(r)
				}
				a := f.do(r)
				if a.status != c.status {
					t.Errorf("got %d, want %d: %s", a.status, c.status, a.body)
				}
				var keys, errs []string
				for _, e := range f.writer.entries() {
					keys = append(keys, e.Key)
				}
				for _, e := range a.Errors {
					errs = append(errs, fmt.Sprint(e.Index, " ", e.Code))
				}
				if strings.Join(keys, " ") != c.keys || strings.Join(errs, ",") != c.errs {
					t.Errorf("keys %q errors %q, want %q %q: %s", keys, errs, c.keys, c.errs, a.body)
				}
			}
		})
	}
}

// trickle sends a request's body one byte at a time.
func trickle(r *http.Request) {
	body := r.Body
	r.Body = struct {
		oneByte
		closer
	}{oneByte{body}, body.Close}
	r.ContentLength = -1
}

type closer func() error

func (c closer) Close() error { return c() }

type oneByte struct {
	r interface{ Read([]byte) (int, error) }
}

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1)]) }

// The code of a batch's answer is one that goes with its status, whatever failed after it.
func TestCodeOfABatchGoesWithItsStatus(t *testing.T) {
	kinds := map[string]sink.Outcome{
		"rejected": {Kind: sink.Rejected, Err: errors.New("refused")},
		"full":     {Kind: sink.Transient, Err: sink.ErrOverloaded},
		"down":     {Kind: sink.Transient, Err: errors.New("down")},
		"late":     {Err: sink.ErrWithdrawn},
		"open":     {Err: sink.ErrInFlight},
	}
	for _, c := range []struct {
		ids    string
		status int
		code   schema.Code
	}{
		{"ok rejected mismatch", 422, schema.TypeMismatch},
		{"full rejected", 429, schema.Overloaded},
		{"rejected full rejected", 429, schema.Overloaded},
		{"down full rejected", 503, schema.Unavailable},
		{"full down mismatch full", 503, schema.Unavailable},
		{"late rejected full", 503, schema.Deadline},
		{"open late down full mismatch", 504, schema.Deadline},
	} {
		f := newFixture(t, func(f *fixture) {
			f.writer.outcome = func(e sink.Entry) sink.Outcome {
				if o, ok := kinds[e.Key]; ok {
					return o
				}
				return sink.Outcome{Kind: sink.Applied}
			}
		})
		var lines strings.Builder
		for id := range strings.FieldsSeq(c.ids) {
			if id == "mismatch" {
				lines.WriteString(`{"id":"a","do":"mismatch"}` + "\n")
			} else {
				lines.WriteString(`{"id":"` + id + `"}` + "\n")
			}
		}
		f.want(c.ids, f.records("x-ndjson", lines.String()), c.status, c.code)
	}
}

func TestBODY01LongLines(t *testing.T) {
	const limit = 100_000
	pad := func(id string, n int) string {
		head, tail := `{"id":"`+id+`","x":"`, `"}`
		return head + strings.Repeat("y", n-len(head)-len(tail)) + tail
	}
	for _, c := range []struct {
		name   string
		second int
		status int
		keys   string
	}{
		{"BODY-01 70,000 bytes", 70_000, 200, "a b c"},
		{"BODY-01 the limit", limit, 200, "a b c"},
		{"BODY-01 one past the limit", limit + 1, 422, "a c"},
		{"BODY-01 two past the limit", limit + 2, 422, "a c"},
		{"BODY-01 far past the limit", 5 * limit, 422, "a c"},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			t.Run(c.name+fmt.Sprintf("%q", end), func(t *testing.T) {
				f := newFixture(t, func(f *fixture) { f.config.Limits.MaxRecordBytes = limit; f.route.OnReject = schema.Drop })
				a := f.records("x-ndjson", pad("a", 100)+end+pad("b", c.second)+end+pad("c", 100)+end)
				var keys []string
				for _, e := range f.writer.entries() {
					keys = append(keys, e.Key)
				}
				if a.status != c.status || strings.Join(keys, " ") != c.keys || a.Received != 3 {
					t.Errorf("got %d %q %d received, want %d %q: %.300s", a.status, keys, a.Received, c.status, c.keys, a.body)
				}
				if c.status == 422 && (a.Errors[0].Index != 1 || a.Errors[0].Code != "too_large" || !strings.Contains(a.Errors[0].Detail, "WRITER_MAX_RECORD_SIZE_BYTES")) {
					t.Errorf("got %s", a.body)
				}
			})
		}
	}
	f := newFixture(t, func(f *fixture) { f.config.Limits.MaxRecordBytes = limit })
	a := f.records("json", `[{"id":"a"},`+pad("b", limit+1)+`]`)
	if a.status != 422 || a.Written != 1 || a.Errors[0].Code != "too_large" {
		t.Errorf("array: %d %.300s", a.status, a.body)
	}
}

func TestPushsinkTime(t *testing.T) {
	at := time.Date(2026, 11, 29, 10, 0, 0, 123_456_789, time.UTC)
	clock := at
	f := newFixture(t, func(f *fixture) { f.config.Now = func() time.Time { return clock } })
	published := func() time.Time {
		rs := f.mapper.records()
		return rs[len(rs)-1].Published
	}

	a := f.records("json", `{"id":"a"}`)
	if a.header.Get("Pushsink-Time") != "2026-11-29T10:00:00.123Z" || published() != at.Truncate(time.Millisecond) {
		t.Errorf("arrival: header %q, published %v", a.header.Get("Pushsink-Time"), published())
	}
	// The clock goes back: arrival times do not.
	clock = at.Add(-time.Hour)
	a = f.records("x-ndjson", `{"id":"a"}`)
	if a.header.Get("Pushsink-Time") != "2026-11-29T10:00:00.123Z" {
		t.Errorf("arrival went back to %q", a.header.Get("Pushsink-Time"))
	}
	// A retry sends it back, with any offset, and moves nothing else.
	for sent, want := range map[string]string{
		"2026-11-29T10:00:00.123Z":            "2026-11-29T10:00:00.123Z",
		"2030-01-01T02:00:00.123456789+02:00": "2030-01-01T00:00:00.123456789Z",
	} {
		a = f.records("json", `[{"id":"a"}]`, "Pushsink-Time", sent)
		f.want("sent", a, 200, "")
		if a.header.Get("Pushsink-Time") != want || published().Format(time.RFC3339Nano) != want {
			t.Errorf("sent %q: header %q, published %v, want %q", sent, a.header.Get("Pushsink-Time"), published(), want)
		}
	}
	if a = f.records("json", `{"id":"a"}`); a.header.Get("Pushsink-Time") != "2026-11-29T10:00:00.123Z" {
		t.Errorf("a sent time moved the clock to %q", a.header.Get("Pushsink-Time"))
	}
	n := len(f.writer.entries())
	for _, sent := range []string{"soon", "2026-11-29", "1764410400", "2026-11-29T10:00:00", "2026-11-29T10:00:00.1234567891Z"} {
		f.want("bad time "+sent, f.records("json", `{"id":"a"}`, "Pushsink-Time", sent), 400, schema.BadEnvelope)
	}
	f.want("two times", f.records("json", `{"id":"a"}`, "Pushsink-Time", "2026-11-29T10:00:00Z", "Pushsink-Time", "2026-11-29T10:00:00Z"), 400, schema.BadEnvelope)
	if len(f.writer.entries()) != n {
		t.Error("a batch with a bad time was written")
	}
}

// A route that deduplicates by message id has no use for ids that differ with every try.
func TestIdempotencyKeyRequired(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.route.Spanner = &schema.SpannerTarget{DedupTable: "Seen", DedupByID: true} })
	body := `{"id":"a"}`
	for media, text := range map[string]string{"json": "[" + body + "]", "x-ndjson": body + "\n"} {
		f.want(media, f.records(media, text), 400, schema.IdempotencyKeyRequired)
		f.want(media+", empty", f.records(media, text, "Idempotency-Key", ""), 400, schema.IdempotencyKeyRequired)
		if _, ok := f.writer.row("a"); ok {
			t.Fatalf("%s: written without a key", media)
		}
	}
	f.want("lenient", f.records("json", body, "Prefer", "handling=lenient"), 400, schema.IdempotencyKeyRequired)
	f.want("with key", f.records("json", body, "Idempotency-Key", "K"), 200, "")
	f.route.Spanner.DedupByID = false
	f.want("a key of the record's own", f.records("json", body), 200, "")
}

func TestIdempotencyKeyIDs(t *testing.T) {
	f := newFixture(t)
	idsOf := func(send func()) (ids []string) {
		n := len(f.mapper.records())
		send()
		for _, r := range f.mapper.records()[n:] {
			ids = append(ids, r.ID)
		}
		return ids
	}
	const a, b = `{"id":"a"}`, `{"id":"b"}`
	array := idsOf(func() { f.records("json", "["+a+" , "+b+","+a+"]", "Idempotency-Key", "K") })
	// SHA-256 of {"id":"a"} and {"id":"b"} by openssl, in base64url, the first 22 characters.
	want := []string{"K:hIml3rRUo2A0XHhovKhnLe:1", "K:hKkd7jFFnd9GkzpCKI39D_:1", "K:hIml3rRUo2A0XHhovKhnLe:2"}
	if !slices.Equal(array, want) {
		t.Errorf("array: %q, want %q", array, want)
	}
	if lines := idsOf(func() { f.records("x-ndjson", a+"\r\n"+b+"\n  "+a, "Idempotency-Key", "K") }); !slices.Equal(lines, want) {
		t.Errorf("lines: %q, want %q", lines, want)
	}
	// Only the failed one again: the same id.
	if again := idsOf(func() { f.records("json", b, "Idempotency-Key", "K") }); !slices.Equal(again, want[1:2]) {
		t.Errorf("again: %q", again)
	}
	// Without a key: different in every request, the index told.
	one, two := idsOf(func() { f.records("json", "["+a+","+a+"]") }), idsOf(func() { f.records("json", a) })
	if one[0] == two[0] || !strings.HasSuffix(one[0], ":0") || !strings.HasSuffix(one[1], ":1") || strings.TrimSuffix(one[0], "0") != strings.TrimSuffix(one[1], "1") {
		t.Errorf("without a key: %q %q", one, two)
	}
	f.want("long key", f.records("json", a, "Idempotency-Key", strings.Repeat("k", 256)), 400, schema.BadEnvelope)
	f.want("two keys", f.records("json", a, "Idempotency-Key", "a", "Idempotency-Key", "b"), 400, schema.BadEnvelope)
}

func TestMaxBatchRecords(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.config.Limits.MaxBatchRecords = 3 })
	f.want("3", f.records("json", `[{"id":"a"},{"id":"b"},{"id":"c"}]`), 200, "")
	a := f.records("json", `[{"id":"d"},{"id":"e"},{"id":"f"},{"id":"g"}]`)
	f.want("4", a, 413, schema.TooLarge)
	if !strings.Contains(a.Detail, "3 records") || !strings.Contains(a.Detail, "MAX_BATCH_RECORDS") || len(f.writer.entries()) != 3 {
		t.Errorf("got %s, %d entries", a.body, len(f.writer.entries()))
	}
	// A stream has no such limit, but its list of failures has.
	a = f.records("x-ndjson", strings.Repeat("{\"do\":\"mismatch\"}\n", 5))
	if a.status != 422 || a.Received != 5 || a.Failed != 5 || len(a.Errors) != 3 || !a.ErrorsTruncated {
		t.Errorf("got %s", a.body)
	}
}

func TestStreamStopsWhenNotAdmitted(t *testing.T) {
	line := func(i int) string { return fmt.Sprintf("{\"id\":\"%06d\"}\n", i) }
	f := newFixture(t, func(f *fixture) { f.writer.refuse = func(call int) bool { return call >= 3 } })
	var b strings.Builder
	for i := range 200_000 {
		b.WriteString(line(i))
	}
	a := f.records("x-ndjson", b.String())
	f.want("ndjson", a, 429, schema.Overloaded)
	if !a.Truncated || a.Received >= 200_000 || a.Written == 0 || a.Written+a.Failed != a.Received {
		t.Errorf("got %.300s", a.body)
	}
	// What was admitted is kept, in order; nothing behind it was written.
	for i := range a.Written {
		if _, ok := f.writer.row(fmt.Sprintf("%06d", i)); !ok {
			t.Fatalf("row %d of %d is missing", i, a.Written)
		}
	}
	if len(f.writer.rows) != a.Written {
		t.Errorf("%d rows, told %d", len(f.writer.rows), a.Written)
	}

	// An array was read already: every record has its own outcome, and no more is submitted.
	g := newFixture(t, func(f *fixture) { f.writer.refuse = func(call int) bool { return call >= 2 } })
	body := "[" + strings.TrimSuffix(strings.Repeat(`{"id":"a"},`, 3000), ",") + "]"
	a = g.records("json", body)
	g.want("array", a, 429, schema.Overloaded)
	if a.Truncated || a.Received != 3000 || a.Written != groupRecords || a.Retryable != 3000-groupRecords || len(g.writer.calls) != 2 {
		t.Errorf("got %d calls, %.300s", len(g.writer.calls), a.body)
	}
}

func TestStreamKeepsOrderAcrossGroups(t *testing.T) {
	f := newFixture(t)
	var b strings.Builder
	const n = 5000
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":\"%d\",\"pad\":\"%s\"}\n", i, strings.Repeat("x", i%300))
	}
	for name, body := range map[string][2]string{"plain": {b.String(), ""}, "gzip": {gz(b.String()), "gzip"}, "zstd": {zst(t, b.String()), "zstd"}} {
		before := len(f.writer.entries())
		a := f.records("x-ndjson", body[0], "Content-Encoding", body[1])
		f.want(name, a, 200, "")
		es := f.writer.entries()[before:]
		if len(es) != n || a.Written != n || a.Received != n {
			t.Fatalf("%s: %d entries, %s", name, len(es), a.body)
		}
		for i, e := range es {
			if e.Key != fmt.Sprint(i) {
				t.Fatalf("%s: entry %d is %s", name, i, e.Key)
			}
		}
	}
}

func TestBatchPoliciesLeaveTheCallersOwnErrors(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.route.OnReject = schema.DeadLetter })
	a := f.records("x-ndjson", "{\"do\":\"mismatch\"}\n{\"id\":\n{\"id\":\"a\"}\n")
	f.want("mixed", a, 422, schema.BadJSON)
	if a.DeadLettered != 1 || a.Failed != 1 || a.Written != 1 || a.Errors[0].Index != 1 {
		t.Errorf("got %s", a.body)
	}
	a = f.records("json", `[`+strings.TrimSuffix(strings.Repeat(`{"do":"mismatch"},`, 1000), ",")+`]`)
	if a.status != 200 || a.DeadLettered != 1000 || len(f.letters.got) != 1001 {
		t.Errorf("got %d letters, %.200s", len(f.letters.got), a.body)
	}
}

func TestPreferHeader(t *testing.T) {
	for v, want := range map[string]bool{
		"handling=lenient": true, "Handling=Lenient": true, `handling="lenient"`: true, "respond-async, handling=lenient": true,
		"handling=lenient; x=1": true, " handling = lenient ": true, "handling=strict": false, "handling=strict, handling=lenient": false,
		"handling": false, "": false, "lenient": false,
	} {
		if got := prefersLenient(http.Header{"Prefer": {v}}); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
	if !prefersLenient(http.Header{"Prefer": {"respond-async", "handling=lenient"}}) {
		t.Error("second header line is not read")
	}
}

func TestMediaTypes(t *testing.T) {
	f := newFixture(t)
	for media, status := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "Application/JSON": 200,
		"application/x-ndjson": 200, "application/x-ndjson;charset=utf-8": 200,
		"application/xml": 415, "text/plain": 415, "": 415, ";": 415, "application/jsonx": 415,
	} {
		r := f.request("POST", "/v1/routes/r/records", `{"id":"a"}`)
		if media != "" {
			r.Header.Set("Content-Type", media)
		}
		if a := f.do(r); a.status != status {
			t.Errorf("%q: got %d, want %d", media, a.status, status)
		}
	}
	// A push takes any, and no form is parsed.
	for _, media := range []string{"", "application/x-www-form-urlencoded", "text/plain", "application/json"} {
		r := f.request("POST", "/v1/routes/r/push", wrap(`{"id":"a"}`, "m"))
		r.Header.Set("Content-Type", media)
		if a := f.do(r); a.status != 204 {
			t.Errorf("push %q: %d %s", media, a.status, a.body)
		}
	}
}

// FuzzNDJSON holds the line reader to a plain split of the body, however its bytes arrive.
func FuzzNDJSON(f *testing.F) {
	f.Add([]byte("{\"id\":\"a\"}\n\n{\"id\":\"b\"}\r\n"), uint8(3))
	f.Add([]byte("{\"id\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}\nx\n"), uint8(1))
	f.Add([]byte("\n \n\r\n"), uint8(7))
	f.Add(bytes.Repeat([]byte("y"), 300), uint8(50))
	f.Add(bytes.Repeat([]byte("1\n"), groupRecords+10), uint8(255))
	const limit = 64
	m, w, l := &fakeMapper{raw: true}, &fakeWriter{}, DefaultLimits()
	l.MaxRecordBytes = limit
	rt := &Route{Route: &schema.Route{Name: "r", Format: "json"}, Sink: &sink.Route{}, Target: fakeTarget{}, Writer: w, Mapper: m}
	h := newAPI(Config{Routes: []*Route{rt}, Limits: l})
	h.buffers.scribble = true
	handler := h.handler(NoAuth)
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		if len(body) > 4<<10 {
			return
		}
		m.seen, w.calls, w.rows = nil, nil, nil
		r := newServerRequest("POST", "/v1/routes/r/records", stepped{bytes.NewReader(body), int(step) + 1})
		r.Header.Set("Content-Type", "application/x-ndjson")
		r.ContentLength = -1
		rec := newRecorder()
		heldTo(t, handler).ServeHTTP(rec, r)

		var want []string
		tooLarge, received := 0, 0
		for line := range bytes.SplitSeq(body, []byte("\n")) {
			whole := len(line)
			line = bytes.Trim(line, " \t\r")
			switch {
			case len(line) == 0 && whole <= limit+2:
				continue
			case len(line) > limit || whole > limit+2:
				tooLarge++
			default:
				want = append(want, string(line))
			}
			received++
		}
		var got []string
		for _, r := range m.records() {
			got = append(got, string(r.Data))
		}
		wide := wideBlank(body, limit)
		if !wide && (!slices.Equal(got, want) || rec.Code != 200 && tooLarge == 0) {
			t.Fatalf("got %q, want %q, %d: %s", got, want, rec.Code, rec.Body)
		}
		if h.budget.used.Load() != 0 {
			t.Fatalf("%d bytes charged at the end", h.budget.used.Load())
		}
		sent := make(map[string]bool, len(want))
		for _, line := range want {
			sent[line] = true
		}
		for _, v := range w.rows {
			if !sent[v] && !wide {
				t.Fatalf("an entry's data was overwritten: %q", v)
			}
		}
	})
}

// wideBlank reports a line whose white space alone takes it over the limit, which the reader
// may give up on before it has seen all of it.
func wideBlank(body []byte, limit int) bool {
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if len(line) > limit && len(bytes.Trim(line, " \t\r")) <= limit {
			return true
		}
	}
	return false
}

// stepped gives at most n bytes a read.
type stepped struct {
	r *bytes.Reader
	n int
}

func (s stepped) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }
func (s stepped) Close() error               { return nil }
