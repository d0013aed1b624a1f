package spanner

import (
	"context"
	"errors"
	"sync"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// sessionLife is how long a multiplexed session may be used: the service forgets it
	// 28 days after its creation, and its documentation asks for a new one after 7.
	sessionLife = 7 * 24 * time.Hour
	// sessionRotate is when a new one is asked for, early enough to fail many times.
	sessionRotate = 6 * 24 * time.Hour
	// rotateRetry is how long after a failed rotation the next one waits.
	rotateRetry = time.Minute
)

// sessions owns a client's one multiplexed session, which any number of calls use at a
// time. There is no goroutine: whoever needs a session that is absent or old makes one.
// Multiplexed sessions can't be deleted, the service collects them.
type sessions struct {
	create func(context.Context) (string, error)
	now    func() time.Time

	// mu guards what follows; never held across I/O.
	mu     sync.Mutex
	name   string // "" = none
	born   time.Time
	failed time.Time     // when the last rotation failed
	making chan struct{} // closed when the creation that runs has ended; nil = none runs
}

// get returns a session, making one when there is none. An old one is used on while
// another call replaces it.
func (s *sessions) get(ctx context.Context) (string, error) {
	for {
		s.mu.Lock()
		name, age := s.name, s.now().Sub(s.born)
		usable := name != "" && age < sessionLife
		if usable && (age < sessionRotate || s.making != nil || s.now().Sub(s.failed) < rotateRetry) {
			s.mu.Unlock()
			return name, nil
		}
		if wait := s.making; wait != nil {
			s.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return "", status.FromContextError(ctx.Err()).Err()
			}
		}
		done := make(chan struct{})
		s.making = done
		s.mu.Unlock()

		made, err := s.create(ctx)

		s.mu.Lock()
		s.making = nil
		if err == nil {
			s.name, s.born, s.failed = made, s.now(), time.Time{}
		} else {
			s.failed = s.now()
		}
		s.mu.Unlock()
		close(done)
		if err != nil && usable {
			return name, nil
		}
		return made, err
	}
}

// lost forgets a session that the service does not know any more.
func (s *sessions) lost(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name == name {
		s.name = ""
	}
}

func (c *client) createSession(ctx context.Context) (string, error) {
	made, err := c.stub.CreateSession(c.outgoing(ctx, ""), &sppb.CreateSessionRequest{
		Database: c.database, Session: &sppb.Session{Multiplexed: true},
	})
	if err != nil {
		return "", err
	}
	if made.GetName() == "" {
		return "", errors.New("the service made a session without a name")
	}
	return made.GetName(), nil
}

// Resource types in the ResourceInfo of a NOT_FOUND.
const (
	sessionResource  = "type.googleapis.com/google.spanner.v1.Session"
	databaseResource = "type.googleapis.com/google.spanner.admin.database.v1.Database"
	instanceResource = "type.googleapis.com/google.spanner.admin.instance.v1.Instance"
)

// missingResource is the type of what a NOT_FOUND did not find; "" = it does not say.
func missingResource(err error) string {
	s := status.Convert(err)
	if s.Code() != codes.NotFound {
		return ""
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ResourceInfo); ok {
			return info.GetResourceType()
		}
	}
	return ""
}

// inSession calls f with a session, and once more with a new one when the service turns
// out to have forgotten the first. A call that failed so has had no effect.
func (c *client) inSession(ctx context.Context, f func(session string) error) error {
	for try := 1; ; try++ {
		name, err := c.sessions.get(ctx)
		if err != nil {
			return err
		}
		err = f(name)
		if status.Code(err) != codes.NotFound || !c.forgotten(ctx, name, err) {
			return err
		}
		c.sessions.lost(name)
		if try == 2 {
			return status.Error(codes.Unavailable, "session lost twice")
		}
	}
}

// forgotten reports whether err, a NOT_FOUND, is about the session. Where the status does
// not say what was not found, the session itself is looked up.
func (c *client) forgotten(ctx context.Context, session string, err error) bool {
	switch missingResource(err) {
	case sessionResource:
		return true
	case "":
		_, err = c.stub.GetSession(c.outgoing(ctx, session), &sppb.GetSessionRequest{Name: session})
		resource := missingResource(err)
		return status.Code(err) == codes.NotFound && (resource == "" || resource == sessionResource)
	default:
		return false
	}
}
