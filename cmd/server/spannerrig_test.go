package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// spannerRoutes are noteRoutes on Spanner.
const spannerRoutes = `
routes:
  telemetry:
    spanner:
      table: Readings
      columns: {Device: data.device, Temp: data.temp, Note: data.note}
`

// spannerSchema is what the information schema says of table Readings, by a part of the
// query that asks.
var spannerSchema = []struct {
	query string
	rows  [][]any
}{
	{"database_options", [][]any{{"GOOGLE_STANDARD_SQL"}}},
	{"parent_table_name", [][]any{{"", "Readings", nil, nil}}},
	{"index_columns", [][]any{{"", "Readings", "PRIMARY_KEY", "PRIMARY_KEY", true, "Device", "1"}}},
	{"column_options", nil},
	{"spanner_type", [][]any{
		{"", "Readings", "Device", "STRING(MAX)", "NO", "NEVER", false, "NO"},
		{"", "Readings", "Temp", "FLOAT64", "YES", "NEVER", false, "NO"},
		{"", "Readings", "Note", "STRING(MAX)", "YES", "NEVER", false, "NO"},
	}},
}

// spannerCall is a write that the service got.
type spannerCall struct {
	Method     string // BatchWrite or Commit
	Database   string
	Records    int
	Priority   sppb.RequestOptions_Priority
	Delay      *time.Duration // max_commit_delay
	Start, End time.Time
}

// spannerReply is how a write is answered. The zero value applies it at once.
type spannerReply struct {
	delay time.Duration
	stall bool // no answer until the caller gives up
	code  codes.Code
}

// scriptedSpanner is a Spanner service in memory that takes every write as it is told.
type scriptedSpanner struct {
	sppb.UnimplementedSpannerServer
	// replies answer the writes in turn, the last one all that follow.
	replies []spannerReply

	mu    sync.Mutex // guards calls
	begun int
	calls []spannerCall
}

func (s *scriptedSpanner) CreateSession(_ context.Context, req *sppb.CreateSessionRequest) (*sppb.Session, error) {
	return &sppb.Session{Name: req.Database + "/sessions/1", Multiplexed: true}, nil
}

func (s *scriptedSpanner) ExecuteStreamingSql(req *sppb.ExecuteSqlRequest, stream sppb.Spanner_ExecuteStreamingSqlServer) error {
	for _, part := range spannerSchema {
		if !strings.Contains(req.Sql, part.query) {
			continue
		}
		answer := &sppb.PartialResultSet{}
		for _, row := range part.rows {
			for _, cell := range row {
				v, err := structpb.NewValue(cell)
				if err != nil {
					return err
				}
				answer.Values = append(answer.Values, v)
			}
		}
		return stream.Send(answer)
	}
	return status.Error(codes.InvalidArgument, "a query that the test does not know")
}

// write answers a call as the script says.
func (s *scriptedSpanner) write(ctx context.Context, c spannerCall, session string) error {
	c.Database, _, _ = strings.Cut(session, "/sessions/")
	c.Start = time.Now()
	s.mu.Lock()
	var reply spannerReply
	if n := len(s.replies); n > 0 {
		reply = s.replies[min(s.begun, n-1)]
	}
	s.begun++
	s.mu.Unlock()
	var wait <-chan time.Time
	if !reply.stall {
		wait = time.After(reply.delay)
	}
	var err error
	select {
	case <-wait:
	case <-ctx.Done():
		err = status.FromContextError(ctx.Err()).Err()
	}
	if reply.code != codes.OK {
		err = status.Error(reply.code, "as the script says")
	}
	c.End = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	return err
}

func (s *scriptedSpanner) BatchWrite(req *sppb.BatchWriteRequest, stream sppb.Spanner_BatchWriteServer) error {
	if len(req.MutationGroups) == 0 { // the start-up check asks whether there is such a method
		return status.Error(codes.InvalidArgument, "no groups")
	}
	c := spannerCall{Method: "BatchWrite", Records: len(req.MutationGroups), Priority: req.RequestOptions.GetPriority()}
	if err := s.write(stream.Context(), c, req.Session); err != nil {
		return err
	}
	answer := &sppb.BatchWriteResponse{Status: &rpcstatus.Status{}, CommitTimestamp: timestamppb.Now()}
	for i := range req.MutationGroups {
		answer.Indexes = append(answer.Indexes, int32(i))
	}
	return stream.Send(answer)
}

func (s *scriptedSpanner) Commit(ctx context.Context, req *sppb.CommitRequest) (*sppb.CommitResponse, error) {
	c := spannerCall{Method: "Commit", Records: len(req.Mutations), Priority: req.RequestOptions.GetPriority()}
	if d := req.MaxCommitDelay; d != nil {
		delay := d.AsDuration()
		c.Delay = &delay
	}
	if err := s.write(ctx, c, req.Session); err != nil {
		return nil, err
	}
	return &sppb.CommitResponse{CommitTimestamp: timestamppb.Now()}, nil
}

