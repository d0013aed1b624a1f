package handlers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

const problemType = "application/problem+json"

// problem is an RFC 9457 answer. detail and pointer hold no data.
type problem struct {
	status  int
	code    schema.Code // empty where the status says it all (401, 403, 404, 405)
	detail  string
	pointer string
	// batch adds the members of a batch answer; nil on endpoints that take no records.
	batch *report
}

// appendJSON gives the problem's text.
func (p *problem) appendJSON(b []byte) []byte {
	b = append(b, `{"type":"about:blank","title":`...)
	b = appendString(b, http.StatusText(p.status))
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.status), 10)
	if p.detail != "" {
		b = append(b, `,"detail":`...)
		b = appendString(b, p.detail)
	}
	if p.code != "" {
		b = append(b, `,"code":`...)
		b = appendString(b, string(p.code))
	}
	if p.pointer != "" {
		b = append(b, `,"pointer":`...)
		b = appendString(b, p.pointer)
	}
	if p.batch != nil {
		b = append(b, ',')
		b = p.batch.appendMembers(b)
	}
	return append(b, "}\n"...)
}

// send writes the problem as the answer.
func (p *problem) send(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", problemType)
	setNoStore(h)
	w.WriteHeader(p.status)
	_, _ = w.Write(p.appendJSON(make([]byte, 0, 512)))
}

// refuse answers before the body was read.
func refuse(w http.ResponseWriter, r *http.Request, status int, detail string) {
	refuseFor(w, r, status, detail, 0)
}

// refuseFor is refuse with the time after which to try again, where status has one.
func refuseFor(w http.ResponseWriter, r *http.Request, status int, detail string, after time.Duration) {
	leaveBody(w, r)
	setRetryAfter(w.Header(), status, after)
	p := problem{status: status, detail: detail}
	switch status {
	case http.StatusUnsupportedMediaType:
		p.code = schema.UnsupportedContentType
	case http.StatusServiceUnavailable:
		p.code = schema.Unavailable
	case http.StatusInternalServerError:
		p.code = schema.Internal
	}
	p.send(w)
}

func setNoStore(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// appendString appends s as a JSON string; bytes that are no UTF-8 become U+FFFD, since an
// answer must be JSON whatever it quotes.
func appendString[S ~string | ~[]byte](b []byte, s S) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
