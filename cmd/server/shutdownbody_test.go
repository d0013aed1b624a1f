package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"testing"

	"github.com/pushsink/pushsink/internal/scripted"
)

// SRV: bodies that still arrive when the server stops are answered on HTTP/2 as on HTTP/1.1,
// all streams of a connection: it is the streams' reading that ends, not the connection's.
func TestStopDoesNotWaitForSlowBodiesOverH2C(t *testing.T) {
	bt := scripted.New(t, scripted.Options{})
	bt.AddTable(readings, "m")
	p := start(t, real(t, bt, "PUSHSINK_METRICS_PORT=0", "PUSHSINK_SHUTDOWN_TIMEOUT=3s", "PUSHSINK_READ_BODY_TIMEOUT=1h",
		"PUSHSINK_ACK_DEADLINE=600s", "PUSHSINK_REQUEST_TIMEOUT=500s", "PUSHSINK_BATCH_TIMEOUT=500s"))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()

	type outcome struct {
		status, proto int
		retry         string
		body          struct {
			Written   int
			Truncated bool
			Detail    string
		}
		err error
	}
	kinds := []struct{ path, media, part string }{
		{"push", "application/json", `{"message":`},
		{"records", "application/json", `[{"device":"a","temp":1},`},
		{"records", "application/x-ndjson", "{\"device\":\"d\",\"temp\":1}\n{\"device\":"},
	}
	const each = 10
	outcomes := make([]outcome, each*len(kinds))
	var all sync.WaitGroup
	held := 0
	for i := range outcomes {
		k := kinds[i%len(kinds)]
		held += len(k.part)
		if k.media == "application/x-ndjson" {
			held -= len("{\"device\":\"d\",\"temp\":1}\n") // admitted
		}
		body, feed := io.Pipe()
		defer feed.Close()
		all.Go(func() {
			o := &outcomes[i]
			r, err := http.NewRequest("POST", p.url()+"/v1/routes/telemetry/"+k.path, body)
			if err != nil {
				o.err = err
				return
			}
			r.Header.Set("Content-Type", k.media)
			resp, err := client.Do(r)
			if err != nil {
				o.err = err
				return
			}
			defer resp.Body.Close()
			o.status, o.proto, o.retry = resp.StatusCode, resp.ProtoMajor, resp.Header.Get("Retry-After")
			o.err = json.NewDecoder(resp.Body).Decode(&o.body)
		})
		if _, err := io.WriteString(feed, k.part); err != nil {
			t.Fatal(err)
		}
	}
	reaches(t, metricsURL(p), "pushsink_http_body_held_bytes", held)
	reaches(t, metricsURL(p), "pushsink_writer_requests_open", 0)
	p.signal(syscall.SIGTERM)
	all.Wait()
	for i, o := range outcomes {
		stream := i%len(kinds) == 2
		if o.err != nil || o.proto != 2 || o.status != 503 || o.retry == "" || o.body.Truncated != stream || (o.body.Written == 1) != stream {
			t.Errorf("%s of %s: %s", kinds[i%len(kinds)].path, kinds[i%len(kinds)].media, fmt.Sprintf("%+v", o))
		}
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
