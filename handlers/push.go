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

	h.prepare(rt, &d.group, it)
	d.group.submit(x.ctx, rt)
	if d.group.ticket != nil {
		d.group.ticket.Admitted()
	}
	x.release(x.held)
	h.settleGroup(x.ctx, rt, &d.group, push)

	rep.received = 1
	rep.note(0, it.rec.ID, it.v)
	if !d.group.pinned() {
		h.buffers.put(d.group.buf)
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
	buf, bad := x.h.decodePush(rt, x.r, d, body, &it.rec)
	if bad != nil {
		return bad
	}
	d.group.buf = buf
	return nil
}

// decodePush takes body over and gives the buffer that the record's payload stands in.
func (h *api) decodePush(rt *route, r *http.Request, d *delivery, body *buffer, rec *schema.Record) (*buffer, *schema.Error) {
	payload, err := d.envelope.decode(body.b, &h.buffers, rec)
	h.buffers.put(body)
	if err != nil {
		return nil, err
	}
	return payload, nil
}

func refuseCoding(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Accept-Encoding", "gzip, zstd")
	refuse(w, r, http.StatusUnsupportedMediaType, "Content-Encoding must be identity, gzip or zstd, and one only")
}
