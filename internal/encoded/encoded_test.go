package encoded

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// words is an answer that reads itself.
type words struct{ text string }

func (w *words) Unmarshal(b []byte) error {
	var m wrapperspb.StringValue
	err := proto.Unmarshal(b, &m)
	w.text = m.Value
	return err
}

func textRequest(text string) mem.Buffer {
	m := wrapperspb.String(text)
	return Request(proto.Size(m), func(b []byte) []byte {
		b, _ = proto.MarshalOptions{}.MarshalAppend(b, m)
		return b
	})
}

// The server answers with the request's text twice, and sees the usual content type.
func dial(t *testing.T) *grpc.ClientConn {
	l := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(1<<26), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var m wrapperspb.StringValue
		if err := s.RecvMsg(&m); err != nil {
			return err
		}
		for range 2 {
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
		return nil
	}))
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///bufconn", append(DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<26)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Every size class of the buffers, those below and those above.
func TestStream(t *testing.T) {
	conn := dial(t)
	for _, n := range []int{0, 1, 900, 1 << 10, 3 << 10, 16 << 10, 50 << 10, 200 << 10, 1 << 20, 5 << 20} {
		text := strings.Repeat("x", n)
		ctx, cancel := context.WithCancel(t.Context())
		s, err := Stream(ctx, conn, "/service/Method", textRequest(text))
		if err != nil {
			t.Fatal(err)
		}
		var first words
		var second wrapperspb.StringValue
		if err := s.RecvMsg(&first); err != nil || first.text != text {
			t.Errorf("%d bytes: %d bytes answered, %v", n, len(first.text), err)
		}
		if err := s.RecvMsg(&second); err != nil || second.Value != text {
			t.Errorf("%d bytes: %d bytes answered, %v", n, len(second.Value), err)
		}
		if err := s.RecvMsg(&first); err != io.EOF {
			t.Errorf("%d bytes: the stream ends with %v", n, err)
		}
		cancel()
	}
}

func TestStreamThatDoesNotBegin(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Stream(ctx, dial(t), "/service/Method", textRequest("x")); err == nil {
		t.Error("no error from a context that has ended")
	}
}

func TestCodecRefusesWhatItDoesNotKnow(t *testing.T) {
	if _, err := (Codec{}).Marshal(wrapperspb.String("x")); err == nil {
		t.Error("a message was taken for an encoded request")
	}
	if err := (Codec{}).Unmarshal(nil, new(bytes.Buffer)); err == nil {
		t.Error("a buffer was taken for an answer")
	}
}
