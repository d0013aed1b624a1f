package bigtable

import (
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// answer is one MutateRowsResponse: the statuses in it, in order. Only what is not a plain OK is
// worth a message, so it reads itself.
type answer struct{ entries []rowStatus }

// rowStatus is the status of one row of the request. The zero value acknowledges nothing.
type rowStatus struct {
	index int64
	set   bool        // the service gave a status
	not   *spb.Status // nil, where one was given = OK
}

// Field numbers of google.bigtable.v2.MutateRowsResponse and its Entry.
const (
	responseEntries = 1

	answerIndex  = 1
	answerStatus = 2
)

// Unmarshal reads a response, or nothing and an error where it is malformed.
func (a *answer) Unmarshal(b []byte) error {
	if a.plain(b) {
		return nil
	}
	a.entries = a.entries[:0]
	var m btpb.MutateRowsResponse
	if err := proto.Unmarshal(b, &m); err != nil {
		return err
	}
	for _, e := range m.Entries {
		s := rowStatus{index: e.GetIndex(), set: e.GetStatus() != nil}
		if e.GetStatus().GetCode() != 0 {
			s.not = e.GetStatus()
		}
		a.entries = append(a.entries, s)
	}
	return nil
}

// plain reads a response that holds nothing but entries, each an index and an empty status,
// which is OK: what the service says when all went well. For any other one it reports false.
func (a *answer) plain(b []byte) bool {
	a.entries = a.entries[:0]
	for len(b) > 0 {
		e, n, ok := lengthDelimited(b, responseEntries)
		if !ok {
			return false
		}
		b = b[n:]
		s := rowStatus{set: true}
		if len(e) > 0 && e[0] == answerIndex<<3|byte(protowire.VarintType) {
			v, n := protowire.ConsumeVarint(e[1:])
			if n < 0 {
				return false
			}
			s.index = int64(v)
			e = e[1+n:]
		}
		if len(e) != 2 || e[0] != answerStatus<<3|byte(protowire.BytesType) || e[1] != 0 {
			return false
		}
		a.entries = append(a.entries, s)
	}
	return true
}

// lengthDelimited reads the field num at the start of b, and how long it is there.
func lengthDelimited(b []byte, num protowire.Number) (inner []byte, n int, ok bool) {
	if b[0] != byte(num)<<3|byte(protowire.BytesType) {
		return nil, 0, false
	}
	inner, n = protowire.ConsumeBytes(b[1:])
	return inner, 1 + n, n >= 0
}
