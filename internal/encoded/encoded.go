// Package encoded is gRPC for requests that are encoded already: the sinks encode a record
// when it comes in, and put the requests together of its bytes.
package encoded

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// requests holds buffers of up to 1 MiB, in steps close enough that what a batch takes is not
// mostly empty. Its sizes are valid.
var requests, _ = mem.NewBinaryTieredBufferPool(10, 12, 14, 15, 16, 17, 18, 20)

// Request makes a request of what fill appends, which is at most size bytes. Whoever sends it
// hands it over.
func Request(size int, fill func([]byte) []byte) mem.Buffer {
	var pool mem.BufferPool = mem.NopBufferPool{}
	if !mem.IsBelowBufferPoolingThreshold(size) {
		pool = requests
	}
	b := pool.Get(size)
	*b = fill((*b)[:0])
	return mem.NewBuffer(b, pool)
}

// Answer is a response that reads itself. It keeps nothing of b.
type Answer interface{ Unmarshal(b []byte) error }

// Codec is protobuf whose requests are made by [Request], and whose answers are an [Answer] or
// a message.
type Codec struct{}

// Name is empty: the call keeps the content type of one without a codec of its own.
func (Codec) Name() string { return "" }

func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	req, ok := v.(mem.Buffer)
	if !ok {
		return nil, fmt.Errorf("not an encoded request: %T", v)
	}
	return mem.BufferSlice{req}, nil
}

func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	switch v := v.(type) {
	case Answer:
		return v.Unmarshal(whole.ReadOnlyData())
	case proto.Message:
		return proto.Unmarshal(whole.ReadOnlyData(), v)
	default:
		return fmt.Errorf("no answer: %T", v)
	}
}

var serverStream = grpc.StreamDesc{ServerStreams: true}

// Stream begins a call of method with one request, which it takes over, and any number of
// answers. Cancelling ctx gives it back when it is not read to its end.
func Stream(ctx context.Context, conn grpc.ClientConnInterface, method string, req mem.Buffer) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(ctx, &serverStream, method, grpc.ForceCodecV2(Codec{}))
	if err != nil {
		req.Free()
		return nil, err
	}
	if err := stream.SendMsg(req); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

const (
	// writeBuffer holds a request of a usual batch, which then goes out in one write.
	writeBuffer = 128 << 10
	// Of one answer, and of all on a connection, the service may send that much before it is
	// read.
	streamWindow, connWindow = 1 << 20, 4 << 20
)

// DialOptions are for connections that write much and read little. The windows are fixed: to
// find good ones gRPC would send a ping with every answer.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithWriteBufferSize(writeBuffer),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
	}
}
