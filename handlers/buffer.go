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

// buffers lends buffers by capacity, in four steps from each power of two to the next: a
// payload of a mebibyte and a byte must not hold two.
type buffers struct {
	class [4*(maxBufferBits-minBufferBits) + 1]sync.Pool
	// scribble, set by tests before use, overwrites what comes back, so that a read of a
	// buffer after its return shows.
	scribble bool
}

// get lends an empty buffer that holds at least n bytes.
func (p *buffers) get(n int) *buffer {
	if n > 1<<maxBufferBits {
		return &buffer{b: make([]byte, 0, n)}
	}
	c, size := bufferClass(n)
	if b, ok := p.class[c].Get().(*buffer); ok {
		b.b = b.b[:0]
		return b
	}
	return &buffer{b: make([]byte, 0, size)}
}

// bufferClass is the class of the smallest buffers that hold n bytes, at most
// 1<<maxBufferBits, and their capacity.
func bufferClass(n int) (class, size int) {
	n = max(n, 1<<minBufferBits)
	below := bits.Len(uint(n-1)) - 1 // 1<<below < n <= 2<<below
	step := 1 << (below - 2)
	steps := (n - 1<<below + step - 1) / step // 1..4
	return 4*(below-minBufferBits) + steps, 1<<below + steps*step
}

func (p *buffers) put(b *buffer) {
	if b == nil {
		return
	}
	if p.scribble && cap(b.b) > 0 {
		full := b.b[:cap(b.b)]
		full[0] = 0xDB
		for n := 1; n < len(full); n *= 2 {
			copy(full[n:], full[:n])
		}
	}
	if cap(b.b) > 1<<maxBufferBits {
		return
	}
	if c, size := bufferClass(cap(b.b)); size == cap(b.b) {
		p.class[c].Put(b)
	}
}

// pieceBytes is how far a buffer grows by copying. What is longer, and of no known length, is
// kept in pieces until all of it is there: copied once, to memory of its size, and not at all
// when it turns out to be too long.
const pieceBytes = 256 << 10

// grow gives a buffer of at least n bytes with b's content, and b back.
func (p *buffers) grow(b *buffer, n int) *buffer {
	bigger := p.get(n)
	for rest := b.b; len(rest) > 0; rest = rest[min(pieceBytes, len(rest)):] {
		bigger.extend(rest[:min(pieceBytes, len(rest))])
	}
	p.put(b)
	return bigger
}

// join gives one buffer with the content of pieces and last, in this order, and them back.
func (p *buffers) join(pieces []*buffer, last *buffer) *buffer {
	if len(pieces) == 0 {
		return last
	}
	pieces = append(pieces, last)
	n := 0
	for _, b := range pieces {
		n += len(b.b)
	}
	whole := p.get(n)
	for _, b := range pieces {
		whole.extend(b.b)
		p.put(b)
	}
	return whole
}

// extend appends a piece. It is a call, for one copy of megabytes to memory that the system
// has yet to provide takes many milliseconds in which the scheduler cannot stop its thread.
//
//go:noinline
func (b *buffer) extend(piece []byte) { b.b = append(b.b, piece...) }
