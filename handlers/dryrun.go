package handlers

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

// serveDryrun answers what one record would become; nothing is written, dropped or counted.
// The record is a push delivery, or the payload itself as application/json.
func (h *api) serveDryrun(w http.ResponseWriter, r *http.Request, rt *route) {
	if _, ok := contentCoding(r.Header); !ok {
		refuseCoding(w, r)
		return
	}
	x := h.begin(w, r, h.limits.RequestTimeout)
	defer x.end()
	body, err := x.readAll(h.limits.MaxBodyBytes, "MAX_BODY_BYTES")
	if err != nil {
		x.refuseBody(err)
		return
	}
	rec, err := h.dryRecord(rt, r, body)
	if err != nil {
		x.refuseBody(err)
		return
	}
	rec.Memory = x
	out, err := explain(rt, &rec)
	var e *schema.Error
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		setNoStore(w.Header())
		_, _ = w.Write(append(out, '\n'))
	case errors.As(err, &e):
		p := problem{status: http.StatusUnprocessableEntity, code: e.Code, detail: e.Detail, pointer: e.Pointer}
		p.send(w)
	default:
		refuse(w, r, http.StatusInternalServerError, "an internal error")
	}
}

// dryRecord makes a record of a dry run's body: a push delivery where it is one, and otherwise
// a payload, as a line of /records is one.
func (h *api) dryRecord(rt *route, r *http.Request, body *buffer) (schema.Record, error) {
	if e := envelopeOf(rt.Envelope, r.Header); e != schema.WrappedEnvelope || wrapped(body.b) {
		d, it := new(delivery), new(item)
		if _, bad := h.decodePush(rt, r.Header, d, body, it); bad != nil {
			return it.rec, bad
		}
		if it.refused != nil {
			return it.rec, it.refused
		}
		return it.rec, nil
	}
	// One record, whatever JSON value it is: an array is no batch here.
	var rec schema.Record
	rec.Data, rec.Encoding = bytes.Trim(body.b, " \t\r\n"), schema.JSONEncoding
	if len(rec.Data) == 0 {
		return rec, &schema.Error{Code: schema.BadJSON, Detail: "the body is empty: one record is wanted"}
	}
	// A name that comes twice is left to the mapping, as /records does.
	if bad := oneValue(rec.Data, jsontext.AllowDuplicateNames(true)); bad != nil {
		return rec, bad
	}
	rec.Published = h.arrivals.next()
	ids := newIDs(r.Header.Get("Idempotency-Key"))
	rec.ID, _ = ids.of(0, rec.Data) // as /records would
	return rec, nil
}

// refuseBody answers a body that could not be read to its end, or is none of the endpoint's.
func (x *exchange) refuseBody(err error) {
	t := tally{cut: cutOf(err)}
	p := problem{status: t.status(batch)}
	p.code, p.detail, p.pointer = (&report{tally: t}).reason(p.status, err)
	setRetryAfter(x.w.Header(), p.status, 0)
	if !x.wire.ended {
		leaveBody(x.w, x.r)
	}
	p.send(x.w)
}

// explain gives what rec becomes on a route, as JSON.
func explain(rt *route, rec *schema.Record) ([]byte, error) {
	m, err := rt.mapper.Apply(rec)
	if err != nil {
		return nil, err
	}
	return rt.Explain(rec, m)
}
