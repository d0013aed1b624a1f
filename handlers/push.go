package handlers

import (
	"net/http"
	"sync"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// delivery is what one push needs, kept for the next one.
type delivery struct {
	envelope envelope
	group    group
	items    [1]item
	entries  [1]sink.Entry
}

// deliveries lends them.
type deliveries struct{ pool sync.Pool }

func (d *deliveries) get() *delivery {
	if x, ok := d.pool.Get().(*delivery); ok {
		return x
	}
	return new(delivery)
}

// put takes a delivery back that nothing points into any more.
func (d *deliveries) put(x *delivery) {
	x.envelope.forget()
	x.group = group{}
	x.items[0] = item{}
	x.entries[0] = sink.Entry{}
	d.pool.Put(x)
}

// servePush takes one Pub/Sub delivery: one record, answered when it is durable.
func (h *api) servePush(w http.ResponseWriter, r *http.Request, rt *route) {
	if _, ok := contentCoding(r.Header); !ok {
		refuseCoding(w, r)
		return
	}
	x := h.begin(w, r, h.limits.RequestTimeout)
	defer x.end()
	rep := h.newReport(rt, 1)

	d := h.deliveries.get()
	d.group.items = d.items[:1]
	d.group.entries = d.entries[:0]
	it := &d.items[0]
	if err := x.readRecord(rt, d, it); err != nil {
		rep.cut = cutOf(err)
		x.answer(rep, push, err)
		return
	}

	it.rec.Memory = x
	h.prepare(rt, &d.group, it)
	x.decoded()
	d.group.submit(x, rt)
	if d.group.ticket != nil {
		d.group.ticket.Admitted()
	}
	if d.group.forget(rt) {
		x.release(x.held)
		h.buffers.put(d.group.buf)
		d.group.buf = nil
		d.envelope.forget()
	}
	h.settleGroup(&x.ctx, rt, &d.group, push)

	rep.received = 1
	rep.note(0, it.rec.ID, it.v)
	if !d.group.pinned() {
		if d.group.buf != nil {
			h.buffers.put(d.group.buf)
		}
		h.deliveries.put(d)
	}
	x.answer(rep, push, nil)
}

// readRecord reads the body and makes it.rec of it. The payload stands in d.group.buf.
func (x *exchange) readRecord(rt *route, d *delivery, it *item) error {
	body, err := x.readAll(x.h.limits.MaxBodyBytes, "MAX_BODY_BYTES")
	if err != nil {
		return err
	}
	if err := x.reserveNames(rt, body.b); err != nil {
		x.h.buffers.put(body)
		return err
	}
	defer x.decoded()
	var bad *schema.Error
	if d.group.buf, bad = x.h.decodePush(rt, x.r.Header, d, body, it); bad != nil {
		x.h.logRefusal(&x.ctx, rt, "push refused", bad)
		return bad
	}
	if n := len(it.rec.Attributes); n > plainAttributes && !x.charge(int64(n)*attributeBytes) {
		x.h.buffers.put(d.group.buf)
		return errBudgetFull
	}
	if x.span != nil {
		describeMessage(x.span, &it.rec)
	}
	return nil
}

// decodePush makes it.rec of a delivery, by the route's envelope. It takes body over and gives
// the buffer that the payload stands in. A payload that the route does not take is it.refused;
// the error is an envelope that cannot be read.
func (h *api) decodePush(rt *route, header http.Header, d *delivery, body *buffer, it *item) (*buffer, *schema.Error) {
	switch envelopeOf(rt.Envelope, header) {
	case schema.UnwrappedEnvelope:
		if bad := unwrapped(header, body.b, &it.rec); bad != nil {
			h.buffers.put(body)
			return nil, bad
		}
		return body, nil
	case schema.CloudEventsEnvelope:
		buf, refused, bad := d.cloudEvent(header, body, &h.buffers, rt.Format, &it.rec)
		it.refused = refused
		return buf, bad
	default:
		payload, bad := d.envelope.decode(body.b, &h.buffers, &it.rec)
		h.buffers.put(body)
		return payload, bad
	}
}

// envelopeOf settles auto. A named envelope is not second-guessed.
func envelopeOf(e schema.Envelope, h http.Header) schema.Envelope {
	switch e {
	case schema.WrappedEnvelope, schema.UnwrappedEnvelope, schema.CloudEventsEnvelope:
		return e
	}
	switch {
	case h[messageIDHeader] != nil:
		return schema.UnwrappedEnvelope
	case isCloudEvent(h):
		return schema.CloudEventsEnvelope
	default:
		return schema.WrappedEnvelope
	}
}

func refuseCoding(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Accept-Encoding", "gzip, zstd")
	refuse(w, r, http.StatusUnsupportedMediaType, "Content-Encoding must be identity, gzip or zstd, and one only")
}
