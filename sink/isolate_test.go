package sink_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// behind holds a hundred records back behind a slow first one, so that they are sent
// together, and returns what became of them and how many requests they took.
func (r *rig) behind(es ...sink.Entry) ([]*pending, int) {
	r.t.Helper()
	first := r.write(0, r.entry("first"))
	synctest.Wait()
	ps := r.each(0, es...)
	kinds(append(ps, first)...)
	return ps, len(r.sizes()) - 1
}

func slowFirst(o *sink.Options, b *sinktest.Backend) {
	b.Latency, o.MaxInFlightRequestsDest = 20*ms, 1
}

// WR-01: one bad record among a hundred from as many calls fails alone, and finding it
// costs a bounded number of requests.
func TestWR01OnePoisonRecord(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(...string) sinktest.Fault
		most  int // requests more than without it
	}{
		{"refused by its own status", sinktest.Reject, 1},
		{"refused with its whole request", sinktest.RejectWhole, 14},
	} {
		for _, merge := range []bool{true, false} {
			for _, bad := range []int{37, 0, 99, 50} {
				t.Run(tt.name+"/"+strconv.Itoa(bad), func(t *testing.T) {
					inBubble(t, func(o *sink.Options, b *sinktest.Backend) { slowFirst(o, b); o.MergeKeys = merge }, func(r *rig) {
						r.b.Inject(tt.fault(strconv.Itoa(bad)))
						ps, n := r.behind(r.entries(0, 100)...)
						for i, p := range ps {
							if i == bad {
								wantIs(t, "the bad one", p.outs[0], sink.Rejected, sinktest.Refused.Err)
							} else {
								wantIs(t, "a good one", p.outs[0], sink.Applied)
							}
						}
						if n-1 > tt.most {
							t.Errorf("%d requests more, want at most %d", n-1, tt.most)
						}
					})
				})
			}
		}
	}
}

func TestBisectBound(t *testing.T) {
	for n := 2; n <= 40; n++ {
		for bad := range n {
			inBubble(t, slowFirst, func(r *rig) {
				r.b.Inject(sinktest.RejectWhole(strconv.Itoa(bad)))
				_, used := r.behind(r.entries(0, n)...)
				if most := 2*int(math.Ceil(math.Log2(float64(n)))) + 1; used > most {
					t.Errorf("culprit %d of %d took %d requests, want at most %d", bad, n, used, most)
				}
			})
		}
	}
}

func TestMergedEntriesAreIsolatedInOrder(t *testing.T) {
	for name, fault := range map[string]func(...string) sinktest.Fault{"entry": sinktest.Reject, "whole": sinktest.RejectWhole} {
		for n := 2; n <= 9; n++ {
			for bad := range n {
				inBubble(t, slowFirst, func(r *rig) {
					r.b.Inject(fault(strconv.Itoa(bad)))
					var es []sink.Entry
					var want []string
					for i := range n {
						es = append(es, r.entry(strconv.Itoa(i), "k"))
						if i != bad {
							want = append(want, strconv.Itoa(i))
						}
					}
					ps, used := r.behind(es...)
					wantKinds(t, name, kinds(ps...), map[sink.Kind]int{sink.Applied: n - 1, sink.Rejected: 1})
					wantIs(t, "the bad one", ps[bad].outs[0], sink.Rejected)
					wantList(t, "order of the key", r.b.Applied(table, "k"), want)
					if most := 2*int(math.Ceil(math.Log2(float64(n)))) + 1; used > most {
						t.Errorf("%d merged entries took %d requests, want at most %d", n, used, most)
					}
				})
			}
		}
	}
}

