package bigtable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// unexpectedAttempts is how often a failure is tried in all whose code says neither that
// it passes nor that it lasts.
const unexpectedAttempts = 3

// The texts of a missing column family: the service's, and the emulator's (bttest's)
// which names it. Codes do not tell it: the service says NOT_FOUND as for a table, the
// emulator INTERNAL. The only place where a status is told by its text, but for
// sentTooLarge.
const (
	serviceNoFamily  = "Requested column family not found"
	emulatorNoFamily = "unknown family"
)

// sentTooLarge is what grpc-go says of a message it refuses to send. It carries
// RESOURCE_EXHAUSTED, like the service's pressure.
const sentTooLarge = "trying to send message larger than max"

// failure is an error of a call, or the status of an entry, taken apart once.
type failure struct {
	err   error
	code  codes.Code
	text  string // the service's message, for matching; may quote the record
	retry time.Duration
	whole bool
}

// inspect finds every status in err's tree. One that says the failure passes wins over
// the others, wherever it stands.
func inspect(err error, whole bool) failure {
	f := failure{err: err, code: codes.Unknown, whole: whole}
	found := false
	var walk func(error)
	walk = func(err error) {
		if err == nil {
			return
		}
		if s, ok := err.(interface{ GRPCStatus() *status.Status }); ok && s.GRPCStatus() != nil {
			st := s.GRPCStatus()
			if !found || passes(st.Code()) && !passes(f.code) {
				f.code, f.text, found = st.Code(), st.Message(), true
			}
			for _, d := range st.Details() {
				if ri, ok := d.(*errdetails.RetryInfo); ok && ri.GetRetryDelay() != nil {
					f.retry = max(f.retry, ri.GetRetryDelay().AsDuration())
				}
			}
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			walk(u.Unwrap())
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				walk(e)
			}
		}
	}
	walk(err)
	switch {
	case passes(f.code):
	case errors.Is(err, context.DeadlineExceeded):
		f.code = codes.DeadlineExceeded
	case !found && errors.Is(err, context.Canceled):
		f.code = codes.Canceled
	case f.code == codes.OK:
		f.code = codes.Unknown // an error that says OK acknowledges nothing
	}
	return f
}

// passes reports whether the code says that waiting helps.
func passes(c codes.Code) bool {
	switch c {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.ResourceExhausted:
		return true
	}
	return false
}

// classify settles the entries by err: the status of their row, or (whole) the error of
// the call, which may be any entry's fault.
func (r *request) classify(entries []int, err error, whole bool) {
	if len(entries) == 0 {
		return
	}
	f := inspect(err, whole)
	if n := r.noFamily(f, entries); n.is {
		r.familyMissing(entries, f, n)
		return
	}
	detail := r.quoteFree(f, entries)
	for _, i := range entries {
		r.outs[i] = r.outcome(r.entries[i], f, detail)
	}
}

// outcome is the classification of every failure but a missing family.
func (r *request) outcome(p *payload, f failure, detail string) sink.Outcome {
	o := sink.Outcome{RetryAfter: f.retry, Scope: f.scope()}
	said := func(format string, args ...any) error {
		return &callError{text: fmt.Sprintf(format, args...) + ": " + detail, cause: f.err}
	}
	route, table := p.route.target, p.tableShown()
	switch f.code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted:
		o.Kind, o.Err = sink.Transient, said("MutateRows on %s", table)
	case codes.ResourceExhausted:
		if f.whole && strings.Contains(f.text, sentTooLarge) {
			o.Kind, o.Err = sink.Rejected, rejection(schema.TooLarge, said("the request is larger than the client sends"))
			break
		}
		o.Kind, o.Err = sink.Transient, said("MutateRows on %s", table)
	case codes.InvalidArgument, codes.OutOfRange:
		o.Kind, o.Err = sink.Rejected, rejection(schema.Constraint, said("Bigtable refused the mutation"))
	case codes.NotFound:
		switch {
		case p.create():
			r.missing(p, &o, said("%s", table))
		case route.static:
			o.Kind, o.Scope = sink.Fatal, sink.ScopeBatch
			o.Err = rejection(schema.NoSuchTable, said("route %s: %s of instance %s is not there and bigtable.create is not ifNeeded", route.name, table, InstanceID(r.dest.Instance)))
		default:
			o.Kind = sink.Rejected
			o.Err = rejection(schema.NoSuchTable, said("route %s: the record's table is not there and bigtable.create is not ifNeeded", route.name))
		}
	case codes.FailedPrecondition:
		if p.create() && !p.confirmed() {
			r.missing(p, &o, said("MutateRows on %s", table))
			break
		}
		o.Kind, o.Err = sink.Rejected, rejection(schema.Constraint, said("Bigtable refused the mutation"))
	case codes.PermissionDenied, codes.Unauthenticated:
		o.Kind, o.Err = sink.Fatal, said("instance %s, %s: the service account may not write (roles/bigtable.user)", InstanceID(r.dest.Instance), table)
	case codes.Unimplemented:
		// Of the endpoint, not of a record: this is no Bigtable.
		o.Kind, o.Err = sink.Fatal, said("instance %s: the endpoint has no MutateRows", InstanceID(r.dest.Instance))
	case codes.Internal:
		if !f.whole {
			o.Kind, o.Err = sink.Rejected, rejection(schema.Constraint, said("Bigtable refused the mutation"))
			break
		}
		fallthrough
	default:
		o.Kind, o.Err, o.MaxAttempts = sink.Transient, said("MutateRows on %s", table), unexpectedAttempts
	}
	return o
}

