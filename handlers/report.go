package handlers

import (
	"net/http"
	"strconv"

	"github.com/pushsink/pushsink/schema"
)

// report is the answer's view of a request's records: the counts and the list. Its lists are
// kept as the text they will be answered with, which is smaller than the records.
type report struct {
	tally
	route    string
	observer Observer
	// truncated: a stream was not read to its end.
	truncated bool
	// all lists every record under "results" too (`?results=all`).
	all bool
	// room is how many more records each list takes; beyond it the answer says so.
	room, roomAll    int
	errors, results  []byte
	errorsTruncated  bool
	resultsTruncated bool
	// empty of those skipped were so because nothing was left to write.
	empty int
	// worst is the failure that decides the status, the last of several: fates stand in the
	// order in which status asks for them.
	worst verdict
}

// newReport lists at most room records per list.
func (h *api) newReport(rt *route, room int) *report {
	return &report{route: rt.Name, observer: h.observer, room: room, roomAll: room}
}

// note gives record index its fate.
func (p *report) note(index int, id string, v verdict) {
	p.add(v)
	if v.empty {
		p.empty++
	}
	if v.code != "" {
		p.observer.Records(p.route, v.result(), v.code, 1)
	}
	if v.fate.failed() {
		if v.fate >= p.worst.fate {
			p.worst = v
		}
		p.errors = appendRecord(p.errors, &p.room, &p.errorsTruncated, index, id, v)
	}
	if p.all {
		p.results = appendRecord(p.results, &p.roomAll, &p.resultsTruncated, index, id, v)
	}
}

func appendRecord(b []byte, room *int, full *bool, index int, id string, v verdict) []byte {
	if *room == 0 {
		*full = true
		return b
	}
	*room--
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"id":`...)
	b = appendString(b, id)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(v.fate.recordStatus()), 10)
	if !v.fate.failed() {
		b = append(b, `,"result":`...)
		b = appendString(b, string(v.result()))
	}
	if v.code != "" {
		b = append(b, `,"code":`...)
		b = appendString(b, string(v.code))
	}
	if v.fate.failed() {
		b = append(b, `,"retryable":`...)
		b = strconv.AppendBool(b, v.fate.retryable())
	}
	if v.detail != "" {
		b = append(b, `,"detail":`...)
		b = appendString(b, v.detail)
	}
	if v.pointer != "" {
		b = append(b, `,"pointer":`...)
		b = appendString(b, v.pointer)
	}
	return append(b, '}')
}

// appendMembers appends the members without the braces.
func (p *report) appendMembers(b []byte) []byte {
	count := func(name string, n int) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, ',')
	}
	count("received", p.received)
	count("written", p.by[written])
	count("skipped", p.by[skipped])
	count("dropped", p.by[dropped])
	count("deadLettered", p.by[deadLettered])
	count("failed", p.failed())
	count("retryable", p.retryable())
	b = append(b, `"truncated":`...)
	b = strconv.AppendBool(b, p.truncated)
	b = append(b, `,"errors":[`...)
	b = append(b, p.errors...)
	b = append(b, `],"errorsTruncated":`...)
	b = strconv.AppendBool(b, p.errorsTruncated)
	if p.all {
		b = append(b, `,"results":[`...)
		b = append(b, p.results...)
		b = append(b, `],"resultsTruncated":`...)
		b = strconv.AppendBool(b, p.resultsTruncated)
	}
	return b
}

// observe counts what note has not: records without a code, and a malformed body.
func (p *report) observe(cause error) {
	if p.cut == cutMalformed {
		code, _, _ := p.reason(http.StatusBadRequest, cause)
		p.observer.Records(p.route, ResultMalformed, code, 1)
	}
	if n := p.by[written]; n > 0 {
		p.observer.Records(p.route, ResultWritten, "", n)
	}
	if n := p.by[skipped] - p.empty; n > 0 {
		p.observer.Records(p.route, ResultSkipped, SkippedWhere, n)
	}
	if p.empty > 0 {
		p.observer.Records(p.route, ResultSkipped, SkippedEmpty, p.empty)
	}
}

// result is v's fate as metrics and answers show it.
func (v verdict) result() Result {
	switch v.fate {
	case written:
		return ResultWritten
	case skipped:
		return ResultSkipped
	case dropped:
		return ResultDropped
	case deadLettered:
		return ResultDeadLettered
	case rejected:
		return ResultRejected
	case overloaded:
		return ResultOverloaded
	case unavailable:
		return ResultUnavailable
	case expired, inDoubt:
		return ResultDeadline
	default:
		return ResultInternal
	}
}

// answer writes the answer of a request whose records were processed. cause is why the body
// was cut, nil when it was not.
func (x *exchange) answer(p *report, k kind, cause error) {
	status := p.status(k)
	p.observe(cause)
	if !x.wire.ended {
		leaveBody(x.w, x.r)
	}
	if x.span != nil && status < 300 {
		p.describe(x.span, "")
	}
	if status == http.StatusNoContent { // without a header of ours: net/http copies one that was asked for
		x.w.WriteHeader(status)
		return
	}
	h := x.w.Header()
	setRetryAfter(h, status, p.retryAfter)
	if status < 300 {
		h.Set("Content-Type", "application/json")
		if status == http.StatusMultiStatus {
			h.Set("Preference-Applied", "handling=lenient")
		}
		setNoStore(h)
		x.w.WriteHeader(status)
		b := append(make([]byte, 0, 256+len(p.errors)+len(p.results)), '{')
		_, _ = x.w.Write(append(p.appendMembers(b), "}\n"...))
		return
	}
	code, detail, pointer := p.reason(status, cause)
	if x.span != nil {
		p.describe(x.span, code)
	}
	e := problem{status: status, code: code, detail: detail, pointer: pointer, batch: p}
	e.send(x.w)
}

// reason tells the whole request's reason: that of the cut, or of its only failure, or how
// many failed.
func (p *report) reason(status int, cause error) (code schema.Code, detail, pointer string) {
	if cause != nil {
		switch p.cut {
		case cutTooLarge:
			return schema.TooLarge, cause.Error(), ""
		case cutStalled, cutLate:
			return schema.Deadline, cause.Error(), ""
		case cutFull:
			return schema.Overloaded, cause.Error(), ""
		case cutDraining:
			return schema.Unavailable, cause.Error(), ""
		}
		var e *schema.Error
		if asSchemaError(cause, &e) {
			return e.Code, e.Detail, e.Pointer
		}
		return schema.BadJSON, errBroken.Error(), ""
	}
	failed := p.failed()
	switch {
	case status == http.StatusInternalServerError:
		return schema.Internal, "an internal error: a record has no outcome", ""
	case failed == 1:
		return p.worst.code, p.worst.detail, p.worst.pointer
	default:
		return p.worst.code, strconv.Itoa(failed) + " of " + strconv.Itoa(p.received) + " records failed: see errors", ""
	}
}
