package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pushsink/pushsink/internal/scripted"
)

// What the server does when Bigtable, or a stream of records, is not well: seen from outside.

// statusesOf counts.
func statusesOf(list []int) map[int]int {
	counts := map[int]int{}
	for _, s := range list {
		counts[s]++
	}
	return counts
}

func wantCounts(t *testing.T, what string, got, want map[int]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: statuses %v, want %v", what, got, want)
	}
}

// 50 messages for a table that is not there, and can be written to three seconds after it
// was made: it is made once. Where the time of a push is enough they are all written; where
// it is not they are all answered 503 in time, and their redelivery is written.
func TestBTREP06FiftyRecordsForAMissingTable(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		want  int
	}{{8 * time.Second, 204}, {2 * time.Second, 503}} {
		t.Run(c.limit.String(), func(t *testing.T) {
			s := setup{routes: telemetryRoutes, missing: true, service: scripted.Options{VisibleAfter: 3 * time.Second}, options: []string{"REQUEST_TIMEOUT=" + c.limit.String()}}
			inBubble(t, s, func(x *rig) {
				names := devices("d", 50)
				wantCounts(t, "first delivery", statusesOf(x.burst(names)), map[int]int{c.want: 50})
				if x.at() > c.limit {
					t.Errorf("answered after %s", x.at())
				}
				if c.want == 503 {
					for _, name := range names {
						if x.bt.Has(readings, name) {
							t.Errorf("%s is there before the table can be written to", name)
						}
					}
					time.Sleep(2 * time.Second)
					wantCounts(t, "second delivery", statusesOf(x.burst(names)), map[int]int{204: 50})
				}
				if s := x.bt.Stats(); s.Creates != 1 || x.bt.Len(readings) != 50 {
					t.Errorf("%d tables made, %d rows; want 1, 50", s.Creates, x.bt.Len(readings))
				}
			})
		})
	}
}

// An all-bad stream under drop: exactly the bound is dropped, whatever is in flight, and
// then nothing, until a good record is written.
func TestHEALTH04AnAllBadStreamIsDroppedUpToTheBound(t *testing.T) {
	inBubble(t, setup{routes: dropRoutes, service: refusing()}, func(x *rig) {
		dropped := func(want float64) {
			t.Helper()
			if n := x.metric("pushsink_records_total", `result="dropped"`); n != want {
				t.Errorf("%v records dropped, want %v", n, want)
			}
		}
		const stream = 1000
		wantCounts(t, "bad records", statusesOf(x.burst(devices("bad", stream))), map[int]int{204: 100, 503: stream - 100})
		dropped(100)
		sent := x.bt.Stats().Requests
		wantCounts(t, "tripped", statusesOf(x.burst(append(devices("bad-later", 50), devices("good", 50)...))), map[int]int{503: 100})
		if n := x.bt.Stats().Requests; n != sent {
			t.Errorf("%d requests while tripped", n-sent)
		}
		x.wantStatus("ready", x.get("/health/ready"), 503, "WRITER_MAX_CONSECUTIVE_REJECTIONS=100", "100 rejections", `"failing"`)
		x.wantStatus("route", x.get("/health/routes/telemetry"), 503, "WRITER_MAX_CONSECUTIVE_REJECTIONS=100")
		x.wantStatus("live", x.get("/health/live"), 200)

		time.Sleep(10 * time.Second)
		x.wantStatus("half-open", x.get("/health/ready"), 200, `"trial"`)
		x.wantStatus("a bad trial", x.push("bad-trial"), 503)
		x.wantStatus("open again", x.get("/health/ready"), 503)
		dropped(100)
		time.Sleep(10 * time.Second)
		x.wantStatus("a good trial", x.push("good"), 204)
		x.wantStatus("recovered", x.get("/health/ready"), 200, `"ok"`)
		x.wantStatus("dropped again", x.push("bad-again"), 204)
		dropped(101)
	})
}

// Under fail nothing is lost, so there is nothing to stop.
func TestAnAllBadStreamUnderFailNeverTrips(t *testing.T) {
	inBubble(t, setup{routes: telemetryRoutes, service: refusing()}, func(x *rig) {
		wantCounts(t, "bad records", statusesOf(x.burst(devices("bad", 120))), map[int]int{422: 120})
		x.wantStatus("ready", x.get("/health/ready"), 200, `"ok"`)
		x.wantStatus("good", x.push("good"), 204)
	})
}