// The key of an entry that is being isolated waits; other keys do not.
func TestIsolationKeepsItsKeyAndHalfOfTheSlots(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		b.Latency, o.MaxInFlightRequestsDest, o.MaxTimeInBuffer = 20*ms, 4, 0
	}, func(r *rig) {
		var bad []string
		var es []sink.Entry
		for i := range 16 {
			bad = append(bad, strconv.Itoa(i))
			es = append(es, r.entry(strconv.Itoa(i), "k"+strconv.Itoa(i)))
		}
		r.b.Inject(sinktest.Reject(bad...))
		all := r.write(0, es...)
		r.sleepUntil(25 * ms) // refused; two of them are isolated at a time
		behind := r.write(0, r.entry("behind", "k15"))
		free := r.write(0, r.entry("free"))
		kinds(free)
		wantTime(t, "another key's", free.end, 45*ms)
		wantKinds(t, "the refused", kinds(all), map[sink.Kind]int{sink.Rejected: 16})
		wantTime(t, "isolated two at a time", all.end, 180*ms)
		kinds(behind)
		wantTime(t, "the one behind the last key", behind.end, 200*ms)
	})
}

// A redelivered record that was refused for good is sent alone from the start: twenty
// redeliveries cost twenty requests and disturb nobody.
func TestPoisonIsSentAloneFromTheStart(t *testing.T) {
	inBubble(t, slowFirst, func(r *rig) {
		r.b.Inject(sinktest.RejectWhole("5"))
		r.behind(r.entries(0, 100)...)
		for round := range 20 {
			before := len(r.sizes())
			first := r.write(0, r.entry("first"+strconv.Itoa(round)))
			synctest.Wait()
			es := r.entries(1000+100*round, 1099+100*round)
			ps := r.each(0, append(slices.Clone(es[:40]), append([]sink.Entry{r.entry("5")}, es[40:]...)...)...)
			got := kinds(append(ps, first)...)
			wantKinds(t, "a redelivery", got, map[sink.Kind]int{sink.Applied: 100, sink.Rejected: 1})
			if n := len(r.sizes()) - before; n != 3 {
				t.Errorf("round %d: %d requests, want the first, the good ones and the bad one", round, n)
			}
		}
		time.Sleep(10*time.Minute + 1)
		before := len(r.sizes())
		first := r.write(0, r.entry("first again"))
		synctest.Wait()
		kinds(append(r.each(0, r.entry("5"), r.entry("x")), first)...)
		if n := r.sizes()[before+1]; n != 2 {
			t.Errorf("forgotten after ten minutes, yet sent in a batch of %d", n)
		}
	})
}

func TestPoisonAloneDoesNotStarveTheLane(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { slowFirst(o, b); o.MaxConsecutiveRejections = -1 }, func(r *rig) {
		r.b.Inject(sinktest.Reject("bad"))
		r.write(0, r.entry("bad")).wait()
		var bad []*pending
		for range 10 {
			bad = append(bad, r.write(0, r.entry("bad", "")))
		}
		synctest.Wait()
		good := r.write(0, r.entry("good"))
		start := r.at()
		kinds(good)
		within(t, "a good record among ten bad ones, one request at a time", good.end-start, 0, 60*ms)
		kinds(bad...)
	})
}

func TestSoleRejectionIsConfirmedAtOnce(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) { o.MergeKeys = false }, func(r *rig) {
		o := sinktest.Refused
		o.Sole = true
		r.b.Inject(sinktest.Answer(o, "1"))
		wantKinds(t, "all", kinds(r.write(0, r.entries(0, 3)...)), map[sink.Kind]int{sink.Applied: 2, sink.Rejected: 1})
		wantList(t, "sizes", r.sizes(), []int{3})
	})
}

func TestIsolationGoesOnThroughFailures(t *testing.T) {
	inBubble(t, slowFirst, func(r *rig) {
		r.b.Inject(sinktest.RejectWhole("3"))
		flaky := 0
		r.b.Inject(func(_ context.Context, q *sinktest.Request) []sink.Outcome {
			if flaky++; flaky%3 == 0 {
				return sinktest.Whole(len(q.Entries), sinktest.Unavailable)
			}
			return nil
		})
		ps, _ := r.behind(r.entries(0, 16)...)
		wantKinds(t, "all", kinds(ps...), map[sink.Kind]int{sink.Applied: 15, sink.Rejected: 1})
		wantIs(t, "the bad one", ps[3].outs[0], sink.Rejected)
	})
}
