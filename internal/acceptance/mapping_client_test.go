package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"
)

// batchAnswer is what /records says of a batch.
type batchAnswer struct {
	Received, Written, Skipped, Failed, Retryable int
	Truncated, ErrorsTruncated                    bool
	Errors                                        []struct {
		Index        int
		Code, Detail string
	}
}

// postRecords sends a stream of lines.
func postRecords(ctx context.Context, client *http.Client, url, route string, body io.Reader, headers ...string) answer {
	start := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/routes/"+route+"/records", body)
	if err != nil {
		return answer{Err: err}
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return do(client, request, start)
}

func do(client *http.Client, request *http.Request, start time.Time) answer {
	response, err := client.Do(request)
	if err != nil {
		return answer{Err: err, Took: time.Since(start)}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answer{Status: response.StatusCode, Header: response.Header, Body: string(text), Err: err, Took: time.Since(start)}
}

// batch reads the answer of a batch.
func (a answer) batch(t testing.TB) (b batchAnswer) {
	t.Helper()
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if err := json.Unmarshal([]byte(a.Body), &b); err != nil {
		t.Fatalf("%v: %v", a, err)
	}
	return b
}

// resend sends what failed of a batch for a passing reason until all is written, as any
// client does, and gives how many lines that were. A machine so busy that no call ends
// for 250 ms looks like a table that is down, and so does one that is being made: lines
// above the half of the writer's caps are then answered 503.
func resend(t *testing.T, client *http.Client, url, route string, b batchAnswer, line func(i int) []byte) (again int) {
	t.Helper()
	indexes := make([]int, b.Received)
	for i := range indexes {
		indexes[i] = i
	}
	for deadline := time.Now().Add(5 * patience); b.Failed > 0; {
		if b.Retryable != b.Failed || b.ErrorsTruncated || time.Now().After(deadline) {
			t.Fatalf("%d lines failed, %d of them for a passing reason: %v", b.Failed, b.Retryable, b.reasons())
		}
		var body []byte
		failed := make([]int, len(b.Errors))
		for i, e := range b.Errors {
			failed[i] = indexes[e.Index]
			body = append(body, line(failed[i])...)
		}
		again += len(failed)
		indexes = failed
		b = postRecords(t.Context(), client, url, route, bytes.NewReader(body)).batch(t)
	}
	return again
}

// reasons counts the errors that are listed by their words.
func (b batchAnswer) reasons() map[string]int {
	count := map[string]int{}
	for _, e := range b.Errors {
		count[e.Code+": "+e.Detail]++
	}
	return count
}
