package bigtable

import (
	"context"
	"fmt"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// mutateDesc is MutateRows as the generated stub calls it.
var mutateDesc = grpc.StreamDesc{StreamName: "MutateRows", ServerStreams: true}

// mutateRows is one MutateRows call. The request is encoded already, and of an answer only
// what is not a plain OK is worth a message, so it goes past the generated ones.
type mutateRows struct{ stream grpc.ClientStream }

// startMutateRows sends req, a whole MutateRowsRequest, which it takes over.
func startMutateRows(ctx context.Context, conn grpc.ClientConnInterface, req mem.Buffer) (mutateRows, error) {
	stream, err := conn.NewStream(ctx, &mutateDesc, btpb.Bigtable_MutateRows_FullMethodName, grpc.ForceCodecV2(mutateCodec{}))
	if err != nil {
		req.Free()
		return mutateRows{}, err
	}
	if err := stream.SendMsg(req); err != nil {
		return mutateRows{}, err
	}
	return mutateRows{stream}, stream.CloseSend()
}

// recv reads the next message of the answer into a.
func (c mutateRows) recv(a *answer) error { return c.stream.RecvMsg(a) }

// mutateCodec is protobuf for the two messages of MutateRows.
type mutateCodec struct{}

// Name is empty: the call keeps the content type of one without a codec of its own.
func (mutateCodec) Name() string { return "" }

func (mutateCodec) Marshal(v any) (mem.BufferSlice, error) {
	req, ok := v.(mem.Buffer)
	if !ok {
		return nil, fmt.Errorf("bigtable: no MutateRows request: %T", v)
	}
	return mem.BufferSlice{req}, nil
}

func (mutateCodec) Unmarshal(data mem.BufferSlice, v any) error {
	a, ok := v.(*answer)
	if !ok {
		return fmt.Errorf("bigtable: no MutateRows answer: %T", v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return a.unmarshal(whole.ReadOnlyData())
}

// answer is one MutateRowsResponse: the statuses in it, in order.
type answer struct{ entries []rowStatus }

// rowStatus is the status of one row of the request. The zero value acknowledges nothing.
type rowStatus struct {
	index int64
	set   bool        // the service gave a status
	not   *spb.Status // nil, where one was given = OK
}

// Field numbers of google.bigtable.v2.MutateRowsResponse and its Entry.
const (
	responseEntries = 1

	answerIndex  = 1
	answerStatus = 2
)

// unmarshal reads a response, or nothing and an error where it is malformed.
func (a *answer) unmarshal(b []byte) error {
	if a.plain(b) {
		return nil
	}
	a.entries = a.entries[:0]
	var m btpb.MutateRowsResponse
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	for _, e := range m.Entries {
		s := rowStatus{index: e.GetIndex(), set: e.GetStatus() != nil}
		if e.GetStatus().GetCode() != 0 {
			s.not = e.GetStatus()
		}
		a.entries = append(a.entries, s)
	}
	return nil
}

// plain reads a response that holds nothing but entries, each an index and an empty status,
// which is OK: what the service says when all went well. For any other one it reports false.
func (a *answer) plain(b []byte) bool {
	a.entries = a.entries[:0]
	for len(b) > 0 {
		e, n, ok := lengthDelimited(b, responseEntries)
		if !ok {
			return false
		}
		b = b[n:]
		s := rowStatus{set: true}
		if len(e) > 0 && e[0] == answerIndex<<3|byte(protowire.VarintType) {
			v, n := protowire.ConsumeVarint(e[1:])
			if n < 0 {
				return false
			}
			s.index = int64(v)
			e = e[1+n:]
		}
		if len(e) != 2 || e[0] != answerStatus<<3|byte(protowire.BytesType) || e[1] != 0 {
			return false
		}
		a.entries = append(a.entries, s)
	}
	return true
}

// lengthDelimited reads the field num at the start of b, and how long it is there.
func lengthDelimited(b []byte, num protowire.Number) (inner []byte, n int, ok bool) {
	if b[0] != byte(num)<<3|byte(protowire.BytesType) {
		return nil, 0, false
	}
	inner, n = protowire.ConsumeBytes(b[1:])
	return inner, 1 + n, n >= 0
}
