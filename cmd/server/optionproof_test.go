package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/pushsink/pushsink/internal/issuer"
	"github.com/pushsink/pushsink/internal/scripted"
)

// proof shows the effect of one option: the server is started from an environment that
// sets it, and run sees what it would not see with the option's default.
type proof struct {
	option string // without the prefix
	value  string
	shows  string   // what run sees, for docs/options-proof.md
	also   []string // other options, NAME=value without the prefix
	routes string   // a routes file; "" = noteRoutes
	// service is how the Bigtable behaves that the server writes to; nil = well.
	service func() scripted.Options
	missing bool // its table is not there
	// reads: the option is obeyed while the environment is read, so its default is forced
	// by leaving it unset, and otherwise behind the reader's back.
	reads bool
	// live: the server has a port of the machine, so it does not run in a bubble.
	live bool
	run  func(*rig)
	// onSpanner is run over a Spanner instead, which answers its writes with replies.
	onSpanner func(*spannerRig)
	replies   []spannerReply
}

// noteRoutes is telemetryRoutes with a second cell, of any size.
const noteRoutes = telemetryRoutes + "        - {family: m, column: note, value: data.note, as: string}\n"

// spreadRoutes writes each device to a table of its own.
var spreadRoutes = strings.Replace(noteRoutes, "table: readings", `table: "{data.device}"`, 1)

// regionRoutes writes to the instance that a record names.
var regionRoutes = strings.Replace(noteRoutes, "table: readings", "instance: \"{data.region}\"\n      allow: [eu, us]\n      table: readings", 1)

// dropRoutes drops what is rejected.
var dropRoutes = strings.Replace(noteRoutes, "    bigtable:", "    onReject: drop\n    bigtable:", 1)

var longNote = strings.Repeat("n", 1000)

// firstTakes is a service whose first request takes d, so that what comes meanwhile is
// held back. It is below the 250 ms after which a lane counts as down.
func firstTakes(d time.Duration) func() scripted.Options {
	return func() scripted.Options { return scripted.Options{Script: scripted.InTurn(scripted.Plan{Delay: d})} }
}

// refusing rejects the rows whose key begins with bad.
func refusing() scripted.Options {
	return scripted.Options{Script: func(*scripted.Call) scripted.Plan {
		return scripted.Plan{Entry: func(_ int, e *bigtablepb.MutateRowsRequest_Entry) error {
			if strings.HasPrefix(string(e.RowKey), "bad") {
				return scripted.Status(codes.InvalidArgument, "not this one", 0)
			}
			return nil
		}}
	}}
}

// silent never answers a write.
func silent() scripted.Options {
	return scripted.Options{Script: func(*scripted.Call) scripted.Plan { return scripted.Plan{Stall: true} }}
}

// creating fails the first n CreateTable calls, at times that it keeps.
type creating struct{ at []time.Time }

func (c *creating) service(n int) scripted.Options {
	*c = creating{}
	return scripted.Options{Admin: func(method string, call int) error {
		if method != "CreateTable" {
			return nil
		}
		c.at = append(c.at, time.Now())
		if call > n {
			return nil
		}
		return scripted.Status(codes.Unavailable, "not now", 0)
	}}
}

// gaps are the times between the calls.
func (c *creating) gaps() (list []time.Duration) {
	for i := 1; i < len(c.at); i++ {
		list = append(list, c.at[i].Sub(c.at[i-1]))
	}
	return list
}

// google publishes a key where Google does, and returns it.
func (x *rig) google() *issuer.Key {
	key := issuer.NewKey(x.t, "google")
	x.issuers["https://www.googleapis.com/oauth2/v3/certs"] = issuer.New(key)
	return key
}

const (
	oidcAudience = "AUTH_AUDIENCES=" + issuer.Audience
	oidcEmail    = "AUTH_EMAILS=" + issuer.Email

	ms          = time.Millisecond
	oneRequest  = "WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION=1"
	longRequest = "REQUEST_TIMEOUT=500s"
	longAck     = "ACK_DEADLINE=600s"
)

