package bigtable

import (
	"context"
	"errors"
	"fmt"
	"io"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/internal/encoded"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

var (
	errNoStatus    = errors.New("bigtable reported no status for the entry")
	errConflict    = errors.New("bigtable reported two statuses for the entry")
	errHeldBack    = errors.New("sent next: the request carries another app profile")
	errForeign     = errors.New("entry of another sink")
	errPartOfOther = errors.New("not applied: another record of the request failed")
)

// HeldBack reports that err is no failure of the entry: it was not sent, or not applied for
// another one's sake, and follows with the next request.
func HeldBack(err error) bool { return err == errHeldBack || err == errPartOfOther }

// request is one MutateRows call being put together and answered.
type request struct {
	sink    *Sink
	dest    sink.Dest
	entries []*payload
	outs    []sink.Outcome // by entry; Undecided with an error until settled
	sent    []int          // the entries that are in the request
	// rows holds, by index in the request, the entries merged there, in arrival order.
	rows [][]int
	prof string // app profile
}

// Write sends batch as one MutateRows call.
func (s *Sink) Write(ctx context.Context, d sink.Dest, batch []sink.Entry) []sink.Outcome {
	r := &request{sink: s, dest: d, outs: make([]sink.Outcome, len(batch)), entries: make([]*payload, len(batch)), sent: make([]int, 0, len(batch))}
	size := r.choose(batch)
	total := headerSize(d, r.prof) + size
	if total > s.maxRequest {
		// Not sent: refused here as the client would refuse it.
		err := &schema.Error{Code: schema.TooLarge, Detail: fmt.Sprintf("a request of %d bytes: the limit of Bigtable is %d (256 MiB)", total, s.maxRequest)}
		r.rest(sink.Outcome{Kind: sink.Rejected, Scope: sink.ScopeBatch, Err: err})
	} else if len(r.sent) > 0 {
		r.merge(batch)
		r.send(ctx, total)
	}
	s.metrics.attempt(d, r.outs)
	return r.outs
}

// choose decides which entries are sent, and returns at most how many bytes they take. A
// request carries one app profile: entries whose route uses another than the first one's,
// and those behind them in their row, wait for the next.
func (r *request) choose(batch []sink.Entry) (size int) {
	first := true
	var heldKeys map[string]bool
	for i := range batch {
		p, ok := batch[i].Payload.(*payload)
		if !ok {
			r.outs[i] = sink.Outcome{Kind: sink.Undecided, Err: errForeign}
			continue
		}
		r.entries[i] = p
		prof := p.route.target.appProfile
		if first {
			r.prof, first = prof, false
		}
		if prof != r.prof || heldKeys[batch[i].Key] {
			if heldKeys == nil {
				heldKeys = make(map[string]bool)
			}
			heldKeys[batch[i].Key] = true
			r.outs[i] = sink.Outcome{Kind: sink.Transient, Err: errHeldBack}
			continue
		}
		r.outs[i] = sink.Outcome{Kind: sink.Undecided, Err: errNoStatus}
		r.sent = append(r.sent, i)
		size += encoded.Framed(len(p.wire))
	}
	return size
}

// merge gathers the entries that are sent by their row.
func (r *request) merge(batch []sink.Entry) {
	r.rows = make([][]int, 0, len(r.sent))
	if len(r.sent) == 1 {
		r.rows = append(r.rows, r.sent)
		return
	}
	row := make(map[string]int, len(r.sent))
	for k, i := range r.sent {
		at, ok := row[batch[i].Key]
		if !ok {
			row[batch[i].Key] = len(r.rows)
			r.rows = append(r.rows, r.sent[k:k+1:k+1])
			continue
		}
		r.rows[at] = append(r.rows[at], i)
	}
}

// append appends the request.
func (r *request) append(b []byte) []byte {
	b = encoded.AppendFrame(b, requestTable, len(r.dest.Instance)+len(tablesInfix)+len(r.dest.Table))
	b = append(b, r.dest.Instance...)
	b = append(b, tablesInfix...)
	b = append(b, r.dest.Table...)
	for _, merged := range r.rows {
		n := len(r.entries[merged[0]].wire)
		for _, i := range merged[1:] {
			n += len(r.entries[i].wire) - r.entries[i].muts
		}
		b = append(encoded.AppendFrame(b, requestEntries, n), r.entries[merged[0]].wire...)
		for _, i := range merged[1:] {
			b = append(b, r.entries[i].wire[r.entries[i].muts:]...)
		}
	}
	if r.prof != "" {
		b = encoded.AppendField(b, requestProfile, r.prof)
	}
	return b
}

// send makes the call, whose request has at most size bytes.
func (r *request) send(ctx context.Context, size int) {
	c := r.sink.open(r.dest.Instance)
	if c == nil {
		r.rest(sink.Outcome{Kind: sink.Undecided, Scope: sink.ScopeBatch, Err: errNotOpen})
		return
	}
	name := tableName(r.dest)
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, headers(name, dataParams("table_name", name, r.prof))))
	defer cancel() // gives the stream back when it is not read to its end
	call, err := encoded.Stream(ctx, c.pool, btpb.Bigtable_MutateRows_FullMethodName, encoded.Request(size, r.append))
	if err != nil {
		r.failed(err)
		return
	}
	seen := make([]bool, len(r.rows))
	a := answer{entries: make([]rowStatus, 0, len(r.rows))}
	for left := len(r.rows); left > 0; {
		err := call.RecvMsg(&a)
		if err == io.EOF {
			return // what has no status stays Undecided
		}
		if err != nil {
			r.failed(err)
			return
		}
		for _, e := range a.entries {
			if e.index < 0 || e.index >= int64(len(r.rows)) || !e.set {
				continue
			}
			if seen[e.index] {
				r.again(r.rows[e.index], e.not)
				continue
			}
			seen[e.index] = true
			left--
			r.status(r.rows[e.index], e.not)
		}
	}
}

// status settles the records of one row by the status read for it; nil = OK.
func (r *request) status(row []int, not *spb.Status) {
	if not == nil {
		for _, i := range row {
			r.outs[i] = sink.Outcome{Kind: sink.Applied}
		}
		return
	}
	r.classify(row, status.FromProto(not).Err(), false)
}

// again takes an OK back when a second status for the same row contradicts it.
func (r *request) again(row []int, not *spb.Status) {
	for _, i := range row {
		if r.outs[i].Kind == sink.Applied && not != nil {
			r.outs[i] = sink.Outcome{Kind: sink.Undecided, Err: errConflict}
		}
	}
}

// failed settles every entry without a status by the error of the whole call.
func (r *request) failed(err error) {
	var open []int
	for _, i := range r.sent {
		if r.outs[i].Kind == sink.Undecided && r.outs[i].Err == errNoStatus {
			open = append(open, i)
		}
	}
	r.classify(open, err, true)
}

// rest settles every entry that was to be sent.
func (r *request) rest(o sink.Outcome) {
	for _, i := range r.sent {
		r.outs[i] = o
	}
}
