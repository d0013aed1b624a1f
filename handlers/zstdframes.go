package handlers

import (
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdFrames watches a zstd stream on its way to the decoder, and charges the window of each
// frame to the body budget before the decoder sees the frame's header: the decoder takes that
// memory at once, however little data follows. Windows above maxZstdWindow are the decoder's
// to refuse.
type zstdFrames struct {
	src    io.Reader
	charge func(n int64) bool

	window   int64  // charged so far: the decoder keeps its largest
	head     []byte // of a frame or block, as far as it came
	block    bool   // a block's header comes next, not a frame's
	checksum bool   // the frame ends with one
	skip     int64  // bytes before the next header
	lost     bool   // the stream is broken; the decoder will say so
}

func (f *zstdFrames) Read(p []byte) (int, error) {
	n, err := f.src.Read(p)
	if !f.walk(p[:n]) {
		return 0, errBudgetFull
	}
	return n, err
}

// walk follows the frames through b; false = a window does not fit the budget.
func (f *zstdFrames) walk(b []byte) bool {
	for len(b) > 0 && !f.lost {
		if f.skip > 0 {
			n := min(f.skip, int64(len(b)))
			b = b[n:]
			f.skip -= n
			continue
		}
		f.head = append(f.head, b[0])
		b = b[1:]
		if f.block {
			f.blockHeader()
		} else if !f.frameHeader() {
			return false
		}
	}
	return true
}

// frameHeader takes a frame's header once it is complete.
func (f *zstdFrames) frameHeader() bool {
	var h zstd.Header
	if err := h.Decode(f.head); err != nil {
		f.lost = !errors.Is(err, io.ErrUnexpectedEOF)
		return true
	}
	f.head = f.head[:0]
	if h.Skippable {
		f.skip = int64(h.SkippableSize)
		return true
	}
	f.block, f.checksum = true, h.HasCheckSum
	window := h.WindowSize
	if h.SingleSegment {
		window = h.FrameContentSize
	}
	// Unsigned: a huge window must not turn negative.
	more := int64(min(window, maxZstdWindow)) - f.window
	if more <= 0 {
		return true
	}
	if !f.charge(more) {
		return false
	}
	f.window += more
	return true
}

// blockHeader takes a block's header of 3 bytes (RFC 8878, 3.1.1.2).
func (f *zstdFrames) blockHeader() {
	if len(f.head) < 3 {
		return
	}
	v := uint32(f.head[0]) | uint32(f.head[1])<<8 | uint32(f.head[2])<<16
	f.head = f.head[:0]
	last, kind, size := v&1 == 1, v>>1&3, int64(v>>3)
	const rle, reserved = 1, 3
	switch kind {
	case rle:
		size = 1
	case reserved:
		f.lost = true
	}
	f.skip = size
	if last {
		f.block = false
		if f.checksum {
			f.skip += 4
		}
	}
}
