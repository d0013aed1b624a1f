package handlers

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// fate is what became of one record. The zero value is a fault of ours, so that a record
// nobody decided can never be acknowledged.
type fate uint8

const (
	undecided    fate = iota
	written           // durable in the sink
	skipped           // the mapping wants it nowhere
	dropped           // rejected, and the route's policy is to drop
	deadLettered      // rejected, and durable in the dead-letter topic
	rejected          // bad for good
	overloaded        // not admitted
	unavailable       // not written, for a passing reason
	expired           // not written: its deadline passed first
	inDoubt           // its deadline passed during the write: it may have been written
	fates
)

// verdict is the fate of one record with its reason. Code, detail and pointer hold no data.
type verdict struct {
	fate       fate
	code       schema.Code
	detail     string
	pointer    string
	retryAfter time.Duration
	empty      bool // skipped because nothing was left to write, not by `where`
}

// failed reports that the record is not acknowledged.
func (f fate) failed() bool {
	return f != written && f != skipped && f != dropped && f != deadLettered
}

// retryable reports that the same record may succeed later.
func (f fate) retryable() bool { return f.failed() && f != rejected }

// recordStatus is the status of one record inside an answer that lists several.
func (f fate) recordStatus() int {
	switch f {
	case written, skipped, dropped, deadLettered:
		return http.StatusOK
	case rejected:
		return http.StatusUnprocessableEntity
	case overloaded:
		return http.StatusTooManyRequests
	case unavailable, expired:
		return http.StatusServiceUnavailable
	case inDoubt:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

const noRecords = "the sink cannot take records of this route: see /health/routes"

// verdictOf reads an outcome of the writer. A rejection is still to be put to the route's
// policy; everything that is not clearly applied is not written.
func verdictOf(o sink.Outcome, l *Limits) verdict {
	if o.Acknowledges() && o.Err == nil {
		return verdict{fate: written}
	}
	return failure(o, l)
}

// failure reads an outcome that does not acknowledge.
func failure(o sink.Outcome, l *Limits) verdict {
	v := verdict{retryAfter: o.RetryAfter}
	var e *schema.Error
	if errors.As(o.Err, &e) {
		v.code, v.detail, v.pointer = e.Code, e.Detail, e.Pointer
	}
	set := func(f fate, c schema.Code, detail string) verdict {
		v.fate = f
		if v.code == "" {
			v.code, v.detail = c, detail
		}
		return v
	}
	switch {
	case o.Acknowledges():
		return verdict{code: schema.Internal, detail: "the writer contradicted itself"}
	case errors.Is(o.Err, sink.ErrTripped):
		v.retryAfter = max(v.retryAfter, l.TrialInterval)
		v.code = ""
		return set(unavailable, schema.Tripped, with("the route stopped after consecutive rejections (WRITER_MAX_CONSECUTIVE_REJECTIONS)", o.Err))
	case errors.Is(o.Err, sink.ErrOverloaded):
		return set(overloaded, schema.Overloaded, "not admitted in time (WRITER_ADMISSION_TIMEOUT)")
	case errors.Is(o.Err, sink.ErrInFlight):
		return set(inDoubt, schema.Deadline, with("the deadline passed during the write: it may have been written", o.Err))
	case errors.Is(o.Err, sink.ErrWithdrawn):
		return set(expired, schema.Deadline, with("the deadline passed before the write", o.Err))
	case errors.Is(o.Err, sink.ErrClosed):
		return set(unavailable, schema.Unavailable, "shutting down")
	case v.code == schema.TooManyTables || v.code == schema.Unavailable:
		v.fate = unavailable
		return v
	case o.Kind == sink.Rejected && errors.Is(o.Err, sink.ErrTooLarge):
		return set(rejected, schema.TooLarge, sink.ErrTooLarge.Error())
	case o.Kind == sink.Rejected:
		return set(rejected, schema.Constraint, "refused by the sink")
	case o.Kind == sink.Fatal:
		return set(unavailable, schema.Unavailable, with(noRecords, o.Err))
	case o.Err == nil:
		return verdict{code: schema.Internal, detail: "the writer gave no outcome"}
	default:
		return set(unavailable, schema.Unavailable, with("the sink is not available", o.Err))
	}
}

// with adds to a reason what the sink said last, which an adapter's text tells without any
// data; it is the text that the probes show.
func with(reason string, err error) string {
	cause := err
	for {
		list, ok := cause.(interface{ Unwrap() []error })
		if !ok || len(list.Unwrap()) != 2 || !slices.Contains(writerReasons, list.Unwrap()[0]) {
			break
		}
		cause = list.Unwrap()[1]
	}
	if cause == nil || slices.Contains(writerReasons, cause) {
		return reason
	}
	return reason + "; the cause: " + cause.Error()
}

// writerReasons are said in words of ours.
var writerReasons = []error{sink.ErrUnavailable, sink.ErrWithdrawn, sink.ErrInFlight, sink.ErrTripped}

// cut is why a request's body was not taken to its end.
type cut uint8

const (
	uncut cut = iota
	cutTooLarge
	cutMalformed
	cutStalled
	cutLate
	cutDraining
	cutFull // the body budget is full, or a record of the stream was not admitted in time
)

// tally counts the records of one request by fate.
type tally struct {
	received   int
	by         [fates]int
	cut        cut
	retryAfter time.Duration
}

func (t *tally) add(v verdict) {
	t.by[v.fate]++
	t.retryAfter = max(t.retryAfter, v.retryAfter)
}

func (t *tally) failed() int {
	n := 0
	for f, k := range t.by {
		if fate(f).failed() {
			n += k
		}
	}
	return n
}

func (t *tally) retryable() int {
	n := 0
	for f, k := range t.by {
		if fate(f).retryable() {
			n += k
		}
	}
	return n
}

// settled is the number of records that have a fate.
func (t *tally) settled() int {
	n := 0
	for _, k := range t.by {
		n += k
	}
	return n
}

// kind is what kind of request is answered.
type kind uint8

const (
	push    kind = iota // one record; only 204 acknowledges
	batch               // any number of records
	lenient             // a batch with `Prefer: handling=lenient`
)

// status decides the HTTP status of a request whose records were processed. It is the only
// place that answers 2xx for records, and it does so only when every record it received was
// given a fate that acknowledges.
func (t *tally) status(k kind) int {
	switch {
	case t.settled() != t.received, t.by[undecided] > 0, k == push && t.received != 1 && t.cut == uncut:
		return http.StatusInternalServerError
	case t.cut == cutTooLarge:
		return http.StatusRequestEntityTooLarge
	case t.cut == cutMalformed:
		return http.StatusBadRequest
	case t.cut == cutStalled:
		return http.StatusRequestTimeout
	case t.by[inDoubt] > 0 && k != push:
		return http.StatusGatewayTimeout
	case t.by[inDoubt]+t.by[expired]+t.by[unavailable] > 0, t.cut == cutLate, t.cut == cutDraining:
		return http.StatusServiceUnavailable
	case t.by[overloaded] > 0, t.cut == cutFull:
		return http.StatusTooManyRequests
	case t.by[rejected] > 0 && k == lenient && t.by[rejected] < t.received:
		return http.StatusMultiStatus
	case t.by[rejected] > 0:
		return http.StatusUnprocessableEntity
	case k == push:
		return http.StatusNoContent
	default:
		return http.StatusOK
	}
}

// cutOf names what ended the reading of a body.
func cutOf(err error) cut {
	var large *tooLargeError
	switch {
	case errors.As(err, &large):
		return cutTooLarge
	case errors.Is(err, errStalled):
		return cutStalled
	case errors.Is(err, errLate):
		return cutLate
	case errors.Is(err, errDraining):
		return cutDraining
	case errors.Is(err, errBudgetFull), errors.Is(err, errNotAdmitted):
		return cutFull
	default:
		return cutMalformed
	}
}

// setRetryAfter says when to come back, in whole seconds, where the status asks to.
func setRetryAfter(h http.Header, status int, after time.Duration) {
	if status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
		return
	}
	s := max(1, int64(math.Ceil(after.Seconds())))
	h.Set("Retry-After", strconv.FormatInt(s, 10))
}
