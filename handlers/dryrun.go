package handlers

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

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
	if err == nil {
		var out []byte
		if out, err = AppendDryRun(nil, rt.Name, rt.mapper, &rec); err == nil {
			w.Header().Set("Content-Type", "application/json")
			setNoStore(w.Header())
			_, _ = w.Write(append(out, '\n'))
			return
		}
	}
	var e *schema.Error
	if !errors.As(err, &e) {
		refuse(w, r, http.StatusInternalServerError, "an internal error")
		return
	}
	status := http.StatusUnprocessableEntity
	if e.Code == schema.BadEnvelope {
		status = http.StatusBadRequest
	}
	p := problem{status: status, code: e.Code, detail: e.Detail, pointer: e.Pointer}
	p.send(w)
}

// dryRecord makes a record of a dry run's body: a push delivery where it is one, and otherwise
// a payload as /records takes it.
func (h *api) dryRecord(rt *route, r *http.Request, body *buffer) (schema.Record, error) {
	var rec schema.Record
	if wrapped(body.b) {
		d := h.deliveries.get()
		if _, err := h.decodePush(rt, r, d, body, &rec); err != nil {
			return rec, err
		}
		return rec, nil
	}
	records, err := split(body.b, 1)
	if err != nil {
		return rec, err
	}
	if len(records) != 1 {
		return rec, &schema.Error{Code: schema.BadJSON, Detail: "one record is wanted"}
	}
	rec.Data = body.b[records[0].from:records[0].to]
	rec.Published = h.arrivals.next()
	return rec, nil
}

// refuseBody answers a body that could not be read to its end.
func (x *exchange) refuseBody(err error) {
	t := tally{cut: cutOf(err)}
	p := problem{status: t.status(batch)}
	p.code, p.detail, p.pointer = (&report{tally: t}).reason(p.status, err)
	setRetryAfter(x.w.Header(), p.status, 0)
	leaveBody(x.w, x.r)
	p.send(x.w)
}

// AppendDryRun appends what rec becomes on a route, as one JSON object without a line break:
// the answer of a dry run and of `server check -sample`. The error is a *schema.Error.
func AppendDryRun(b []byte, route string, m Mapper, rec *schema.Record) ([]byte, error) {
	mutation, err := m.Apply(rec)
	if err != nil {
		return b, err
	}
	b = append(b, `{"route":`...)
	b = appendString(b, route)
	b = append(b, `,"record":`...)
	b = appendRecordInfo(b, rec)
	switch {
	case mutation.Skip != schema.NotSkipped:
		b = append(b, `,"skipped":true`...)
	case mutation.Bigtable != nil:
		b = append(b, `,"bigtable":`...)
		b = appendRowMutation(b, mutation.Bigtable)
	default:
		return nil, errors.New("the mapping made nothing")
	}
	return append(b, '}'), nil
}

// appendRecordInfo shows what the mapping sees as `message`.
func appendRecordInfo(b []byte, r *schema.Record) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, r.ID)
	if !r.Published.IsZero() {
		b = append(b, `,"publishTime":"`...)
		b = r.Published.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	b = append(b, `,"attributes":{`...)
	for i, name := range slices.Sorted(maps.Keys(r.Attributes)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
		b = append(b, ':')
		b = appendString(b, r.Attributes[name])
	}
	b = append(b, `},"orderingKey":`...)
	b = appendString(b, r.OrderingKey)
	b = append(b, `,"subscription":`...)
	b = appendString(b, r.Subscription)
	b = append(b, `,"deliveryAttempt":`...)
	b = strconv.AppendInt(b, int64(r.Attempt), 10)
	b = append(b, `,"dataBytes":`...)
	b = strconv.AppendInt(b, int64(len(r.Data)), 10)
	return append(b, '}')
}

func appendRowMutation(b []byte, m *schema.RowMutation) []byte {
	b = append(b, '{')
	if m.Instance != "" {
		b = append(b, `"instance":`...)
		b = appendString(b, m.Instance)
		b = append(b, ',')
	}
	b = append(b, `"table":`...)
	b = appendString(b, m.Table)
	b = append(b, ',')
	b = appendBytes(b, "key", m.Key)
	b = append(b, `,"mutations":[`...)
	for i := range m.Ops {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOp(b, &m.Ops[i])
	}
	return append(b, "]}"...)
}

func appendOp(b []byte, op *schema.Op) []byte {
	switch op.Kind {
	case schema.SetCell:
		b = append(b, `{"op":"set"`...)
	case schema.DeleteColumn:
		b = append(b, `{"op":"deleteColumn"`...)
	case schema.DeleteFamily:
		b = append(b, `{"op":"deleteFamily"`...)
	case schema.DeleteRow:
		b = append(b, `{"op":"deleteRow"`...)
	}
	if op.Kind != schema.DeleteRow {
		b = append(b, `,"family":`...)
		b = appendString(b, op.Family)
	}
	if op.Kind == schema.SetCell || op.Kind == schema.DeleteColumn {
		b = append(b, ',')
		b = appendBytes(b, "column", op.Column)
	}
	if op.Kind == schema.SetCell {
		b = append(b, `,"timestamp":"`...)
		b = time.UnixMicro(op.Micros).UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, `","as":`...)
		b = appendString(b, string(op.As))
		b = append(b, `,"value":`...)
		v, ok := appendDecoded(b, op.As, op.Value)
		if !ok {
			v = appendBase64(b, op.Value)
		}
		b = v
	}
	return append(b, '}')
}
