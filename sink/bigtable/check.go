package bigtable

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/sink"
)

// checkTimeout bounds a whole Check, however many instances do not answer.
const checkTimeout = 15 * time.Second

// Problem is why a route cannot write, found before any record came. Text says what to do.
type Problem struct {
	Route string
	Text  string
}

// Check looks at the destinations that are known without a record: that the instance
// answers under the app profile, and for routes with a static table that the table and
// the families it writes to are there, or may be made. It also opens and warms the
// instances' clients, as many as may be open, for the first records to find them ready.
// It returns within 15 seconds, sooner when ctx ends; what it could not look at is a
// problem then.
func (s *Sink) Check(ctx context.Context) []Problem {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	byInstance := make(map[string][]*target)
	for _, t := range s.targets {
		for _, p := range t.paths() {
			byInstance[p] = append(byInstance[p], t)
		}
	}
	var (
		mu       sync.Mutex // guards problems
		problems []Problem
		wg       sync.WaitGroup
	)
	slots := make(chan struct{}, 4)
	for instance, targets := range byInstance {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found, ended := s.checkInstance(ctx, instance, targets)
			if ended {
				// The writer released the client meanwhile, which says nothing.
				found, _ = s.checkInstance(ctx, instance, targets)
			}
			mu.Lock()
			defer mu.Unlock()
			problems = append(problems, found...)
		})
	}
	wg.Wait()
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(problems)
}

// checkInstance looks at the routes of one instance. ended: its client closed meanwhile.
func (s *Sink) checkInstance(ctx context.Context, instance string, targets []*target) (problems []Problem, ended bool) {
	id := InstanceID(instance)
	all := func(text string) []Problem {
		ps := make([]Problem, len(targets))
		for i, t := range targets {
			ps[i] = Problem{t.name, text}
		}
		return ps
	}
	c, done, err := s.borrow(ctx, instance, true)
	if err != nil {
		return all(fmt.Sprintf("instance %s: no client: %v: check the credentials (GOOGLE_APPLICATION_CREDENTIALS or the service account)", id, err)), false
	}
	defer done()

	pinged := make(map[string]string) // app profile -> problem
	for _, t := range targets {
		text, ok := pinged[t.appProfile]
		if !ok {
			text = profileProblem(c.ping(ctx, c.pool.Conn(), t.appProfile), id, t.appProfile)
			pinged[t.appProfile] = text
		}
		if text != "" {
			problems = append(problems, Problem{t.name, text})
			continue
		}
		if text := s.checkTable(ctx, c, t, instance); text != "" {
			problems = append(problems, Problem{t.name, text})
		}
	}
	return problems, c.ctx.Err() != nil
}

func profileProblem(err error, instance, profile string) string {
	if err == nil {
		return ""
	}
	if profile == "" {
		profile = "default"
	}
	switch f := inspect(err, true); f.code {
	case codes.NotFound, codes.InvalidArgument, codes.FailedPrecondition:
		return fmt.Sprintf("instance %s or its app profile %s is not there or not usable (%s): correct PUSHSINK_BIGTABLE_INSTANCE and PUSHSINK_BIGTABLE_APP_PROFILE, or bigtable.instance and bigtable.appProfile of the route", instance, profile, f.code)
	case codes.PermissionDenied, codes.Unauthenticated:
		return fmt.Sprintf("instance %s: the service account may not use it (%s): grant it roles/bigtable.user", instance, f.code)
	default:
		return fmt.Sprintf("instance %s does not answer (%s): check its name, the network, and whether it is up", instance, f.code)
	}
}

// checkTable looks at a static table. A service account that may write but not read
// schemas is a sensible one, so that is no problem.
func (s *Sink) checkTable(ctx context.Context, c *client, t *target, instance string) string {
	if !t.static {
		return ""
	}
	d := sink.Dest{Instance: instance, Table: t.spec.Table}
	tb := s.lookup(d)
	if tb == nil {
		return ""
	}
	a, err := c.admin()
	if err != nil {
		return err.Error()
	}
	got, err := getTable(ctx, a, d)
	switch status.Code(err) {
	case codes.OK:
	case codes.NotFound:
		if tb.create() {
			return "" // the first record makes it
		}
		return fmt.Sprintf("table %s is not in instance %s: create it, or set bigtable.create: ifNeeded and declare its families", d.Table, InstanceID(instance))
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return ""
	default:
		return fmt.Sprintf("table %s of instance %s: its schema cannot be read (%s): is the administration endpoint reachable?", d.Table, InstanceID(instance), inspect(err, true).code)
	}
	for _, f := range t.spec.Used {
		if _, ok := got.ColumnFamilies[f]; !ok && !tb.declares(f) {
			return fmt.Sprintf("column family %s is not in table %s: create it, or declare it under bigtable.families with create: ifNeeded", f, d.Table)
		}
	}
	return ""
}
