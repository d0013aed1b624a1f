package sink

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// instant is a backend that answers at once.
type instant struct{ wait time.Duration }

func (instant) Open(context.Context, string) error       { return nil }
func (instant) Release(string)                           {}
func (instant) Ensure(context.Context, Dest) (e Ensured) { return }
func (b instant) Write(ctx context.Context, d Dest, batch []Entry) []Outcome {
	if b.wait > 0 {
		time.Sleep(b.wait)
	}
	outs := make([]Outcome, len(batch))
	for i := range outs {
		outs[i].Kind = Applied
	}
	return outs
}

func benchEntries(n int, keyed bool, from int64) []Entry {
	es := make([]Entry, n)
	for i := range es {
		es[i] = Entry{Dest: Dest{"i", "t"}, ID: "id", Bytes: 500, Cost: 5}
		if keyed {
			es[i].Key = "key" + strconv.FormatInt(from+int64(i), 10)
		}
	}
	return es
}

// BenchmarkWrite measures what the writer adds to a backend that costs nothing.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1, 100} {
		for _, keyed := range []bool{true, false} {
			name := strconv.Itoa(size) + "/unkeyed"
			if keyed {
				name = strconv.Itoa(size) + "/keyed"
			}
			b.Run(name, func(b *testing.B) {
				w, err := New(instant{}, DefaultBigtableOptions())
				if err != nil {
					b.Fatal(err)
				}
				route := &Route{Name: "r"}
				var seq atomic.Int64
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
					defer cancel()
					es := benchEntries(size, keyed, seq.Add(1)*1_000_000)
					for i := range es {
						es[i].Route = route
					}
					for pb.Next() {
						for _, o := range w.Write(ctx, es) {
							if o.Kind != Applied {
								b.Fatal(o.Err)
							}
						}
					}
				})
				b.StopTimer()
				if err := w.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/entry")
			})
		}
	}
}
