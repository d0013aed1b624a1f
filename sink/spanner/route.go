package spanner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// Route encodes the records of one route.
type Route struct {
	sink   *Sink
	target *target
	db     *database
	writer *sink.Route
	// fitted is the route's plan for the newest schema it was asked with.
	fitted atomic.Pointer[plan]
}

// Dest is where the route's entries go.
func (r *Route) Dest() sink.Dest { return sink.Dest{Instance: r.db.path} }

// ErrSchema: a route does not fit the schema of its database, or the reverse. Waiting
// does not help; a change of either does, and is noticed within a minute.
var ErrSchema = errors.New("route does not fit the database's schema")

// plan fits the route to cat, once per schema.
func (r *Route) plan(cat *catalog) *plan {
	if p := r.fitted.Load(); p != nil && p.cat == cat {
		return p
	}
	p := r.target.fit(cat)
	r.fitted.Store(p)
	return p
}

// misfit is the error of a route that does not fit.
func (r *Route) misfit(problems ...string) error {
	return fmt.Errorf("%w: route %s: %s", ErrSchema, r.target.name, strings.Join(problems, "; "))
}

// Encode makes the entry that writes m, the mutation of rec.
//
// Its errors are [*schema.Error], and always the record's own fault. Where the record
// can't be encoded for another reason, the entry carries the outcome that Write answers:
// the schema can't be read (Transient, one attempt), or the route does not fit it (Fatal
// of the route). A schema that is not known yet, or may have changed, is read in here,
// for at most 5 s.
func (r *Route) Encode(rec *schema.Record, m *schema.Mutation) (sink.Entry, error) {
	g := m.Spanner
	if g == nil {
		return sink.Entry{}, &schema.Error{Code: schema.Internal, Detail: "route " + r.target.name + ": no Spanner mutation"}
	}
	// A record's own request waits for the reading, which has its own bound.
	ctx := context.Background()
	cat, err := r.db.catalog(ctx)
	if err != nil {
		return r.unsent(rec, sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, MaxAttempts: 1,
			Err: fmt.Errorf("spanner schema of %s: %w", r.db.path, plainError(err))}), nil
	}
	for {
		p := r.plan(cat)
		if len(p.problems) > 0 {
			if newer := r.db.reread(ctx, cat); newer != cat {
				cat = newer
				continue
			}
			return r.unsent(rec, sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeRoute, Err: r.misfit(p.problems...)}), nil
		}
		entry, unknown, err := r.encodeWith(p, rec, g)
		if unknown {
			if newer := r.db.reread(ctx, cat); newer != cat {
				cat = newer
				continue
			}
		}
		return entry, err
	}
}

// unsent is an entry that Write answers without sending anything. It goes through the
// writer all the same, so that the route's health is kept in one place.
func (r *Route) unsent(rec *schema.Record, o sink.Outcome) sink.Entry {
	return sink.Entry{
		Dest: sink.Dest{Instance: r.db.path}, Route: r.writer, ID: rec.ID, Bytes: 1, Cost: 1,
		Payload: &payload{route: r, unsent: &o},
	}
}

// encodeWith also reports whether the record names a column that p's schema lacks.
func (r *Route) encodeWith(p *plan, rec *schema.Record, g *schema.GroupMutation) (sink.Entry, bool, error) {
	e := r.sink.encoders.Get().(*encoder)
	defer func() {
		e.reset()
		r.sink.encoders.Put(e)
	}()
	e.route, e.plan, e.limit = r, p, maxCommitBytes
	var dedup string
	if p.dedup != nil {
		var err *schema.Error
		if dedup, err = e.dedup(rec, g); err != nil {
			return sink.Entry{}, false, err
		}
	}
	err := e.group(g, dedup)
	switch {
	case e.misfit != "":
		return r.unsent(rec, sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeRoute, Err: r.misfit(e.misfit)}), true, nil
	case err != nil:
		return sink.Entry{}, e.unknown, err
	}
	pl := &payload{route: r, plan: p, wire: e.wire, dedup: dedup}
	return sink.Entry{
		Dest:      sink.Dest{Instance: r.db.path},
		Route:     r.writer,
		ID:        rec.ID,
		Key:       e.key,
		Bytes:     pl.requestBytes(r.sink.cfg.WriteMethod),
		Cost:      max(1, e.cells),
		Mutations: e.count,
		Payload:   pl,
	}, e.unknown, nil
}

// dedup is the record's dedup key. A message id is unique within its topic only, so where
// that is the key, where it came from (subscription, else route) is part of it.
func (e *encoder) dedup(rec *schema.Record, g *schema.GroupMutation) (string, *schema.Error) {
	name := e.route.target.name
	switch {
	case g.DedupKey == "":
		return "", e.refuse(schema.DedupIDMissing, "dedup: the record has no message id, which is its key by default (dedup.key)")
	case g.DedupKey != rec.ID:
		return dedupKey(name, "key", g.DedupKey), nil
	case rec.Subscription == "":
		return dedupKey(name, "message", name, rec.ID), nil
	default:
		return dedupKey(name, "message", rec.Subscription, rec.ID), nil
	}
}
