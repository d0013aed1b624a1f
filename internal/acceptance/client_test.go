package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/fullduplex"
)

// message is a Pub/Sub message to push.
type message struct {
	ID         string
	Data       []byte
	Attributes map[string]string
	Published  time.Time
}

// published is the publish time of messages that do not care.
var published = time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)

// body is the wrapped push that the service would send.
func (m message) body(t testing.TB) []byte {
	t.Helper()
	at := m.Published
	if at.IsZero() {
		at = published
	}
	inner := map[string]any{
		"data": m.Data, "messageId": m.ID, "message_id": m.ID,
		"publishTime": at.Format(time.RFC3339Nano), "publish_time": at.Format(time.RFC3339Nano),
	}
	if m.Attributes != nil {
		inner["attributes"] = m.Attributes
	}
	body, err := json.Marshal(map[string]any{"message": inner, "subscription": "projects/p/subscriptions/s"})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// answer is what came back; Status is 0 when nothing did, and Err says why.
type answer struct {
	Status int
	Header http.Header
	Body   string
	Err    error
	// Took is the whole request; Waited is from its last byte sent to the answer, 0 when
	// the answer came before.
	Took, Waited time.Duration
}

func (a answer) acknowledged() bool { return a.Status/100 == 2 }

func (a answer) String() string {
	if a.Err != nil {
		return a.Err.Error()
	}
	return fmt.Sprintf("%d %.300s", a.Status, a.Body)
}

// newClient keeps as many connections as are used at once.
func newClient(t testing.TB) *http.Client {
	transport := &http.Transport{DialContext: fullduplex.Dial, MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, ExpectContinueTimeout: patience}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 5 * patience}
}

// push sends one wrapped push to a route.
func push(ctx context.Context, client *http.Client, url, route string, body []byte, headers ...string) answer {
	return pushFrom(ctx, client, url, route, bytes.NewReader(body), len(body), headers...)
}

// pushFrom is push with a body that is read as it is sent.
func pushFrom(ctx context.Context, client *http.Client, url, route string, body io.Reader, length int, headers ...string) answer {
	start := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/routes/"+route+"/push", body)
	if err != nil {
		return answer{Err: err}
	}
	request.ContentLength = int64(length)
	var sent atomic.Int64 // since start, when the last byte was written
	request = request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { sent.Store(int64(time.Since(start))) },
	}))
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{Err: err, Took: time.Since(start)}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a := answer{Status: response.StatusCode, Header: response.Header, Body: string(text), Err: err, Took: time.Since(start)}
	if at := sent.Load(); at > 0 {
		a.Waited = a.Took - time.Duration(at)
	}
	return a
}

// inParallel runs f(0) .. f(n-1) on so many workers and waits for them.
func inParallel(workers, n int, f func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(workers, n) {
		all.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

func allSet(flags []atomic.Bool) bool {
	for i := range flags {
		if !flags[i].Load() {
			return false
		}
	}
	return true
}

// eventually waits for a condition of another process.
func eventually(t testing.TB, what string, limit time.Duration, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
