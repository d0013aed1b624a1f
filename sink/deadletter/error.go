package deadletter

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/pubsub/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrPermanent: publishing the letter again ends the same. Every other error of
	// Publish is a passing one.
	ErrPermanent = errors.New("for good")
	// ErrClosed: the publisher was closed.
	ErrClosed = errors.New("dead-letter publisher is closed")
)

// Error is why a letter is not published. errors.Is(err, ErrPermanent) tells the two
// kinds apart.
type Error struct {
	Topic string
	// Permanent is set where waiting does not help: the topic does not exist, the
	// service refused this message when it was sent alone, or the message is too large.
	// A missing permission is a passing reason: it is given in minutes, and the start-up
	// check and readiness name it meanwhile.
	Permanent bool
	Detail    string // what to do about it; may be empty
	Err       error
}

func (e *Error) Error() string {
	s := "dead-letter topic " + e.Topic
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Is matches ErrPermanent when the error is permanent.
func (e *Error) Is(target error) bool { return target == ErrPermanent && e.Permanent }

// classify types what the client answered for a message of topic. alone says that the
// request held nothing else: a batch's INVALID_ARGUMENT names no message.
func classify(topic string, err error, alone bool) *Error {
	e := &Error{Topic: topic, Err: err}
	switch code := status.Code(err); {
	case errors.Is(err, pubsub.ErrOversizedMessage):
		e.Permanent, e.Detail = true, tooLarge
	case code == codes.NotFound:
		e.Permanent, e.Detail = true, missingTopic
	case code == codes.InvalidArgument && alone:
		e.Permanent, e.Detail = true, "the service refuses the message"
	case code == codes.PermissionDenied:
		e.Detail = missingGrant
	}
	return e
}

const (
	missingTopic = "the topic does not exist: create it with a subscription (it is never created here), or correct deadLetterTopic"
	missingGrant = "grant roles/pubsub.publisher on the topic to this service's account"
)

var tooLarge = fmt.Sprintf("with its pushsink- attributes the message is above Pub/Sub's %d bytes", maxMessage)

// ended says that the wait ended with ctx; last is the latest failed attempt, if any.
func ended(ctx context.Context, topic string, last error) *Error {
	err := context.Cause(ctx)
	if last != nil {
		err = fmt.Errorf("%w; last attempt: %w", err, last)
	}
	return &Error{Topic: topic, Detail: "the request ended before the publish was confirmed", Err: err}
}
