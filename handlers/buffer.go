package handlers

import (
	"math/bits"
	"sync"
)

const (
	minBufferBits = 12 // 4 KiB: most pushes
	maxBufferBits = 25 // 32 MiB; a larger buffer is left to the garbage collector
)

// buffer is a byte slice on loan from [buffers]. Its owner gives it back exactly once, and
// only when nothing that may still be read points into it: an entry whose write may still be
// under way does (see item.pinned).
type buffer struct{ b []byte }

// buffers lends buffers by capacity, in powers of two.
type buffers struct {
	class [maxBufferBits - minBufferBits + 1]sync.Pool
	// scribble, set by tests before use, overwrites what comes back, so that a read of a
	// buffer after its return shows.
	scribble bool
}

// get lends an empty buffer that holds at least n bytes.
func (p *buffers) get(n int) *buffer {
	c := max(bits.Len(uint(max(n, 1)-1)), minBufferBits)
	if c > maxBufferBits {
		return &buffer{b: make([]byte, 0, n)}
	}
	if b, ok := p.class[c-minBufferBits].Get().(*buffer); ok {
		b.b = b.b[:0]
		return b
	}
	return &buffer{b: make([]byte, 0, 1<<c)}
}

func (p *buffers) put(b *buffer) {
	if b == nil {
		return
	}
	if p.scribble {
		full := b.b[:cap(b.b)]
		for i := range full {
			full[i] = 0xDB
		}
	}
	n := uint(cap(b.b))
	if c := bits.Len(n - 1); n == 1<<c && c >= minBufferBits && c <= maxBufferBits {
		p.class[c-minBufferBits].Put(b)
	}
}

// grow gives a buffer of at least n bytes with b's content, and b back.
func (p *buffers) grow(b *buffer, n int) *buffer {
	bigger := p.get(n)
	bigger.b = append(bigger.b, b.b...)
	p.put(b)
	return bigger
}
