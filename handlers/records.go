package handlers

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

const (
	// groupRecords is the most records that are submitted together: several batches' worth,
	// small against what a request may hold.
	groupRecords = 500
	// openGroups and openRecords are the most groups of one request, and records in them,
	// that wait for their outcomes; beyond it the request's reading waits.
	openGroups  = 64
	openRecords = 8 * groupRecords
	// recordBytes is about what a record takes while its group is open, beside its data and
	// its entry.
	recordBytes = 512
	// uncountedLists are as many bytes of an answer's lists as are not counted.
	uncountedLists = 8 << 10
	// breath is after how many records, some 200 us of work, a request looks at its deadline
	// and lets others run. The goroutines that carry the sink's requests and answers, and
	// pushes, would wait for milliseconds behind a whole group otherwise.
	breath = 32
)

// maxKey is the longest Idempotency-Key.
const maxKey = 255

// run is one /records request under way.
type run struct {
	x         *exchange
	h         *api
	rt        *route
	rep       *report
	ids       ids
	published time.Time
	open      []*group // submitted, oldest first
	records   int      // in open
	listed    int      // bytes of the answer's lists that are charged to the body budget
	pinned    bool     // some group's data may still be read
	stop      error    // a record was not admitted, or its id not held: nothing more is submitted
}

// serveRecords takes a batch of records: a JSON object, an array, or a stream of lines.
func (h *api) serveRecords(w http.ResponseWriter, r *http.Request, rt *route) {
	media := mediaType(r)
	if media != "application/json" && media != "application/x-ndjson" {
		w.Header().Set("Accept", "application/json, application/x-ndjson")
		refuse(w, r, http.StatusUnsupportedMediaType, "Content-Type must be application/json or application/x-ndjson")
		return
	}
	if _, ok := contentCoding(r.Header); !ok {
		refuseCoding(w, r)
		return
	}
	x := h.begin(w, r, h.limits.BatchTimeout)
	defer x.end()
	b := &run{x: x, h: h, rt: rt, rep: h.newReport(rt, h.limits.MaxBatchRecords)}
	b.rep.all = r.URL.Query().Get("results") == "all"
	k := batch
	if prefersLenient(r.Header) {
		k = lenient
	}
	if err := b.metadata(r.Header); err != nil {
		b.rep.cut = cutMalformed
		x.answer(b.rep, k, err)
		return
	}
	w.Header().Set("Pushsink-Time", b.published.Format(time.RFC3339Nano))

	var err error
	if media == "application/json" {
		err = b.document()
	} else {
		err = b.stream()
	}
	for len(b.open) > 0 {
		b.settleOldest()
	}
	if err == nil && media != "application/json" {
		err = b.stop
	}
	if err != nil {
		b.rep.cut = cutOf(err)
		b.rep.truncated = media != "application/json" // what is refused whole had no part taken
	}
	x.answer(b.rep, k, err)
}

// metadata reads the headers that speak of every record of the request.
func (b *run) metadata(h http.Header) error {
	if len(h["Idempotency-Key"]) > 1 || len(h["Pushsink-Time"]) > 1 {
		return badEnvelope("Idempotency-Key and Pushsink-Time may be sent once")
	}
	key := h.Get("Idempotency-Key")
	if len(key) > maxKey {
		return badEnvelope("Idempotency-Key is longer than 255 bytes")
	}
	if key == "" && b.rt.Spanner != nil && b.rt.Spanner.DedupByID {
		return &schema.Error{Code: schema.IdempotencyKeyRequired,
			Detail: "the route deduplicates by message id (dedup), so Idempotency-Key must be sent, the same with every try"}
	}
	b.ids = newIDs(key)
	sent := h.Get("Pushsink-Time")
	if sent == "" {
		b.published = b.h.arrivals.next()
		return nil
	}
	if b.published = publishTime([]byte(`"` + sent + `"`)); b.published.IsZero() {
		return badEnvelope("Pushsink-Time is not an RFC 3339 time with at most 9 fraction digits")
	}
	return nil
}

// document takes a JSON object or array. It is read to its end before anything is written.
func (b *run) document() error {
	body, err := b.x.readAll(b.h.limits.MaxBodyBytes, "MAX_BODY_BYTES")
	if err != nil {
		return err
	}
	records, err := split(body.b, b.h.limits.MaxBatchRecords)
	if err != nil {
		b.h.buffers.put(body)
		return err
	}
	held := b.x.held
	b.rep.received = len(records)
	for at := 0; at < len(records); at += groupRecords {
		n := min(groupRecords, len(records)-at)
		g := b.h.groups.get(n)
		for i, s := range records[at : at+n] {
			b.fill(g.add(), at+i, body.b[s.from:s.to])
		}
		b.put(g)
	}
	// Every record is admitted or answered.
	kept := b.rt.OnReject == schema.DeadLetter // see group.forget
	if !kept {
		b.x.release(held)
		b.h.buffers.put(body)
	}
	for len(b.open) > 0 {
		b.settleOldest()
	}
	if kept && !b.pinned {
		b.h.buffers.put(body)
	}
	return nil
}