// A message that is rejected, dead-lettered and delivered again all the same, 500 times:
// each of its letters belongs to a delivery, and it counts once.
func TestPoisonUnderDeadLetterPublishesNoMoreThanWasDelivered(t *testing.T) {
	letters, getenv := deadLetters(t, 0)
	routes := strings.Replace(telemetryRoutes, "    bigtable:", "    onReject: deadLetter\n    deadLetterTopic: projects/p/topics/dead\n    bigtable:", 1)
	x := newRig(t, setup{routes: routes, service: refusing(), options: []string{longAck, longRequest}, environ: []string{"PUBSUB_EMULATOR_HOST=" + getenv("PUBSUB_EMULATOR_HOST")}})
	const deliveries = 500
	statuses := make([]int, deliveries)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 25 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < deliveries; i = next.Add(1) - 1 {
				statuses[i] = x.push("bad").status
			}
		})
	}
	all.Wait()
	got := statusesOf(statuses)
	published := len(letters.Messages())
	if published > deliveries || published < got[204] || got[204] == 0 || got[204]+got[503]+got[429] != deliveries {
		t.Errorf("%d letters for %d deliveries answered %v; want one letter per 204 and no more than deliveries", published, deliveries, got)
	}
	eventually(t, func() (bool, string) {
		a := x.get("/health/ready")
		return a.status == 200 && strings.Contains(a.body, `"ok"`), fmt.Sprintf("ready: %d %s", a.status, a.body)
	})
	x.wantStatus("another", x.push("good"), 204)
	if n := x.srv.outlets.bigtable.writer.Health().Routes[0]; n.Streak != 0 {
		t.Errorf("streak %d after a good record", n.Streak)
	}
}

