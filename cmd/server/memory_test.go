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
		given  string
		want   int64
	}{
		{"defaults", func(*settings) {}, "", 2*(128<<20+64<<20) + 64<<20},
		{"other bounds", func(s *settings) { s.BodyBytesInFlight, s.Bigtable.MaxInFlightBytes = 1<<20, 2<<20 }, "", 2*(3<<20) + 64<<20},
		{"GOMEMLIMIT", func(*settings) {}, "1GiB", math.MaxInt64},
		{"dev mode", func(s *settings) { s.Dev = true }, "", math.MaxInt64},
		{"no bound", func(s *settings) { s.BodyBytesInFlight = math.MaxInt64 }, "", math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			s := &settings{}
			s.BodyBytesInFlight, s.Bigtable.MaxInFlightBytes = 128<<20, 64<<20
			c.change(s)
			s.limitMemory(c.given)
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("limit %d, want %d", got, c.want)
			}
		})
	}
}
