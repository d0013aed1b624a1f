package handlers

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

// RowReader reads a route's table back.
type RowReader interface {
	// ReadRows calls f with each row, in the order of the keys, until f returns an error,
	// which it returns. ErrNoTable, ErrPageToken or a *schema.Error is the query's fault;
	// every other error a passing one.
	ReadRows(ctx context.Context, q RowQuery, f func(Row) error) error
	// PageToken is the token that continues a query behind the row with this key.
	PageToken(key string) string
}

// RowQuery selects rows of one table. Keys are bytes.
type RowQuery struct {
	Instance  string // empty = the route's own
	Table     string // empty = the route's own
	Prefix    string
	Start     string // the first key wanted; empty = from the beginning
	End       string // the first key not wanted; empty = to the end
	Limit     int    // the most rows; 0 = all
	PageToken string // continues behind the row it was made of
}

// Row is one row, its cells newest first within a column.
type Row struct {
	Key   string
	Cells []Cell
}

// Cell is one version of one column.
type Cell struct {
	Family, Column string
	Micros         int64
	Value          []byte
}

var (
	// ErrNoTable: the query names no table and the route's is a template, or the table
	// does not exist.
	ErrNoTable = errors.New("no such table")
	// ErrPageToken: the token is none of this endpoint's.
	ErrPageToken = errors.New("pageToken is none of this endpoint's")
)

const (
	// rowFlush is how much of the answer is gathered before it is sent.
	rowFlush = 32 << 10
	// rowPause is the longest one write of the answer may take: a reader that stops
	// reading is cut off.
	rowPause = 30 * time.Second
)

// serveRows streams the rows of a route's table as NDJSON. Where there are more rows than
// `limit`, the last line is {"nextPageToken":…}. A failure after the first line ends the
// answer with {"error":…} and breaks the connection off, so that half an answer is never
// taken for a whole one.
func (h *api) serveRows(w http.ResponseWriter, r *http.Request, rt *route) {
	if rt.Rows == nil {
		refuse(w, r, http.StatusNotFound, "rows of this route cannot be read back")
		return
	}
	q, decode, err := rowQuery(r)
	if err != nil {
		refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	x := h.begin(w, r, h.limits.BatchTimeout)
	defer x.end()
	out := rowWriter{x: x, rt: rt, decode: decode, limit: q.Limit, named: q.Table != ""}
	if q.Limit > 0 {
		// One more tells whether there is a next page.
		q.Limit++
	}
	err = rt.Rows.ReadRows(&x.ctx, q, out.row)
	out.end(err)
}

func rowQuery(r *http.Request) (q RowQuery, decode bool, err error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // whose pairs would be left out
		return q, false, errors.New("the query is no list of name=value, joined by & and percent-encoded")
	}
	for name, values := range v {
		switch name {
		case "instance", "table", "prefix", "start", "end", "limit", "pageToken", "decode":
			if len(values) > 1 {
				return q, false, errors.New(name + " may be given once")
			}
		default:
			return q, false, errors.New("unknown parameter: table, instance, prefix, start, end, limit, pageToken, decode")
		}
	}
	q = RowQuery{Instance: v.Get("instance"), Table: v.Get("table"), Prefix: v.Get("prefix"), Start: v.Get("start"), End: v.Get("end"),
		PageToken: v.Get("pageToken")}
	if s := v.Get("limit"); s != "" {
		q.Limit, err = strconv.Atoi(s)
		if err != nil || q.Limit < 1 || q.Limit > maxRows {
			return q, false, errors.New("limit must be a whole number from 1 to " + strconv.Itoa(maxRows))
		}
	}
	switch v.Get("decode") {
	case "", "0":
	case "1":
		decode = true
	default:
		return q, false, errors.New("decode must be 0 or 1")
	}
	return q, decode, nil
}

// maxRows is the largest limit: one more must fit an int32 wherever it is passed on.
const maxRows = 1_000_000_000

// errPageEnd ends a read at its limit.
var errPageEnd = errors.New("limit reached")

// rowWriter writes rows as they come.
type rowWriter struct {
	x       *exchange
	rt      *route
	decode  bool
	named   bool // the query names the table
	limit   int
	rows    int
	lastKey string
	next    string // the next page's token
	b       []byte
	started bool
}

