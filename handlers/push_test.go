package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// outcomes are the writer's, with the answers they must get on push and in a batch.
var outcomes = []struct {
	name        string
	o           sink.Outcome
	push, batch int
	code        schema.Code
}{
	{"applied", sink.Outcome{Kind: sink.Applied}, 204, 200, ""},
	{"zero", sink.Outcome{}, 500, 500, schema.Internal},
	{"applied with an error", sink.Outcome{Kind: sink.Applied, Err: errors.New("x")}, 500, 500, schema.Internal},
	{"rejected", sink.Outcome{Kind: sink.Rejected, Err: errors.New(`Row {String("secret")} already exists`)}, 422, 422, schema.Constraint},
	{"rejected with a code", sink.Outcome{Kind: sink.Rejected, Err: fmt.Errorf("x: %w", &schema.Error{Code: schema.NoSuchTable, Detail: "create: never"})}, 422, 422, schema.NoSuchTable},
	{"rejected without an error", sink.Outcome{Kind: sink.Rejected}, 422, 422, schema.Constraint},
	{"too large", sink.Outcome{Kind: sink.Rejected, Err: fmt.Errorf("x: %w", sink.ErrTooLarge)}, 422, 422, schema.TooLarge},
	{"too many tables", sink.Outcome{Kind: sink.Rejected, Err: &schema.Error{Code: schema.TooManyTables}}, 503, 503, schema.TooManyTables},
	{"overloaded", sink.Outcome{Kind: sink.Transient, Err: fmt.Errorf("x: %w", sink.ErrOverloaded)}, 429, 429, schema.Overloaded},
	{"unavailable", sink.Outcome{Kind: sink.Transient, Err: sink.ErrUnavailable}, 503, 503, schema.Unavailable},
	{"undecided by the backend", sink.Outcome{Err: sink.ErrBackend}, 503, 503, schema.Unavailable},
	{"missing", sink.Outcome{Kind: sink.Missing, Err: errors.New("x")}, 503, 503, schema.Unavailable},
	{"fatal", sink.Outcome{Kind: sink.Fatal, Err: errors.New("PERMISSION_DENIED")}, 503, 503, schema.Unavailable},
	{"withdrawn", sink.Outcome{Err: fmt.Errorf("x: %w", sink.ErrWithdrawn)}, 503, 503, schema.Deadline},
	{"in flight", sink.Outcome{Err: fmt.Errorf("x: %w", sink.ErrInFlight)}, 503, 504, schema.Deadline},
	{"tripped", sink.Outcome{Kind: sink.Rejected, Err: fmt.Errorf("x: %w", sink.ErrTripped)}, 503, 503, schema.Tripped},
	{"closed", sink.Outcome{Kind: sink.Transient, Err: sink.ErrClosed}, 503, 503, schema.Unavailable},
	{"unknown kind", sink.Outcome{Kind: 99, Err: errors.New("x")}, 503, 503, schema.Unavailable},
}

// acknowledges are the statuses that Pub/Sub takes for an acknowledgement.
var acknowledges = map[int]bool{102: true, 200: true, 201: true, 202: true, 204: true}

func TestACK01EveryOutcome(t *testing.T) {
	for _, c := range outcomes {
		t.Run("ACK-01 "+c.name, func(t *testing.T) {
			f := newFixture(t, func(f *fixture) { f.writer.outcome = func(sink.Entry) sink.Outcome { return c.o } })
			a := f.push(wrap(`{"id":"secret"}`, "m"))
			f.want("push", a, c.push, c.code)
			if acknowledges[a.status] != (c.name == "applied") || a.status == 207 {
				t.Errorf("push answered %d", a.status)
			}
			if strings.Contains(a.body, "secret") {
				t.Errorf("the answer holds a key: %s", a.body)
			}
			a = f.records("json", `{"id":"secret"}`)
			f.want("batch", a, c.batch, c.code)
			if strings.Contains(a.body, "secret") {
				t.Errorf("the answer holds a key: %s", a.body)
			}
		})
	}
}