// spannerRig is a rig whose service is a scripted Spanner.
type spannerRig struct {
	*rig
	service *scriptedSpanner
}

// inSpannerBubble is inBubble over Spanner.
func inSpannerBubble(t *testing.T, c setup, replies []spannerReply, do func(*spannerRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := newSpannerRig(t, c, replies)
		synctest.Wait()
		do(x)
	})
}

func newSpannerRig(t *testing.T, c setup, replies []spannerReply) *spannerRig {
	t.Helper()
	x := &spannerRig{&rig{t: t, port: newMemoryPort(), began: time.Now()}, &scriptedSpanner{replies: replies}}
	wire := bufconn.Listen(1 << 20)
	service := grpc.NewServer()
	sppb.RegisterSpannerServer(service, x.service)
	go service.Serve(wire)
	t.Cleanup(service.Stop)

	environ := []string{"SPANNER_EMULATOR_HOST=in-memory"}
	for _, option := range c.options {
		environ = append(environ, prefix+"_"+option)
	}
	environ = append(environ, "PUSHSINK_ROUTES_FILE="+write(t, "routes.yaml", spannerRoutes), "PUSHSINK_AUTH=none",
		"PUSHSINK_SPANNER_DATABASE=projects/p/instances/i/databases/d")
	x.start(t, environ, wire.DialContext)
	return x
}

// writes are the writes that the service answered, in the order in which they came.
func (x *spannerRig) writes() []spannerCall {
	synctest.Wait()
	x.service.mu.Lock()
	defer x.service.mu.Unlock()
	list := slices.Clone(x.service.calls)
	slices.SortStableFunc(list, func(a, b spannerCall) int { return a.Start.Compare(b.Start) })
	return list
}

// only is the one write that the service got.
func (x *spannerRig) only() spannerCall {
	x.t.Helper()
	list := x.writes()
	if len(list) != 1 {
		x.t.Fatalf("writes %+v, want one", list)
	}
	return list[0]
}

// wantBatches wants writes of so many records.
func (x *spannerRig) wantBatches(want ...int) {
	x.t.Helper()
	var got []int
	for _, c := range x.writes() {
		got = append(got, c.Records)
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("writes of %v records, want %v", got, want)
	}
}

// gaps are the times between the starts of the writes.
func (x *spannerRig) gaps() (list []time.Duration) {
	writes := x.writes()
	for i := 1; i < len(writes); i++ {
		list = append(list, writes[i].Start.Sub(writes[i-1].Start))
	}
	return list
}

// firstWriteTakes holds back what comes while the first write is open. It is below the
// 250 ms after which a database counts as down.
var firstWriteTakes = []spannerReply{{delay: 200 * ms}, {}}

// failing answers n writes with UNAVAILABLE, and applies what follows.
func failing(n int) []spannerReply {
	return append(slices.Repeat([]spannerReply{{code: codes.Unavailable}}, n), spannerReply{})
}

