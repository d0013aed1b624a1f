package handlers

import (
	"io"
	"runtime"
)

// withoutTurn is how many bytes of a body, compressed and decompressed taken together, are
// decompressed without a turn: most bodies end before, and never wait for a large one.
const withoutTurn = 256 << 10

// turns are how many long bodies are decompressed at a time: at most half of the processors,
// at least one, so that however many decompress, the others of the processors answer
// pushes. A turn is taken for one read of the decompressor, some 32 KiB of its output, and is
// never held while a client is waited for. Who waits is served in the order of arrival.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// takeTurn waits for a turn until the request's deadline.
func (x *exchange) takeTurn() error {
	select {
	case x.h.turns <- struct{}{}:
	default:
		select {
		case x.h.turns <- struct{}{}:
		case <-x.ctx.Done():
			return errLate
		}
	}
	x.turn = true
	return nil
}

// giveTurn gives the turn back, if the request has one.
func (x *exchange) giveTurn() {
	if x.turn {
		x.turn = false
		<-x.h.turns
	}
}

// compressed is a decompressor's source. While it waits for the client, others have the turn.
type compressed struct{ wire *wire }

var _ io.Reader = compressed{}

func (c compressed) Read(p []byte) (int, error) {
	x := c.wire.x
	if !x.turn {
		return c.wire.Read(p)
	}
	x.giveTurn()
	n, err := c.wire.Read(p)
	if late := x.takeTurn(); late != nil {
		return 0, late
	}
	return n, err
}