// proofs are in the order of the options' declaration, Spanner's last.
func proofs() []proof {
	var made creating
	return append([]proof{{
		option: "WRITER_MAX_BATCH_SIZE", value: "3", also: []string{oneRequest}, service: firstTakes(200 * ms),
		shows: "of 9 records held back, requests of 3, 3 and 3 are made",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 10))(), all(10, 204))
			x.wantSizes(1, 3, 3, 3)
		},
	}, {
		option: "WRITER_MAX_BATCH_SIZE_BYTES", value: "2500", also: []string{oneRequest}, service: firstTakes(200 * ms),
		shows: "of 5 records of a kilobyte held back, requests of 2, 2 and 1 are made",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 6), "note", longNote)(), all(6, 204))
			x.wantSizes(1, 2, 2, 1)
		},
	}, {
		option: "WRITER_MAX_IN_FLIGHT_REQUESTS", value: "2", routes: spreadRoutes,
		service: func() scripted.Options { return scripted.Options{AnyTable: true, Latency: 20 * ms} },
		shows:   "8 records for as many tables are written by 2 requests at a time",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 8))(), all(8, 204))
			if n := x.bt.Stats().MaxOpen; n != 2 {
				x.t.Errorf("%d requests were open at a time, want 2", n)
			}
		},
	}, {
		option: "WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION", value: "2", also: []string{"WRITER_MAX_BATCH_SIZE=1"},
		service: func() scripted.Options { return scripted.Options{Latency: 20 * ms} },
		shows:   "8 batches for one table are written by 2 requests at a time",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 8))(), all(8, 204))
			if n := x.bt.Stats().MaxOpen; n != 2 {
				x.t.Errorf("%d requests were open at a time, want 2", n)
			}
		},
	}, {
		option: "WRITER_MAX_BUFFERED_REQUESTS", value: "2", also: []string{oneRequest, "WRITER_ADMISSION_TIMEOUT=100ms"}, service: firstTakes(200 * ms),
		shows: "behind an open request 2 records wait to be sent, the next 3 are answered 429",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 6))(), all(3, 204), all(3, 429))
		},
	}, {
		option: "WRITER_MAX_TIME_IN_BUFFER", value: "150ms", service: firstTakes(200 * ms),
		shows: "a record beside an open request of its table is sent after exactly 150 ms",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 2))(), all(2, 204))
			if calls := x.calls(); len(calls) != 2 || calls[1].Start.Sub(calls[0].Start) != 150*ms {
				x.t.Errorf("requests %+v, want the second 150 ms after the first", calls)
			}
		},
	}, {
		option: "WRITER_MAX_RECORD_SIZE_BYTES", value: "1500",
		shows:  "a payload of 2 kB, and a payload of 1 kB that is an entry of 2 kB, are answered 422 by the option's name",
		routes: noteRoutes + "        - {family: m, column: again, value: data.note, as: string}\n",
		run: func(x *rig) {
			x.wantStatus("small", x.push("a"), 204)
			x.wantStatus("payload", x.push("b", "other", longNote+longNote), 422, "WRITER_MAX_RECORD_SIZE_BYTES")
			x.wantStatus("entry", x.push("c", "note", longNote), 422, "WRITER_MAX_RECORD_SIZE_BYTES")
		},
	}, {
		option: "WRITER_ADMISSION_TIMEOUT", value: "100ms", also: []string{oneRequest, "WRITER_MAX_BUFFERED_REQUESTS=1"}, service: firstTakes(200 * ms),
		shows: "a record that cannot be admitted is answered 429 after exactly 100 ms",
		run: func(x *rig) {
			wait := x.pushes(devices("d", 2))
			x.wantStatus("the third", x.push("third"), 429)
			if x.at() != 100*ms {
				x.t.Errorf("answered after %s, want 100 ms", x.at())
			}
			x.wantStatuses(wait(), all(2, 204))
		},
	}, {
		option: "WRITER_MAX_CONSECUTIVE_REJECTIONS", value: "3", routes: dropRoutes, service: refusing,
		shows: "3 bad records are dropped, the 4th is answered 503, and ready names the option and its value",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("bad", 4))(), all(3, 204), all(1, 503))
			x.wantStatus("ready", x.get("/health/ready"), 503, "WRITER_MAX_CONSECUTIVE_REJECTIONS=3", "3 rejections")
		},
	}, {
		option: "BIGTABLE_PROJECT", value: "other", missing: true,
		shows: "the row is in that project's table",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 204)
			if !x.bt.Has(scripted.TableName("other", "instance", "readings"), "a") {
				x.t.Error("the row is not in project other")
			}
		},
	}, {
		option: "BIGTABLE_INSTANCE", value: "other", missing: true,
		shows: "the row is in that instance's table",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 204)
			if !x.bt.Has(scripted.TableName("p", "other", "readings"), "a") {
				x.t.Error("the row is not in instance other")
			}
		},
	}, {
		option: "BIGTABLE_APP_PROFILE", value: "batch",
		shows: "each request names that app profile",
		service: func() scripted.Options {
			return scripted.Options{Script: func(c *scripted.Call) scripted.Plan {
				if c.AppProfile != "batch" {
					return scripted.Plan{Fail: scripted.Status(codes.InvalidArgument, "another app profile", 0)}
				}
				return scripted.Plan{}
			}}
		},
		run: func(x *rig) { x.wantStatus("push", x.push("a"), 204) },
	}, {
		option: "BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD", value: "3", also: []string{oneRequest}, service: firstTakes(200 * ms),
		shows: "of 9 records held back, requests of 3, 3 and 3 are made",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 10))(), all(10, 204))
			x.wantSizes(1, 3, 3, 3)
		},
	}, {
		option: "BIGTABLE_BATCH_REQUEST_BYTE_THRESHOLD", value: "2500", also: []string{oneRequest}, service: firstTakes(200 * ms),
		shows: "of 5 records of a kilobyte held back, requests of 2, 2 and 1 are made",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 6), "note", longNote)(), all(6, 204))
			x.wantSizes(1, 2, 2, 1)
		},
	}, {
		option: "BIGTABLE_MAX_IN_FLIGHT_ENTRIES", value: "3", also: []string{oneRequest, "WRITER_ADMISSION_TIMEOUT=100ms"}, service: firstTakes(200 * ms),
		shows: "3 records without an answer are held, the next 3 are answered 429",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 6))(), all(3, 204), all(3, 429))
		},
	}, {
		option: "BIGTABLE_MAX_IN_FLIGHT_BYTES", value: "2500", also: []string{oneRequest, "WRITER_ADMISSION_TIMEOUT=100ms"}, service: firstTakes(200 * ms),
		shows: "3 records of a kilobyte pass the bound by one, the next 3 are answered 429",
		run: func(x *rig) {
			x.wantStatuses(x.pushes(devices("d", 6), "note", longNote)(), all(3, 204), all(3, 429))
		},
	}, {
		option: "BIGTABLE_ATTEMPT_TIMEOUT", value: "700ms",
		service: func() scripted.Options { return scripted.Options{Script: scripted.InTurn(scripted.Plan{Stall: true})} },
		shows:   "a request without an answer ends after exactly 700 ms and its record is sent again",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 204)
			if calls := x.calls(); len(calls) != 2 || calls[0].End.Sub(calls[0].Start) != 700*ms {
				x.t.Errorf("requests %+v, want a first one of 700 ms and a second", calls)
			}
		},
	}, {
		option: "BIGTABLE_RECOVERY_INITIAL_BACKOFF", value: "2s", missing: true,
		service: func() scripted.Options { return made.service(1) },
		shows:   "a table that could not be made is tried again after 2 s, give or take a quarter",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 204)
			if gaps := made.gaps(); len(gaps) != 1 || gaps[0] < 1500*ms || gaps[0] > 2500*ms {
				x.t.Errorf("CreateTable calls %v apart, want two some 2 s apart", gaps)
			}
		},
	}, {
		option: "BIGTABLE_RECOVERY_MAX_BACKOFF", value: "1s", missing: true, also: []string{longAck, longRequest},
		service: func() scripted.Options { return made.service(6) },
		shows:   "the delays between 7 tries to make a table do not grow past 1 s and a quarter",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 204)
			gaps := made.gaps()
			if len(gaps) != 6 {
				x.t.Fatalf("CreateTable calls %v apart, want 7", gaps)
			}
			for _, gap := range gaps[1:] {
				if gap < 750*ms || gap > 1250*ms {
					x.t.Errorf("CreateTable calls %v apart, want 1 s from the second on", gaps)
				}
			}
		},
	}, {
		option: "BIGTABLE_RECOVERY_MAX_ATTEMPTS", value: "3", missing: true, also: []string{longAck, longRequest},
		service: func() scripted.Options { return made.service(math.MaxInt) },
		shows:   "after 3 tries to make its table a record is answered 503",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 503)
			if n := len(made.at); n != 3 {
				x.t.Errorf("%d CreateTable calls, want 3", n)
			}
		},
	}, {
		option: "BIGTABLE_DESTINATION_IDLE_TIMEOUT", value: "1m",
		shows: "after a minute without records no connection is open, and the next record brings them back",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 204)
			time.Sleep(time.Minute)
			synctest.Wait()
			if x.bt.Connections() == 0 {
				x.t.Error("nothing is open at exactly the timeout")
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := x.bt.Connections(); n != 0 {
				x.t.Errorf("%d connections are open after two minutes of quiet", n)
			}
			x.wantStatus("the next", x.push("b"), 204)
		},
	}, {
		option: "BIGTABLE_MAX_ACTIVE_INSTANCES", value: "1", routes: regionRoutes,
		service: func() scripted.Options { return scripted.Options{AnyTable: true, Latency: 100 * ms} },
		shows:   "the second instance's record is sent when the first one's client is closed",
		run: func(x *rig) {
			first := x.pushes([]string{"a"}, "region", "eu")
			second := x.pushes([]string{"b"}, "region", "us")
			x.wantStatuses(first(), all(1, 204))
			x.wantStatuses(second(), all(1, 204))
			if calls := x.calls(); len(calls) != 2 || calls[1].Start.Before(calls[0].End) {
				x.t.Errorf("requests %+v, want one after the other", calls)
			}
			if n := x.metric("pushsink_bigtable_clients_open"); n != 1 {
				x.t.Errorf("%v clients are open, want 1", n)
			}
		},
	}, {
		option: "BIGTABLE_POOL_SIZE", value: "2", routes: spreadRoutes,
		shows: "2 connections are open when the server is ready",
		run: func(x *rig) {
			x.wantStatus("ready", x.get("/health/ready"), 200)
			if n := x.bt.Connections(); n != 2 {
				x.t.Errorf("%d connections, want 2", n)
			}
		},
	}, {
		option: "BIGTABLE_PER_DESTINATION_METRICS", value: "true",
		shows: "a counter names the table",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 204)
			if n := x.metric("pushsink_bigtable_destination_sent_total", `instance="instance"`, `table="readings"`); n != 1 {
				x.t.Errorf("%v records are counted for the table, want 1", n)
			}
		},
	}, {
		option: "ROUTES_FILE", value: "", // the rig's own
		shows: "the route that it names takes records",
		run:   func(x *rig) { x.wantStatus("push", x.push("a"), 204) },
	}, {
		option: "AUTH", value: "oidc", also: []string{oidcAudience, oidcEmail},
		shows: "a push with a token is taken, one without is answered 401; without it nobody gets in",
		run: func(x *rig) {
			key := x.google()
			x.wantStatus("no token", x.push("a"), 401, "no bearer token")
			x.wantStatus("a token", x.pushAs(key.Sign(x.t, issuer.Claims()), "a"), 204)
			x.wantStatus("health", x.get("/health/live"), 200)
		},
	}, {
		option: "AUTH_AUDIENCES", value: "https://other.example, " + issuer.Audience, also: []string{"AUTH=oidc", oidcEmail},
		shows: "a token for one of them is taken, one for another is answered 401 by the option's name",
		run: func(x *rig) {
			key := x.google()
			x.wantStatus("ours", x.pushAs(key.Sign(x.t, issuer.Claims()), "a"), 204)
			x.wantStatus("another's", x.pushAs(key.Sign(x.t, issuer.Claims("aud", "https://another.example")), "a"), 401, "AUTH_AUDIENCES")
		},
	}, {
		option: "AUTH_EMAILS", value: "other@example.com, " + issuer.Email, also: []string{"AUTH=oidc", oidcAudience},
		shows: "a token of one of them is taken, another account's is answered 403 by the option's name",
		run: func(x *rig) {
			key := x.google()
			x.wantStatus("ours", x.pushAs(key.Sign(x.t, issuer.Claims()), "a"), 204)
			x.wantStatus("another's", x.pushAs(key.Sign(x.t, issuer.Claims("email", "another@example.com")), "a"), 403, "AUTH_EMAILS")
		},
	}, {
		option: "AUTH_JWKS_URL", value: "https://issuer.test/keys", also: []string{"AUTH=oidc", oidcAudience, oidcEmail},
		shows: "a token signed with a key from there is taken, one of Google's is answered 401",
		run: func(x *rig) {
			google, key := x.google(), issuer.NewKey(x.t, "other")
			x.issuers["https://issuer.test/keys"] = issuer.New(key)
			x.wantStatus("that issuer's", x.pushAs(key.Sign(x.t, issuer.Claims()), "a"), 204)
			x.wantStatus("Google's", x.pushAs(google.Sign(x.t, issuer.Claims()), "a"), 401)
		},
	}, {
		option: "AUTH_ISSUERS", value: "https://issuer.test, https://issuer2.test", also: []string{"AUTH=oidc", oidcAudience, oidcEmail},
		shows: "a token of one of them is taken, one of Google's is answered 401 by the option's name",
		run: func(x *rig) {
			key := x.google()
			x.wantStatus("theirs", x.pushAs(key.Sign(x.t, issuer.Claims("iss", "https://issuer2.test")), "a"), 204)
			x.wantStatus("Google's", x.pushAs(key.Sign(x.t, issuer.Claims()), "a"), 401, "AUTH_ISSUERS")
		},
	}, {
		option: "EXPOSE", value: "dryrun,console",
		shows: "the dry run and the console's page answer, and the rows do not",
		run: func(x *rig) {
			x.wantStatus("dry run", x.do("POST", "/v1/routes/telemetry/dryrun", "application/json", strings.NewReader(`{"device":"a","temp":1}`)), 200, `"key":"a"`)
			x.wantStatus("console", x.get("/"), 200, "<title>pushsink console</title>")
			x.wantStatus("its figures", x.get("/console/live"), 200, `"name":"telemetry"`)
			x.wantStatus("rows", x.get("/v1/routes/telemetry/rows"), 404)
		},
	}, {
		option: "METRICS_PORT", value: "0", live: true,
		shows: "/metrics answers on a port of its own",
		run: func(x *rig) {
			addr := x.srv.telemetry.addr
			if addr == nil {
				x.t.Fatal("no listener")
			}
			_, port, _ := strings.Cut(strings.TrimPrefix(addr.String(), "[::]"), ":")
			x.wantStatus("metrics", get("http://127.0.0.1:"+port+"/metrics"), 200, "pushsink_")
		},
	}, {
		option: "MAX_BODY_BYTES", value: "2000",
		shows: "a push of 2,000 bytes is taken, one of 2,001 is answered 413 by the option's name",
		run: func(x *rig) {
			push := func(size int) answer {
				body := message("a")
				return x.do("POST", "/v1/routes/telemetry/push", "application/json", strings.NewReader(body+strings.Repeat(" ", size-len(body))))
			}
			x.wantStatus("2,000 bytes", push(2000), 204)
			x.wantStatus("2,001 bytes", push(2001), 413, "MAX_BODY_BYTES")
		},
	}, {
		option: "BATCH_MAX_BODY_BYTES", value: "2000",
		shows: "an NDJSON stream of 2,000 bytes is taken, one of 2,001 is answered 413 by the option's name",
		run: func(x *rig) {
			line := `{"device":"a","temp":1}` + "\n"
			x.wantStatus("2,000 bytes", x.records("application/x-ndjson", line+strings.Repeat("\n", 2000-len(line))), 200)
			x.wantStatus("2,001 bytes", x.records("application/x-ndjson", line+strings.Repeat("\n", 2001-len(line))), 413, "BATCH_MAX_BODY_BYTES")
		},
	}, {
		option: "MAX_BATCH_RECORDS", value: "2",
		shows: "an array of 2 is taken, one of 3 is refused by the option's name",
		run: func(x *rig) {
			array := func(n int) answer {
				return x.records("application/json", "["+strings.Join(devicesJSON(n), ",")+"]")
			}
			x.wantStatus("2 records", array(2), 200)
			if a := array(3); a.status/100 != 4 || !strings.Contains(a.body, "MAX_BATCH_RECORDS") {
				x.t.Errorf("3 records: %d %s, want 4xx by the option's name", a.status, a.body)
			}
		},
	}, {
		option: "BODY_BYTES_IN_FLIGHT", value: "4000", also: []string{"MAX_BODY_BYTES=3000"},
		shows: "while bodies of 3,000 bytes are read, another of 1,001 is answered 429",
		run: func(x *rig) {
			body, write := io.Pipe()
			slow := make(chan answer)
			go func() {
				slow <- x.do("POST", "/v1/routes/telemetry/push", "application/json", body)
			}()
			text := message("slow")
			write.Write([]byte(strings.Repeat(" ", 2999-len(text)) + text))
			synctest.Wait()
			other := message("other")
			x.wantStatus("another", x.do("POST", "/v1/routes/telemetry/push", "application/json", strings.NewReader(other+strings.Repeat(" ", 1200-len(other)))), 429)
			write.Close()
			x.wantStatus("the slow one", <-slow, 204)
		},
	}, {
		option: "ACK_DEADLINE", value: "40s", also: []string{"REQUEST_TIMEOUT=30s", "BIGTABLE_ATTEMPT_TIMEOUT=1h"}, reads: true, service: silent,
		shows: "a request may take 30 s, which is refused with the default",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 503)
			if x.at() != 30*time.Second {
				x.t.Errorf("answered after %s, want 30 s", x.at())
			}
		},
	}, {
		option: "REQUEST_TIMEOUT", value: "2s", service: silent,
		shows: "a push whose row is not written is answered 503 after exactly 2 s",
		run: func(x *rig) {
			x.wantStatus("push", x.push("a"), 503)
			if x.at() != 2*time.Second {
				x.t.Errorf("answered after %s, want 2 s", x.at())
			}
		},
	}, {
		option: "BATCH_TIMEOUT", value: "2s", service: silent,
		shows: "a batch whose rows are not written is answered 504 after exactly 2 s",
		run: func(x *rig) {
			x.wantStatus("batch", x.records("application/json", "["+strings.Join(devicesJSON(2), ",")+"]"), 504)
			if x.at() != 2*time.Second {
				x.t.Errorf("answered after %s, want 2 s", x.at())
			}
		},
	}, {
		option: "READ_HEADER_TIMEOUT", value: "1s",
		shows: "a connection whose headers do not end is closed after exactly 1 s",
		run: func(x *rig) {
			x.wantClosedAfter(time.Second, "POST / HTTP/1.1\r\nHost: h\r\n")
		},
	}, {
		option: "READ_BODY_TIMEOUT", value: "1s",
		shows: "a push whose body stops is answered after exactly 1 s",
		run: func(x *rig) {
			x.wantClosedAfter(time.Second, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
		},
	}, {
		option: "IDLE_TIMEOUT", value: "10s",
		shows: "a connection without a request is closed after exactly 10 s",
		run: func(x *rig) {
			x.wantClosedAfter(10*time.Second, "GET /health/live HTTP/1.1\r\nHost: h\r\n\r\n")
		},
	}, {
		option: "SHUTDOWN_TIMEOUT", value: "1600ms", service: silent,
		shows: "a stop answers open requests after exactly five eighths of it",
		run: func(x *rig) {
			wait := x.pushes([]string{"a"})
			began := time.Now()
			stopped := x.stop()
			x.wantStatuses(wait(), all(1, 503))
			if took := time.Since(began); took != time.Second {
				x.t.Errorf("answered after %s, want 1 s", took)
			}
			if err := stopped(); err != nil {
				x.t.Error(err)
			}
			if took := time.Since(began); took > 1600*ms {
				x.t.Errorf("stopped after %s", took)
			}
		},
	}, {
		option: "HEALTH_TRIAL_INTERVAL", value: "1m", routes: dropRoutes, service: refusing, also: []string{"WRITER_MAX_CONSECUTIVE_REJECTIONS=1"},
		shows: "a tripped route takes its trial record after a minute and not before",
		run: func(x *rig) {
			x.wantStatus("bad", x.push("bad"), 204)
			time.Sleep(time.Minute - 1)
			x.wantStatus("before", x.push("good"), 503)
			time.Sleep(time.Nanosecond)
			x.wantStatus("trial", x.push("good"), 204)
		},
	}, {
		option: "HEALTH_LIVENESS_GRACE", value: "25s", routes: dropRoutes, service: refusing, also: []string{"WRITER_MAX_CONSECUTIVE_REJECTIONS=1"},
		shows: "live fails by the option's name once a route has been tripped for 25 s, failed trials included",
		run: func(x *rig) {
			x.wantStatus("bad", x.push("bad"), 204)
			for i := range 2 { // trials that fail
				time.Sleep(10 * time.Second)
				x.wantStatus("trial", x.push(fmt.Sprint("bad", i)), 503)
			}
			time.Sleep(5*time.Second - 1)
			x.wantStatus("live before", x.get("/health/live"), 200)
			time.Sleep(time.Nanosecond)
			x.wantStatus("live after", x.get("/health/live"), 503, "HEALTH_LIVENESS_GRACE=25s")
		},
	}, {
		option: "LOG_LEVEL", value: "error", missing: true, routes: strings.NewReplacer("      create: ifNeeded\n", "", "      families: {m: {gc: {maxVersions: 1}}}\n", "").Replace(noteRoutes),
		shows: "the warning of a start without its table is not logged",
		run: func(x *rig) {
			x.wantStatus("ready", x.get("/health/ready"), 503)
			if text := x.log.String(); text != "" {
				x.t.Errorf("logged %s", text)
			}
		},
	}}, spannerProofs()...)
}

