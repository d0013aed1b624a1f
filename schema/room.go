package schema

import (
	"bytes"

	"github.com/pushsink/pushsink/internal/plainjson"
)

// Memory lends what large payloads are decoded in. A payload that becomes few values, as
// most do, never asks.
type Memory interface {
	// Reserve makes n bytes the record's, in place of what it had. It may wait, for the
	// record holds next to nothing meanwhile; an error refuses the record. The lender takes
	// them back when the record's mutation is no longer used.
	Reserve(n int64) *Error
	// Most is what Reserve ever makes a record's.
	Most() int64
}

// What decoding takes at most, in bytes, growing memory and what it grows from included. The
// figures are measured: TestRoomCoversDecoding.
const (
	valueBytes   = 72  // a node, and its place on the stack before
	memberBytes  = 48  // its name in a set that finds duplicates, or in an index
	nameBytes    = 160 // its name, where jsontext looks for duplicates
	messageBytes = 512 // a protobuf message, or an entry of a map
	fieldBytes   = 32  // a value in a protobuf message
	textFactor   = 2   // a byte of JSON that the builder writes
)

const (
	// unaskedValues and unaskedText are what a payload becomes without asking for memory.
	unaskedValues = 4096
	unaskedText   = 64 << 10
)

// outgrows are how many times, in eighths, of what it has a decoder asks for that cannot tell
// how much it will need: the first that may ever be had.
var outgrows = [...]int{32, 20, 14, 11, 9}

// room is the memory that a record's payload is decoded in. Who outgrows what it asked for
// lets go of everything and decodes from the beginning when it has more, so that no record
// waits for memory while it holds some.
type room struct {
	memory Memory // nil = there is enough
	asked  [purposes]int64
	held   int64 // 0 = it has not asked
	wanted int64 // after errOutgrown
}

// purpose is what memory is for.
type purpose uint8

const (
	forReading  purpose = iota // the tree of a payload that is JSON
	forMessages                // of protobuf
	forBuilding                // what the builder makes
	purposes
)

// errOutgrown: decode again, after room.again.
var errOutgrown = &Error{Code: Internal, Detail: "the payload takes more memory than was asked for"}

// has reports whether the record may ever have n bytes for one purpose, beside the others.
func (r *room) has(p purpose, n int64) bool {
	if r == nil || r.memory == nil {
		return true
	}
	for other, asked := range r.asked {
		if purpose(other) != p {
			n += asked
		}
	}
	return n <= r.memory.Most()
}

// grow makes n bytes the record's for one purpose.
func (r *room) grow(p purpose, n int64) *Error {
	if r.memory == nil {
		return nil
	}
	r.asked[p] = max(r.asked[p], n)
	all := int64(0)
	for _, n := range r.asked {
		all += n
	}
	switch {
	case all <= r.held:
		return nil
	case r.held > 0:
		r.wanted = all
		return errOutgrown
	}
	r.held = all
	return r.memory.Reserve(all)
}

// again asks for what was wanted.
func (r *room) again() *Error {
	*r = room{memory: r.memory, held: r.wanted}
	return r.memory.Reserve(r.held)
}

// treeBytes is what a tree takes whose first values were read up to the rest of the text: as
// many values and names as rest can hold, by its punctuation. nameCost is per name. What
// stands in strings is left out where it decides whether there can be as much.
func (r *room) treeBytes(values int, rest []byte, nameCost int) int64 {
	cost := func(counts [4]int) int64 {
		most := func(n int) int64 { return int64(min(values+n, MaxValues+1)) }
		return most(counts[0]+counts[1]+counts[2])*valueBytes + most(counts[3])*int64(nameCost)
	}
	const punctuation = ",[{:"
	var all [4]int
	for i := range len(punctuation) {
		all[i] = bytes.Count(rest, []byte{punctuation[i]})
	}
	if n := cost(all); r.has(forReading, n) {
		return n
	}
	return cost(plainjson.Count(rest, punctuation))
}
