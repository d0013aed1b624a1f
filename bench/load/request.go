package load

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/pushsink/pushsink/bench/reading"
)

// Shape is what a request holds.
type Shape int

// The shapes.
const (
	Wrapped   Shape = iota // one record in a Pub/Sub push envelope
	Unwrapped              // one record as the body, its metadata in headers
	NDJSON                 // Request.Records records, one a line
)

// Request describes the requests of a run.
type Request struct {
	Path  string
	Shape Shape
	// Records in a request of NDJSON; other shapes hold one.
	Records int
}

// template is a request's bytes, and where the sequence numbers stand in them.
type template struct {
	wire    []byte
	records int
	size    int   // of one body
	plain   []int // positions of the digits
	coded   []int // positions of the digits' base64
}

// message is what stands around a record in a push. The id is a sequence number as well.
const (
	pushHead = `{"message":{"data":"`
	pushMid  = `","messageId":"`
	pushTail = `","message_id":"%d","publishTime":"2026-11-30T08:00:00.456Z","publish_time":"2026-11-30T08:00:00.456Z"},` +
		`"subscription":"projects/bench/subscriptions/readings"}`
)

func (r Request) template(host string) *template {
	record, digits := reading.Example()
	t := &template{records: 1}
	var body []byte
	var plain, coded []int
	media, extra := "application/json", ""
	switch r.Shape {
	case Wrapped:
		body = append(body, pushHead...)
		coded = append(coded, len(body)+base64.StdEncoding.EncodedLen(digits))
		body = base64.StdEncoding.AppendEncode(body, record)
		body = append(body, pushMid...)
		plain = append(plain, len(body))
		body = strconv.AppendInt(body, reading.FirstSeq, 10)
		body = fmt.Appendf(body, pushTail, reading.FirstSeq)
	case Unwrapped:
		body, plain = record, []int{digits}
		extra = "X-Goog-Pubsub-Message-Id: 1\r\nX-Goog-Pubsub-Publish-Time: 2026-11-30T08:00:00.456Z\r\n" +
			"X-Goog-Pubsub-Subscription-Name: projects/bench/subscriptions/readings\r\n"
	case NDJSON:
		media = "application/x-ndjson"
		t.records = r.Records
		for i := range r.Records {
			if i > 0 { // none after the last: some readers would find an empty record there
				body = append(body, '\n')
			}
			plain = append(plain, len(body)+digits)
			body = append(body, record...)
		}
	}
	t.wire = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nUser-Agent: bench\r\n%sContent-Length: %d\r\n\r\n",
		r.Path, host, media, extra, len(body))
	for i := range plain {
		plain[i] += len(t.wire)
	}
	for i := range coded {
		coded[i] += len(t.wire)
	}
	t.plain, t.coded, t.size = plain, coded, len(body)
	t.wire = append(t.wire, body...)
	return t
}

// number writes the sequence numbers from seq on into wire, a copy of t.wire. It returns
// the next one.
func (t *template) number(wire []byte, seq int64) int64 {
	var digits [reading.Digits]byte
	for i := range t.records {
		strconv.AppendInt(digits[:0], seq+int64(i), 10)
		for _, at := range t.coded { // at most one of either in a record
			base64.StdEncoding.Encode(wire[at:], digits[:])
		}
		if t.records > 1 {
			copy(wire[t.plain[i]:], digits[:])
			continue
		}
		for _, at := range t.plain {
			copy(wire[at:], digits[:])
		}
	}
	return seq + int64(t.records)
}

func clone(t *template) []byte { return bytes.Clone(t.wire) }
