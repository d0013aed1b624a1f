package bigtable

import (
	"bytes"
	"sync/atomic"
	"testing"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"google.golang.org/grpc/codes"

	"github.com/pushsink/pushsink/internal/scripted"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable/embedded"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// The suite that every backend passes: over a service that answers each entry, over one
// that fails a whole call for one bad entry, and over the fake of the official client.
func TestAcceptance(t *testing.T) {
	t.Run("scripted", func(t *testing.T) {
		sinktest.Run(t, func(t *testing.T) sinktest.Subject { return onScripted(t, false) })
	})
	t.Run("strict", func(t *testing.T) {
		sinktest.Run(t, func(t *testing.T) sinktest.Subject { return onScripted(t, true) })
	})
	t.Run("embedded", func(t *testing.T) { sinktest.Run(t, onEmbedded) })
}

// refusedValue is one that the scripted service refuses.
var refusedValue = []byte("refuse this")

// subject encodes by two routes: one whose table is there, one that makes its own.
func subject(b *bench) sinktest.Subject {
	entry := func(route int, sr *sink.Route, id string, m *schema.Mutation) sink.Entry {
		e := b.entry(route, m)
		e.Route, e.ID = sr, id
		return e
	}
	return sinktest.Subject{
		Backend: b.Sink,
		Options: DefaultOptions(),
		Entry: func(sr *sink.Route, id, key, value string, bad bool) sink.Entry {
			m := row(key, set("f", "q", value))
			if bad {
				m = row(key, set("data", "q", string(refusedValue)))
			}
			return entry(0, sr, id, m)
		},
		Missing: func(sr *sink.Route, id, key, value string) sink.Entry {
			m := row(key, set("f", "q", value))
			m.Bigtable.Table = "made"
			return entry(1, sr, id, m)
		},
	}
}

func subjectRoutes() []*schema.Route {
	return []*schema.Route{routeOf("there", nil), routeOf("made", func(b *schema.BigtableTarget) { creating("f")(b); b.Table = "made" })}
}

func onScripted(t *testing.T, strict bool) sinktest.Subject {
	srv := scripted.New(t, scripted.Options{Strict: strict})
	srv.AddTable(testPath+"/tables/t", "f", "data")
	cfg := testConfig(nil)
	cfg.Endpoint, cfg.PoolSize = srv.Addr(), 2
	s := subject(newBench(t, cfg, subjectRoutes()...))

	var next atomic.Pointer[scripted.Plan]
	var left atomic.Int64
	srv.SetScript(func(c *scripted.Call) scripted.Plan {
		var p scripted.Plan
		if left.Add(-1) >= 0 {
			p = *next.Load()
		}
		if p.Report < 0 { // half of the call
			p.Report = (len(c.Entries) + 1) / 2
			p.Apply = p.Report
		}
		last := len(c.Entries) - 1
		leaveOut := p.Forget != nil
		if leaveOut {
			p.Forget = func(i int) bool { return i == last }
		}
		p.Entry = func(i int, e *scripted.Entry) error {
			for _, m := range e.GetMutations() {
				if bytes.Equal(m.GetSetCell().GetValue(), refusedValue) {
					return scripted.Status(codes.InvalidArgument, "refused", 0)
				}
			}
			if leaveOut && i == last && !strict {
				return scripted.Status(codes.Internal, "never sent", 0) // and so not applied
			}
			return nil
		}
		return p
	})
	s.Fail = func(f sinktest.Failure, n int) bool {
		p := &scripted.Plan{}
		unavailable := scripted.Status(codes.Unavailable, "passing", 0)
		switch f {
		case sinktest.CallUnavailable:
			p.Fail = unavailable
		case sinktest.AppliedUnavailable:
			p.Fail, p.Apply = unavailable, 1<<30
		case sinktest.HalfAnswered:
			p.Fail, p.Report = unavailable, -1
		case sinktest.StatusLeftOut:
			p.Forget = func(int) bool { return true }
		case sinktest.Stalled:
			p.Stall = true
		case sinktest.PermissionDenied:
			p.Fail = scripted.Status(codes.PermissionDenied, "no", 0)
		default:
			return false
		}
		next.Store(p)
		left.Store(int64(n))
		return true
	}
	read := func(table string) func(string) (string, bool, error) {
		return func(key string) (string, bool, error) {
			if cells := srv.Row(testPath+"/tables/"+table, key)["f:q"]; len(cells) > 0 {
				return string(cells[0].Value), true, nil
			}
			return "", false, nil
		}
	}
	s.Read, s.ReadMissing = read("t"), read("made")
	s.Calls = func() int { return srv.Stats().Requests }
	return s
}

// onEmbedded is the official client's fake, which fails on no request. It refuses a
// family that its table lacks; that no mapping names this one makes it the record's.
func onEmbedded(t *testing.T) sinktest.Subject {
	e, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	b := newBench(t, testConfig(e.DialOptions()), subjectRoutes()...)
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	b.makeTable("t", map[string]*adminpb.GcRule{"f": nil})
	b.Release(testPath)
	s := subject(b)
	read := func(table string) func(string) (string, bool, error) {
		return func(key string) (value string, ok bool, err error) {
			err = b.ReadRows(t.Context(), Query{Dest: sink.Dest{Instance: testPath, Table: table}, Start: key, End: key + "\x00"}, func(r Row) error {
				value, ok = string(r.Cells[0].Value), true
				return nil
			})
			return value, ok, err
		}
	}
	s.Read, s.ReadMissing = read("t"), read("made")
	return s
}