// devicesJSON are n records.
func devicesJSON(n int) (list []string) {
	for _, d := range devices("d", n) {
		list = append(list, fmt.Sprintf(`{"device":%q,"temp":1}`, d))
	}
	return list
}

// wantClosedAfter sends text and wants the connection to end after exactly d, answered or not.
func (x *rig) wantClosedAfter(d time.Duration, text string) {
	x.t.Helper()
	conn, err := x.port.DialContext(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, text)
	in := bufio.NewReader(conn)
	if resp, err := http.ReadResponse(in, nil); err == nil {
		io.Copy(io.Discard, resp.Body)
		if resp.StatusCode/100 == 2 && strings.HasPrefix(text, "POST") {
			x.t.Errorf("status %d of what never ended", resp.StatusCode)
		}
	}
	if b, err := in.ReadByte(); err == nil {
		x.t.Errorf("it goes on with %q", b)
	}
	if x.at() != d {
		x.t.Errorf("the connection ended after %s, want %s", x.at(), d)
	}
}

func TestOptionProof(t *testing.T) {
	for _, p := range proofs() {
		t.Run(p.option, func(t *testing.T) {
			c := setup{routes: p.routes, options: p.also, missing: p.missing}
			if p.service != nil {
				c.service = p.service()
			}
			if c.routes == "" {
				c.routes = noteRoutes
			}
			if p.value != "" {
				c.options = append([]string{p.option + "=" + p.value}, p.also...)
			}
			switch {
			case p.onSpanner != nil:
				inSpannerBubble(t, c, p.replies, p.onSpanner)
			case p.live:
				p.run(newRig(t, c))
			default:
				inBubble(t, c, p.run)
			}
		})
	}
}
