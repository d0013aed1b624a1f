package spanner

import (
	"context"
	"io"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// withBatchWrite gives an emulator that lacks BatchWrite one: a commit per group, tried
// again while the emulator says that it runs one transaction at a time.
func withBatchWrite(cfg *Config) {
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			if method != sppb.Spanner_BatchWrite_FullMethodName {
				return streamer(ctx, desc, cc, method, opts...)
			}
			return &batchShim{ctx: ctx, cc: cc}, nil
		}))
}

type batchShim struct {
	ctx  context.Context
	cc   *grpc.ClientConn
	left []*sppb.BatchWriteRequest_MutationGroup
	req  *sppb.BatchWriteRequest
	next int32
}

func (s *batchShim) SendMsg(m any) error {
	switch m := m.(type) {
	case *sppb.BatchWriteRequest: // the start-up check's
		s.req = m
	case mem.Buffer:
		defer m.Free()
		s.req = &sppb.BatchWriteRequest{}
		if err := proto.Unmarshal(m.ReadOnlyData(), s.req); err != nil {
			return err
		}
	}
	s.left = s.req.MutationGroups
	return nil
}

func (s *batchShim) RecvMsg(m any) error {
	if len(s.left) == 0 {
		return io.EOF
	}
	group := s.left[0]
	s.left = s.left[1:]
	out := m.(*sppb.BatchWriteResponse)
	proto.Reset(out)
	out.Indexes = []int32{s.next}
	s.next++
	for {
		answer, err := sppb.NewSpannerClient(s.cc).Commit(s.ctx, &sppb.CommitRequest{
			Session: s.req.Session, RequestOptions: s.req.RequestOptions, Mutations: group.Mutations,
			Transaction: &sppb.CommitRequest_SingleUseTransaction{SingleUseTransaction: &sppb.TransactionOptions{
				Mode: &sppb.TransactionOptions_ReadWrite_{ReadWrite: &sppb.TransactionOptions_ReadWrite{}}}},
		})
		switch status.Code(err) {
		case codes.OK:
			out.CommitTimestamp = answer.CommitTimestamp
			out.Status = &rpcstatus.Status{}
			return nil
		case codes.Aborted:
			continue
		case codes.NotFound:
			if missingResource(err) == sessionResource {
				return err
			}
		}
		if s.ctx.Err() != nil {
			return status.FromContextError(s.ctx.Err()).Err()
		}
		out.Status = status.Convert(err).Proto()
		return nil
	}
}

func (s *batchShim) Header() (metadata.MD, error) { return nil, nil }
func (s *batchShim) Trailer() metadata.MD         { return nil }
func (s *batchShim) CloseSend() error             { return nil }
func (s *batchShim) Context() context.Context     { return s.ctx }
