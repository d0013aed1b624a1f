package sink

import (
	"errors"
	"time"
)

// Kind says what became of an entry. The zero value is Undecided, so that an outcome
// nobody filled in can never acknowledge a record.
type Kind uint8

const (
	// Undecided: nothing is known. The service left the status out, the backend
	// panicked or answered short, or the caller left first.
	Undecided Kind = iota
	// Applied: an OK was read for this entry. The only kind that acknowledges.
	Applied
	// Rejected: this record, or (Scope Batch) some record of the request, is bad for good.
	Rejected
	// Missing: the table is not there and may be created.
	Missing
	// Transient: a passing reason. The entry is sent again.
	Transient
	// Fatal: nobody's record is at fault and waiting does not help: a permission, an
	// unknown family, a missing database.
	Fatal
)

// String gives the name used in logs and in the outcome attribute of metrics.
func (k Kind) String() string {
	switch k {
	case Applied:
		return "applied"
	case Rejected:
		return "rejected"
	case Missing:
		return "missing"
	case Transient:
		return "transient"
	case Fatal:
		return "fatal"
	default:
		return "undecided"
	}
}

// Scope says whom an outcome speaks of.
type Scope uint8

const (
	// ScopeEntry: the status was reported for this entry.
	ScopeEntry Scope = iota
	// ScopeRoute: the entry's route is at fault (an unknown family of its mapping).
	ScopeRoute
	// ScopeBatch: the whole request failed with one status, which names no entry. A
	// Fatal of this scope is the destination's.
	ScopeBatch
)

// Outcome is what became of one entry. Err is nil exactly when Kind is Applied.
type Outcome struct {
	Kind  Kind
	Scope Scope
	// Sole marks a rejection that is this record's whatever was sent beside it (a
	// mutation group's status). Without it only a request that held the record alone
	// confirms a rejection.
	Sole bool
	Err  error
	// RetryAfter is the service's own hint (RetryInfo); 0 = none. The writer honours
	// it up to 60 s.
	RetryAfter time.Duration
	// MaxAttempts is how many attempts this cause deserves in all before the entry is
	// given up as unavailable; 0 = until its caller's deadline.
	MaxAttempts int
}

// Acknowledges reports whether the record is durable.
func (o Outcome) Acknowledges() bool { return o.Kind == Applied }

// Reasons that come from the writer itself. They are wrapped, so test with errors.Is;
// every other error of an Outcome is the backend's.
var (
	// ErrOverloaded: not admitted within Options.AdmissionTimeout.
	ErrOverloaded = errors.New("overloaded: not admitted in time")
	// ErrUnavailable: given up for a passing reason; nothing is open for the entry.
	ErrUnavailable = errors.New("sink unavailable")
	// ErrWithdrawn: the caller left or its deadline ended before the entry was sent, or
	// between two attempts. Nothing is sent for it any more.
	ErrWithdrawn = errors.New("deadline passed before the write")
	// ErrInFlight: the caller left or its deadline ended while a request held the
	// entry. It may have been written.
	ErrInFlight = errors.New("deadline passed during the write: it may have been written")
	// ErrTripped: the route's streak of rejections reached its bound.
	ErrTripped = errors.New("route tripped by consecutive rejections")
	// ErrClosed: the writer is draining.
	ErrClosed = errors.New("shutting down")
	// ErrTooLarge: the encoded entry is above Options.MaxRecordBytes. Comes with Rejected.
	ErrTooLarge = errors.New("record larger than WRITER_MAX_RECORD_SIZE_BYTES")
	// ErrBackend: the backend broke its contract (panic, short answer).
	ErrBackend = errors.New("backend failed")
)

var (
	errShort    = errors.New("an answer of the wrong length")
	errNoReason = errors.New("rejected without a reason")
)

// failure is the writer's reason with the backend's last word.
type failure struct{ reason, cause error }

func (f *failure) Error() string   { return f.reason.Error() + ": " + f.cause.Error() }
func (f *failure) Unwrap() []error { return []error{f.reason, f.cause} }

// because joins the two without calling either.
func because(reason, cause error) error {
	if cause == nil {
		return reason
	}
	return &failure{reason, cause}
}
