package sink_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// Once the lane knows what a request takes, its requests start an eighth of that apart, but for
// a turn that was kept.
func TestRequestsOfABusyLaneTakeTurns(t *testing.T) {
	tests := []struct {
		name    string
		latency time.Duration
		slots   int
		at      []time.Duration // records, after the first one was answered
		sent    []time.Duration
		sizes   []int
	}{
		{"slower than the turns: each at once", 80 * ms, 8, []time.Duration{0, 20 * ms, 40 * ms},
			[]time.Duration{0, 20 * ms, 40 * ms}, []int{1, 1, 1}},
		{"faster than the turns: the second at once, then together at the next", 80 * ms, 8, []time.Duration{0, 1 * ms, 2 * ms, 11 * ms, 12 * ms},
			[]time.Duration{0, 1 * ms, 10 * ms, 20 * ms}, []int{1, 1, 1, 2}},
		{"one slot: when the request ends", 80 * ms, 1, []time.Duration{0, 1 * ms, 2 * ms},
			[]time.Duration{0, 80 * ms}, []int{1, 2}},
		{"a quick service: half a millisecond apart", 800 * time.Microsecond, 8, []time.Duration{0, 100 * time.Microsecond, 200 * time.Microsecond, 300 * time.Microsecond, 700 * time.Microsecond},
			[]time.Duration{0, 100 * time.Microsecond, 500 * time.Microsecond, 1000 * time.Microsecond}, []int{1, 1, 2, 1}},
		{"a turn that nothing came in is kept for later", 80 * ms, 8, []time.Duration{0, 1 * ms, 25 * ms, 26 * ms, 27 * ms},
			[]time.Duration{0, 1 * ms, 25 * ms, 26 * ms, 35 * ms}, []int{1, 1, 1, 1, 1}},
		{"only one is, however long nothing came", 80 * ms, 8, []time.Duration{0, 70 * ms, 71 * ms, 72 * ms},
			[]time.Duration{0, 70 * ms, 71 * ms, 80 * ms}, []int{1, 1, 1, 1}},
		{"none in which entries waited for a request to end", 80 * ms, 2, []time.Duration{0, 1 * ms, 2 * ms, 80*ms + 500*time.Microsecond, 80*ms + 700*time.Microsecond},
			[]time.Duration{0, 1 * ms, 80 * ms, 120 * ms}, []int{1, 1, 1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
				o.MaxTimeInBuffer, o.MaxInFlightRequestsDest, b.Latency = time.Second, tt.slots, tt.latency
			}, func(r *rig) {
				r.write(0, r.entry("first")).wait()
				began, before := r.at(), len(r.sentAt())
				var ps []*pending
				for i, at := range tt.at {
					r.sleepUntil(began + at)
					ps = append(ps, r.write(0, r.entry(strconv.Itoa(i))))
					synctest.Wait()
				}
				wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: len(tt.at)})
				var sent []time.Duration
				for _, at := range r.sentAt()[before:] {
					sent = append(sent, at-began)
				}
				wantList(t, "sent", sent, tt.sent)
				wantList(t, "sizes", r.sizes()[before:], tt.sizes)
			})
		})
	}
}

// What a turn waits for is never longer than the linger, however slow the service was.
func TestTurnsEndWithTheLinger(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { b.Latency = 2900 * ms }, func(r *rig) {
		r.write(0, r.entry("first")).wait()
		began, before := r.at(), len(r.sentAt())
		ps := r.each(0, r.entries(0, 3)...)
		wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: 3})
		// The second takes the turn that was kept.
		for i, want := range []time.Duration{0, 0, 10 * ms} {
			wantTime(t, strconv.Itoa(i), r.sentAt()[before+i]-began, want)
		}
	})
}

// The wait in the writer stays a small part of the service's own time at any rate that the
// lane can carry. Without turns the median is 1.5 and the 99th percentile 2.2 times it.
func TestTurnsKeepRecordsNearTheServicesOwnTime(t *testing.T) {
	const latency = 5 * ms
	for _, tt := range []struct{ rate, p50, p99 float64 }{
		{50, 1, 1.02},
		{1000, 1.003, 1.15}, // 1.007 when no turn is kept
		{5000, 1.10, 1.20},
		{20000, 1.10, 1.20},
	} {
		t.Run(strconv.Itoa(int(tt.rate))+" a second", func(t *testing.T) {
			inBubble(t, func(o *sink.Options, b *sinktest.Backend) { b.Latency = latency }, func(r *rig) {
				rng := rand.New(rand.NewPCG(1, uint64(tt.rate)))
				r.write(0, r.entry("first")).wait()
				var ps []*pending
				for i := range 2000 {
					time.Sleep(time.Duration(rng.ExpFloat64() / tt.rate * 1e9))
					ps = append(ps, r.write(0, r.entry(strconv.Itoa(i))))
				}
				var took []time.Duration
				for _, p := range ps {
					p.wait()
					took = append(took, p.took)
				}
				slices.Sort(took)
				for _, of := range []struct {
					what string
					took time.Duration
					most float64
				}{{"p50", took[len(took)/2], tt.p50}, {"p99", took[len(took)*99/100], tt.p99}} {
					if x := of.took.Seconds() / latency.Seconds(); x > of.most {
						t.Errorf("%s is %.3f times %v, want at most %.3f", of.what, x, latency, of.most)
					}
				}
			})
		})
	}
}
