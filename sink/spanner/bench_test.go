package spanner

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

const benchRoutes = `
routes:
  plain: {spanner: {database: @db, table: Events, operation: insert, onDuplicate: reject, columns: {Id: data.id, Ref: data.ref, N: data.n, At: data.at}}}
  once: {spanner: {database: @db, table: Events, operation: insert, dedup: {table: Seen}, columns: {Id: data.id, Ref: data.ref, N: data.n, At: data.at}}}
`

func benchSchema() *catalog {
	return describeSchema(GoogleSQL, "Events: Id STRING(36) key notnull, Ref STRING(MAX), N NUMERIC, At TIMESTAMP",
		"Seen: Hash BYTES(16) key notnull, At TIMESTAMP notnull committime")
}

func benchRecord(i int64) *schema.Record {
	return &schema.Record{ID: fmt.Sprint(i), Subscription: "projects/p/subscriptions/s",
		Data: fmt.Appendf(nil, `{"id":"event-%012d","ref":"some reference of a usual length","n":12345.678,"at":"2024-01-01T00:00:00.123Z"}`, i)}
}

// BenchmarkEncode is mapping and encoding of one record.
func BenchmarkEncode(b *testing.B) {
	h := setUp(b, &fake{}, benchSchema(), benchRoutes, nil)
	for _, route := range []string{"plain", "once"} {
		b.Run(route, func(b *testing.B) {
			b.ReportAllocs()
			rec := benchRecord(1)
			for b.Loop() {
				if _, err := h.tryRecord(route, rec); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const readingRoutes = `
routes:
  readings: {spanner: {database: @db, table: Readings, columns: {Device: data.device, Seq: data.seq, Ts: data.ts, Temp: data.temp, Humidity: data.humidity, Pressure: data.pressure, State: data.state, Note: data.note}}}
`

func readings(t testing.TB, change func(*Config)) *harness {
	return setUp(t, &fake{}, describeSchema(GoogleSQL, "Readings: Device STRING(64) key, Seq INT64 key, Ts TIMESTAMP notnull, "+
		"Temp FLOAT64, Humidity FLOAT64, Pressure FLOAT64, State STRING(MAX), Note STRING(MAX)"), readingRoutes, change)
}

func reading(seq int) *schema.Record {
	return &schema.Record{ID: fmt.Sprint(seq), Subscription: "projects/p/subscriptions/s",
		Data: fmt.Appendf(nil, `{"device":"device-0042","seq":%d,"ts":"2024-01-01T00:00:00.123Z","temp":21.75,"humidity":48.125,"pressure":1013.25,"state":"running","note":%q}`, seq, strings.Repeat("n", 300))}
}

// BenchmarkEncodeRow is encoding alone, of a row of eight columns.
func BenchmarkEncodeRow(b *testing.B) {
	h := readings(b, nil)
	rec := reading(1)
	m, err := h.source["readings"].Mapping.Apply(rec)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.routes["readings"].Encode(rec, &m); err != nil {
			b.Fatal(err)
		}
	}
}

// bareCodec reads no request and sends prepared answers, so that a benchmark counts the
// client alone.
type bareCodec struct{}

func (bareCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (bareCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (bareCodec) Name() string                         { return "proto" }

// bareServer serves sessions, and batch as the answer to every BatchWrite, at the address
// it returns.
func bareServer(b *testing.B, batch *sppb.BatchWriteResponse) string {
	b.Helper()
	marshal := func(m proto.Message) []byte {
		wire, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		return wire
	}
	answers := map[string][]byte{
		sppb.Spanner_CreateSession_FullMethodName: marshal(&sppb.Session{Name: testDatabase + "/sessions/1", Multiplexed: true}),
		sppb.Spanner_BatchWrite_FullMethodName:    marshal(batch),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ForceServerCodecV2(bareCodec{}), grpc.UnknownServiceHandler(func(_ any, st grpc.ServerStream) error {
		if err := st.RecvMsg(struct{}{}); err != nil {
			return err
		}
		method, _ := grpc.MethodFromServerStream(st)
		return st.SendMsg(answers[method])
	}))
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(srv.Stop)
	return l.Addr().String()
}

// BenchmarkAttempt is one attempt for 70 rows against a service in the process that decodes
// nothing.
func BenchmarkAttempt(b *testing.B) {
	const n = 70
	h := readings(b, func(c *Config) {
		c.Endpoint, c.DialOptions = bareServer(b, answer(codes.OK, indexes(0, n)...)), nil
	}).open()
	var es []sink.Entry
	for i := range n {
		e, err := h.tryRecord("readings", reading(i))
		if err != nil {
			b.Fatal(err)
		}
		es = append(es, e)
	}
	b.ReportAllocs()
	for b.Loop() {
		if outs := h.sink.Write(b.Context(), es[0].Dest, es); outs[n-1].Kind != sink.Applied {
			b.Fatal(outs[n-1].Err)
		}
	}
}

// BenchmarkWrite is single-record calls, 64 at a time, through the writer to a service in
// this process that does nothing: with dedup and without, by either method.
func BenchmarkWrite(b *testing.B) {
	for _, method := range []WriteMethod{BatchWrite, Commit} {
		for _, route := range []string{"plain", "once"} {
			b.Run(string(method)+"/"+route, func(b *testing.B) {
				f := &fake{read: func(int, *sppb.ReadRequest) ([][]*structpb.Value, error) { return nil, nil }}
				h := setUp(b, f, benchSchema(), benchRoutes, func(c *Config) { c.WriteMethod = method })
				w := h.writer()
				var n atomic.Int64
				b.ReportAllocs()
				b.SetParallelism(32)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						e, err := h.tryRecord(route, benchRecord(n.Add(1)))
						if err != nil {
							b.Error(err)
							return
						}
						if o := w.Write(context.Background(), []sink.Entry{e})[0]; !o.Acknowledges() {
							b.Error(o.Kind, o.Err)
							return
						}
					}
				})
			})
		}
	}
}

// BenchmarkDedupRatio is the throughput of a route with dedup as a share of the same
// without, to a service in this process that does nothing: rounds of each in turn, so that
// a busy machine slows both, and the median of the rounds.
func BenchmarkDedupRatio(b *testing.B) {
	const records, callers = 4000, 256
	for _, method := range []WriteMethod{BatchWrite, Commit} {
		b.Run(string(method), func(b *testing.B) {
			f := &fake{read: func(int, *sppb.ReadRequest) ([][]*structpb.Value, error) { return nil, nil }}
			h := setUp(b, f, benchSchema(), benchRoutes, func(c *Config) { c.WriteMethod = method })
			w := h.writer()
			var n atomic.Int64
			round := func(route string) time.Duration {
				began := time.Now()
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for range records / callers {
							e, err := h.tryRecord(route, benchRecord(n.Add(1)))
							if err != nil {
								b.Error(err)
								return
							}
							if o := w.Write(context.Background(), []sink.Entry{e})[0]; !o.Acknowledges() {
								b.Error(o.Kind, o.Err)
								return
							}
						}
					})
				}
				all.Wait()
				return time.Since(began)
			}
			round("plain")
			var ratios []float64
			for b.Loop() {
				plain := round("plain")
				ratios = append(ratios, plain.Seconds()/round("once").Seconds())
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
		})
	}
}
