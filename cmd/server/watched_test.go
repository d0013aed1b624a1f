package main

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/pushsink/pushsink/internal/scripted"
)

// A write that fails is logged with its code and cause, at a falling rate; when it goes
// well again nothing of it is left in the probes.
func TestFailingWritesAreLogged(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	bt.AddTable(readings, "m")
	p := start(t, real(t, bt, "PUSHSINK_REQUEST_TIMEOUT=300ms"))
	url := p.url()
	eventually(t, func() (bool, string) {
		a := get(url + "/health/ready")
		return a.status == 200, fmt.Sprintf("ready: %d %s", a.status, a.body)
	})
	bt.SetScript(func(*scripted.Call) scripted.Plan {
		return scripted.Plan{Fail: scripted.Status(codes.Unavailable, "come back later", 0)}
	})
	// The first may end before the service has said anything.
	n := 0
	eventually(t, func() (bool, string) {
		n++
		a := post(url+"/v1/routes/telemetry/push", pushBody(fmt.Sprint("d", n), 1))
		if a.status != 503 {
			t.Fatalf("push: %d %s, want 503", a.status, a.body)
		}
		return strings.Contains(a.body, "Unavailable: come back later") && bt.Stats().Requests >= 4,
			fmt.Sprintf("push: %s after %d requests, want the cause after 4", a.body, bt.Stats().Requests)
	})
	logged := p.logged("backend request failed")
	if logged["severity"] != "WARNING" || logged["code"] != "Unavailable" || logged["table"] != "readings" || logged["request"] != "write" ||
		!strings.Contains(fmt.Sprint(logged["cause"]), "come back later") {
		t.Errorf("logged %v", logged)
	}
	if calls, lines := bt.Stats().Requests, len(p.entries("backend request failed")); calls < 4 || lines > calls/2+1 {
		t.Errorf("%d lines of %d failed calls, want fewer and fewer", lines, calls)
	}
	p.stop()
}

// A table's name that a record gave is in no answer, no probe and no log line, whatever the
// service says of it.
func TestANameOfARecordIsNowhere(t *testing.T) {
	const planted = "planted-secret"
	routes := strings.Replace(telemetryRoutes, "table: readings", `table: "{data.device}"`, 1)
	kept := strings.NewReplacer("      create: ifNeeded\n", "", "      families: {m: {gc: {maxVersions: 1}}}\n", "").Replace(routes)
	table := scripted.TableName("p", "instance", planted)
	for _, c := range []struct {
		name, routes string
		code         codes.Code
		entry        bool
		want         int
	}{
		{"made", routes, codes.OK, false, 204},
		{"missing", kept, codes.OK, false, 422},
		{"missing, and dropped until it trips", strings.Replace(kept, "    bigtable:", "    onReject: drop\n    bigtable:", 1), codes.OK, false, 204},
		{"out of reach", routes, codes.Unavailable, false, 503},
		{"forbidden", routes, codes.PermissionDenied, false, 503},
		{"refused", routes, codes.InvalidArgument, true, 422},
		{"no such family", routes, codes.Internal, true, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			bt := scripted.New(t, scripted.Options{Script: func(*scripted.Call) scripted.Plan {
				err := scripted.Status(c.code, `unknown family "m" in `+table, 0)
				if c.code != codes.Internal {
					err = scripted.Status(c.code, "not for "+table, 0)
				}
				switch {
				case c.code == codes.OK:
					return scripted.Plan{}
				case c.entry:
					return scripted.Plan{Entry: func(int, *scripted.Entry) error { return err }}
				default:
					return scripted.Plan{Fail: err}
				}
			}})
			environ := real(t, bt, "PUSHSINK_ROUTES_FILE="+write(t, "routes.yaml", c.routes), "PUSHSINK_METRICS_PORT=0", "PUSHSINK_WRITER_MAX_CONSECUTIVE_REJECTIONS=1")
			tried := c.code == codes.Unavailable || c.code == codes.Internal // until the request ends
			if tried {
				environ = append(environ, "PUSHSINK_REQUEST_TIMEOUT=300ms", "PUSHSINK_BATCH_TIMEOUT=300ms")
			}
			p := start(t, environ)
			url := p.url()
			var seen strings.Builder
			if tried { // the first may end before the service has said anything
				eventually(t, func() (bool, string) {
					a := post(url+"/v1/routes/telemetry/push", pushOf("m1", `{"device":"`+planted+`","temp":1}`))
					fmt.Fprintln(&seen, a.body)
					return bt.Stats().Requests >= 2, "a second request; the first was answered " + a.body
				})
			}
			for try := range 2 {
				a := post(url+"/v1/routes/telemetry/push", pushOf("m1", `{"device":"`+planted+`","temp":1}`))
				if try == 0 && a.status != c.want {
					t.Errorf("push: %d %s, want %d", a.status, a.body, c.want)
				}
				b := post(url+"/v1/routes/telemetry/records", `{"device":"`+planted+`","temp":1}`)
				fmt.Fprintln(&seen, a.body, b.body)
				for _, probe := range []string{"ready", "live", "startup", "routes/telemetry"} {
					fmt.Fprintln(&seen, get(url+"/health/"+probe).body)
				}
			}
			fmt.Fprintln(&seen, get(metricsURL(p)+"/metrics").body)
			p.stop()
			if all := seen.String() + p.output() + p.stderr.String(); strings.Contains(all, planted) {
				for line := range strings.Lines(all) {
					if strings.Contains(line, planted) {
						t.Errorf("shown: %s", line)
					}
				}
			}
		})
	}
}
