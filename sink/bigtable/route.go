package bigtable

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// ErrTooManyTables: the record's table is beyond its route's maxTables. The record is not
// at fault: answer 503 too_many_tables, never by onReject. The error also holds a
// [schema.Error] with that code.
var ErrTooManyTables = errors.New("more tables than maxTables")

// Route encodes the records of one route.
type Route struct {
	sink   *Sink
	target *target
	writer *sink.Route
	fixed  map[string]*table // a static table's state by instance id; nil when templated

	// mu guards the tables of a templated route.
	mu    sync.Mutex
	held  map[sink.Dest]*heldTable
	swept time.Time // when held was last searched for idle tables
}

type heldTable struct {
	table *table
	used  time.Time
}

// Route returns the encoder of r, one of New's routes, whose entries carry sr.
func (s *Sink) Route(r *schema.Route, sr *sink.Route) (*Route, error) {
	t := s.targets[r]
	if t == nil {
		return nil, fmt.Errorf("route %s is no Bigtable route of this sink", r.Name)
	}
	rt := &Route{sink: s, target: t, writer: sr}
	if !t.static {
		rt.held = make(map[sink.Dest]*heldTable)
		return rt, nil
	}
	rt.fixed = make(map[string]*table, len(t.instances))
	for id, path := range t.instances {
		rt.fixed[id] = s.share(sink.Dest{Instance: path, Table: t.spec.Table}, t)
	}
	return rt, nil
}

// Dest resolves an instance id and a table id as the route's mutations name them; empty
// means the route's own. It touches nothing, so reads can use it.
func (r *Route) Dest(instance, table string) (sink.Dest, error) {
	if instance == "" {
		instance = r.target.instance
	}
	path, ok := r.target.instances[instance]
	if !ok {
		return sink.Dest{}, r.refuse(schema.TypeMismatch, "instance: not one of the route's (bigtable.allow)")
	}
	if table == "" {
		table = r.target.spec.Table
	}
	if r.target.static && table != r.target.spec.Table {
		return sink.Dest{}, r.refuse(schema.NoSuchTable, "table: not the route's")
	}
	if !tableID.MatchString(table) {
		return sink.Dest{}, r.refuse(schema.NoSuchTable, "table: no table id (1 to 50 letters, digits, dots, hyphens, underscores, not starting with a dot or hyphen)")
	}
	return sink.Dest{Instance: path, Table: table}, nil
}

// AppProfile is the id the route's requests carry; empty = the instance's default.
func (r *Route) AppProfile() string { return r.target.appProfile }

// table finds the state of a mutation's destination, counting it to maxTables.
func (r *Route) table(m *schema.RowMutation) (*table, error) {
	if r.fixed != nil {
		id := m.Instance
		if id == "" {
			id = r.target.instance
		}
		if tb := r.fixed[id]; tb != nil && (m.Table == "" || m.Table == tb.dest.Table) {
			return tb, nil
		}
		_, err := r.Dest(m.Instance, m.Table)
		if err == nil {
			err = fmt.Errorf("route %s: destination not known", r.target.name)
		}
		return nil, err
	}
	d := sink.Dest{Table: m.Table}
	id := m.Instance
	if id == "" {
		id = r.target.instance
	}
	d.Instance = r.target.instances[id]
	now := time.Now()

	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.held[d]; h != nil {
		h.used = now
		return h.table, nil
	}
	d, err := r.Dest(m.Instance, m.Table)
	if err != nil {
		return nil, err
	}
	if len(r.held) >= r.target.spec.MaxTables {
		r.sweep(now)
	}
	if len(r.held) >= r.target.spec.MaxTables {
		detail := r.refuse(schema.TooManyTables, fmt.Sprintf("maxTables=%d: the route holds that many tables already", r.target.spec.MaxTables))
		return nil, fmt.Errorf("%w: %w", ErrTooManyTables, detail)
	}
	tb := r.sink.share(d, r.target)
	r.held[d] = &heldTable{table: tb, used: now}
	return tb, nil
}

// minHold keeps a table longer than any of its entries can be on its way, however short
// the idle timeout.
const minHold = 2 * time.Minute

// sweep forgets tables nobody wrote to for the idle timeout, except those made by this
// process: maxTables also bounds how many a route may create. At most once a second, so
// that records for a table too many do not search the whole list each.
func (r *Route) sweep(now time.Time) {
	if now.Sub(r.swept) < time.Second {
		return
	}
	r.swept = now
	idle := max(r.sink.cfg.DestinationIdleTimeout, minHold)
	for d, h := range r.held {
		if now.Sub(h.used) > idle && !h.table.created.Load() {
			delete(r.held, d)
			r.sink.unshare(h.table, r.target)
		}
	}
}

func (r *Route) refuse(code schema.Code, detail string) *schema.Error {
	return &schema.Error{Code: code, Detail: "route " + r.target.name + ": " + detail}
}
