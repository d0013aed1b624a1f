package handlers

import (
	"math/bits"
	"sync/atomic"
)

// histogram counts whole numbers in buckets a quarter of an octave wide, so that a
// percentile read from it is off by less than a fifth of its value. Adding is one atomic addition.
type histogram struct{ counts [160]atomic.Uint64 }

// bucket is [From, To) and how many fell into it.
type bucket [3]uint64

// add counts v; below zero is zero, and the last bucket (from 1.9e12) takes everything above it.
func (h *histogram) add(v int64) {
	h.counts[min(bucketOf(uint64(max(0, v))), len(h.counts)-1)].Add(1)
}

func bucketOf(v uint64) int {
	if v < 4 {
		return int(v)
	}
	octave := bits.Len64(v) - 1
	return (octave-1)*4 + int(v>>(octave-2)&3)
}

// bucketFrom is the least value of a bucket.
func bucketFrom(i int) uint64 {
	if i < 4 {
		return uint64(i)
	}
	return uint64(4+i%4) << (i/4 - 1)
}

// buckets lists those that counted something, in order.
func (h *histogram) buckets() []bucket {
	list := []bucket{}
	for i := range h.counts {
		if n := h.counts[i].Load(); n > 0 {
			list = append(list, bucket{bucketFrom(i), bucketFrom(i + 1), n})
		}
	}
	return list
}
