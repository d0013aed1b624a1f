package bigtable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

const (
	// adminTimeout bounds one administrative call; making a table takes seconds.
	adminTimeout = 60 * time.Second
	// propagation is how long a new table or family may be unseen where writes go.
	propagation = 60 * time.Second
	// createdTwice is how long after this process made a table it is not made again,
	// though it cannot be seen: after that somebody has deleted it.
	createdTwice = 10 * time.Second
)

// Ensure makes the table of d with the families its routes declare, or adds those of them
// that it lacks. What is there stays as it is, rules included. Instances are never made.
func (s *Sink) Ensure(ctx context.Context, d sink.Dest) sink.Ensured {
	tb := s.lookup(d)
	if tb == nil {
		return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeBatch, Err: errors.New("a table that belongs to no route")}}
	}
	families := tb.declared()
	if len(families) == 0 {
		return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Fatal, Scope: sink.ScopeBatch, Err: fmt.Errorf("%s: no route that writes to it has bigtable.create: ifNeeded", tb.shown())}}
	}
	c := s.open(d.Instance)
	if c == nil {
		return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, Err: errNotOpen}}
	}
	a, err := c.admin()
	if err != nil {
		return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Transient, Scope: sink.ScopeBatch, Err: err}}
	}
	e := ensure{admin: a, sink: s, table: tb, families: families}
	err = e.run(ctx)
	if err != nil {
		if e.changed {
			tb.mu.Lock()
			tb.changedAt = time.Now()
			tb.mu.Unlock()
		}
		return sink.Ensured{Outcome: e.outcome(err)}
	}
	return sink.Ensured{Outcome: sink.Outcome{Kind: sink.Applied}, Unchanged: tb.ensured(time.Now(), e.changed, e.present)}
}

// ensured notes an Ensure that ended well, and reports whether the table has had all that
// it should have for long enough to be seen.
func (tb *table) ensured(now time.Time, changed bool, present map[string]bool) (unchanged bool) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.ensures++
	if present != nil {
		tb.present = present
	}
	if changed {
		tb.changedAt, tb.completeSince = now, now
	} else if tb.completeSince.IsZero() {
		tb.completeSince = now // somebody else may have made it a moment ago
	}
	tb.settled = !changed && now.Sub(tb.changedAt) >= propagation
	return tb.settled && now.Sub(tb.completeSince) >= propagation
}

// ensure is one run of Ensure.
type ensure struct {
	admin    adminpb.BigtableTableAdminClient
	sink     *Sink
	table    *table
	families map[string]*adminpb.ColumnFamily
	present  map[string]bool
	changed  bool
	step     string // what the last call was to do
}

// run looks, makes the table or the families it lacks, and looks again where somebody
// else changed it meanwhile: at most once per declared family and once more.
func (e *ensure) run(ctx context.Context) error {
	others := false // somebody else made the table
	for range len(e.families) + 1 {
		e.step = "read the schema of"
		have, err := e.get(ctx)
		switch {
		case status.Code(err) == codes.NotFound:
			if others || e.table.justCreated() {
				e.changed = true // it is there, and will be seen
				return nil
			}
			e.step = "create"
			err = e.create(ctx)
			if err == nil {
				return nil
			}
			if status.Code(err) != codes.AlreadyExists {
				return err
			}
			others, e.changed = true, true
			continue
		case err != nil:
			return err
		}
		e.present = have
		gone, err := e.add(ctx)
		if err != nil || !gone {
			return err
		}
	}
	return status.Error(codes.Aborted, "the table keeps changing")
}

func (e *ensure) get(ctx context.Context) (map[string]bool, error) {
	t, err := getTable(ctx, e.admin, e.table.dest)
	if err != nil {
		return nil, err
	}
	have := make(map[string]bool, len(t.ColumnFamilies))
	for f := range t.ColumnFamilies {
		have[f] = true
	}
	return have, nil
}

func (e *ensure) create(ctx context.Context) error {
	d := e.table.dest
	ctx, cancel := adminContext(ctx, "parent", d.Instance)
	defer cancel()
	_, err := e.admin.CreateTable(ctx, &adminpb.CreateTableRequest{
		Parent:  d.Instance,
		TableId: d.Table,
		Table:   &adminpb.Table{ColumnFamilies: e.families},
	})
	if err != nil {
		return err
	}
	e.changed = true
	e.present = make(map[string]bool)
	for f := range e.families {
		e.present[f] = true
	}
	e.table.created.Store(true)
	e.table.mu.Lock()
	e.table.createdAt = time.Now()
	e.table.mu.Unlock()
	e.sink.metrics.tableCreated()
	return nil
}

// add adds the absent families, each in a call of its own: the service stops at the first
// modification it cannot do, so one that somebody else just added would cost the rest.
// gone says that the table vanished meanwhile.
func (e *ensure) add(ctx context.Context) (gone bool, err error) {
	name := tableName(e.table.dest)
	for _, f := range slices.Sorted(maps.Keys(e.families)) {
		if e.present[f] {
			continue
		}
		e.step = "add column family " + f + " to"
		callCtx, cancel := adminContext(ctx, "name", name)
		_, err := e.admin.ModifyColumnFamilies(callCtx, &adminpb.ModifyColumnFamiliesRequest{
			Name: name,
			Modifications: []*adminpb.ModifyColumnFamiliesRequest_Modification{{
				Id:  f,
				Mod: &adminpb.ModifyColumnFamiliesRequest_Modification_Create{Create: e.families[f]},
			}},
		})
		cancel()
		switch status.Code(err) {
		case codes.OK, codes.AlreadyExists:
			e.present[f] = true
			e.changed = true
		case codes.NotFound:
			return true, nil
		default:
			return false, err
		}
	}
	return false, nil
}