func (f failure) scope() sink.Scope {
	if f.whole {
		return sink.ScopeBatch
	}
	return sink.ScopeEntry
}

// missing asks for an Ensure and remembers that the entry has.
func (r *request) missing(p *payload, o *sink.Outcome, err error) {
	o.Kind, o.Err = sink.Missing, err
	p.table.mu.Lock()
	if p.failedAt == 0 {
		p.failedAt = 1 + p.table.ensures
	}
	p.table.mu.Unlock()
	r.sink.adopt(p)
}

// create reports whether the entry's route, or another one of its table, may create it.
func (p *payload) create() bool { return p.route.target.spec.Create || p.table.create() }

// declares likewise, of a family.
func (p *payload) declares(family string) bool {
	return p.route.target.declares(family) || p.table.declares(family)
}

// confirmed reports whether the entry failed before and the last Ensure since then found
// nothing to do and nothing new: the table is as it should be, so it is the entry.
func (p *payload) confirmed() bool {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	return p.failedAt != 0 && p.table.ensures >= p.failedAt && p.table.settled
}

// seen returns the families of the table as the last Ensure since the entry's first
// failure left them; nil when there was none.
func (p *payload) seen() map[string]bool {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	if p.failedAt == 0 || p.table.ensures < p.failedAt {
		return nil
	}
	return p.table.present
}

// noFamily is what a failure says of a missing family.
type noFamily struct {
	is   bool
	name string // empty where the service does not name it
}

// noFamily reads the failure's text. What a record itself says must not be taken for it,
// so a text that quotes a record that contains such words is read without them.
func (r *request) noFamily(f failure, entries []int) noFamily {
	switch f.code {
	case codes.NotFound, codes.Internal, codes.InvalidArgument, codes.FailedPrecondition:
	default:
		return noFamily{}
	}
	marks := func(s string) bool {
		return strings.Contains(s, serviceNoFamily) || strings.Contains(s, emulatorNoFamily)
	}
	if !marks(f.text) {
		return noFamily{}
	}
	text := f.text
	q := quotes(text, len(text))
	r.held(entries, func(data []byte) {
		q.in(data, func(form string) {
			if marks(form) {
				text = strings.ReplaceAll(text, form, "")
			}
		})
	})
	if !marks(text) {
		return noFamily{}
	}
	n := noFamily{is: true}
	if _, after, ok := strings.Cut(text, emulatorNoFamily+" "); ok {
		if q, err := strconv.QuotedPrefix(after); err == nil {
			n.name, _ = strconv.Unquote(q)
		}
	}
	return n
}

// familyMissing settles the entries of a row, or of a call, that failed for a family the
// table does not have: one of theirs, if they are several. A family that a route of the table declares is Missing. Another one
// is the route's fault where its mapping names it, and the record's where the record does.
// Where the service does not name it, that is decided only where it is certain: the entry
// was alone and has no declared family, or the table's families are known from an Ensure
// after the failure.
func (r *request) familyMissing(entries []int, f failure, n noFamily) {
	type verdict struct {
		absent  []string // undeclared families that are certainly not there
		unknown bool     // may have one: only alone it can be told
		ask     bool     // a declared one may be missing
	}
	verdicts := make([]verdict, len(entries))
	culprit := false
	for k, i := range entries {
		p, v := r.entries[i], &verdicts[k]
		used := p.families()
		switch {
		case n.name != "" && !slices.Contains(used, n.name):
		case n.name != "" && p.declares(n.name):
			v.ask = true
		case n.name != "":
			v.absent = []string{n.name}
		default:
			undeclared := slices.DeleteFunc(slices.Clone(used), p.declares)
			present := p.seen()
			absent := slices.DeleteFunc(slices.Clone(undeclared), func(u string) bool { return present[u] })
			switch {
			case len(undeclared) == 0:
				v.ask = true
			case len(absent) > 0 && (present != nil || len(entries) == 1 && len(undeclared) == len(used)):
				v.absent = absent
			case p.create():
				v.ask = true
			default:
				v.unknown = true
			}
		}
		culprit = culprit || len(v.absent) > 0
	}
	detail := r.quoteFree(f, entries)
	for k, i := range entries {
		p, v := r.entries[i], verdicts[k]
		route := p.route.target
		o := sink.Outcome{RetryAfter: f.retry, Scope: f.scope()}
		switch {
		case len(v.absent) > 0:
			o.Kind = sink.Rejected
			if slices.ContainsFunc(v.absent, func(a string) bool { return slices.Contains(route.spec.Used, a) }) {
				o.Kind, o.Scope = sink.Fatal, sink.ScopeRoute
			}
			o.Err = rejection(schema.NoSuchFamily, &callError{cause: f.err, text: fmt.Sprintf(
				"route %s: %s is not in %s: declare it under bigtable.families, with create: ifNeeded, or create it", route.name, p.familiesShown(v.absent), p.tableShown())})
		case v.ask && (n.name != "" || !culprit):
			r.missing(p, &o, &callError{cause: f.err, text: fmt.Sprintf("%s lacks a declared column family: %s", p.tableShown(), detail)})
		case v.unknown:
			o.Kind = sink.Rejected // one of the request's: found by sending them apart
			o.Err = rejection(schema.NoSuchFamily, &callError{cause: f.err, text: fmt.Sprintf("route %s: a column family is not in %s", route.name, p.tableShown())})
		default:
			o.Kind, o.Scope, o.Err = sink.Transient, sink.ScopeEntry, errPartOfOther
		}
		r.outs[i] = o
	}
}
