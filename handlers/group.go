package handlers

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// item is one record of a request.
type item struct {
	rec   schema.Record
	index int
	// mutation is what the mapping made of it, until it is encoded.
	mutation schema.Mutation
	// late: some cell is older than its family keeps.
	late bool
	// entry is the record's place in group.entries; -1 = it has none.
	entry int
	// refused is why the record cannot become an entry, for the route's policy.
	refused *schema.Error
	// v is the record's fate; until the group is settled only set where there is no entry.
	v verdict
}

// group is records of one request that are submitted together, in order. The request's
// goroutine owns it; its entries belong to the writer from submit to the outcome.
type group struct {
	items   []item
	entries []sink.Entry
	ticket  Ticket
	handed  int     // entries that were submitted
	buf     *buffer // what the records point into; nil = something longer-lived
	bytes   int64   // charged to the body budget until the group is admitted
	pooled  bool    // it is of groups
}

// groups lends large groups. A small one is made of its size: many may wait at a time, of
// senders that send little at once.
type groups struct{ pool sync.Pool }

// get lends a group that holds n records, at most groupRecords.
func (p *groups) get(n int) *group {
	if n < groupRecords/4 {
		return &group{items: make([]item, 0, n), entries: make([]sink.Entry, 0, n)}
	}
	if g, ok := p.pool.Get().(*group); ok {
		return g
	}
	return &group{items: make([]item, 0, groupRecords), entries: make([]sink.Entry, 0, groupRecords), pooled: true}
}

// put takes a settled group back of which nothing is read any more (see group.pinned).
func (p *groups) put(g *group) {
	if !g.pooled {
		return
	}
	clear(g.items)
	clear(g.entries)
	*g = group{items: g.items[:0], entries: g.entries[:0], pooled: true}
	p.pool.Put(g)
}

// add appends a record, whose place stays where it is as long as the group.
func (g *group) add() *item {
	n := len(g.items)
	g.items = g.items[:n+1]
	return &g.items[n]
}

// prepare maps and encodes an item.
func (h *api) prepare(rt *route, g *group, it *item) {
	it.entry = -1
	if it.refused != nil {
		return
	}
	if int64(len(it.rec.Data)) > h.limits.MaxRecordBytes {
		it.refused = h.recordTooLarge()
		return
	}
	var err error
	if it.mutation, err = rt.mapper.Apply(&it.rec); err != nil {
		it.decline(err)
		return
	}
	if it.mutation.Skip != schema.NotSkipped {
		it.v = verdict{fate: skipped, empty: it.mutation.Skip == schema.SkippedEmpty}
		return
	}
	e, err := rt.Target.Encode(&it.rec, &it.mutation)
	it.late = rt.maxAge != nil && rt.late(it.mutation.Bigtable, time.Now())
	it.mutation = schema.Mutation{} // it may be as large as the payload, which the caps do not count
	if err != nil {
		it.decline(err)
		return
	}
	e.Route, e.ID = rt.Sink, it.rec.ID
	it.entry = len(g.entries)
	g.entries = append(g.entries, e)
}

func (h *api) recordTooLarge() *schema.Error {
	return &schema.Error{Code: schema.TooLarge,
		Detail: "record larger than " + strconv.FormatInt(h.limits.MaxRecordBytes, 10) + " bytes (WRITER_MAX_RECORD_SIZE_BYTES)"}
}

// decline notes why a record has no entry. An error that is no *schema.Error is a fault of
// ours, which acknowledges and drops nothing.
func (it *item) decline(err error) {
	var e *schema.Error
	switch {
	case !asSchemaError(err, &e), e.Code == schema.Internal:
		it.v = verdict{code: schema.Internal, detail: "the record could not be mapped or encoded"}
	case e.Code == schema.Overloaded:
		it.v = verdict{fate: overloaded, code: e.Code, detail: e.Detail}
	case e.Code == schema.Deadline:
		it.v = verdict{fate: expired, code: e.Code, detail: e.Detail}
	case e.Code == schema.TooManyTables || e.Code == schema.Unavailable:
		it.v = verdict{fate: unavailable, code: e.Code, detail: e.Detail, pointer: e.Pointer}
	default:
		it.refused = e
	}
}

