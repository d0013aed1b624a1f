package handlers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"sync/atomic"
	"time"
)

// ids gives the records of one batch their ids.
type ids struct {
	// prefix is the Idempotency-Key, or the request's own id.
	prefix string
	// seen counts equal records under an Idempotency-Key, by 64 bits of their hash; nil
	// without one. Were two different records to share them, the later one would only get a
	// higher number.
	seen map[uint64]uint32
}

const (
	// hashChars is how much of the record's hash is in its id: 132 bits.
	hashChars = 22
	// seenBytes is about what one entry of ids.seen takes, and is charged to the body
	// budget, since their number is bounded by the body alone.
	seenBytes = 32
)

// newIDs takes the Idempotency-Key; empty = none was sent.
func newIDs(key string) ids {
	if key == "" {
		return ids{prefix: rand.Text()}
	}
	return ids{prefix: key, seen: make(map[uint64]uint32)}
}

// of gives the id of the record at index. With a key it depends on the record alone and on
// how many equal ones came before it, so that a caller who sends only the failed ones again
// keeps their ids. fresh reports that the record is the first of its kind.
func (d *ids) of(index int, data []byte) (id string, fresh bool) {
	var room [maxKey + hashChars + 24]byte
	b := append(room[:0], d.prefix...)
	b = append(b, ':')
	if d.seen == nil {
		return string(strconv.AppendInt(b, int64(index), 10)), false
	}
	sum := sha256.Sum256(data)
	h := binary.BigEndian.Uint64(sum[:])
	d.seen[h]++
	n := d.seen[h]
	var text [44]byte
	base64.RawURLEncoding.Encode(text[:], sum[:])
	b = append(b, text[:hashChars]...)
	b = append(b, ':')
	return string(strconv.AppendUint(b, uint64(n), 10)), n == 1
}

// arrivals is the clock of arrival times: milliseconds that never go back within the process,
// so that a later request never writes an older cell version.
type arrivals struct {
	now  func() time.Time
	last atomic.Int64
}

func (a *arrivals) next() time.Time {
	ms := a.now().UnixMilli()
	for {
		last := a.last.Load()
		if ms <= last {
			return time.UnixMilli(last).UTC()
		}
		if a.last.CompareAndSwap(last, ms) {
			return time.UnixMilli(ms).UTC()
		}
	}
}
