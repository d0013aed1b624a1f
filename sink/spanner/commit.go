package spanner

import (
	"context"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pushsink/pushsink/sink"
)

// commit sends the open entries as one atomic commit.
//
// Records that were written before would fail it as a whole, so the dedup rows of the
// batch are read first, and of entries with the same dedup key only the first is sent:
// the others share its fate if that is success.
func (a *attempt) commit(ctx context.Context, open []int) {
	a.settleDuplicates(ctx, open)
	leaders := make(map[string]int)
	followers := make(map[int]int)
	var sent []int
	for _, i := range a.open() {
		key, ok := a.items[i].dedupID()
		if leader, taken := leaders[key]; ok && taken {
			followers[i] = leader
			continue
		}
		if ok {
			leaders[key] = i
		}
		sent = append(sent, i)
	}
	if len(sent) == 0 {
		return
	}
	committed, err := a.commitOnce(ctx, sent)
	switch {
	case err != nil:
		if status.Code(err) == codes.AlreadyExists && len(sent) > 1 {
			a.settleEqual(ctx, sent) // a redelivered batch costs no bisect
		}
		a.fail("Commit", err, sent)
	case committed:
		for _, i := range sent {
			a.settle(i, sink.Outcome{Kind: sink.Applied})
		}
	}
	for i, leader := range followers {
		if a.outs[leader].Kind == sink.Applied {
			a.sink.duplicate(a.items[i].route)
			a.settle(i, sink.Outcome{Kind: sink.Applied})
		}
	}
	if len(followers) == 0 || len(sent) > 1 {
		return
	}
	// The one that was sent had the commit to itself, which the writer can't see.
	if o := &a.outs[sent[0]]; o.Kind == sink.Rejected {
		o.Sole = true
	}
}

// commitOnce makes one Commit of the entries. False without an error: the service asked
// for a second round, which a commit without a transaction of its own does not have.
func (a *attempt) commitOnce(ctx context.Context, sent []int) (committed bool, err error) {
	size := 0
	for _, i := range sent {
		size += len(a.items[i].wire)
	}
	wire := make([]byte, 0, size)
	for _, i := range sent {
		wire = a.items[i].appendMutations(wire)
	}
	err = a.c.inSession(ctx, func(session string) error {
		req := &sppb.CommitRequest{
			Session:        session,
			RequestOptions: a.requestOptions(sent),
			Transaction: &sppb.CommitRequest_SingleUseTransaction{SingleUseTransaction: &sppb.TransactionOptions{
				Mode: &sppb.TransactionOptions_ReadWrite_{ReadWrite: &sppb.TransactionOptions_ReadWrite{}},
			}},
		}
		if d := a.sink.cfg.MaxCommitDelay; d != nil {
			req.MaxCommitDelay = durationpb.New(*d)
		}
		// The mutations are marshalled already. Fields that a message does not know are
		// sent as they are: the request on the wire is the same.
		req.ProtoReflect().SetUnknown(wire)
		if a.oversized(proto.Size(req), sent) {
			return nil
		}
		answer, err := a.c.stub.Commit(a.c.outgoing(ctx, session), req)
		if err != nil {
			return err
		}
		if answer.GetMultiplexedSessionRetry() != nil || answer.GetCommitTimestamp() == nil {
			return status.Error(codes.Aborted, "the service asked for the commit again")
		}
		committed = true
		return nil
	})
	return committed, err
}
