package spanner

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/pushsink/pushsink/schema"
)

var databasePath = regexp.MustCompile(`^projects/[^/\s]+/instances/[^/\s]+/databases/[^/\s]+$`)

// target is a route's configuration with the process's defaults filled in. It is fixed.
type target struct {
	name     string
	database string
	uses     []use // the main row's first, then one per child

	coerce           bool
	rejectUnknown    bool // unknownFields: reject
	retryConstraints bool // constraintViolations: retry
	ignoreDuplicates bool // onDuplicate: ignore
	dedupTable       string
}

// use is one table of a route, and what its mapping writes there.
type use struct {
	table   string
	op      schema.Operation
	columns []columnUse
	// rest: more columns come by name from the record (columnsFrom).
	rest bool
	// deletes: some records delete the row instead (deleteWhen).
	deletes bool
}

// columnUse is a column that the mapping names.
type columnUse struct {
	name string
	// kind is what the mapping gives there for a record without data; Absent = nothing.
	kind schema.ValueKind
}

// target checks a route against the process's configuration.
func (c *Config) target(r *schema.Route) (*target, error) {
	spec := r.Spanner
	t := &target{
		name: r.Name, database: spec.Database,
		coerce: spec.Coerce, rejectUnknown: spec.RejectUnknown, retryConstraints: spec.RetryConstraints,
		ignoreDuplicates: spec.OnDuplicate == "ignore", dedupTable: spec.DedupTable,
	}
	if t.database == "" {
		t.database = c.Database
	}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("route %s: spanner.%s", r.Name, fmt.Sprintf(format, args...)))
	}
	switch {
	case t.database == "":
		bad("database: name it here or as PUSHSINK_SPANNER_DATABASE")
	case !databasePath.MatchString(t.database):
		bad("database: %q: projects/P/instances/I/databases/D", t.database)
	}
	switch spec.Operation {
	case schema.InsertOrUpdate, schema.Update, schema.Replace, schema.Delete:
	case schema.Insert:
		// Without either, an insert whose answer was lost would be refused for ever.
		if spec.OnDuplicate == "" && spec.DedupTable == "" {
			bad("operation: insert needs onDuplicate: ignore or reject, or dedup")
		}
	default:
		bad("operation: %q: insertOrUpdate, insert, update, replace or delete", spec.Operation)
	}
	main := use{table: spec.Table, op: spec.Operation, rest: spec.ColumnsFrom, deletes: spec.DeleteWhen}
	main.name(spec.Columns)
	t.uses = append(t.uses, main)
	for _, child := range spec.Children {
		u := use{table: child.Table, op: spec.Operation}
		u.name(child.Columns)
		t.uses = append(t.uses, u)
	}
	t.learn(r)
	return t, errors.Join(errs...)
}

// learn finds out what the mapping gives where the payload has no say: constants, parts
// of the message, the commit timestamp, what stands in for an absent field. It maps a
// record without data; where that can't be mapped nothing is learnt.
func (t *target) learn(r *schema.Route) {
	if r.Mapping == nil {
		return
	}
	empty := &schema.Record{ID: "0", OrderingKey: "0", Subscription: "projects/p/subscriptions/s", Published: time.Unix(1_700_000_000, 0), Attempt: 1}
	if r.Format == "json" {
		empty.Data = []byte("{}")
	}
	m, err := r.Mapping.Apply(empty)
	if err != nil || m.Spanner == nil || m.Spanner.Row.Operation == schema.Delete {
		return
	}
	columns := t.uses[0].columns
	for _, c := range m.Spanner.Row.Columns {
		for i := range columns {
			if columns[i].name == c.Name {
				columns[i].kind = c.Value.Kind
			}
		}
	}
}

func (u *use) name(columns []string) {
	for _, name := range columns {
		u.columns = append(u.columns, columnUse{name: name})
	}
}

// use finds the table that a row goes to; -1 = it is none of the route's.
func (t *target) use(table string, from int) int {
	for i := from; i < len(t.uses); i++ {
		if t.uses[i].table == table {
			return i
		}
	}
	return -1
}

// inserts: the operation makes a row where there is none.
func inserts(o schema.Operation) bool {
	return o == schema.InsertOrUpdate || o == schema.Insert || o == schema.Replace
}