func TestACK01Policies(t *testing.T) {
	reject := func(sink.Entry) sink.Outcome { return sink.Outcome{Kind: sink.Rejected, Err: errors.New("x")} }
	for _, c := range []struct {
		name    string
		policy  schema.Policy
		payload string
		outcome func(sink.Entry) sink.Outcome
		letters error
		tripped bool
		status  int
		code    schema.Code
		result  string
	}{
		{"skip", schema.Fail, `{"do":"skip"}`, nil, nil, false, 204, "", "skipped where"},
		{"BTVAL-10 empty", schema.Fail, `{"do":"empty"}`, nil, nil, false, 204, "", "skipped empty"},
		{"fail", schema.Fail, `{"id":"a","do":"mismatch"}`, nil, nil, false, 422, schema.TypeMismatch, "rejected type_mismatch"},
		{"drop mapping", schema.Drop, `{"id":"a","do":"mismatch"}`, nil, nil, false, 204, "", "dropped type_mismatch"},
		{"drop payload", schema.Drop, `{"id":`, nil, nil, false, 204, "", "dropped bad_json"},
		{"drop confirmed", schema.Drop, `{"id":"a"}`, reject, nil, false, 204, "", "dropped constraint"},
		{"drop, tripped, mapping", schema.Drop, `{"do":"mismatch"}`, nil, nil, true, 503, schema.Tripped, "unavailable tripped"},
		{"drop, tripped, payload", schema.Drop, `{"id":`, nil, nil, true, 503, schema.Tripped, "unavailable tripped"},
		{"drop, tripping record", schema.Drop, `{"id":"a"}`, reject, nil, true, 204, "", "dropped constraint"},
		{"dead letter mapping", schema.DeadLetter, `{"do":"mismatch"}`, nil, nil, false, 204, "", "dead_lettered type_mismatch"},
		{"dead letter confirmed", schema.DeadLetter, `{"id":"a"}`, reject, nil, false, 204, "", "dead_lettered constraint"},
		{"dead letter, tripped", schema.DeadLetter, `{"do":"mismatch"}`, nil, nil, true, 503, schema.Tripped, "unavailable tripped"},
		{"dead letter fails for now", schema.DeadLetter, `{"id":"a"}`, reject, errors.New("x"), false, 503, schema.Unavailable, "unavailable unavailable"},
		{"dead letter fails for good", schema.DeadLetter, `{"id":"a"}`, reject, fmt.Errorf("%w: x", ErrDeadLetterRefused), false, 422, schema.Constraint, "rejected constraint"},
		{"too many tables is no reject", schema.Drop, `{"id":"a","do":"tables"}`, nil, nil, false, 503, schema.TooManyTables, "unavailable too_many_tables"},
		{"our own fault is no reject", schema.Drop, `{"id":"a","do":"broken"}`, nil, nil, false, 500, schema.Internal, "internal internal"},
		{"unknown policy is fail", "", `{"id":"a","do":"mismatch"}`, nil, nil, false, 422, schema.TypeMismatch, "rejected type_mismatch"},
	} {
		t.Run("ACK-01 "+c.name, func(t *testing.T) {
			f := newFixture(t, func(f *fixture) {
				f.route.OnReject, f.writer.outcome, f.letters.err = c.policy, c.outcome, c.letters
				f.writer.state.Tripped = c.tripped
			})
			f.want(c.name, f.push(wrap(c.payload, "m")), c.status, c.code)
			if n := f.counts.of(func(c *counts) map[string]int { return c.records }, c.result); n != 1 {
				t.Errorf("counted %v, want one %q", f.counts.records, c.result)
			}
			if c.status == 204 && c.policy == schema.DeadLetter && len(f.letters.got) != 1 {
				t.Errorf("acknowledged without a dead letter: %v", f.letters.got)
			}
		})
	}
}

