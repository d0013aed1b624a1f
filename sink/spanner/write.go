package spanner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// attempt is one Write: its entries, and what is known of each. An entry is open until
// something is known, and what nobody says anything about ends Undecided.
type attempt struct {
	sink  *Sink
	db    *database
	c     *client
	items []*payload
	outs  []sink.Outcome
	done  []bool
	// refused are groups with a status of their own that is no success, by entry.
	refused map[int]*status.Status
}

// Write sends batch as one BatchWrite or one Commit. Strong reads may follow, where a
// refusal has more than one meaning, and with dedup one stands before a Commit.
func (s *Sink) Write(ctx context.Context, d sink.Dest, batch []sink.Entry) []sink.Outcome {
	a := &attempt{sink: s, db: s.databases[d.Instance],
		items: make([]*payload, len(batch)), outs: make([]sink.Outcome, len(batch)), done: make([]bool, len(batch))}
	for i := range batch {
		p, ok := batch[i].Payload.(*payload)
		switch {
		case !ok || p == nil:
			a.settle(i, sink.Outcome{Err: fmt.Errorf("spanner: entry %d was made by another sink", i)})
		case p.unsent != nil:
			a.settle(i, *p.unsent)
		}
		a.items[i] = p
	}
	if a.db != nil {
		a.c = a.db.current()
	}
	if a.c == nil {
		a.settleOpen(sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, Err: fmt.Errorf("%s: %w", d.Instance, errNotOpen)})
		return a.outs
	}
	if open := a.open(); len(open) > 0 {
		if s.cfg.WriteMethod == Commit {
			a.commit(ctx, open)
		} else {
			a.batchWrite(ctx, open)
		}
		if len(a.refused) > 0 {
			a.explain(ctx)
		}
	}
	a.settleOpen(sink.Outcome{Err: fmt.Errorf("%s: no status was reported for the mutation group", d.Instance)})
	return a.outs
}

// settle gives an entry its outcome. The first one stays, but an OK beats all others.
func (a *attempt) settle(i int, o sink.Outcome) {
	if a.done[i] && o.Kind != sink.Applied {
		return
	}
	a.outs[i], a.done[i] = o, true
	delete(a.refused, i)
}

func (a *attempt) settleOpen(o sink.Outcome) {
	for i := range a.done {
		if !a.done[i] {
			a.settle(i, o)
		}
	}
}

// open lists the entries of which nothing is known yet.
func (a *attempt) open() []int {
	open := make([]int, 0, len(a.done))
	for i, done := range a.done {
		if _, refused := a.refused[i]; !done && !refused {
			open = append(open, i)
		}
	}
	return open
}

func (a *attempt) refuse(i int, s *status.Status) {
	if a.refused == nil {
		a.refused = make(map[int]*status.Status)
	}
	a.refused[i] = s
}

// status takes a group's own status. Applied needs the commit's time beside an OK: it is
// what the service documents for a group that was applied.
func (a *attempt) status(i int, s *status.Status, committed bool) {
	switch {
	case a.outs[i].Kind == sink.Applied:
	case s.Code() != codes.OK:
		if !a.done[i] {
			a.refuse(i, s)
		}
	case committed:
		a.settle(i, sink.Outcome{Kind: sink.Applied})
	}
}

// fail takes the error of a whole call for the entries in it of which nothing is known.
func (a *attempt) fail(rpc string, err error, sent []int) {
	var left []int
	for _, i := range sent {
		if _, refused := a.refused[i]; !a.done[i] && !refused {
			left = append(left, i)
		}
	}
	o := callOutcome(rpc, a.db.path, err)
	if o.Kind == sink.Rejected && len(sent) == 1 {
		// The record was alone in the call, so the status is its own.
		for _, i := range left {
			a.refuse(i, status.Convert(err))
		}
		return
	}
	for _, i := range left {
		a.settle(i, o)
	}
}

// oversized settles entries whose request would be larger than a commit may be.
func (a *attempt) oversized(size int, sent []int) bool {
	limit := a.sink.cfg.requestLimit()
	if size <= limit {
		return false
	}
	for _, i := range sent {
		o := a.items[i].route.rejected(schema.TooLarge, "a request of %d bytes: the most is %d", size, limit)
		o.Sole = len(sent) == 1
		if !o.Sole {
			o.Scope = sink.ScopeBatch
		}
		a.settle(i, o)
	}
	return true
}

// requestOptions are the process's priority and a tag that names the routes in the batch.
func (a *attempt) requestOptions(sent []int) *sppb.RequestOptions {
	var names []string
	for _, i := range sent {
		if name := a.items[i].route.target.name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	tag := "pushsink=" + strings.Join(names, ",")
	return &sppb.RequestOptions{Priority: priorities[a.sink.cfg.Priority], TransactionTag: tag[:min(len(tag), maxTag)]}
}
