package spanner

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// rereadEvery is the least time between two readings of a schema that is known.
	rereadEvery = time.Minute
	// readRetry is the least time between two tries while none is known yet.
	readRetry = time.Second
	// schemaTimeout bounds one reading: a record waits for it.
	schemaTimeout = 5 * time.Second
)

// schemaCache is what is known of a database's schema. A reading runs in the goroutine
// that asked for it; the others wait for its end.
type schemaCache struct {
	known atomic.Pointer[catalog]

	// mu guards what follows; never held across I/O.
	mu      sync.Mutex
	tried   time.Time     // start of the last reading
	err     error         // of the last reading
	reading chan struct{} // closed when the reading that runs has ended; nil = none runs
}

// catalog returns the schema as last read, reading it when it never was.
func (d *database) catalog(ctx context.Context) (*catalog, error) {
	if cat := d.schema.known.Load(); cat != nil {
		return cat, nil
	}
	return d.read(ctx, nil)
}

// reread returns a schema newer than seen if one can be had now: it is read again where
// that was not tried within rereadEvery. Otherwise seen is still the newest.
func (d *database) reread(ctx context.Context, seen *catalog) *catalog {
	if cat, err := d.read(ctx, seen); err == nil {
		return cat
	}
	return seen
}

func (d *database) read(ctx context.Context, seen *catalog) (*catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.cfg.schemaTimeout, schemaTimeout))
	defer cancel()
	s := &d.schema
	for {
		s.mu.Lock()
		if cat := s.known.Load(); cat != seen {
			s.mu.Unlock()
			return cat, nil
		}
		if wait := s.reading; wait != nil {
			s.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		now := d.cfg.now()
		every := rereadEvery
		if seen == nil {
			every = readRetry
		}
		if !s.tried.IsZero() && now.Sub(s.tried) < every {
			err := s.err
			s.mu.Unlock()
			return seen, err
		}
		done := make(chan struct{})
		s.reading, s.tried = done, now
		s.mu.Unlock()

		cat, err := d.readOnce(ctx, now)

		s.mu.Lock()
		s.reading, s.err = nil, err
		if err == nil {
			s.known.Store(cat)
		}
		s.mu.Unlock()
		close(done)
		return cat, err
	}
}

func (d *database) readOnce(ctx context.Context, now time.Time) (*catalog, error) {
	c, err := d.hold()
	if err != nil {
		return nil, err
	}
	defer d.drop()
	return c.readCatalog(ctx, now)
}