func TestSHUT03PanicsNeverAcknowledge(t *testing.T) {
	for _, c := range []struct{ name, payload string }{
		{"mapping", `{"id":"a","do":"panic"}`},
		{"encode", `{"id":"encode-panic"}`},
		{"writer", `{"id":"writer-panic"}`},
	} {
		t.Run("SHUT-03 "+c.name, func(t *testing.T) {
			f := newFixture(t, func(f *fixture) { f.route.OnReject = schema.Drop })
			f.want("push", f.push(wrap(c.payload, "m")), 500, schema.Internal)
			f.want("json", f.records("json", `[{"id":"good"},`+c.payload+`]`), 500, schema.Internal)
			f.want("ndjson", f.records("x-ndjson", c.payload+"\n"), 500, schema.Internal)
			if logs := f.logs.String(); !strings.Contains(logs, "panic in a request") || strings.Contains(logs, "must not be logged") {
				t.Errorf("logs: %s", logs)
			}
			// The server serves on.
			f.want("after", f.push(wrap(`{"id":"b"}`, "m")), 204, "")
		})
	}
	t.Run("SHUT-03 dead letters", func(t *testing.T) {
		f := newFixture(t, func(f *fixture) {
			f.route.OnReject = schema.DeadLetter
			f.config.DeadLetters = nil
		})
		f.want("push", f.push(wrap(`{"do":"mismatch"}`, "m")), 500, schema.Internal)
		f.want("batch", f.records("json", `[{"do":"mismatch"},{"do":"mismatch"},{"id":"a"}]`), 500, schema.Internal)
	})
	t.Run("SHUT-03 short answer of the writer", func(t *testing.T) {
		f := newFixture(t, func(f *fixture) { f.writer.short = true; f.route.OnReject = schema.Drop })
		f.want("push", f.push(wrap(`{"id":"a"}`, "m")), 500, schema.Internal)
		f.want("batch", f.records("json", `[{"id":"a"},{"id":"b"}]`), 500, schema.Internal)
	})
}