// submit hands the group's entries to the writer, those that it does not have yet.
func (g *group) submit(x *exchange, rt *route) {
	es := g.entries[g.handed:]
	if len(es) == 0 {
		return
	}
	if x.span != nil {
		for i := range es {
			es[i].Origin = x.span
		}
	}
	t := rt.Writer.Submit(&x.ctx, es)
	if g.ticket != nil {
		t = tickets{g.ticket, t}
	}
	g.ticket, g.handed = t, len(g.entries)
}

// admitted waits until the entries that were submitted are; false = some were not, in time.
func (g *group) admitted() bool { return g.ticket == nil || g.ticket.Admitted() }

// tickets are of a group that was submitted in parts.
type tickets [2]Ticket

func (t tickets) Admitted() bool {
	first := t[0].Admitted()
	return t[1].Admitted() && first
}

func (t tickets) Wait() []sink.Outcome { return slices.Concat(t[0].Wait(), t[1].Wait()) }

// forget lets go of what the records came as, once they are admitted: nothing counts it any
// more. Only a dead letter would still need it; the result says that none will be written.
func (g *group) forget(rt *route) bool {
	if rt.OnReject == schema.DeadLetter {
		return false
	}
	for i := range g.items {
		g.items[i].rec.Data, g.items[i].rec.Attributes = nil, nil
	}
	return true
}

// settle waits for the outcomes and puts refused records to the route's policy. In a batch,
// what does not decode or is too large stays the caller's own error: it holds the data.
func (h *api) settleGroup(ctx context.Context, rt *route, g *group, k kind) {
	var outcomes []sink.Outcome
	if g.ticket != nil {
		outcomes = g.ticket.Wait()
	}
	var refused []*item
	for i := range g.items {
		it := &g.items[i]
		if it.entry >= 0 {
			it.v = verdict{code: schema.Internal, detail: "the writer gave no outcome"}
			if len(outcomes) == len(g.entries) {
				it.v = verdictOf(outcomes[it.entry], &h.limits)
			}
		}
		switch {
		case it.refused != nil:
			it.v = verdict{fate: rejected, code: it.refused.Code, detail: it.refused.Detail, pointer: it.refused.Pointer}
		case it.v.fate != rejected:
			continue
		}
		if k == push || !ownError(it.v.code) {
			refused = append(refused, it)
		}
	}
	if len(refused) > 0 {
		h.applyPolicy(ctx, rt, g, refused)
	}
	h.noteTrip(ctx, rt, g)
	h.noteWritten(rt, g)
}

// ownError are the codes of a batch's records that no policy takes: a bad line is reported to
// the caller that sent it.
func ownError(c schema.Code) bool {
	return c == schema.BadJSON || c == schema.TooDeep || c == schema.TooLarge
}

// publishers is how many dead letters of one request are published at a time.
const publishers = 32

// applyPolicy settles refused records, dead letters several at a time.
func (h *api) applyPolicy(ctx context.Context, rt *route, g *group, refused []*item) {
	one := func(it *item) {
		f := refusal{rec: &it.rec, reason: &schema.Error{Code: it.v.code, Detail: it.v.detail, Pointer: it.v.pointer}}
		if it.entry >= 0 {
			f.dest = g.entries[it.entry].Dest
			f.confirmed = it.v.code != schema.TooLarge
		}
		it.v = h.settle(ctx, rt, f)
	}
	if rt.OnReject != schema.DeadLetter || len(refused) < 2 {
		for _, it := range refused {
			one(it)
		}
		return
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, publishers)
	for _, it := range refused {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					it.v = verdict{code: schema.Internal, detail: "the dead letter was not published"}
					h.logPanic(ctx, p)
				}
				<-slots
			}()
			one(it)
		})
	}
	wg.Wait()
}

// pinned reports whether something may still read what the group's records point into: a
// write that was left under way, or a dead letter whose publish did not end.
func (g *group) pinned() bool {
	for i := range g.items {
		switch v := &g.items[i].v; v.fate {
		case written, skipped, dropped, deadLettered, rejected:
		default:
			if g.items[i].entry >= 0 || v.code != schema.Tripped {
				return true
			}
		}
	}
	return false
}