// split finds the records of a JSON document: the object itself, or the array's elements.
// The document must be strict JSON to its end; a duplicate name is left to the record's own
// decoder, so that it costs that record only.
func split(text []byte, most int) ([]span, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
	var records []span
	value := func() error {
		v, err := dec.ReadValue()
		if err != nil {
			return syntaxError(text, err)
		}
		end := int(dec.InputOffset())
		records = append(records, span{end - len(v), end})
		return nil
	}
	switch dec.PeekKind() {
	case '{':
		if err := value(); err != nil {
			return nil, err
		}
	case '[':
		if _, err := dec.ReadToken(); err != nil {
			return nil, syntaxError(text, err)
		}
		for dec.PeekKind() != ']' {
			if len(records) == most {
				return nil, &tooLargeError{limit: int64(most), option: "MAX_BATCH_RECORDS", records: true}
			}
			if err := value(); err != nil {
				return nil, err
			}
		}
		if _, err := dec.ReadToken(); err != nil {
			return nil, syntaxError(text, err)
		}
	default:
		if err := dec.SkipValue(); err != nil {
			return nil, syntaxError(text, err)
		}
		return nil, &schema.Error{Code: schema.BadJSON, Detail: "the body must be a JSON object or an array"}
	}
	if _, err := dec.ReadToken(); err == nil {
		return nil, &schema.Error{Code: schema.BadJSON, Detail: "data after the JSON value; lines of JSON are application/x-ndjson"}
	} else if err != io.EOF {
		return nil, syntaxError(text, err)
	}
	return records, nil
}

// fill makes a record of a payload; false = its id does not fit the body budget.
func (b *run) fill(it *item, index int, data []byte) bool {
	id, fresh := b.ids.of(index, data)
	it.index, it.entry = index, -1
	it.rec = schema.Record{Data: data, Encoding: schema.JSONEncoding, ID: id, Published: b.published}
	if fresh && !b.x.charge(seenBytes) {
		it.v = verdict{fate: overloaded, code: schema.Overloaded, detail: errBudgetFull.Error()}
		b.stop = errBudgetFull
		return false
	}
	return true
}

// put maps, encodes and submits a group, and returns when it is admitted. After a record was
// not admitted, nothing more is submitted.
func (b *run) put(g *group) {
	late := false
	b.x.before = func() bool {
		g.submit(b.x, b.rt)
		return g.admitted()
	}
	for i := range g.items {
		if i%breath == 0 {
			if i > 0 {
				runtime.Gosched()
			}
			late = b.x.ctx.Err() != nil
		}
		it := &g.items[i]
		switch {
		case it.v.fate != undecided || it.refused != nil:
		case b.stop != nil:
			it.v = verdict{fate: overloaded, code: schema.Overloaded, detail: "not submitted, since a record before it was not admitted"}
		case late:
			it.v = verdict{fate: expired, code: schema.Deadline, detail: "the deadline passed before the write"}
		default:
			it.rec.Memory = b.x
			b.h.prepare(b.rt, g, it)
			b.x.decoded()
			if it.v.fate == overloaded { // it waited for memory as others do for the writer
				b.stop = errNotAdmitted
			}
		}
	}
	b.x.before = nil
	g.submit(b.x, b.rt)
	admitted := g.admitted()
	if g.forget(b.rt) {
		b.x.release(g.bytes)
		g.bytes = 0
		if g.buf != nil {
			b.h.buffers.put(g.buf)
			g.buf = nil
		}
	}
	b.open = append(b.open, g)
	b.records += len(g.items)
	// A group that has no memory to wait in is waited for at once.
	waits := admitted && b.x.charge(int64(len(g.items))*recordBytes)
	if waits {
		g.bytes += int64(len(g.items)) * recordBytes
	}
	for len(b.open) > 0 && (!waits || b.open[0].ticket == nil || b.records > openRecords || len(b.open) > openGroups) {
		b.settleOldest()
	}
	if b.stop == nil && b.rep.by[overloaded] > 0 {
		b.stop = errNotAdmitted
	}
}

// settleOldest waits for the outcomes of the oldest open group and notes them, so that the
// answer lists records in their order.
func (b *run) settleOldest() {
	g := b.open[0]
	b.open[0] = nil
	b.open = b.open[1:]
	b.records -= len(g.items)
	b.h.settleGroup(&b.x.ctx, b.rt, g, batch)
	for i := range g.items {
		it := &g.items[i]
		b.rep.note(it.index, it.rec.ID, it.v)
	}
	b.x.release(g.bytes)
	g.bytes = 0
	b.chargeLists()
	if g.pinned() {
		b.pinned = true
		return
	}
	b.h.buffers.put(g.buf)
	b.h.groups.put(g)
}

// chargeLists charges the answer's lists, and the copy that will be sent, to the body budget.
// Where they do not fit, they end, as where they are long.
func (b *run) chargeLists() {
	n := 2 * (cap(b.rep.errors) + cap(b.rep.results))
	if n > b.listed && n > uncountedLists {
		if !b.x.charge(int64(n - b.listed)) {
			b.rep.room, b.rep.roomAll = 0, 0
			return
		}
		b.listed = n
	}
}

// mediaType is the request's media type without parameters; empty = none or unreadable.
func mediaType(r *http.Request) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// prefersLenient reads `Prefer: handling=lenient` (RFC 7240) among other preferences.
func prefersLenient(h http.Header) bool {
	for _, v := range h["Prefer"] {
		for p := range strings.SplitSeq(v, ",") {
			p, _, _ = strings.Cut(p, ";")
			name, value, _ := strings.Cut(p, "=")
			if strings.EqualFold(strings.TrimSpace(name), "handling") {
				// The first one counts.
				return strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), "lenient")
			}
		}
	}
	return false
}
