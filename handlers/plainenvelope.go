package handlers

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/pushsink/pushsink/internal/plainjson"
)

// maxPlainAttributes is how many attributes are compared with one another.
const maxPlainAttributes = 16

// readPlain reads a body as Pub/Sub writes most: the members that are known, once each, and
// strings of ASCII without escapes. It reports false for everything else, be it right or
// wrong: that is read's, which is strict and tells what is wrong. What readPlain takes, read
// takes too, and makes the same of it.
func (e *envelope) readPlain() bool {
	s := plainText{b: e.body}
	attempts := 0
	for more := s.enter(); more; more = s.more() {
		switch string(s.name()) {
		case "message":
			if e.hasMessage || !e.plainMessage(&s) {
				return false
			}
			e.hasMessage = true
		case "subscription":
			s.once(&e.subscription)
		case "deliveryAttempt":
			e.attempt = s.count()
			if attempts++; attempts > 1 {
				return false
			}
		default:
			return false
		}
	}
	return s.end() && e.hasMessage && (e.data != nil || e.hasAttributes || e.id != nil || e.idAlt != nil)
}

func (e *envelope) plainMessage(s *plainText) bool {
	for more := s.enter(); more; more = s.more() {
		switch string(s.name()) {
		case "data":
			s.once(&e.data)
		case "attributes":
			if e.hasAttributes || !e.plainAttributes(s) {
				return false
			}
			e.hasAttributes = true
		case "messageId":
			s.once(&e.id)
		case "message_id":
			s.once(&e.idAlt)
		case "publishTime":
			s.once(&e.published)
		case "publish_time":
			s.once(&e.publishedAlt)
		case "orderingKey":
			s.once(&e.orderingKey)
		default:
			return false
		}
	}
	return !s.failed
}

func (e *envelope) plainAttributes(s *plainText) bool {
	for more := s.enter(); more; more = s.more() {
		name, value := s.name(), s.str()
		if s.failed || len(e.pairs) == maxPlainAttributes {
			return false
		}
		for _, p := range e.pairs {
			if bytes.Equal(e.text[p.name.from:p.name.to], name) {
				return false
			}
		}
		e.pairs = append(e.pairs, pair{e.keep(name), e.unquote(value)})
	}
	return !s.failed
}

// plainText is read from i on. What it cannot read makes it fail, and it stays failed.
type plainText struct {
	b      []byte
	i      int
	failed bool
}

// peek is the next byte that is no white space; 0 = there is none.
func (s *plainText) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (s *plainText) take(c byte) bool {
	if s.failed || s.peek() != c {
		s.failed = true
		return false
	}
	s.i++
	return true
}

// enter reads the start of an object, and reports that it has a member.
func (s *plainText) enter() bool {
	if !s.take('{') {
		return false
	}
	if s.peek() == '}' {
		s.i++
		return false
	}
	return true
}

// more reads what stands behind a member, and reports that another follows.
func (s *plainText) more() bool {
	if !s.failed && s.peek() == '}' {
		s.i++
		return false
	}
	return s.take(',')
}

// name reads a member's name and the colon.
func (s *plainText) name() []byte {
	v := s.str()
	if !s.take(':') {
		return nil
	}
	return v[1 : len(v)-1]
}

// str reads a string and gives it with its quotes.
func (s *plainText) str() []byte {
	if !s.take('"') {
		return nil
	}
	n := bytes.IndexByte(s.b[s.i:], '"')
	if n < 0 || !isPlain(s.b[s.i:s.i+n]) {
		s.failed = true
		return nil
	}
	v := s.b[s.i-1 : s.i+n+1]
	s.i += n + 1
	return v
}

// once reads a string into a member that did not come before.
func (s *plainText) once(to *[]byte) {
	if *to != nil {
		s.failed = true
	}
	*to = s.str()
}

// count reads a whole number.
func (s *plainText) count() int {
	s.peek()
	from := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	v := s.b[from:s.i]
	n, err := strconv.ParseUint(string(v), 10, 31)
	if err != nil || v[0] == '0' && len(v) > 1 {
		s.failed = true
	}
	return int(n)
}

// end reports that nothing failed and nothing follows.
func (s *plainText) end() bool { return !s.failed && s.peek() == 0 && s.i == len(s.b) }

// isPlain reports that b, which has no quote, stands for itself in a JSON string: it is ASCII
// without control characters and escapes.
func isPlain(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if plainjson.Special(binary.LittleEndian.Uint64(b)) != 0 {
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}
