package schema

import (
	"sync"
)

// state is the scratch of one Apply. It is pooled; nothing that Apply returns refers to it.
type state struct {
	rec     *Record
	tree    tree
	decoded bool // tree holds the payload

	// What a payload that is no JSON is made a tree with.
	builder builder
	input   tree // the payload's JSON, where avro or protobuf come as JSON

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

	scratch []byte
	values  []byte // a row's cells' values, side by side
}

var states = sync.Pool{New: func() any { return new(state) }}

func newState(r *Record) *state {
	s := states.Get().(*state)
	s.rec = r
	return s
}

// keptScratch is how many bytes a pooled state keeps of each of its buffers.
const keptScratch = 64 << 10

func (s *state) release() {
	s.tree.release()
	s.input.release()
	s.builder.release()
	scratch, values := s.scratch, s.values
	if cap(scratch) > keptScratch {
		scratch = nil
	}
	if cap(values) > keptScratch {
		values = nil
	}
	*s = state{tree: s.tree, builder: s.builder, input: s.input, scratch: scratch[:0], values: values[:0]}
	states.Put(s)
}