func (o *rowWriter) row(r Row) error {
	if o.limit > 0 && o.rows == o.limit {
		o.next = o.rt.Rows.PageToken(o.lastKey)
		return errPageEnd
	}
	o.rows++
	o.lastKey = r.Key
	o.b = append(o.b, `{`...)
	o.b = appendBytes(o.b, "key", r.Key)
	o.b = append(o.b, `,"cells":[`...)
	for i, c := range r.Cells {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, `{"family":`...)
		o.b = appendString(o.b, c.Family)
		o.b = append(o.b, ',')
		o.b = appendBytes(o.b, "column", c.Column)
		o.b = append(o.b, `,"timestamp":"`...)
		o.b = time.UnixMicro(c.Micros).UTC().AppendFormat(o.b, time.RFC3339Nano)
		o.b = append(o.b, `","value":`...)
		o.b = o.value(o.b, c)
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, "]}\n"...)
	if len(o.b) >= rowFlush {
		return o.flush()
	}
	return nil
}

// value appends a cell's value: decoded as the route's mapping encoded it, or base64.
func (o *rowWriter) value(b []byte, c Cell) []byte {
	if o.decode && o.rt.Mapping != nil {
		if as, ok := o.rt.EncodingOf(c.Family, c.Column); ok {
			if v, err := schema.DecodeCell(as, c.Value); err == nil && v.Compact(jsontext.AllowDuplicateNames(true)) == nil {
				return append(b, v...)
			}
		}
	}
	return appendBase64(b, c.Value)
}

func (o *rowWriter) flush() error {
	w := o.x.w
	if !o.started {
		o.started = true
		w.Header().Set("Content-Type", "application/x-ndjson")
		setNoStore(w.Header())
		w.WriteHeader(http.StatusOK)
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(rowPause))
	_, err := w.Write(o.b)
	o.b = o.b[:0]
	if err == nil {
		err = rc.Flush()
		if errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	return err
}

// end finishes the answer.
func (o *rowWriter) end(err error) {
	if err == nil || errors.Is(err, errPageEnd) {
		if o.next != "" {
			o.b = append(o.b, `{"nextPageToken":`...)
			o.b = appendString(o.b, o.next)
			o.b = append(o.b, "}\n"...)
		}
		_ = o.flush()
		return
	}
	p := rowProblem(err, !o.named && o.rt.Bigtable != nil && o.rt.Bigtable.Table == "")
	if !o.started {
		setRetryAfter(o.x.w.Header(), p.status, 0)
		p.send(o.x.w)
		return
	}
	o.b = append(o.b, `{"error":`...)
	o.b = bytes.TrimRight(p.appendJSON(o.b), "\n")
	if o.lastKey != "" {
		o.b = append(o.b, `,"nextPageToken":`...)
		o.b = appendString(o.b, o.rt.Rows.PageToken(o.lastKey))
	}
	o.b = append(o.b, "}\n"...)
	_ = o.flush()
	panic(http.ErrAbortHandler)
}

// rowProblem says why rows could not be read. The reader's own text may hold a key.
func rowProblem(err error, templated bool) problem {
	var e *schema.Error
	switch {
	case errors.Is(err, ErrNoTable) && templated:
		return problem{status: http.StatusNotFound, code: schema.NoSuchTable,
			detail: "no such table: the route's is a template, so name one with ?table="}
	case errors.Is(err, ErrNoTable):
		return problem{status: http.StatusNotFound, code: schema.NoSuchTable,
			detail: "no such table"}
	case errors.Is(err, ErrPageToken):
		return problem{status: http.StatusBadRequest, detail: ErrPageToken.Error()}
	case errors.As(err, &e):
		return problem{status: http.StatusBadRequest, code: e.Code, detail: e.Detail}
	case errors.Is(err, context.DeadlineExceeded):
		return problem{status: http.StatusServiceUnavailable, code: schema.Deadline, detail: "not read in time (BATCH_TIMEOUT)"}
	default:
		return problem{status: http.StatusServiceUnavailable, code: schema.Unavailable, detail: "the table could not be read now"}
	}
}

// appendBytes appends a member of bytes: as text where they are UTF-8, and otherwise as
// nameBase64.
func appendBytes(b []byte, name, v string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	if utf8.ValidString(v) {
		b = append(b, `":`...)
		return appendString(b, v)
	}
	b = append(b, `Base64":`...)
	return appendBase64(b, []byte(v))
}

func appendBase64(b, v []byte) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}
