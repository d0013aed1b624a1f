package sink

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkCore measures the state machine alone: two calls of 500 entries at a time, in batches
// of 100.
func BenchmarkCore(b *testing.B) {
	const size = 500
	c := newCore(DefaultBigtableOptions(), rand.Float64)
	es := benchEntries(size*8, true, 0)
	route := &Route{Name: "r"}
	for i := range es {
		es[i].Route = route
	}
	outs := make([]Outcome, 100)
	for i := range outs {
		outs[i].Kind = Applied
	}
	now := time.Unix(1_000_000, 0)
	b.ReportAllocs()
	cpu := cpuTime()
	for n := 0; b.Loop(); n++ {
		now = now.Add(time.Millisecond)
		for i := range 2 {
			t := newTicket(nil, nil, now.Add(time.Minute), es[(2*n+i)%8*size:][:size])
			c.submit(now, &t.call)
		}
		for len(c.started) > 0 {
			k := c.started[0]
			c.started = append(c.started[:0], c.started[1:]...)
			switch k.kind {
			case doWrite:
				c.wrote(now.Add(5*time.Millisecond), k.req, outs[:len(k.req.items)], nil, false)
			case doOpen:
				c.opened(now, k.inst, nil)
			}
			if len(c.started) == 0 && c.calls.n > 0 {
				now = c.next()
				c.tick(now)
			}
		}
		c.woken = c.woken[:0]
	}
	reportCPU(b, cpu, b.N*2*size)
}