// 200 tables on 20 instances, of which 4 may be open: never more are, every row is written,
// and after some quiet nothing is open. (Goroutines and files: sink/bigtable.)
func TestCONN06ManyTablesOnManyInstances(t *testing.T) {
	const instances, tables, most = 20, 200, 4
	var ids []string
	for i := range instances {
		ids = append(ids, fmt.Sprintf("i%02d", i))
	}
	routes := strings.Replace(telemetryRoutes, "table: readings",
		"instance: \"{data.instance}\"\n      allow: ["+strings.Join(ids, ", ")+"]\n      table: \"{data.device}\"", 1)
	inBubble(t, setup{routes: routes, missing: true, service: scripted.Options{Latency: 5 * ms},
		options: []string{"BIGTABLE_MAX_ACTIVE_INSTANCES=4", "BIGTABLE_DESTINATION_IDLE_TIMEOUT=1s", "BIGTABLE_POOL_SIZE=1"}}, func(x *rig) {
		var all sync.WaitGroup
		for i := range tables {
			all.Go(func() {
				for x.push(fmt.Sprint("t", i), "instance", ids[i%instances]).status != 204 {
					time.Sleep(time.Second) // the redelivery
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		for open := true; open; {
			select {
			case <-done:
				open = false
			case <-time.After(ms):
			}
			// A connection for data and one for administration, each.
			if n, c := x.srv.outlets.bigtable.writer.Health().OpenInstances, x.bt.Connections(); n > most || c > 2*most {
				t.Errorf("%d clients with %d connections are open, want at most %d", n, c, most)
			}
		}
		for i := range tables {
			name := scripted.TableName("p", ids[i%instances], fmt.Sprint("t", i))
			if x.bt.Len(name) != 1 {
				t.Errorf("table %s has %d rows", name, x.bt.Len(name))
			}
		}
		if s := x.bt.Stats(); s.Creates != tables {
			t.Errorf("%d tables made, want %d", s.Creates, tables)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := x.bt.Connections(); n != 0 || x.metric("pushsink_bigtable_clients_open") != 0 {
			t.Errorf("after 5 s of quiet %d connections are open", n)
		}
	})
}

// One table's backend hangs under a flood that would fill the writer: the others go on as
// before.
func TestAHangingTableLeavesTheOthersTheirThroughput(t *testing.T) {
	const latency, healthy, workers, flood = 100 * ms, 4, 8, 200
	var hangs atomic.Bool
	script := func(c *scripted.Call) scripted.Plan {
		return scripted.Plan{Stall: hangs.Load() && strings.HasSuffix(c.Table, "/hung")}
	}
	routes := strings.Replace(telemetryRoutes, "table: readings", `table: "{data.table}"`, 1)
	inBubble(t, setup{routes: routes, service: scripted.Options{AnyTable: true, KeysOnly: true, Latency: latency, Script: script},
		// As with the defaults, the requests of one table do not hold all entries by themselves.
		options: []string{"BIGTABLE_MAX_IN_FLIGHT_ENTRIES=100", "BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD=5", "WRITER_MAX_IN_FLIGHT_REQUESTS=32"}}, func(x *rig) {
		stop := make(chan struct{})
		var all sync.WaitGroup
		var written, refused atomic.Int64
		worker := func(table string, n int, count, other *atomic.Int64) {
			all.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if x.push(table+strconv.Itoa(n)+"-"+strconv.Itoa(i), "table", table).status == 204 {
						count.Add(1)
						continue
					}
					other.Add(1)
					time.Sleep(500 * ms)
				}
			})
		}
		for i := range healthy * workers {
			worker("t"+strconv.Itoa(i%healthy), i, &written, &refused)
		}
		var hungWritten, hungRefused atomic.Int64
		for i := range 4 {
			worker("hung", i, &hungWritten, &hungRefused)
		}
		time.Sleep(500 * ms)
		began := written.Load()
		time.Sleep(time.Second)
		before := written.Load() - began

		hangs.Store(true)
		for i := range flood {
			worker("hung", 100+i, &hungWritten, &hungRefused)
		}
		time.Sleep(500 * ms)
		began, hungBegan := written.Load(), hungWritten.Load()
		time.Sleep(time.Second)
		during := written.Load() - began
		t.Logf("%d records/s of the others before, %d while one table hangs, %d of them refused; %d of the hanging table's answered",
			before, during, refused.Load(), hungRefused.Load())
		if hungWritten.Load() != hungBegan {
			t.Error("the table does not hang")
		}
		if float64(during) < .8*float64(before) {
			t.Errorf("the others' throughput is %.0f %% of what it was", 100*float64(during)/float64(before))
		}
		hangs.Store(false)
		close(stop)
		all.Wait()
	})
}

// BTERR-04, BTERR-09: what the service does not allow is nobody's record's fault: answered
// 503 at once, never dropped, and readiness says why.
func TestBTERR09NotAllowedIsNeverDropped(t *testing.T) {
	for _, code := range []codes.Code{codes.PermissionDenied, codes.Unauthenticated} {
		for name, first := range map[string]int{"the whole call": 0, "BTERR-04 in mid-stream": 1} {
			t.Run(code.String()+" "+name, func(t *testing.T) {
				inBubble(t, setup{routes: dropRoutes, service: scripted.Options{Script: func(c *scripted.Call) scripted.Plan {
					n := min(first, len(c.Entries)-1) // a batch gets so far
					return scripted.Plan{Fail: scripted.Status(code, "no", 0), Apply: n, Report: n}
				}}, options: []string{oneRequest, "WRITER_MAX_CONSECUTIVE_REJECTIONS=1"}}, func(x *rig) {
					names := devices("d", 30)
					a := x.records("application/json", "["+strings.Join(devicesJSON(30), ",")+"]")
					x.wantStatus("batch", a, 503, `"written":`+strconv.Itoa(first))
					for i, name := range names {
						if x.bt.Has(readings, name) != (i < first) {
							t.Errorf("%s there: %v", name, x.bt.Has(readings, name))
						}
					}
					x.wantStatus("push", x.push("p"), 503)
					if x.at() > 500*ms {
						t.Errorf("answered after %s", x.at())
					}
					if n := x.metric("pushsink_records_total", `result="dropped"`); n != 0 {
						t.Errorf("%v records dropped", n)
					}
					x.wantStatus("ready", x.get("/health/ready"), 503, code.String())
					if h := x.srv.outlets.bigtable.writer.Health(); h.Routes[0].Streak != 0 {
						t.Errorf("streak %d", h.Routes[0].Streak)
					}
				})
			})
		}
	}
}

// Bad records of a batch are refused by the mapping, each with its code, and their
// neighbours are written; nothing bad is sent.
func TestBTVALBadRecordsAmongGoodOnes(t *testing.T) {
	routes := strings.Replace(telemetryRoutes, "      create:", "      timestamp: timestamp(data.ts)\n      create:", 1)
	routes = strings.Replace(routes, `"{data.device}"`, `"{data.tenant}#{data.device}"`, 1)
	const ts = `"ts":"2026-01-02T03:04:05Z"`
	inBubble(t, setup{routes: routes}, func(x *rig) {
		a := x.records("application/json", `[
			{"tenant":"t","device":"first",`+ts+`,"temp":1},
			{"tenant":"t","device":"BTVAL-01 absent","temp":1},
			{"tenant":"t","device":"BTVAL-01 zero","ts":"0001-01-01T00:00:00Z","temp":1},
			{"tenant":"t","device":"BTVAL-01 negative","ts":"1969-12-31T23:59:59Z","temp":1},
			{"tenant":"","device":"BTVAL-03 empty",`+ts+`,"temp":1},
			{"device":"BTVAL-03 absent",`+ts+`,"temp":1},
			{"tenant":"`+strings.Repeat("é", 2048)+`","device":"BTVAL-04",`+ts+`,"temp":1},
			{"tenant":"t","device":"BTVAL-10 null",`+ts+`,"temp":null},
			{"tenant":"t","device":"last",`+ts+`,"temp":1}]`)
		x.wantStatus("batch", a, 422, `"received":9,"written":2,"skipped":1`, `"failed":6`)
		for index, code := range []string{"", "missing_field", "timestamp_out_of_range", "timestamp_out_of_range", "key_part_missing", "key_part_missing", "too_large"} {
			if code != "" && !strings.Contains(errorAt(a.body, index), `"code":"`+code+`"`) {
				t.Errorf("record %d: %s, want %s", index, errorAt(a.body, index), code)
			}
		}
		if got, want := slices.Sorted(maps.Keys(x.bt.Rows(readings))), []string{"t#first", "t#last"}; !slices.Equal(got, want) {
			t.Errorf("rows %q, want %q", got, want)
		}
		if s := x.bt.Stats(); s.Entries != 2 || s.ServerTimes != 0 {
			t.Errorf("%d entries sent, %d with the server's time; want 2, 0", s.Entries, s.ServerTimes)
		}
	})
}

// errorAt is the part of a batch's answer that speaks of one record.
func errorAt(body string, index int) string {
	_, rest, _ := strings.Cut(body, fmt.Sprintf(`{"index":%d,`, index))
	text, _, _ := strings.Cut(rest, "}")
	return text
}

// Each thing that a start looks for and does not find is a reason that says what to do.
func TestStartUpChecksSayWhatToDo(t *testing.T) {
	letters, getenv := deadLetters(t, 0)
	_ = letters
	plain := strings.NewReplacer("      create: ifNeeded\n", "", "      families: {m: {gc: {maxVersions: 1}}}\n", "").Replace(telemetryRoutes)
	lettered := strings.Replace(telemetryRoutes, "    bigtable:", "    onReject: deadLetter\n    deadLetterTopic: projects/p/topics/gone\n    bigtable:", 1)
	fails := func(code codes.Code) func(string) error {
		return func(string) error { return scripted.Status(code, "no", 0) }
	}
	for _, c := range []struct {
		name  string
		setup setup
		says  []string
	}{
		{"table", setup{routes: plain, missing: true}, []string{"table readings is not in instance instance", "create it", "bigtable.create: ifNeeded"}},
		{"family", setup{routes: strings.Replace(plain, "family: m,", "family: other,", 1)}, []string{"column family other is not in table readings", "create it", "bigtable.families"}},
		{"app profile", setup{routes: telemetryRoutes, options: []string{"BIGTABLE_APP_PROFILE=batch"}, service: scripted.Options{Ping: fails(codes.NotFound)}},
			[]string{"app profile batch", "correct", "PUSHSINK_BIGTABLE_APP_PROFILE"}},
		{"permission", setup{routes: telemetryRoutes, service: scripted.Options{Ping: fails(codes.PermissionDenied)}}, []string{"grant it roles/bigtable.user"}},
		{"dead-letter topic", setup{routes: lettered, environ: []string{"PUBSUB_EMULATOR_HOST=" + getenv("PUBSUB_EMULATOR_HOST")}}, []string{"projects/p/topics/gone", "create it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newRig(t, c.setup) // with a real Pub/Sub connection, so in no bubble
			eventually(t, func() (bool, string) {
				a := x.get("/health/startup")
				return a.status == 200, fmt.Sprintf("startup: %d %s", a.status, a.body)
			})
			eventually(t, func() (bool, string) {
				a := x.get("/health/ready")
				if a.status == 200 {
					t.Fatalf("ready: %s", a.body)
				}
				for _, text := range append(c.says, "route telemetry") {
					if !strings.Contains(a.body, text) {
						return false, fmt.Sprintf("ready: %s does not say %q", a.body, text)
					}
				}
				return true, ""
			})
			x.wantStatus("live", x.get("/health/live"), 200)
		})
	}
}
