package bigtable

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// nullCodec reads no request and sends a prepared answer, so that a benchmark counts the
// client alone.
type nullCodec struct{ answer []byte }

func (c nullCodec) Marshal(any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(c.answer)}, nil
}
func (nullCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (nullCodec) Name() string                         { return "proto" }

// nullServer answers every call with OK for n entries.
func nullServer(b *testing.B, n int) []grpc.DialOption {
	b.Helper()
	resp := &btpb.MutateRowsResponse{}
	for i := range n {
		resp.Entries = append(resp.Entries, entryStatus(i, codes.OK, ""))
	}
	answer, err := proto.Marshal(resp)
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ForceServerCodecV2(nullCodec{answer}), grpc.UnknownServiceHandler(func(_ any, st grpc.ServerStream) error {
		if err := st.RecvMsg(struct{}{}); err != nil {
			return err
		}
		return st.SendMsg(struct{}{})
	}))
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(srv.Stop)
	return []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	})}
}

// One attempt against a service in the process that does nothing.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newBench(b, testConfig(nullServer(b, n)), routeOf("r", nil))
			if err := p.Open(b.Context(), testPath); err != nil {
				b.Fatal(err)
			}
			es := make([]sink.Entry, n)
			for i := range es {
				es[i] = p.entry(0, telemetry(i))
			}
			b.ReportAllocs()
			for b.Loop() {
				if outs := p.Write(b.Context(), es[0].Dest, es); outs[n-1].Kind != sink.Applied {
					b.Fatal(outs[n-1].Err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
		})
	}
}

// telemetry is a row of five cells of 90 bytes.
func telemetry(i int) *schema.Mutation {
	var ops []schema.Op
	for _, c := range []string{"temperature", "humidity", "pressure", "location", "status"} {
		ops = append(ops, set("f", c, strings.Repeat("v", 90)))
	}
	return row(fmt.Sprintf("device-%04d", i), ops...)
}

// What a failed request costs: its words are searched for everything it held.
func BenchmarkClassify(b *testing.B) {
	p := opened(b, &service{}, routeOf("r", nil))
	r := &request{sink: p.Sink, dest: tableT}
	var all []int
	for i := range 100 {
		r.entries = append(r.entries, p.entry(0, telemetry(i)).Payload.(*payload))
		all = append(all, i)
	}
	r.outs = make([]sink.Outcome, len(all))
	err := status.Error(codes.Unavailable, "connection error: desc = \"transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused\"")
	b.ReportAllocs()
	for b.Loop() {
		r.classify(all, err, true)
	}
}
