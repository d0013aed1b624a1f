package main

import (
	"math"
	"runtime/debug"
)

// memoryLimit is where the garbage collector begins to work harder: twice what the byte
// bounds let the process hold, for a body is decoded before it is let go and an entry is
// serialized once more to be sent, and 64 MiB for the rest. Without a limit the heap may
// double before it is collected. 0 = none: the bounds are past all memory, or dev mode
// keeps rows in it.
func (s *settings) memoryLimit() int64 {
	const rest = 64 << 20
	held, entries := int64(s.BodyBytesInFlight), int64(s.Bigtable.MaxInFlightBytes)
	if s.Dev || held > math.MaxInt64/8 || entries > math.MaxInt64/8 {
		return 0
	}
	return 2*(held+entries) + rest
}

// limitMemory sets the runtime's soft limit, unless GOMEMLIMIT (given) has set it.
func (s *settings) limitMemory(given string) {
	if limit := s.memoryLimit(); limit > 0 && given == "" {
		debug.SetMemoryLimit(limit)
	}
}
