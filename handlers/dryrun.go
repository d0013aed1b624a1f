package handlers

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
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
	rec, refused, err := x.dryRecord(rt, body)
	if err != nil {
		x.refuseBody(err)
		return
	}
	rec.Memory = x
	var out []byte
	err = refused
	if refused == nil {
		out, err = h.explain(rt, &rec)
	}
	x.decoded() // the client may take its time with the answer
	if err != nil {
		x.refuseRecord(err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	setNoStore(w.Header())
	_, _ = w.Write(append(out, '\n'))
}

// dryRecord makes a record of a dry run's body: a push delivery where it is one, and otherwise
// a payload, as a line of /records is one. refused is a payload that the route does not take.
func (x *exchange) dryRecord(rt *route, body *buffer) (rec schema.Record, refused, err error) {
	h, r := x.h, x.r
	if e := envelopeOf(rt.Envelope, r.Header); e != schema.WrappedEnvelope || wrapped(body.b) {
		if err := x.reserveNames(rt, body.b); err != nil {
			return rec, nil, err
		}
		d, it := new(delivery), new(item)
		if _, bad := h.decodePush(rt, r.Header, d, body, it); bad != nil {
			return it.rec, nil, bad
		}
		if it.refused != nil {
			return it.rec, it.refused, nil
		}
		return it.rec, nil, nil
	}
	// One record, whatever JSON value it is: an array is no batch here.
	rec.Data, rec.Encoding = bytes.Trim(body.b, " \t\r\n"), schema.JSONEncoding
	if len(rec.Data) == 0 {
		return rec, nil, &schema.Error{Code: schema.BadJSON, Detail: "the body is empty: one record is wanted"}
	}
	// A name that comes twice is left to the mapping, as /records does.
	if bad := oneValue(rec.Data, jsontext.AllowDuplicateNames(true)); bad != nil {
		return rec, nil, bad
	}
	rec.Published = h.arrivals.next()
	ids := newIDs(r.Header.Get("Idempotency-Key"))
	rec.ID, _ = ids.of(0, rec.Data) // as /records would
	return rec, nil, nil
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

// refuseRecord answers a record that would not be written, with the status that a push has for it.
func (x *exchange) refuseRecord(err error) {
	var it item
	if it.decline(err); it.refused != nil {
		it.v = verdict{fate: rejected, code: it.refused.Code, detail: it.refused.Detail, pointer: it.refused.Pointer}
	}
	p := problem{status: it.v.fate.recordStatus(), code: it.v.code, detail: it.v.detail, pointer: it.v.pointer}
	setRetryAfter(x.w.Header(), p.status, 0)
	p.send(x.w)
}

// explain gives what rec becomes on a route, as JSON, or why it would be refused before
// anything is sent.
func (h *api) explain(rt *route, rec *schema.Record) ([]byte, error) {
	if int64(len(rec.Data)) > h.limits.MaxRecordBytes {
		return nil, h.recordTooLarge()
	}
	m, err := rt.mapper.Apply(rec)
	if err != nil {
		return nil, err
	}
	out, err := rt.Explain(rec, m)
	// A route without a sink is that of `server check`. Where the table is a template, the
	// sink counts those that it encodes for (maxTables), and this must not.
	templated := rt.Bigtable != nil && rt.Bigtable.Table == ""
	if err != nil || m.Skip != schema.NotSkipped || rt.Target == nil || templated {
		return out, err
	}
	e, err := rt.Target.Encode(rec, &m)
	if err == nil && e.Bytes > h.limits.MaxRecordBytes {
		err = &schema.Error{Code: schema.TooLarge, Detail: sink.ErrTooLarge.Error()}
	}
	return out, err
}
