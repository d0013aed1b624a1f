package schema

import (
	"sync"
)

// state is the scratch of one Apply. It is pooled; nothing that Apply returns refers to it.
type state struct {
	tree tree

	// What a payload that is no JSON is made a tree with.
	builder builder
	input   tree // the payload's JSON, where avro or protobuf come as JSON

	scratch []byte
	values  []byte // a row's cells' values, side by side

	applying
}

// applying is what a state holds of its record alone.
type applying struct {
	rec     *Record
	room    room // tree, builder and input share it
	decoded bool // tree holds the payload

	// The item of an `each`.
	key, item value
	index     int

	prog *program // the expression that runs; resolves its names
	miss string   // the last member that an expression did not find

	// Expression cost of the record. exact: measure it, because it cannot be shown
	// beforehand to stay within MaxCost.
	exact bool
	cost  uint64

	exported int // values made for columns, elements of lists too
}

var states = sync.Pool{New: func() any { return new(state) }}

func newState(r *Record) *state {
	s := states.Get().(*state)
	s.rec, s.room.memory = r, r.Memory
	s.tree.room, s.input.room, s.builder.room = &s.room, &s.room, &s.room
	return s
}

// keptScratch is how many bytes a pooled state keeps of each of its buffers.
const keptScratch = 64 << 10

// letGo gives back what large payloads are decoded in.
func (s *state) letGo() {
	s.tree.letGo()
	s.input.letGo()
	s.builder.letGo()
}

func (s *state) release() {
	s.letGo()
	s.tree.release()
	s.input.release()
	s.builder.room = nil
	if cap(s.scratch) > keptScratch {
		s.scratch = nil
	}
	if cap(s.values) > keptScratch {
		s.values = nil
	}
	s.applying = applying{}
	states.Put(s)
}
