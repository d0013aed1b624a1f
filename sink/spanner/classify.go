package spanner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// wholeCallAttempts is how often a call is sent that ends in an error nobody can explain.
const wholeCallAttempts = 3

// meaning is what a status code says, whatever it was reported for.
type meaning uint8

const (
	passing     meaning = iota + 1 // waiting helps
	unexplained                    // waiting may help, for a few attempts
	forbidden                      // nobody's record is at fault
	unknownRPC                     // the endpoint has no such method
	refusal                        // some record is refused
)

func meaningOf(c codes.Code) meaning {
	switch c {
	case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded, codes.ResourceExhausted:
		return passing
	case codes.PermissionDenied, codes.Unauthenticated:
		return forbidden
	case codes.Unimplemented:
		return unknownRPC
	case codes.InvalidArgument, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange, codes.NotFound:
		return refusal
	default: // INTERNAL, UNKNOWN, DATA_LOSS, CANCELLED, and codes to come
		return unexplained
	}
}

// plainError is err without anything a row may have put into its text: of a status, the
// code, and the service's words only where they can't be about data.
func plainError(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			s = status.FromContextError(err)
		} else {
			return err
		}
	}
	return &statusError{code: s.Code(), text: safeText(err, s), timeout: s.Code() == codes.DeadlineExceeded}
}

func safeText(err error, s *status.Status) string {
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return s.Message()
	case codes.NotFound:
		if r := missingResource(err); r == databaseResource || r == instanceResource {
			return s.Message()
		}
	}
	return ""
}

// statusError is a status as it may be shown.
type statusError struct {
	code    codes.Code
	text    string
	timeout bool
}

func (e *statusError) Error() string {
	if e.text == "" {
		return codeName(e.code)
	}
	return codeName(e.code) + ": " + e.text
}

// Code is the status's, for logs and metrics.
func (e *statusError) Code() codes.Code { return e.code }

func (e *statusError) Is(target error) bool {
	return e.timeout && target == context.DeadlineExceeded
}

var codeNames = map[codes.Code]string{
	codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
	codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}

// codeName is the code as the service's documentation spells it.
func codeName(c codes.Code) string {
	if name := codeNames[c]; name != "" {
		return name
	}
	return fmt.Sprintf("code %d", uint32(c))
}

// retryAfter is the service's hint; 0 = none.
func retryAfter(s *status.Status) time.Duration {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return max(0, info.GetRetryDelay().AsDuration())
		}
	}
	return 0
}

// callOutcome is what a failed call means for every entry it left undecided, unless it
// refuses some record, which is for settle to find out.
func callOutcome(rpc, database string, err error) sink.Outcome {
	s := status.Convert(err)
	o := sink.Outcome{Scope: sink.ScopeBatch, RetryAfter: retryAfter(s),
		Err: fmt.Errorf("spanner %s of %s: %w", rpc, database, plainError(err))}
	switch meaningOf(s.Code()) {
	case passing:
		o.Kind = sink.Transient
		if s.Code() == codes.Aborted {
			// The batch's rows are contended, not the database.
			o.Scope = sink.ScopeEntry
		}
	case forbidden:
		o.Kind = sink.Fatal
	case unknownRPC:
		o.Kind = sink.Fatal
		o.Err = fmt.Errorf("%w; PUSHSINK_SPANNER_WRITE_METHOD=commit does without BatchWrite", o.Err)
	case refusal:
		switch missingResource(err) {
		case databaseResource, instanceResource:
			o.Kind = sink.Fatal
		default:
			o.Kind = sink.Rejected
		}
	default:
		o.Kind, o.MaxAttempts = sink.Transient, wholeCallAttempts
	}
	return o
}

// groupOutcome is what a group's own status means, where no read has to tell.
func (r *Route) groupOutcome(s *status.Status) sink.Outcome {
	o := sink.Outcome{RetryAfter: retryAfter(s)}
	name := codeName(s.Code())
	switch meaningOf(s.Code()) {
	case passing:
		o.Kind = sink.Transient
	case unexplained:
		o.Kind, o.MaxAttempts = sink.Transient, wholeCallAttempts
	case forbidden, unknownRPC:
		o.Kind, o.Scope = sink.Fatal, sink.ScopeRoute
	case refusal:
		switch s.Code() {
		case codes.FailedPrecondition, codes.OutOfRange:
			if r.target.retryConstraints {
				o.Kind = sink.Transient
				o.Err = fmt.Errorf("route %s: %s (constraintViolations: retry)", r.target.name, name)
				return o
			}
			return r.rejected(schema.Constraint, "%s: a constraint of the table does not hold (NOT NULL, CHECK, foreign key, length)", name)
		case codes.AlreadyExists:
			return r.rejected(schema.AlreadyExists, "%s: a row with this primary key, or with these values of a UNIQUE index, is there", name)
		case codes.InvalidArgument:
			return r.rejected(schema.Constraint, "%s: the service does not take the mutation", name)
		}
		// NOT_FOUND that no read could explain.
		o.Kind = sink.Transient
	}
	o.Err = fmt.Errorf("route %s: %s", r.target.name, name)
	// What is said of one group may be about its rows, but for a permission or a method.
	if text := safeText(nil, s); text != "" && o.Kind == sink.Fatal {
		o.Err = fmt.Errorf("%w: %s", o.Err, text)
	}
	return o
}

// rejected is the outcome of a record that is refused for itself.
func (r *Route) rejected(code schema.Code, format string, args ...any) sink.Outcome {
	return sink.Outcome{Kind: sink.Rejected, Sole: true,
		Err: &schema.Error{Code: code, Detail: "route " + r.target.name + ": " + fmt.Sprintf(format, args...)}}
}
