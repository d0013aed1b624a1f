package spanner

import (
	"context"
	"errors"
	"fmt"
	"io"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/internal/encoded"
)

// batchWrite sends the entries as one BatchWrite.
func (a *attempt) batchWrite(ctx context.Context, sent []int) {
	if a.c.perGroup.Load() {
		a.commitEach(ctx, sent)
		return
	}
	groups := 0
	for _, i := range sent {
		groups += int(a.items[i].requestBytes(BatchWrite))
	}
	err := a.c.inSession(ctx, func(session string) error {
		head := &sppb.BatchWriteRequest{Session: session, RequestOptions: a.requestOptions(sent)}
		size := proto.Size(head) + groups
		if a.oversized(size, sent) {
			return nil
		}
		var err error
		req := encoded.Request(size, func(b []byte) []byte {
			b, err = proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, head)
			for _, i := range sent {
				b = a.items[i].appendGroup(b)
			}
			return b
		})
		if err != nil {
			req.Free()
			return err
		}
		return a.stream(ctx, session, req, sent)
	})
	switch {
	case err == nil:
	case status.Code(err) == codes.Unimplemented && a.sink.cfg.emulated():
		a.c.withoutBatchWrite()
		a.commitEach(ctx, sent)
	default:
		a.fail("BatchWrite", err, sent)
	}
}

// stream runs the call and takes its statuses. What was answered before an error stays.
func (a *attempt) stream(ctx context.Context, session string, req mem.Buffer, sent []int) error {
	ctx, cancel := context.WithCancel(a.c.outgoing(ctx, session))
	defer cancel() // ends the stream, however it is left
	stream, err := encoded.Stream(ctx, a.c.pool, sppb.Spanner_BatchWrite_FullMethodName, req)
	if err != nil {
		return err
	}
	for answered := false; ; answered = true {
		var answer sppb.BatchWriteResponse
		err := stream.RecvMsg(&answer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if answered && status.Code(err) == codes.NotFound {
			// It would be sent again whole, had the session been lost.
			return status.Error(codes.Unavailable, "the call ended with NOT_FOUND after its first answers")
		}
		if err != nil {
			return err
		}
		s := status.FromProto(answer.GetStatus())
		for _, group := range answer.GetIndexes() {
			if group < 0 || int(group) >= len(sent) {
				continue // of nothing that was sent
			}
			a.status(sent[group], s, answer.GetCommitTimestamp() != nil)
		}
	}
}

// probeBatchWrite asks, without writing anything, whether the endpoint has BatchWrite;
// final = it has not. Any answer but UNIMPLEMENTED says that it has.
func (c *client) probeBatchWrite(ctx context.Context) (final bool, err error) {
	err = c.inSession(ctx, func(session string) error {
		ctx, cancel := context.WithCancel(c.outgoing(ctx, session))
		defer cancel()
		stream, err := c.stub.BatchWrite(ctx, &sppb.BatchWriteRequest{Session: session})
		if err != nil {
			return err
		}
		if _, err = stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	switch code := status.Code(err); {
	case err == nil:
		return false, nil
	case code == codes.Unimplemented && c.cfg.emulated():
		c.withoutBatchWrite()
		return false, nil
	case code == codes.Unimplemented:
		return true, fmt.Errorf("the service has no BatchWrite: set PUSHSINK_SPANNER_WRITE_METHOD=commit (%w)", plainError(err))
	case meaningOf(code) == refusal && missingResource(err) == "":
		return false, nil // it does not take a request without groups
	default:
		return false, plainError(err)
	}
}

// withoutBatchWrite goes over to one commit per group, and says so once.
func (c *client) withoutBatchWrite() {
	if c.perGroup.CompareAndSwap(false, true) && c.cfg.Log != nil {
		c.cfg.Log.Warn("the Spanner emulator has no BatchWrite: each mutation group is a commit of its own", "endpoint", c.cfg.Endpoint)
	}
}

// commitEach commits every entry on its own, with the outcomes a BatchWrite would have.
func (a *attempt) commitEach(ctx context.Context, sent []int) {
	select {
	case a.c.turn <- struct{}{}:
		defer func() { <-a.c.turn }()
	case <-ctx.Done():
		return
	}
	for _, i := range sent {
		if ctx.Err() != nil {
			return
		}
		one := []int{i}
		committed, err := a.commitOnce(ctx, one)
		if err != nil {
			a.fail("Commit", err, one)
		} else if committed {
			a.status(i, status.New(codes.OK, ""), true)
		}
	}
}
