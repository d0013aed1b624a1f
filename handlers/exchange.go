package handlers

import (
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pushsink/pushsink/internal/traceparent"
)

// exchange is one request and its answer. It lives on the request's goroutine.
type exchange struct {
	h *api
	w http.ResponseWriter
	r *http.Request
	// conn is asked for deadlines of reads; a recorder in tests has none.
	conn *statusWriter
	// ctx ends at the deadline, which is absolute and counted from the headers.
	ctx  deadline
	span trace.Span // nil = the request is not traced

	// held is what this request has charged to the body budget and not given back.
	held    int64
	decodes int64 // of decoding, for the record that is being prepared
	// before is called when that record has to wait for memory, so that the records before it
	// do not; false = one of them was not admitted. nil = there are none.
	before  func() bool
	turn    bool // this request decompresses (see turns)
	limit   tooLargeError
	wire    wire
	content content
}

// begin starts an exchange whose deadline is timeout from when the headers were read, a wait
// for the keys of its token included. The caller defers end.
func (h *api) begin(w http.ResponseWriter, r *http.Request, timeout time.Duration) *exchange {
	s, ok := w.(*statusWriter)
	if !ok {
		s = &statusWriter{ResponseWriter: w, start: time.Now()}
	}
	x := &s.exchange
	x.h, x.w, x.r, x.conn, x.span = h, w, r, s, s.span
	x.ctx.at = s.start.Add(timeout)
	x.ctx.request = traceparent.Context{Context: r.Context(), Header: r.Header}
	return x
}

func (x *exchange) end() {
	x.ctx.end()
	if x.wire.conn != nil {
		x.wire.conn.expected.Store(false) // net/http has not begun its watch and may keep it
	}
	x.decoded()
	x.release(x.held)
}

// charge takes n bytes of the body budget.
func (x *exchange) charge(n int64) bool {
	if !x.h.budget.take(n) {
		return false
	}
	x.held += n
	return true
}

func (x *exchange) release(n int64) {
	n = min(n, x.held)
	x.held -= n
	x.h.budget.give(n)
}

// leaveBody prepares an answer that is given although the body was not read to its end. An
// HTTP/1 connection is closed after it: otherwise the server would first read on, from a
// client that may send slowly, to reach the next request. (HTTP/2 resets the stream.)
func leaveBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.Body != nil && r.Body != http.NoBody {
		w.Header().Set("Connection", "close")
	}
}
