package acceptance

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// ackWatch stands between Pub/Sub and the server and remembers which messages were
// acknowledged.
type ackWatch struct {
	URL string

	mu    sync.Mutex // guards acked
	acked map[string]bool
}

func watchAcks(t testing.TB, target string) *ackWatch {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	w := &ackWatch{acked: map[string]bool{}}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorHandler = func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) }
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		seen := &statusSeen{ResponseWriter: rw}
		proxy.ServeHTTP(seen, r)
		if seen.status/100 != 2 {
			return
		}
		var push struct {
			Message struct {
				ID string `json:"messageId"`
			} `json:"message"`
		}
		if err := json.Unmarshal(body, &push); err != nil {
			t.Errorf("a push that is no JSON was acknowledged: %v", err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.acked[push.Message.ID] = true
	}))
	t.Cleanup(front.Close)
	w.URL = front.URL
	return w
}

// count is the number of distinct messages acknowledged.
func (w *ackWatch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// statusSeen remembers the status that was answered.
type statusSeen struct {
	http.ResponseWriter
	status int
}

func (s *statusSeen) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}
