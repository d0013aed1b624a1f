package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// OTEL-03: 10,000 requests to random paths, of random routes, with random methods, make
// no series that is not there after the first few, and hold no memory.
func TestOTEL03TheNumberOfSeriesIsConstant(t *testing.T) {
	inBubble(t, setup{routes: telemetryRoutes}, constantSeries)
}

func constantSeries(x *rig) {
	t := x.t
	word := func() string { return fmt.Sprintf("x%x", rand.Uint64()) }
	h := x.srv.http.Handler
	send := func(n int) {
		for range n {
			for _, r := range []*http.Request{
				httptest.NewRequest(strings.ToUpper(word()), "/"+word(), http.NoBody),
				httptest.NewRequest("POST", "/v1/routes/"+word()+"/push", http.NoBody),
				httptest.NewRequest(strings.ToUpper(word()), "/v1/routes/telemetry/push", http.NoBody),
				httptest.NewRequest("GET", "/health/routes/"+word(), http.NoBody),
			} {
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		}
	}
	series := func() int {
		n := 0
		for line := range strings.Lines(x.page()) {
			if strings.HasPrefix(line, "pushsink_") {
				n++
			}
		}
		return n
	}
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	send(100)
	before, heap := series(), held()
	send(2500)
	if after := series(); after != before || before == 0 {
		t.Errorf("%d series after 10,000 requests, %d after 400", after, before)
	}
	// 10,000 kept paths with their attribute sets would be some 10 MB.
	if now := held(); now > heap+4<<20 {
		t.Errorf("%d KiB are held after 10,000 requests, %d before", now>>10, heap>>10)
	}
}
