package scripted

import (
	"context"
	"math/rand/v2"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// The service's bounds. https://cloud.google.com/bigtable/quotas#limits-data-size,
// https://cloud.google.com/bigtable/docs/reference/data/rpc/google.bigtable.v2
const (
	maxKey       = 4 << 10
	maxMutations = 100_000
)

// PingAndWarm implements the data API.
func (s *Server) PingAndWarm(ctx context.Context, r *bigtablepb.PingAndWarmRequest) (*bigtablepb.PingAndWarmResponse, error) {
	s.counters.pings.Add(1)
	if s.options.Ping != nil {
		if err := s.options.Ping(r.GetAppProfileId()); err != nil {
			return nil, err
		}
	}
	if err := s.warmUp(ctx); err != nil {
		return nil, err
	}
	return &bigtablepb.PingAndWarmResponse{}, nil
}

// MutateRows implements the data API.
func (s *Server) MutateRows(r *bigtablepb.MutateRowsRequest, stream bigtablepb.Bigtable_MutateRowsServer) error {
	call := &Call{Table: r.GetTableName(), AppProfile: r.GetAppProfileId(), Entries: r.GetEntries()}
	return s.mutate(stream.Context(), call, func(verdicts []error, forget func(int) bool) error {
		return send(stream, verdicts, forget)
	})
}

// MutateRow implements the data API as a call of one entry, for clients that write row
// by row.
func (s *Server) MutateRow(ctx context.Context, r *bigtablepb.MutateRowRequest) (*bigtablepb.MutateRowResponse, error) {
	call := &Call{Table: r.GetTableName(), AppProfile: r.GetAppProfileId(),
		Entries: []*Entry{{RowKey: r.GetRowKey(), Mutations: r.GetMutations()}}}
	err := s.mutate(ctx, call, func(verdicts []error, _ func(int) bool) error {
		if len(verdicts) == 0 {
			return nil
		}
		return verdicts[0]
	})
	if err != nil {
		return nil, err
	}
	return &bigtablepb.MutateRowResponse{}, nil
}

// mutate counts a call and does it. report is given the statuses to send.
func (s *Server) mutate(ctx context.Context, call *Call, report func(verdicts []error, forget func(int) bool) error) error {
	done := s.begin(call)
	err := s.plan(ctx, call, report)
	done(err)
	return err
}

func (s *Server) plan(ctx context.Context, call *Call, report func([]error, func(int) bool) error) error {
	var p Plan
	if script := *s.script.Load(); script != nil {
		p = script(call)
	}
	waits := ctx
	if p.Late {
		waits = s.life
	}
	if err := s.warmUp(ctx); err != nil {
		return err
	}
	if err := s.hold(waits, call, p); err != nil {
		return err
	}
	t, err := s.store.visible(call.Table, s.options)
	if err != nil {
		return err
	}
	verdicts, err := s.judge(t, call, p)
	if err != nil {
		return err
	}
	order := make([]int, len(call.Entries))
	for i := range order {
		order[i] = i
	}
	if p.Shuffle {
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	broken := p.Fail != nil || p.Stall
	if broken {
		order = order[:min(p.Apply, len(order))]
	}
	for _, i := range order {
		if verdicts[i] == nil {
			t.apply(call.Entries[i])
			s.counters.applied.Add(1)
		}
	}
	reported := len(verdicts)
	if broken {
		reported = min(p.Report, reported)
	}
	if err := report(verdicts[:reported], p.Forget); err != nil {
		return err
	}
	if p.Stall {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	return p.Fail
}

// hold waits as long as the call has to. The error is the end of ctx.
func (s *Server) hold(ctx context.Context, call *Call, p Plan) error {
	wait := s.options.Latency + time.Duration(len(call.Entries))*s.options.EntryLatency + p.Delay
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	if p.Until != nil {
		select {
		case <-p.Until:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return nil
}

// warmUp waits until the connection's FirstCall has passed.
func (s *Server) warmUp(ctx context.Context) error {
	if s.options.FirstCall == 0 {
		return nil
	}
	from, ok := peer.FromContext(ctx)
	if !ok {
		return status.Error(codes.Internal, "no peer")
	}
	first, _ := s.warm.LoadOrStore(from.Addr.String(), time.Now())
	return sleep(ctx, time.Until(first.(time.Time).Add(s.options.FirstCall)))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// judge gives each entry its status, nil = good. The error is the whole call's.
func (s *Server) judge(t *table, call *Call, p Plan) ([]error, error) {
	if len(call.Entries) == 0 {
		return nil, status.Error(codes.InvalidArgument, "No mutations provided")
	}
	verdicts := make([]error, len(call.Entries))
	mutations := 0
	for i, e := range call.Entries {
		mutations += len(e.GetMutations())
		if p.Entry != nil {
			verdicts[i] = p.Entry(i, e)
		}
		if verdicts[i] == nil {
			verdicts[i] = s.judgeEntry(t, e)
		}
		if verdicts[i] != nil && s.options.Strict {
			return nil, verdicts[i]
		}
	}
	if mutations > maxMutations {
		return nil, status.Errorf(codes.InvalidArgument, "too many mutations: %d > %d", mutations, maxMutations)
	}
	return verdicts, nil
}

func (s *Server) judgeEntry(t *table, e *Entry) error {
	switch {
	case len(e.GetRowKey()) == 0:
		return status.Error(codes.InvalidArgument, "Row keys must be non-empty")
	case len(e.GetRowKey()) > maxKey:
		return status.Errorf(codes.InvalidArgument, "Row key too long: %d > %d", len(e.GetRowKey()), maxKey)
	case len(e.GetMutations()) == 0:
		return status.Error(codes.InvalidArgument, "No mutations provided")
	}
	for _, m := range e.GetMutations() {
		var family string
		switch m := m.GetMutation().(type) {
		case *bigtablepb.Mutation_SetCell_:
			family = m.SetCell.GetFamilyName()
			switch ts := m.SetCell.GetTimestampMicros(); {
			case ts == -1:
				s.counters.serverTimes.Add(1)
			case ts < 0 || ts%1000 != 0:
				return status.Errorf(codes.InvalidArgument, "Timestamp granularity mismatch: %d", ts)
			}
		case *bigtablepb.Mutation_DeleteFromColumn_:
			family = m.DeleteFromColumn.GetFamilyName()
		case *bigtablepb.Mutation_DeleteFromFamily_:
			family = m.DeleteFromFamily.GetFamilyName()
		case *bigtablepb.Mutation_DeleteFromRow_:
			continue
		default:
			return status.Errorf(codes.Unimplemented, "mutation %T", m)
		}
		if !t.hasFamily(family) {
			return s.unknownFamily(family)
		}
	}
	return nil
}

func (s *Server) unknownFamily(family string) error {
	switch code := s.options.UnknownFamily; code {
	case codes.OK:
		return status.Error(codes.NotFound, "Error while mutating the row: Requested column family not found.")
	case codes.Internal:
		return status.Errorf(codes.Internal, "unknown family %q", family)
	default:
		return status.Error(code, "Requested column family not found.")
	}
}

// send reports statuses by index, less the forgotten ones.
func send(stream bigtablepb.Bigtable_MutateRowsServer, verdicts []error, forget func(int) bool) error {
	answer := &bigtablepb.MutateRowsResponse{Entries: make([]*bigtablepb.MutateRowsResponse_Entry, 0, len(verdicts))}
	for i, v := range verdicts {
		if forget != nil && forget(i) {
			continue
		}
		st := &rpcstatus.Status{}
		if v != nil {
			st = status.Convert(v).Proto()
		}
		answer.Entries = append(answer.Entries, &bigtablepb.MutateRowsResponse_Entry{Index: int64(i), Status: st})
	}
	if len(answer.Entries) == 0 {
		return nil
	}
	return stream.Send(answer)
}
