package spanner

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

const acceptRoutes = `routes: {r: {spanner: {database: @db, table: T, columns: {Id: data.id, V: data.v}}}}`

// The suite that every backend passes, over a scripted service.
func TestAcceptance(t *testing.T) {
	for _, m := range []WriteMethod{BatchWrite, Commit} {
		t.Run("scripted "+string(m), func(t *testing.T) {
			sinktest.Run(t, func(t *testing.T) sinktest.Subject { return onScripted(t, m) })
		})
	}
}

func TestAcceptanceOnTheEmulator(t *testing.T) {
	e := emulator.Spanner(t)
	for _, m := range methods {
		if m.name == "batchWrite" {
			continue // to the emulator the same commits as the fallback's
		}
		t.Run(m.name, func(t *testing.T) {
			sinktest.Run(t, func(t *testing.T) sinktest.Subject { return onEmulator(t, e, m.change) })
		})
	}
}

// subject encodes a record by the harness's only route, whose table refuses V = "bad".
func (h *harness) subject() sinktest.Subject {
	return sinktest.Subject{
		Backend: h.sink,
		Options: h.sink.cfg.Options(DefaultOptions()),
		Entry: func(sr *sink.Route, id, key, value string, bad bool) sink.Entry {
			if bad {
				value = "bad"
			}
			text := func(s string) schema.Value { return schema.Value{Kind: schema.String, Text: s} }
			e, err := h.routes["r"].Encode(&schema.Record{ID: id}, &schema.Mutation{Spanner: &schema.GroupMutation{Row: schema.RowChange{
				Table: "T", Operation: schema.InsertOrUpdate, Columns: []schema.Column{{Name: "Id", Value: text(key)}, {Name: "V", Value: text(value)}}}}})
			if err != nil {
				h.t.Error(err)
			}
			e.Route = sr
			return e
		},
	}
}

// store is a table of the scripted service.
type store struct {
	mu   sync.Mutex
	rows map[string]string
}

// apply writes mutations, all or none.
func (s *store) apply(ms []*sppb.Mutation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range ms {
		if written(m).Values[0].Values[1].GetStringValue() == "bad" {
			return status.Error(codes.OutOfRange, "a CHECK of secret-value")
		}
	}
	for _, m := range ms {
		v := written(m).Values[0].Values
		s.rows[v[0].GetStringValue()] = v[1].GetStringValue()
	}
	return nil
}

func onScripted(t *testing.T, method WriteMethod) sinktest.Subject {
	st := &store{rows: make(map[string]string)}
	var next, left atomic.Int64
	take := func() (sinktest.Failure, bool) { return sinktest.Failure(next.Load()), left.Add(-1) >= 0 }
	unavailable := status.Error(codes.Unavailable, "passing")
	f := &fake{
		batchWrite: func(_ int, req *sppb.BatchWriteRequest, s sppb.Spanner_BatchWriteServer) error {
			how, fails := take()
			groups := req.MutationGroups
			switch {
			case !fails:
			case how == sinktest.CallUnavailable:
				return unavailable
			case how == sinktest.PermissionDenied:
				return status.Error(codes.PermissionDenied, "no")
			case how == sinktest.Stalled:
				<-s.Context().Done()
				return s.Context().Err()
			case how == sinktest.HalfAnswered:
				groups = groups[:(len(groups)+1)/2]
			case how == sinktest.StatusLeftOut:
				groups = groups[:len(groups)-1]
			}
			for i, g := range groups {
				err := st.apply(g.Mutations)
				if fails && how == sinktest.AppliedUnavailable {
					continue
				}
				if err := s.Send(answer(status.Code(err), int32(i))); err != nil {
					return err
				}
			}
			if fails && how != sinktest.StatusLeftOut {
				return unavailable
			}
			return nil
		},
		commit: func(ctx context.Context, _ int, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
			how, fails := take()
			switch {
			case !fails:
			case how == sinktest.CallUnavailable:
				return nil, unavailable
			case how == sinktest.PermissionDenied:
				return nil, status.Error(codes.PermissionDenied, "no")
			case how == sinktest.Stalled:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			if err := st.apply(req.Mutations); err != nil {
				return nil, err
			}
			if fails {
				return nil, unavailable
			}
			return committed(), nil
		},
	}
	cat := describeSchema(GoogleSQL, "T: Id STRING(MAX) key notnull, V STRING(MAX)")
	h := setUp(t, f, cat, acceptRoutes, func(c *Config) { c.WriteMethod = method })
	s := h.subject()
	s.Fail = func(how sinktest.Failure, n int) bool {
		if method == Commit && (how == sinktest.HalfAnswered || how == sinktest.StatusLeftOut) {
			return false // a commit has one answer
		}
		next.Store(int64(how))
		left.Store(int64(n))
		return true
	}
	s.Read = func(key string) (string, bool, error) {
		st.mu.Lock()
		defer st.mu.Unlock()
		v, ok := st.rows[key]
		return v, ok, nil
	}
	s.Calls = func() int { return int(f.batches.Load() + f.commits.Load()) }
	return s
}

func onEmulator(t *testing.T, e *emulator.SpannerEmulator, change func(*Config)) sinktest.Subject {
	path := e.Database(t, "CREATE TABLE T (Id STRING(MAX) NOT NULL, V STRING(MAX), CONSTRAINT NotBad CHECK (V != 'bad')) PRIMARY KEY (Id)")
	h := live(t, e, path, "routes: {r: {spanner: {table: T, columns: {Id: data.id, V: data.v}}}}", change).mustCheck()
	s := h.subject()
	s.Read = func(key string) (string, bool, error) {
		c, err := h.sink.databases[path].hold()
		if err != nil {
			return "", false, err
		}
		defer h.sink.databases[path].drop()
		cat, err := h.sink.databases[path].catalog(t.Context())
		if err != nil {
			return "", false, err
		}
		var l lookup
		id := appendText(nil, key)
		r := l.want(cat.table("T"), []*column{cat.column(cat.table("T"), "V")}, id)
		l.run(t.Context(), c)
		if row := r.row(id); row != nil {
			return row[0].GetStringValue(), true, nil
		}
		return "", false, r.err
	}
	return s
}
