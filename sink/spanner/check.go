package spanner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// checkTimeout bounds a check of all databases, which are looked at side by side.
const checkTimeout = 15 * time.Second

// Problem is why a route cannot write, found before any record came.
type Problem struct {
	Route string
	Text  string
	// Final: waiting does not help. The route and its database's schema do not fit, or
	// the service lacks the write method.
	Final bool
}

// Check reads the schema of every database, which also opens and warms its client for the
// first records, and holds every route against it. It returns within 15 seconds, sooner
// when ctx ends; what it could not look at is a problem then. A schema that was read
// within the last minute is not read again.
func (s *Sink) Check(ctx context.Context) []Problem {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var (
		mu       sync.Mutex // guards problems
		problems []Problem
		wg       sync.WaitGroup
	)
	for _, d := range s.databases {
		wg.Go(func() {
			found := s.checkDatabase(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			problems = append(problems, found...)
		})
	}
	wg.Wait()
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Route, b.Route) })
	return problems
}

func (s *Sink) checkDatabase(ctx context.Context, d *database) []Problem {
	cat, final, err := d.check(ctx)
	var problems []Problem
	for _, t := range s.ordered {
		if t.database != d.path {
			continue
		}
		if err != nil {
			problems = append(problems, Problem{t.name, fmt.Sprintf("spanner %s: %v", d.path, err), final})
			continue
		}
		p := t.fit(cat)
		if len(p.problems) > 0 {
			if newer := d.reread(ctx, cat); newer != cat {
				cat = newer
				p = t.fit(cat)
			}
		}
		for _, text := range p.problems {
			problems = append(problems, Problem{t.name, text, true})
		}
	}
	return problems
}

// check reads the schema, and asks whether the endpoint knows the write method; final =
// it does not.
func (d *database) check(ctx context.Context) (cat *catalog, final bool, err error) {
	c, err := d.hold()
	if err != nil {
		return nil, false, err
	}
	defer d.drop()
	if cat, err = d.catalog(ctx); err != nil {
		return nil, false, plainError(err)
	}
	if d.cfg.WriteMethod == BatchWrite {
		if final, err = c.probeBatchWrite(ctx); err != nil {
			return nil, final, err
		}
	}
	d.keepWarm()
	return cat, false, nil
}
