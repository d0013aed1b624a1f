package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// SRV: bodies that still arrive when the server stops are answered on HTTP/2 as on HTTP/1.1,
// all streams of a connection: it is the streams' reading that ends, not the connection's.
func TestStopDoesNotWaitForSlowBodiesOverH2C(t *testing.T) {
	inBubble(t, setup{routes: telemetryRoutes, options: slowBodies}, slowBodiesOverH2C)
}

func slowBodiesOverH2C(x *rig) {
	t := x.t
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return x.port.DialContext(ctx) }}}
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
			held += openRecord - len("{\"device\":\"d\",\"temp\":1}\n") // admitted
		}
		body, feed := io.Pipe()
		defer feed.Close()
		all.Go(func() {
			o := &outcomes[i]
			r, err := http.NewRequest("POST", "http://server/v1/routes/telemetry/"+k.path, body)
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
	x.wantHeld(held)
	stopped := x.stop()
	all.Wait()
	for i, o := range outcomes {
		stream := i%len(kinds) == 2
		if o.err != nil || o.proto != 2 || o.status != 503 || o.retry == "" || o.body.Truncated != stream || (o.body.Written == 1) != stream {
			t.Errorf("%s of %s: %s", kinds[i%len(kinds)].path, kinds[i%len(kinds)].media, fmt.Sprintf("%+v", o))
		}
	}
	if err := stopped(); err != nil {
		t.Error(err)
	}
}
