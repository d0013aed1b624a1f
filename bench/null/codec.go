package null

import (
	"fmt"

	"google.golang.org/grpc/mem"
)

// rawCodec gives messages as they are on the wire, in place of decoding them.
type rawCodec struct{ pool mem.BufferPool }

// request is a message that came; free gives its bytes back.
type request struct{ buffer mem.Buffer }

func (r *request) bytes() []byte { return r.buffer.ReadOnlyData() }
func (r *request) free()         { r.buffer.Free() }

func (c rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return fmt.Errorf("null: message of type %T", v)
	}
	r.buffer = data.MaterializeToBuffer(c.pool)
	return nil
}

// Marshal takes wire bytes that nothing changes any more.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	wire, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("null: message of type %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(wire)}, nil
}

// Name is the name of the codec it takes the place of.
func (rawCodec) Name() string { return "proto" }
