package null

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of the requests whose elements are the entries of a write, from
// google/bigtable/v2/bigtable.proto and google/spanner/v1/spanner.proto.
const (
	mutateRowsEntries  protowire.Number = 2
	batchWriteGroups   protowire.Number = 4
	commitMutations    protowire.Number = 4
	createSessionField protowire.Number = 1
)

// count is how many times field stands at the top of message. It skips over what the
// fields hold, so that it costs next to nothing beside unmarshalling.
func count(message []byte, field protowire.Number) (n int64, ok bool) {
	for len(message) > 0 {
		num, typ, size := protowire.ConsumeTag(message)
		if size < 0 {
			return 0, false
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(num, typ, message); size < 0 {
			return 0, false
		}
		message = message[size:]
		if num == field {
			n++
		}
	}
	return n, true
}

// text is the last value of a string field at the top of message.
func text(message []byte, field protowire.Number) string {
	var last []byte
	for len(message) > 0 {
		num, typ, size := protowire.ConsumeTag(message)
		if size < 0 {
			return ""
		}
		message = message[size:]
		if num == field && typ == protowire.BytesType {
			last, _ = protowire.ConsumeBytes(message)
		}
		if size = protowire.ConsumeFieldValue(num, typ, message); size < 0 {
			return ""
		}
		message = message[size:]
	}
	return string(last)
}

// maxEntries is the most entries that one write may hold: Bigtable's bound on mutations.
const maxEntries = 100_000

// mutated are the answers to MutateRows of every size: OK for the entries 0 to n-1 is a
// beginning of OK for 0 to n.
type mutated struct {
	wire []byte
	ends []int // of the answer to n entries
}

func newMutated() *mutated {
	m := &mutated{ends: make([]int, 1, maxEntries+1)}
	var entry []byte
	for i := range maxEntries {
		entry = entry[:0]
		if i > 0 {
			entry = protowire.AppendTag(entry, 1, protowire.VarintType) // index
			entry = protowire.AppendVarint(entry, uint64(i))
		}
		entry = protowire.AppendTag(entry, 2, protowire.BytesType) // status: OK
		entry = protowire.AppendBytes(entry, nil)
		m.wire = protowire.AppendTag(m.wire, 1, protowire.BytesType)
		m.wire = protowire.AppendBytes(m.wire, entry)
		m.ends = append(m.ends, len(m.wire))
	}
	return m
}

// answer is OK for each of n entries.
func (m *mutated) answer(n int64) []byte { return m.wire[:m.ends[n]] }
