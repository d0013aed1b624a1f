package handlers

import (
	"context"
	"strconv"

	"golang.org/x/sync/semaphore"

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

// Reserve waits for memory as a record waits for its admission to the writer.
func (x *exchange) Reserve(n int64) *schema.Error {
	x.decoded()
	d := &x.h.decoding
	if n > d.max {
		return &schema.Error{Code: schema.TooLarge, Detail: "payload takes more than " + strconv.FormatInt(d.max, 10) +
			" bytes when it is decoded (BODY_BYTES_IN_FLIGHT)"}
	}
	if !d.free.TryAcquire(n) {
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

// decoded gives back what the request's record was decoded in.
func (x *exchange) decoded() {
	if x.decodes > 0 {
		x.h.decoding.free.Release(x.decodes)
		x.decodes = 0
	}
}
