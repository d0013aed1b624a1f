package handlers

import (
	"time"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/schema"
)

// Observer counts. Its labels come from fixed sets only: never a path, a header or data.
// The methods are called on the request's goroutine, several at once, and must not block.
type Observer interface {
	// Request is called once per request that got an answer. pattern is the endpoint's
	// pattern or "unmatched", route the name of the route it is of or empty, method one of
	// the standard ones or "other".
	Request(pattern, route, method string, status int, took time.Duration)
	// Records is called with the number of records of one request that ended the same
	// way. route is the route's name, result one of the constants Result…, code why the
	// record failed, was dropped, was dead-lettered or was skipped; else empty.
	Records(route string, result Result, code schema.Code, n int)
	// Durable is called for each record that was written, with its age from its publish time
	// to the sink's OK; an age below zero is a clock's fault.
	Durable(route string, age time.Duration)
	// Late is called for each record that was written with a cell older than the maxAge of
	// its family: it is acknowledged, and the sink may collect it at once.
	Late(route string)
	// AuthRefused is called for each request that was not let in.
	AuthRefused(reason auth.Reason)
	// BodyBytes tells a change of the bytes charged to BODY_BYTES_IN_FLIGHT.
	BodyBytes(delta int64)
}

// Result is what became of a record, as metrics show it.
type Result string

const (
	ResultWritten      Result = "written"
	ResultSkipped      Result = "skipped"
	ResultDropped      Result = "dropped"
	ResultDeadLettered Result = "dead_lettered"
	ResultRejected     Result = "rejected"
	ResultMalformed    Result = "malformed" // the envelope or the body as a whole
	ResultOverloaded   Result = "overloaded"
	ResultUnavailable  Result = "unavailable"
	ResultDeadline     Result = "deadline"
	ResultInternal     Result = "internal"
)

// Why the mapping skipped a record, in the place of a code: no answer calls it so.
const (
	SkippedWhere schema.Code = "where" // `where` was false
	SkippedEmpty schema.Code = "empty" // every cell or column was skipped
)

type noObserver struct{}

func (noObserver) Request(string, string, string, int, time.Duration) {}
func (noObserver) Durable(string, time.Duration)                      {}
func (noObserver) Late(string)                                        {}
func (noObserver) Records(string, Result, schema.Code, int)           {}
func (noObserver) AuthRefused(auth.Reason)                            {}
func (noObserver) BodyBytes(int64)                                    {}
