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
func (s *settings) memoryLimit(k sinks) int64 {
	const rest = 64 << 20
	held := []size{s.BodyBytesInFlight}
	if k.bigtable {
		held = append(held, s.Bigtable.MaxInFlightBytes)
	}
	if k.spanner {
		held = append(held, s.Spanner.MaxInFlightBytes)
	}
	limit := int64(rest)
	for _, n := range held {
		if s.Dev || n > math.MaxInt64/16 {
			return 0
		}
		limit += 2 * int64(n)
	}
	return limit
}

// garbage is how much garbage the heap may hold, in percent of what is live. What is live
// between two collections is small, a few KiB a connection: at the runtime's default of 100
// it is marked so often that a push cost a tenth more CPU, and at 400 no less than at 200.
const garbage = 200

// limitMemory sets the runtime's soft limit, unless GOMEMLIMIT has set it, and below it lets
// garbage wait longer, unless GOGC says how long.
func (s *settings) limitMemory(k sinks) {
	limit := s.memoryLimit(k)
	if limit > 0 && s.MemoryLimit == "" {
		debug.SetMemoryLimit(limit)
	}
	if (limit > 0 || s.MemoryLimit != "") && s.GarbagePercent == "" {
		debug.SetGCPercent(garbage)
	}
}
