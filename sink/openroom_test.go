package sink_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// What is in an open request of a silent lane keeps its room until the attempt ends. However
// many and large requests a lane may have, they leave some to others, in entries and in bytes.
func TestOpenRequestsOfASilentLaneLeaveRoom(t *testing.T) {
	down, up := sink.Dest{Instance: "i", Table: "down"}, sink.Dest{Instance: "i", Table: "up"}
	for name, tune := range map[string]func(*sink.Options){
		"requests":        func(o *sink.Options) { o.MaxInFlightEntries, o.MaxBatchEntries, o.MaxInFlightRequestsDest = 20, 4, 8 },
		"one request":     func(o *sink.Options) { o.MaxInFlightEntries, o.MaxBatchEntries, o.MaxInFlightRequestsDest = 20, 100, 1 },
		"bytes":           func(o *sink.Options) { o.MaxInFlightBytes, o.MaxBatchEntries = 20, 4 },
		"a batch's bytes": func(o *sink.Options) { o.MaxInFlightBytes, o.MaxBatchBytes, o.MaxInFlightRequestsDest = 20, 100, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
				o.AttemptTimeout = 3 * time.Second
				tune(o)
			}, func(r *rig) {
				r.b.Inject(sinktest.For(down, sinktest.Stall(nil)))
				es := r.entries(0, 40)
				for i := range es {
					es[i].Dest = down
				}
				hung := r.write(8*time.Second, es...)
				synctest.Wait()
				r.sleepUntil(time.Second)
				other := r.entry("other")
				other.Dest = up
				wantIs(t, "while the attempts go on", r.write(8*time.Second, other).wait()[0], sink.Applied)
				wantTime(t, "answered", r.at(), time.Second+r.b.Latency)
				kinds(hung)
			})
		})
	}
}

// Records larger than what a lane may have open beside others are written one by one.
func TestLargeEntriesAreSentThoughTheyLeaveNoRoom(t *testing.T) {
	inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
		o.MaxInFlightBytes, b.Latency = 20, 100*ms
	}, func(r *rig) {
		es := r.entries(0, 3)
		for i := range es {
			es[i].Bytes = 19
		}
		wantKinds(t, "large", kinds(r.write(0, es...)), map[sink.Kind]int{sink.Applied: 3})
		wantList(t, "sent", r.sentAt(), []time.Duration{0, 100 * ms, 200 * ms})
	})
}
