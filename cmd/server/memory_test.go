package main

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestMemoryLimitFollowsTheByteBounds(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, c := range []struct {
		name   string
		change func(*settings)
		sinks  sinks
		want   int64
	}{
		{"defaults", func(*settings) {}, sinks{bigtable: true}, 2*(128<<20+64<<20) + 64<<20},
		{"Spanner", func(*settings) {}, sinks{spanner: true}, 2*(128<<20+32<<20) + 64<<20},
		{"both", func(*settings) {}, sinks{true, true}, 2*(128<<20+64<<20+32<<20) + 64<<20},
		{"other bounds", func(s *settings) { s.BodyBytesInFlight, s.Bigtable.MaxInFlightBytes = 1<<20, 2<<20 }, sinks{bigtable: true}, 2*(3<<20) + 64<<20},
		{"GOMEMLIMIT", func(s *settings) { s.MemoryLimit = "1GiB" }, sinks{bigtable: true}, math.MaxInt64},
		{"dev mode", func(s *settings) { s.Dev = true }, sinks{bigtable: true}, math.MaxInt64},
		{"no bound", func(s *settings) { s.BodyBytesInFlight = math.MaxInt64 }, sinks{bigtable: true}, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			s := &settings{}
			s.BodyBytesInFlight, s.Bigtable.MaxInFlightBytes, s.Spanner.MaxInFlightBytes = 128<<20, 64<<20, 32<<20
			c.change(s)
			s.limitMemory(c.sinks)
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("limit %d, want %d", got, c.want)
			}
		})
	}
}
