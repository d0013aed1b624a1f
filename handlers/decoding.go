package handlers

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"golang.org/x/sync/semaphore"

	"github.com/pushsink/pushsink/internal/plainjson"
	"github.com/pushsink/pushsink/schema"
)

// decoding is the memory that large payloads are decoded in: as much again as bodies may take
// (BODY_BYTES_IN_FLIGHT). A record has it from when its payload becomes large to when it is
// encoded, and waits for nothing meanwhile but the reading of a schema, so those that wait for
// memory are never stuck. Who waits is served in the order of arrival.
type decoding struct {
	max  int64
	free *semaphore.Weighted
}

func newDecoding(max int64) decoding { return decoding{max, semaphore.NewWeighted(max)} }

var _ schema.Memory = (*exchange)(nil)

// Most is what there is.
func (x *exchange) Most() int64 { return x.h.decoding.max }

// Reserve waits for memory as a record waits for its admission to the writer.
func (x *exchange) Reserve(n int64) *schema.Error {
	x.decoded()
	d := &x.h.decoding
	if n > d.max {
		return &schema.Error{Code: schema.TooLarge, Detail: "payload takes more than " + strconv.FormatInt(d.max, 10) +
			" bytes when it is decoded (BODY_BYTES_IN_FLIGHT)"}
	}
	if !d.free.TryAcquire(n) {
		if x.before != nil && !x.before() {
			return &schema.Error{Code: schema.Overloaded, Detail: "not submitted, since a record before it was not admitted"}
		}
		ctx, cancel := context.WithTimeout(&x.ctx, x.h.limits.AdmissionTimeout)
		defer cancel()
		switch {
		case d.free.Acquire(ctx, n) == nil:
		case x.ctx.Err() != nil:
			return &schema.Error{Code: schema.Deadline, Detail: "the deadline passed before the write"}
		default:
			return &schema.Error{Code: schema.Overloaded, Detail: "too many large payloads are decoded at the moment (BODY_BYTES_IN_FLIGHT)"}
		}
	}
	x.decodes = n
	return nil
}

const (
	// nameBytes is what one name of an envelope takes in the set that finds duplicates,
	// attributeBytes what an attribute takes besides.
	nameBytes      = 160
	attributeBytes = 256
	// plainNames and plainAttributes are as many as are not counted: a message of Pub/Sub has
	// at most 100 attributes.
	plainNames      = 4096
	plainAttributes = 128
)

// reserveNames is Reserve for the names of an envelope, which it may hold in any number.
func (x *exchange) reserveNames(rt *route, body []byte) error {
	if len(body) < 4*plainNames || !inEnvelope(rt.Envelope, x.r.Header) || bytes.Count(body, colon) <= plainNames {
		return nil
	}
	n := plainjson.Count(body, ":")[0]
	if n <= plainNames {
		return nil
	}
	switch err := x.Reserve(int64(n) * nameBytes); {
	case err == nil:
		return nil
	case err.Code == schema.TooLarge:
		return &tooLargeError{limit: x.h.decoding.max / nameBytes, option: "BODY_BYTES_IN_FLIGHT", names: true}
	case err.Code == schema.Deadline:
		return errLate
	default:
		return errBudgetFull
	}
}

var colon = []byte{':'}

// inEnvelope reports whether a push's body is an envelope. Otherwise it is the payload itself,
// with all else in headers.
func inEnvelope(e schema.Envelope, h http.Header) bool {
	switch envelopeOf(e, h) {
	case schema.UnwrappedEnvelope:
		return false
	case schema.CloudEventsEnvelope:
		return isStructured(h) || h.Get("Ce-Type") == pubsubEvent
	default:
		return true
	}
}

// decoded gives back what the request's record was decoded in.
func (x *exchange) decoded() {
	if x.decodes > 0 {
		x.h.decoding.free.Release(x.decodes)
		x.decodes = 0
	}
}
