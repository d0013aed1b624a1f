package sink_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/sinktest"
)

// What is in an open request of a silent lane keeps its room until the attempt ends. Where a
// lane's requests can hold the whole cap, another lane's records are not admitted until then;
// one request less, and they are written at once. (The server's start warns of the former.)
func TestOpenRequestsOfASilentLaneKeepTheirRoom(t *testing.T) {
	down, up := sink.Dest{Instance: "i", Table: "down"}, sink.Dest{Instance: "i", Table: "up"}
	for name, c := range map[string]struct {
		requests int
		want     sink.Kind
	}{
		"all of the cap": {5, sink.Transient},
		"less than that": {4, sink.Applied},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(o *sink.Options, b *sinktest.Backend) {
				o.MaxInFlightEntries, o.MaxBatchEntries, o.MaxInFlightRequestsDest, o.AttemptTimeout = 20, 4, c.requests, 3*time.Second
			}, func(r *rig) {
				r.b.Inject(sinktest.For(down, sinktest.Stall(nil)))
				es := r.entries(0, 40)
				for i := range es {
					es[i].Dest = down
				}
				var hung []*pending
				for i := 0; i < len(es); i += 4 {
					hung = append(hung, r.write(8*time.Second, es[i:i+4]...))
					synctest.Wait() // a full batch each
				}
				write := func() *pending {
					e := r.entry("other")
					e.Dest = up
					return r.write(8*time.Second, e)
				}
				r.sleepUntil(time.Second)
				if got := write().wait()[0]; got.Kind != c.want {
					t.Errorf("while the attempts go on: %v, want %v", got, c.want)
				}
				r.sleepUntil(3500 * ms)
				wantKinds(t, "after them", kinds(write()), map[sink.Kind]int{sink.Applied: 1})
				kinds(hung...)
			})
		})
	}
}