// outcome says whether a failed run may be tried again. Its error is its own, not that of
// the write that asked for it.
func (e *ensure) outcome(err error) sink.Outcome {
	f := inspect(err, true)
	o := sink.Outcome{Scope: sink.ScopeBatch, RetryAfter: f.retry}
	why := f.code.String()
	if f.text != "" && e.table.inRoutesFile() {
		why += ": " + cutDetail(f.text)
	}
	o.Err = &callError{cause: err, text: fmt.Sprintf("could not %s %s of instance %s: %s", e.step, e.table.shown(), InstanceID(e.table.dest.Instance), why)}
	switch f.code {
	case codes.PermissionDenied, codes.Unauthenticated:
		o.Kind = sink.Fatal
		o.Err = fmt.Errorf("%w (creating tables takes bigtable.tables.create, .get and .update, as in roles/bigtable.admin)", o.Err)
	case codes.NotFound, codes.Unimplemented:
		o.Kind = sink.Fatal // the instance, which is never made here; or no such service
	case codes.InvalidArgument, codes.OutOfRange:
		o.Kind = sink.Fatal // a rule or a name of the routes file, not of a record
	default:
		// FAILED_PRECONDITION too: the schema is being changed by somebody else.
		o.Kind = sink.Transient
	}
	return o
}

// justCreated reports whether this process made the table so recently that it may be
// there although it cannot be seen.
func (tb *table) justCreated() bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return !tb.createdAt.IsZero() && time.Since(tb.createdAt) < createdTwice
}

// declared is the union of what the table's routes declare. Of two rules for one family
// the first route's is used.
func (tb *table) declared() map[string]*adminpb.ColumnFamily {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	families := make(map[string]*adminpb.ColumnFamily)
	for _, t := range tb.sharers {
		for f, rule := range t.spec.Families {
			if families[f] == nil {
				families[f] = &adminpb.ColumnFamily{GcRule: gcRule(rule)}
			}
		}
	}
	return families
}

func getTable(ctx context.Context, a adminpb.BigtableTableAdminClient, d sink.Dest) (*adminpb.Table, error) {
	name := tableName(d)
	ctx, cancel := adminContext(ctx, "name", name)
	defer cancel()
	return a.GetTable(ctx, &adminpb.GetTableRequest{Name: name, View: adminpb.Table_SCHEMA_VIEW})
}

// adminContext bounds a call and routes it to its resource, which stands in field.
func adminContext(ctx context.Context, field, resource string) (context.Context, context.CancelFunc) {
	md := headers(resource, field+"="+url.QueryEscape(resource))
	return context.WithTimeout(metadata.NewOutgoingContext(ctx, md), adminTimeout)
}

// gcRule is rule in the service's terms; nil keeps everything.
func gcRule(rule *schema.GCRule) *adminpb.GcRule {
	switch {
	case rule == nil:
		return nil
	case rule.MaxVersions > 0:
		return &adminpb.GcRule{Rule: &adminpb.GcRule_MaxNumVersions{MaxNumVersions: int32(rule.MaxVersions)}}
	case rule.MaxAge > 0:
		return &adminpb.GcRule{Rule: &adminpb.GcRule_MaxAge{MaxAge: durationpb.New(rule.MaxAge)}}
	case len(rule.Union) > 0:
		return &adminpb.GcRule{Rule: &adminpb.GcRule_Union_{Union: &adminpb.GcRule_Union{Rules: gcRules(rule.Union)}}}
	default:
		return &adminpb.GcRule{Rule: &adminpb.GcRule_Intersection_{Intersection: &adminpb.GcRule_Intersection{Rules: gcRules(rule.Intersection)}}}
	}
}

func gcRules(rules []*schema.GCRule) []*adminpb.GcRule {
	out := make([]*adminpb.GcRule, len(rules))
	for i, r := range rules {
		out[i] = gcRule(r)
	}
	return out
}

// checkRule refuses a rule that would be sent as another one, or as none. nil is one.
func checkRule(rule *schema.GCRule) error {
	if rule == nil {
		return nil
	}
	members := 0
	for _, set := range []bool{rule.MaxVersions != 0, rule.MaxAge != 0, rule.Union != nil, rule.Intersection != nil} {
		if set {
			members++
		}
	}
	switch {
	case members != 1:
		return errors.New("exactly one of maxVersions, maxAge, union, intersection")
	case rule.MaxVersions < 0 || rule.MaxVersions > math.MaxInt32:
		return fmt.Errorf("maxVersions=%d: 1 to %d", rule.MaxVersions, math.MaxInt32)
	case rule.MaxAge < 0 || rule.MaxAge != 0 && rule.MaxAge < time.Millisecond:
		return fmt.Errorf("maxAge=%s: at least 1ms", rule.MaxAge)
	}
	for kind, nested := range map[string][]*schema.GCRule{"union": rule.Union, "intersection": rule.Intersection} {
		if nested != nil && len(nested) < 2 {
			return fmt.Errorf("%s: at least two rules", kind)
		}
		for _, n := range nested {
			if n == nil {
				return fmt.Errorf("%s: an empty rule", kind)
			}
			if err := checkRule(n); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	return nil
}