// spannerProofs are the proofs of the options of Spanner.
func spannerProofs() []proof {
	of := func(p proof, replies []spannerReply, run func(*spannerRig)) proof {
		p.replies, p.onSpanner = replies, run
		return p
	}
	const commit = "SPANNER_WRITE_METHOD=commit"
	return []proof{
		of(proof{option: "SPANNER_DATABASE", value: "projects/p/instances/i/databases/other",
			shows: "the write is in a session of that database",
		}, nil, func(x *spannerRig) {
			x.wantStatus("push", x.push("a"), 204)
			if got := x.only().Database; got != "projects/p/instances/i/databases/other" {
				x.t.Errorf("written to %s", got)
			}
		}),
		of(proof{option: "SPANNER_MAX_BATCH_CELLS", value: "6", also: []string{oneRequest},
			shows: "of 7 records of 2 cells held back, writes of 3, 3 and 1 are made",
		}, firstWriteTakes, func(x *spannerRig) {
			x.wantStatuses(x.pushes(devices("d", 8))(), all(8, 204))
			x.wantBatches(1, 3, 3, 1)
		}),
		of(proof{option: "SPANNER_MAX_BATCH_MUTATIONS", value: "3", also: []string{oneRequest},
			shows: "of 7 records held back, writes of 3, 3 and 1 are made",
		}, firstWriteTakes, func(x *spannerRig) {
			x.wantStatuses(x.pushes(devices("d", 8))(), all(8, 204))
			x.wantBatches(1, 3, 3, 1)
		}),
		of(proof{option: "SPANNER_MAX_BATCH_BYTES", value: "2500", also: []string{oneRequest},
			shows: "of 5 records of a kilobyte held back, writes of 2, 2 and 1 are made",
		}, firstWriteTakes, func(x *spannerRig) {
			x.wantStatuses(x.pushes(devices("d", 6), "note", longNote)(), all(6, 204))
			x.wantBatches(1, 2, 2, 1)
		}),
		of(proof{option: "SPANNER_WRITE_METHOD", value: "commit",
			shows: "the service gets a Commit",
		}, nil, func(x *spannerRig) {
			x.wantStatus("push", x.push("a"), 204)
			if got := x.only().Method; got != "Commit" {
				x.t.Errorf("written by %s", got)
			}
		}),
		of(proof{option: "SPANNER_MAX_COMMIT_DELAY", value: "7000001ns", also: []string{commit},
			shows: "the commit carries max_commit_delay, to the nanosecond",
		}, nil, func(x *spannerRig) {
			x.wantStatus("push", x.push("a"), 204)
			if got := x.only().Delay; got == nil || *got != 7000001 {
				x.t.Errorf("delay %v, want 7.000001ms", got)
			}
		}),
		of(proof{option: "SPANNER_RPC_PRIORITY", value: "LOW",
			shows: "the write carries that priority",
		}, nil, func(x *spannerRig) {
			x.wantStatus("push", x.push("a"), 204)
			if got := x.only().Priority; got != sppb.RequestOptions_PRIORITY_LOW {
				x.t.Errorf("priority %s", got)
			}
		}),
		of(proof{option: "SPANNER_BATCH_WRITE_TIMEOUT", value: "700ms",
			shows: "a write without an answer ends after exactly 700 ms and its record is sent again",
		}, []spannerReply{{stall: true}, {}}, func(x *spannerRig) {
			x.wantStatus("push", x.push("a"), 204)
			if list := x.writes(); len(list) != 2 || list[0].End.Sub(list[0].Start) != 700*ms {
				x.t.Errorf("writes %+v, want a first one of 700 ms and a second", list)
			}
		}),
		of(proof{option: "SPANNER_RECOVERY_INITIAL_BACKOFF", value: "2s",
			shows: "a write that failed for a passing reason is made again after 2 s, give or take a quarter",
		}, failing(1), func(x *spannerRig) {
			x.wantStatus("push", x.push("a"), 204)
			if gaps := x.gaps(); len(gaps) != 1 || gaps[0] < 1500*ms || gaps[0] > 2500*ms {
				x.t.Errorf("writes %v apart, want two some 2 s apart", gaps)
			}
		}),
		of(proof{option: "SPANNER_RECOVERY_MAX_BACKOFF", value: "1s", also: []string{longAck, longRequest},
			shows: "the delays between 7 writes of a record do not grow past 1 s and a quarter",
		}, failing(6), func(x *spannerRig) {
			x.wantStatus("push", x.push("a"), 204)
			gaps := x.gaps()
			if len(gaps) != 6 {
				x.t.Fatalf("writes %v apart, want 7", gaps)
			}
			for _, gap := range gaps[1:] {
				if gap < 750*ms || gap > 1250*ms {
					x.t.Errorf("writes %v apart, want 1 s from the second on", gaps)
				}
			}
		}),
		of(proof{option: "SPANNER_RECOVERY_MAX_ATTEMPTS", value: "3", also: []string{longAck, longRequest},
			shows: "after 3 writes that failed for a passing reason a record is answered 503",
		}, failing(100), func(x *spannerRig) {
			x.wantStatus("push", x.push("a"), 503)
			if n := len(x.writes()); n != 3 {
				x.t.Errorf("%d writes, want 3", n)
			}
		}),
		of(proof{option: "SPANNER_MAX_IN_FLIGHT_ENTRIES", value: "3", also: []string{oneRequest, "WRITER_ADMISSION_TIMEOUT=100ms"},
			shows: "3 records without an answer are held, the next 3 are answered 429",
		}, firstWriteTakes, func(x *spannerRig) {
			x.wantStatuses(x.pushes(devices("d", 6))(), all(3, 204), all(3, 429))
		}),
		of(proof{option: "SPANNER_MAX_IN_FLIGHT_BYTES", value: "2500", also: []string{oneRequest, "WRITER_ADMISSION_TIMEOUT=100ms"},
			shows: "3 records of a kilobyte pass the bound by one, the next 3 are answered 429",
		}, firstWriteTakes, func(x *spannerRig) {
			x.wantStatuses(x.pushes(devices("d", 6), "note", longNote)(), all(3, 204), all(3, 429))
		}),
	}
}

// The options of every writer are obeyed by Spanner's as well.
func TestWriterOptionsHoldForSpanner(t *testing.T) {
	for _, c := range []struct {
		options string
		records int
		note    string
		want    []int // sizes of the writes
	}{
		{oneRequest + " WRITER_MAX_BATCH_SIZE=3", 8, "", []int{1, 3, 3, 1}},
		{oneRequest + " WRITER_MAX_BATCH_SIZE_BYTES=2500", 6, longNote, []int{1, 2, 2, 1}},
		{oneRequest, 8, "", []int{1, 7}},
	} {
		t.Run(fmt.Sprint(c.options), func(t *testing.T) {
			inSpannerBubble(t, setup{options: strings.Fields(c.options)}, firstWriteTakes, func(x *spannerRig) {
				x.wantStatuses(x.pushes(devices("d", c.records), "note", c.note)(), all(c.records, 204))
				x.wantBatches(c.want...)
			})
		})
	}
}
