package null

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Family is the column family that every table has.
const Family = "m"

// Options say how a Server behaves.
type Options struct {
	// Latency of each write, from its arrival to its answer.
	Latency time.Duration
	// Inspect is shown the message of every write, which it must not keep; nil = nobody.
	Inspect func(method string, message []byte)
}

// Counters are totals since the start.
type Counters struct {
	// Requests are writes that arrived, Entries what they held: rows of MutateRows and
	// MutateRow, groups of BatchWrite, mutations of Commit.
	Requests int64 `json:"requests"`
	Entries  int64 `json:"entries"`
	// Answered are the entries whose OK was sent.
	Answered int64 `json:"answered"`
	// Exports are telemetry exports, which are taken and thrown away.
	Exports int64 `json:"exports"`
}

// Server is a running service. It answers any method of both services' data APIs that a
// writer calls, and, so that tracing can be on, OTLP exports.
type Server struct {
	options Options
	grpc    *grpc.Server
	pacer   *pacer
	mutated *mutated
	table   []byte // answer to GetTable

	requests, entries, answered, exports atomic.Int64
}

// Serve serves on l until Close.
func Serve(l net.Listener, o Options) (*Server, error) {
	table, err := proto.Marshal(&adminpb.Table{ColumnFamilies: map[string]*adminpb.ColumnFamily{Family: {}}})
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, pacer: newPacer(o.Latency), mutated: newMutated(), table: table}
	s.grpc = grpc.NewServer(
		grpc.ForceServerCodecV2(rawCodec{mem.DefaultBufferPool()}),
		grpc.UnknownServiceHandler(s.handle),
		grpc.MaxRecvMsgSize(256<<20),
		grpc.MaxConcurrentStreams(1<<16),
		grpc.ReadBufferSize(64<<10), grpc.WriteBufferSize(64<<10),
		grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(8<<20),
	)
	go func() { _ = s.grpc.Serve(l) }()
	return s, nil
}

// Close breaks every connection.
func (s *Server) Close() {
	s.grpc.Stop()
	s.pacer.close()
}

// Counters returns the totals so far.
func (s *Server) Counters() Counters {
	return Counters{s.requests.Load(), s.entries.Load(), s.answered.Load(), s.exports.Load()}
}

func (s *Server) handle(_ any, stream grpc.ServerStream) error {
	arrived := time.Now()
	method, _ := grpc.MethodFromServerStream(stream)
	var r request
	if err := stream.RecvMsg(&r); err != nil {
		return err
	}
	answer, err := s.answer(stream.Context(), method, r.bytes(), arrived, r.free)
	if err != nil || answer == nil {
		return err
	}
	return stream.SendMsg(answer)
}

// answer does a call; free must be called once message is read.
func (s *Server) answer(ctx context.Context, method string, message []byte, arrived time.Time, free func()) ([]byte, error) {
	switch method {
	case "/google.bigtable.v2.Bigtable/MutateRows":
		n, err := s.write(method, message, mutateRowsEntries, arrived, free)
		if err != nil {
			return nil, err
		}
		return s.mutated.answer(n), nil
	case "/google.bigtable.v2.Bigtable/MutateRow":
		if _, err := s.write(method, message, 0, arrived, free); err != nil {
			return nil, err
		}
		return []byte{}, nil
	case "/google.spanner.v1.Spanner/BatchWrite":
		n, err := s.write(method, message, batchWriteGroups, arrived, free)
		if err != nil {
			return nil, err
		}
		return batchWritten(n)
	case "/google.spanner.v1.Spanner/Commit":
		if _, err := s.write(method, message, commitMutations, arrived, free); err != nil {
			return nil, err
		}
		return proto.Marshal(&spannerpb.CommitResponse{CommitTimestamp: timestamppb.Now()})
	}
	defer free()
	switch method {
	case "/google.spanner.v1.Spanner/CreateSession":
		database := text(message, createSessionField)
		return proto.Marshal(&spannerpb.Session{Name: database + "/sessions/1", Multiplexed: true})
	case "/google.spanner.v1.Spanner/ExecuteStreamingSql":
		return schemaRows(message)
	case "/google.bigtable.admin.v2.BigtableTableAdmin/GetTable":
		return s.table, nil
	case "/google.bigtable.v2.Bigtable/PingAndWarm",
		"/google.spanner.v1.Spanner/DeleteSession":
		return []byte{}, nil
	case "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
		"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export":
		s.exports.Add(1)
		return []byte{}, nil
	}
	return nil, status.Errorf(codes.Unimplemented, "null: %s", method)
}

// write counts a write and holds it for the latency. A request whose entries are no field
// (0) is one entry.
func (s *Server) write(method string, message []byte, field protowire.Number, arrived time.Time, free func()) (int64, error) {
	n, ok := int64(1), true
	if field != 0 {
		n, ok = count(message, field)
	}
	if s.options.Inspect != nil {
		s.options.Inspect(method, message)
	}
	free()
	switch {
	case !ok:
		return 0, status.Error(codes.InvalidArgument, "null: no protobuf message")
	case n == 0:
		return 0, status.Error(codes.InvalidArgument, "null: no entries")
	case n > maxEntries:
		return 0, status.Error(codes.InvalidArgument, fmt.Sprintf("null: more than %d entries", maxEntries))
	}
	s.requests.Add(1)
	s.entries.Add(n)
	s.pacer.wait(arrived)
	s.answered.Add(n)
	return n, nil
}

// batchWritten is OK for the groups 0 to n-1, committed as one.
func batchWritten(n int64) ([]byte, error) {
	answer := &spannerpb.BatchWriteResponse{Status: &rpcstatus.Status{}, CommitTimestamp: timestamppb.Now(), Indexes: make([]int32, n)}
	for i := range answer.Indexes {
		answer.Indexes[i] = int32(i)
	}
	return proto.Marshal(answer)
}
