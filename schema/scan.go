package schema

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/internal/plainjson"
)

// scanner makes a tree of JSON in one pass, in a third of the time that it takes to ask
// jsontext for one token after another. It only ever says yes: what it does not know to be
// valid, within MaxDepth and MaxValues, it leaves to jsontext, which finds every error.
type scanner struct {
	data  []byte
	tree  *tree // whose room it is
	nodes []node
	stack []node // values whose parent is still open
	err   *Error // there is no room
}

// scan fills t; false without an error = jsontext has to look at data.
func (t *tree) scan(data []byte) (bool, *Error) {
	s := scanner{data: data, tree: t, nodes: t.nodes[:0], stack: append(t.stack[:0], node{})}
	at, c := s.next(0)
	at = s.value(at, c, 0)
	t.nodes, t.stack = append(s.nodes, s.stack[0]), s.stack[:0]
	if at < 0 || len(t.nodes) > MaxValues {
		return false, s.err
	}
	if cap(t.stack) > keptNodes {
		t.stack = nil // it is as large as the nodes, and the mapping needs memory of its own
	}
	at, _ = s.next(at)
	return at == len(data), nil
}

// fits makes room for the values from at on; false = there is none, or there are too many.
func (s *scanner) fits(at int) bool {
	n := len(s.nodes) + len(s.stack)
	if n > MaxValues {
		return false
	}
	s.err = s.tree.fit(n, s.data, at, memberBytes)
	return s.err == nil
}

// next skips white space. The byte is 0, which begins nothing, behind the last one.
func (s *scanner) next(at int) (int, byte) {
	for ; at < len(s.data); at++ {
		if c := s.data[at]; c > ' ' || c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return at, c
		}
	}
	return at, 0
}

// value reads the value that begins with c at data[at] into the last node of the stack. It
// gives the index behind the value, or -1. depth is how many lists and objects are open.
func (s *scanner) value(at int, c byte, depth int) int {
	n := &s.stack[len(s.stack)-1]
	n.start = uint32(at)
	switch c {
	case '"':
		n.kind = text
		at, n.escaped = s.text(at)
	case '{', '[':
		return s.items(at, c, depth)
	case 't':
		n.kind, n.bits = boolean, 1
		at = s.word(at, "true")
	case 'f':
		n.kind = boolean
		at = s.word(at, "false")
	case 'n':
		n.kind = null
		at = s.word(at, "null")
	case 0:
		return -1
	default:
		at = s.number(n, at)
	}
	n.end = uint32(at)
	return at
}

func (s *scanner) word(at int, word string) int {
	if end := at + len(word); end <= len(s.data) && string(s.data[at:end]) == word {
		return end
	}
	return -1
}

// items is value for a list or an object.
func (s *scanner) items(at int, c byte, depth int) int {
	if depth == MaxDepth {
		return -1
	}
	kind, end := list, byte(']')
	if c == '{' {
		kind, end = object, '}'
	}
	base := len(s.stack)
	at, c = s.next(at + 1)
	for c != end {
		if len(s.stack) > base {
			if c != ',' {
				return -1
			}
			at, c = s.next(at + 1)
		}
		var item node
		if kind == object {
			if c != '"' {
				return -1
			}
			stop, escaped := s.text(at)
			if stop < 0 || escaped { // names are compared as they stand
				return -1
			}
			item.name, item.stop = uint32(at), uint32(stop)
			if at, c = s.next(stop); c != ':' {
				return -1
			}
			at, c = s.next(at + 1)
		}
		s.stack = append(s.stack, item)
		if at = s.value(at, c, depth+1); at < 0 || len(s.nodes)+len(s.stack) > s.tree.most && !s.fits(at) {
			return -1
		}
		at, c = s.next(at)
	}
	items := s.stack[base:]
	if kind == object && duplicate(s.data, items) >= 0 {
		return -1
	}
	n := &s.stack[base-1]
	n.kind, n.end, n.bits = kind, uint32(at+1), uint64(len(s.nodes))<<32|uint64(len(items))
	s.nodes = append(s.nodes, items...)
	s.stack = s.stack[:base]
	return at + 1
}

// text reads a string.
func (s *scanner) text(start int) (end int, escaped bool) {
	data, ascii := s.data, true
	for i := start + 1; ; i++ {
		for i+8 <= len(data) {
			m := plainjson.Special(binary.LittleEndian.Uint64(data[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		if i >= len(data) {
			return -1, false
		}
		switch c := data[i]; {
		case c == '"':
			end = i + 1
			if escaped && !jsontext.Value(data[start:end]).IsValid() || !ascii && !utf8.Valid(data[start:end]) {
				return -1, false
			}
			return end, escaped
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			return -1, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
}

// number reads a number.
func (s *scanner) number(n *node, start int) int {
	at := start
	neg := s.data[at] == '-'
	if neg {
		at++
	}
	first, mag := at, uint64(0)
	for ; at < len(s.data) && s.data[at]-'0' <= 9; at++ {
		mag = mag*10 + uint64(s.data[at]-'0')
	}
	count := at - first
	if count == 0 || count > 1 && s.data[first] == '0' {
		return -1
	}
	whole := at
	if at < len(s.data) && s.data[at] == '.' {
		if at = s.digits(at + 1); at < 0 {
			return -1
		}
	}
	exponent := at
	if at < len(s.data) && (s.data[at] == 'e' || s.data[at] == 'E') {
		at++
		if at < len(s.data) && (s.data[at] == '+' || s.data[at] == '-') {
			at++
		}
		if at = s.digits(at); at < 0 {
			return -1
		}
	}
	switch { // what parseNumber says, where it is plain
	case at == whole && count <= 18 && mag > 0:
		n.kind, n.bits = integer, mag
		if neg {
			n.bits = -mag
		}
	case at > whole && at == exponent && s.data[at-1] != '0':
		n.kind = literal
	default:
		n.kind, n.bits = parseNumber(s.data[start:at])
	}
	return at
}

// digits skips at least one.
func (s *scanner) digits(at int) int {
	start := at
	for at < len(s.data) && s.data[at]-'0' <= 9 {
		at++
	}
	if at == start {
		return -1
	}
	return at
}

// duplicate finds a member that is named like one before it; -1 = there is none. Names are
// compared as they stand in text.
func duplicate(text []byte, members []node) int {
	twice := -1
	if len(members) > 64 {
		seen := make(map[string]struct{}, len(members))
		for i := range members {
			name := alias(text[members[i].name:members[i].stop])
			if _, ok := seen[name]; ok {
				twice = i
			}
			seen[name] = struct{}{}
		}
		return twice
	}
	var seen uint64 // a set of hashes, to compare few names at all
	for i := range members {
		name := text[members[i].name:members[i].stop]
		size := len(name) // with its quotes
		bit := uint64(1) << ((size + int(name[1])*5 + int(name[size-2])*11 + int(name[size/2])*3) % 64)
		if seen&bit != 0 {
			for j := range i {
				if string(text[members[j].name:members[j].stop]) == string(name) {
					twice = i
				}
			}
		}
		seen |= bit
	}
	return twice
}
