package spanner

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
