package sink

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
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

// cpuTime is what the process has used; on a machine that others use, too, it says more
// than the time on the wall.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU reports the processor time per entry since a time of cpuTime.
func reportCPU(b *testing.B, since time.Duration, entries int) {
	b.ReportMetric(float64(cpuTime()-since)/float64(entries), "cpu-ns/entry")
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
				cpu := cpuTime()
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
				reportCPU(b, cpu, b.N*size)
				if err := w.Close(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkAdmission measures calls that contend for few places: most wait for one.
func BenchmarkAdmission(b *testing.B) {
	o := DefaultBigtableOptions()
	o.MaxInFlightEntries, o.AdmissionTimeout = 16, time.Minute
	w, err := New(instant{}, o)
	if err != nil {
		b.Fatal(err)
	}
	route := &Route{Name: "r"}
	var seq atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(128)
	cpu := cpuTime()
	defer func() { reportCPU(b, cpu, b.N) }()
	b.RunParallel(func(pb *testing.PB) {
		es := benchEntries(1, true, seq.Add(1)*1_000_000)
		es[0].Route = route
		for pb.Next() {
			if o := w.Write(context.Background(), es)[0]; o.Kind != Applied {
				b.Fatal(o.Err)
			}
		}
	})
}

// BenchmarkGroupCommit measures 256 callers over a backend of 5 ms: what the writer makes
// of them as batches.
func BenchmarkGroupCommit(b *testing.B) {
	w, err := New(instant{wait: 5 * time.Millisecond}, DefaultBigtableOptions())
	if err != nil {
		b.Fatal(err)
	}
	route := &Route{Name: "r"}
	var seq atomic.Int64
	b.SetParallelism(128)
	cpu := cpuTime()
	defer func() { reportCPU(b, cpu, b.N) }()
	b.RunParallel(func(pb *testing.PB) {
		es := benchEntries(1, true, seq.Add(1)*1_000_000)
		es[0].Route = route
		for pb.Next() {
			if o := w.Write(context.Background(), es)[0]; o.Kind != Applied {
				b.Fatal(o.Err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/float64(w.Health().Counters.Requests), "entries/request")
}

// BenchmarkManyLanes measures a single call beside 2,000 lanes that hold nothing.
func BenchmarkManyLanes(b *testing.B) {
	w, err := New(instant{}, DefaultBigtableOptions())
	if err != nil {
		b.Fatal(err)
	}
	es := benchEntries(1, true, 0)
	es[0].Route = &Route{Name: "r"}
	for i := range 2000 {
		es[0].Dest.Table = "t" + strconv.Itoa(i)
		w.Write(context.Background(), es)
	}
	b.ReportAllocs()
	cpu := cpuTime()
	defer func() { reportCPU(b, cpu, b.N) }()
	for b.Loop() {
		if o := w.Write(context.Background(), es)[0]; o.Kind != Applied {
			b.Fatal(o.Err)
		}
	}
}

// BenchmarkStream measures groups of 500 entries, from four callers that submit the next when
// the last is admitted, as the readers of streams do.
func BenchmarkStream(b *testing.B) {
	const size, callers = 500, 4
	w, err := New(instant{wait: time.Millisecond}, DefaultBigtableOptions())
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	route := &Route{Name: "r"}
	var groups atomic.Int64
	var all sync.WaitGroup
	b.ReportAllocs()
	cpu := cpuTime()
	b.ResetTimer()
	for caller := range callers {
		es := benchEntries(size*4, true, int64(caller)*1_000_000)
		for i := range es {
			es[i].Route = route
		}
		all.Go(func() {
			var last *Ticket
			for n := 0; groups.Add(1) <= int64(b.N); n++ {
				t := w.SubmitUntil(ctx, time.Now().Add(time.Minute), es[n%4*size:][:size])
				if err := t.Admitted(ctx); err != nil {
					b.Error(err)
				}
				for last != nil {
					if o := last.Wait()[size-1]; o.Kind != Applied {
						b.Error(o.Err)
					}
					last = nil
				}
				last = t
			}
			if last != nil {
				last.Wait()
			}
		})
	}
	all.Wait()
	reportCPU(b, cpu, b.N*size)
}
