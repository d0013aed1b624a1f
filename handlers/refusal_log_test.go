package handlers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// A drop is logged with what is wrong and where, each code by itself at a falling rate.
func TestARefusalIsLoggedWithItsReason(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.route.OnReject = schema.Drop })
	for range 5 {
		f.push(wrap(`{"do":"mismatch"}`, "m"))
		f.push(wrap(`{"id":""}`, "m"))
	}
	for _, want := range []string{
		`route=r code=type_mismatch detail="do: not that" count=1 pointer=/do`,
		`route=r code=key_part_missing detail="id is missing" count=1 pointer=/id`,
		`code=type_mismatch detail="do: not that" count=4`,
		`code=key_part_missing detail="id is missing" count=4`,
	} {
		if !strings.Contains(f.logs.String(), want) {
			t.Errorf("no line with %s in\n%s", want, f.logs)
		}
	}
}

// What is answered 422 or 400 is logged as well: Pub/Sub shows nobody the answer's body.
func TestARefusalThatIsAnsweredIsLogged(t *testing.T) {
	f := newFixture(t)
	for range 3 {
		f.push(wrap(`{"do":"mismatch"}`, "m"))
		f.push(`hello`)
	}
	for _, want := range []string{
		`msg="record refused" route=r code=type_mismatch detail="do: not that" count=2 pointer=/do`,
		`msg="push refused" route=r code=bad_envelope detail="not strict JSON at byte 0" count=2`,
	} {
		if !strings.Contains(f.logs.String(), want) {
			t.Errorf("no line with %s in\n%s", want, f.logs)
		}
	}
	if strings.Contains(f.logs.String(), "count=3") {
		t.Errorf("the third is logged:\n%s", f.logs)
	}
}

// A route that rejections stopped is logged once, and once that it goes on.
func TestATripAndItsEndAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := sinktest.New()
		bad := true
		b.Inject(func(context.Context, *sinktest.Request) []sink.Outcome {
			if bad {
				return []sink.Outcome{{Kind: sink.Rejected, Err: errors.New("refused")}}
			}
			return nil
		})
		f := newFixture(t, offline, real(t, schema.Drop, b, func(o *sink.Options) { o.MaxConsecutiveRejections = 3 }))
		f.route.OnReject = schema.Drop
		send := func(n int) {
			for i := range n {
				f.push(wrap(fmt.Sprintf(`{"id":"k%d","v":"x"}`, i), fmt.Sprint("m", i, time.Now())))
			}
		}
		lines := func(message string) (list []string) {
			for line := range strings.Lines(f.logs.String()) {
				if strings.Contains(line, message) {
					list = append(list, line)
				}
			}
			return list
		}
		send(2)
		if got := lines("route stopped"); len(got) != 0 {
			t.Errorf("logged before it tripped: %q", got)
		}
		send(5)
		got := lines("route stopped by rejections")
		if len(got) != 1 || !strings.Contains(got[0], "level=WARN") || !strings.Contains(got[0], "streak=3") || !strings.Contains(got[0], "option=PUSHSINK_WRITER_MAX_CONSECUTIVE_REJECTIONS") {
			t.Errorf("logged %q, want one warning with the streak and the option", got)
		}
		time.Sleep(10 * time.Second) // half-open
		send(1)
		bad = false
		time.Sleep(10 * time.Second)
		send(3)
		if stopped, on := lines("route stopped"), lines("route goes on"); len(stopped) != 1 || len(on) != 1 || !strings.Contains(on[0], "level=INFO") {
			t.Errorf("logged %q and %q, want one of each", stopped, on)
		}
	})
}

// Every record written is measured from its publish time; one whose cell is older than its
// family keeps is counted.
func TestDurableAndLate(t *testing.T) {
	for _, c := range []struct {
		name string
		rule *schema.GCRule
		late bool
	}{
		{"no age", &schema.GCRule{MaxVersions: 1}, false},
		{"younger", &schema.GCRule{MaxAge: time.Hour + time.Minute}, false},
		{"older", &schema.GCRule{MaxAge: time.Hour - time.Minute}, true},
		{"any of them", &schema.GCRule{Union: []*schema.GCRule{{MaxVersions: 1}, {MaxAge: time.Minute}, {MaxAge: 2 * time.Hour}}}, true},
		{"all of them", &schema.GCRule{Intersection: []*schema.GCRule{{MaxAge: time.Minute}, {MaxAge: 2 * time.Hour}}}, false},
		{"all of them, with a count", &schema.GCRule{Intersection: []*schema.GCRule{{MaxAge: time.Minute}, {MaxVersions: 1}}}, false},
		{"all of them, older", &schema.GCRule{Intersection: []*schema.GCRule{{MaxAge: time.Minute}, {MaxAge: 2 * time.Minute}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, func(f *fixture) {
				f.route.Bigtable = &schema.BigtableTarget{Table: "t", Families: map[string]*schema.GCRule{"f": c.rule}}
			})
			at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
			f.want("push", f.push(fmt.Sprintf(`{"message":{"data":%q,"messageId":"1","publishTime":%q}}`, "eyJpZCI6ImEifQ==", at)), 204, "")
			f.want("records", f.records("x-ndjson", "{\"id\":\"b\"}\n{\"do\":\"skip\"}\n{\"id\":\"c\"}", "Pushsink-Time", at), 200, "")
			f.counts.mu.Lock()
			defer f.counts.mu.Unlock()
			if got := f.counts.records["durable r"]; got != 3 || f.counts.age < time.Hour || f.counts.age > 2*time.Hour {
				t.Errorf("%d measured, the last of %s; want 3, of an hour", got, f.counts.age)
			}
			if got, want := f.counts.records["late r"], map[bool]int{true: 3}[c.late]; got != want {
				t.Errorf("%d late, want %d", got, want)
			}
			if got := f.counts.ofRoute["r"]; got != 2 {
				t.Errorf("%d requests of route r, want 2", got)
			}
		})
	}
}