func TestNoAnswerIsNoAcknowledgement(t *testing.T) {
	f := newFixture(t)
	h := f.api.observe(f.api.recovered(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	f.server.Config.Handler = heldTo(t, h)
	resp, err := (&http.Client{Transport: &http.Transport{}}).Get(f.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 500 {
		t.Errorf("a handler without an answer got %d", resp.StatusCode)
	}
}

func TestTallyWithoutEveryFateIsInternal(t *testing.T) {
	for k := push; k <= lenient; k++ {
		for _, c := range []tally{
			{received: 1},
			{received: 2, by: [fates]int{written: 1}},
			{received: 1, by: [fates]int{written: 2}},
			{received: 1, by: [fates]int{undecided: 1}},
			{received: 2, by: [fates]int{written: 1, undecided: 1}},
		} {
			if s := c.status(k); s != 500 {
				t.Errorf("kind %d %+v: %d", k, c, s)
			}
		}
		// Whatever the mixture, a 2xx needs every record to be acknowledged, or lenient.
		for f := undecided; f < fates; f++ {
			for g := undecided; g < fates; g++ {
				c := tally{received: 2}
				c.by[f]++
				c.by[g]++
				s := c.status(k)
				if s < 300 && (f.failed() || g.failed()) && !(s == 207 && k == lenient) {
					t.Errorf("kind %d fates %d %d: %d", k, f, g, s)
				}
				if k == push && s < 300 {
					t.Errorf("a push of two records answered %d", s)
				}
			}
		}
		for c := cutTooLarge; c <= cutFull; c++ {
			if s := (&tally{received: 1, by: [fates]int{written: 1}, cut: c}).status(k); s < 400 {
				t.Errorf("kind %d cut %d: %d", k, c, s)
			}
		}
	}
	if s := (&tally{}).status(push); s != 500 {
		t.Errorf("a push without a record answered %d", s)
	}
}

func TestStatusPrecedence(t *testing.T) {
	all := func(c cut, fs ...fate) tally {
		t := tally{received: len(fs), cut: c}
		for _, f := range fs {
			t.by[f]++
		}
		return t
	}
	for _, c := range []struct {
		t    tally
		want int
	}{
		{all(cutTooLarge, inDoubt, rejected, unavailable, overloaded), 413},
		{all(cutMalformed, inDoubt, rejected, unavailable, overloaded), 400},
		{all(cutStalled, inDoubt, rejected), 408},
		{all(uncut, inDoubt, rejected, unavailable, overloaded), 504},
		{all(uncut, rejected, unavailable, overloaded), 503},
		{all(uncut, rejected, expired, written), 503},
		{all(uncut, rejected, overloaded, written), 429},
		{all(cutFull, rejected, written), 429},
		{all(uncut, rejected, written), 422},
		{all(uncut, rejected), 422},
		{all(uncut, written, skipped, dropped, deadLettered), 200},
		{all(uncut), 200},
	} {
		if got := c.t.status(batch); got != c.want {
			t.Errorf("%+v: got %d, want %d", c.t, got, c.want)
		}
	}
	mixed, bad := all(uncut, rejected, written), all(uncut, rejected)
	if a, b := mixed.status(lenient), bad.status(lenient); a != 207 || b != 422 {
		t.Errorf("lenient: mixed %d, all bad %d", a, b)
	}
}

func TestACK04SameMessageAtOnce(t *testing.T) {
	f := newFixture(t)
	done := make(chan answer)
	for range 5 {
		go func() { done <- f.push(wrap(`{"id":"a"}`, "m")) }()
	}
	for range 5 {
		f.want("ACK-04", <-done, 204, "")
	}
	if len(f.writer.rows) != 1 {
		t.Errorf("%d rows", len(f.writer.rows))
	}
	micros := map[int64]bool{}
	for _, e := range f.writer.entries() {
		micros[e.Payload.(*schema.RowMutation).Ops[0].Micros] = true
	}
	if len(micros) != 1 {
		t.Errorf("%d cell versions", len(micros))
	}
}

func TestEntriesCarryRouteAndID(t *testing.T) {
	f := newFixture(t)
	f.want("push", f.push(wrap(`{"id":"a"}`, "m7")), 204, "")
	es := f.writer.entries()
	if len(es) != 1 || es[0].Route != f.route.Sink || es[0].ID != "m7" {
		t.Errorf("got %+v", es)
	}
}

func TestRetryAfterIsTheHint(t *testing.T) {
	for _, c := range []struct {
		o    sink.Outcome
		want string
	}{
		{sink.Outcome{Kind: sink.Transient, Err: sink.ErrUnavailable}, "1"},
		{sink.Outcome{Kind: sink.Transient, Err: sink.ErrUnavailable, RetryAfter: 2500 * time.Millisecond}, "3"},
		{sink.Outcome{Err: sink.ErrTripped}, "10"},
	} {
		f := newFixture(t, func(f *fixture) { f.writer.outcome = func(sink.Entry) sink.Outcome { return c.o } })
		if a := f.push(wrap(`{"id":"a"}`, "m")); a.header.Get("Retry-After") != c.want {
			t.Errorf("%v: Retry-After %q, want %q", c.o.Err, a.header.Get("Retry-After"), c.want)
		}
	}
}

func TestDropsAreLoggedAtAFallingRate(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.route.OnReject = schema.Drop })
	for range 20 {
		f.push(wrap(`{"do":"mismatch"}`, "m"))
	}
	if n := strings.Count(f.logs.String(), "record dropped by onReject"); n != 5 { // 1 2 4 8 16
		t.Errorf("%d log lines for 20 drops", n)
	}
}
