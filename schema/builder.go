package schema

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// builder makes the tree of a payload that is no JSON text: it writes the JSON that the
// payload is, once, and nodes that point into it. So the mapping sees the very kind of tree
// that a JSON payload gives, and every part has its own JSON text. What JSON has only as a
// string stays what it is: bytes and timestamps are nodes of their kind.
//
// A builder is reused by one Apply at a time. Its limits bound what a payload of any size
// and any schema may cost.
type builder struct {
	text  []byte
	nodes []node
	stack []node  // finished values whose parent is still open
	open  []level // parents, outermost first

	maxNodes, maxText int

	room *room // nil = there is enough
	// What it has room for.
	roomNodes, roomText int
}

// level is a list or object that is being built.
type level struct {
	kind        kind
	start       uint32
	name, stop  uint32 // its own name; 0, 0 outside objects
	escaped     bool
	base        int    // where its children begin in builder.stack
	next, until uint32 // the name of the member that comes next
	nextEscaped bool
}

const (
	// valuesPerByte and freeValues bound how many values a payload may become beside
	// MaxValues: schemas exist in which no bytes at all are a list of a billion values.
	valuesPerByte = 64
	freeValues    = 1 << 16
	// textPerByte and freeText bound the text: a control character of a string takes six
	// characters in JSON, and the names of fields are not in the payload.
	textPerByte = 6
	freeText    = 64 << 20
)

// reset forgets the previous payload and sets the limits for one of size bytes.
func (b *builder) reset(size int) *Error {
	b.text, b.nodes, b.stack, b.open = b.text[:0], b.nodes[:0], b.stack[:0], b.open[:0]
	b.maxNodes = MaxValues
	if size < MaxValues/valuesPerByte {
		b.maxNodes = min(MaxValues, freeValues+valuesPerByte*size)
	}
	b.maxText = min(math.MaxUint32, freeText+textPerByte*size)
	b.roomNodes, b.roomText = unaskedValues, unaskedText
	if size+size/2 > unaskedText {
		if err := b.fit(0, size+size/2); err != nil {
			return err
		}
	}
	b.text = slices.Grow(b.text, size+size/2)
	return nil
}

// fitAbout makes room for what was built, and some times more.
func (b *builder) fitAbout(nodes, text int) *Error {
	var n, k int
	for _, eighths := range outgrows {
		n, k = min(b.maxNodes, nodes*eighths/8+unaskedValues), min(b.maxText, text*eighths/8+unaskedText)
		if b.room.has(forBuilding, builtBytes(n, k)) {
			break
		}
	}
	return b.fit(n, k)
}

func builtBytes(nodes, text int) int64 { return valueBytes*int64(nodes) + textFactor*int64(text) }

// fit makes room for so many values and so much text.
func (b *builder) fit(nodes, text int) *Error {
	b.roomNodes, b.roomText = max(b.roomNodes, nodes), max(b.roomText, text)
	if b.room == nil {
		return nil
	}
	return b.room.grow(forBuilding, builtBytes(b.roomNodes, b.roomText))
}

// outgrow makes more room, after what the builder has was used up.
func (b *builder) outgrow() *Error {
	if len(b.nodes)+len(b.stack) >= b.maxNodes {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload holds more than %d values", b.maxNodes)}
	}
	if len(b.text) > b.maxText {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload is more than %d bytes as JSON", b.maxText)}
	}
	return b.fitAbout(len(b.nodes)+len(b.stack), len(b.text))
}

// fits makes room for a string that may have n bytes of JSON.
func (b *builder) fits(n int) *Error {
	if n = len(b.text) + n; n <= b.roomText {
		return nil
	}
	if n > b.maxText {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload is more than %d bytes as JSON", b.maxText)}
	}
	return b.fitAbout(len(b.nodes)+len(b.stack), n)
}

// letGo gives large memory back.
func (b *builder) letGo() {
	if cap(b.nodes) > keptNodes || cap(b.stack) > keptNodes || cap(b.text) > keptScratch {
		*b = builder{room: b.room}
	}
}

// finish makes t the tree that was built, which takes the builder's nodes. Its text aliases
// the builder's unless t has to own what it reads.
func (b *builder) finish(t *tree) {
	t.index = nil
	t.nodes, b.nodes = b.nodes, t.nodes[:0]
	if t.own {
		t.src = string(b.text)
	} else {
		t.src = alias(b.text)
	}
}

// begin opens a list or an object.
func (b *builder) begin(k kind) *Error {
	if len(b.open) == MaxDepth {
		return &Error{Code: TooDeep, Pointer: b.pointer(), Detail: fmt.Sprintf("payload nests deeper than %d levels", MaxDepth)}
	}
	l := level{kind: k, base: len(b.stack)}
	l.name, l.stop, l.escaped = b.place()
	l.start = uint32(len(b.text))
	b.open = append(b.open, l)
	if k == object {
		b.text = append(b.text, '{')
	} else {
		b.text = append(b.text, '[')
	}
	return nil
}

// end closes the innermost list or object.
func (b *builder) end() *Error {
	l := b.open[len(b.open)-1]
	b.open = b.open[:len(b.open)-1]
	if l.kind == object {
		b.text = append(b.text, '}')
	} else {
		b.text = append(b.text, ']')
	}
	first, count := len(b.nodes), len(b.stack)-l.base
	b.nodes = append(b.nodes, b.stack[l.base:]...)
	b.stack = b.stack[:l.base]
	return b.put(node{kind: l.kind, start: l.start, end: uint32(len(b.text)),
		name: l.name, stop: l.stop, nameEsc: l.escaped, bits: uint64(first)<<32 | uint64(count)})
}

// name gives the next member of an object a name that needs no escapes.
func (b *builder) name(s string) {
	at := b.member()
	b.text = append(b.text, '"')
	b.text = append(b.text, s...)
	b.text = append(b.text, '"')
	b.named(at)
}

// key is name for a name that stands in the payload.
func (b *builder) key(s string) *Error {
	if !utf8.ValidString(s) {
		return &Error{Code: BadJSON, Pointer: b.pointer(), Detail: "payload has a key that is not UTF-8"}
	}
	if len(s) > unaskedText/textPerByte {
		if err := b.fits(quotedBytes(s)); err != nil {
			return err
		}
	}
	at := b.member()
	b.text, _ = jsontext.AppendQuote(b.text, s)
	b.named(at)
	return nil
}

func (b *builder) member() int {
	if len(b.stack) > b.open[len(b.open)-1].base {
		b.text = append(b.text, ',')
	}
	return len(b.text)
}

func (b *builder) named(at int) {
	l := &b.open[len(b.open)-1]
	l.next, l.until = uint32(at), uint32(len(b.text))
	l.nextEscaped = strings.IndexByte(alias(b.text[at:]), '\\') >= 0
	b.text = append(b.text, ':')
}

// place begins a value where it stands: after its name, or after the element before it.
func (b *builder) place() (name, stop uint32, escaped bool) {
	if len(b.open) == 0 {
		return 0, 0, false
	}
	l := &b.open[len(b.open)-1]
	if l.kind == object {
		return l.next, l.until, l.nextEscaped
	}
	if len(b.stack) > l.base {
		b.text = append(b.text, ',')
	}
	return 0, 0, false
}

// put takes a finished value.
func (b *builder) put(n node) *Error {
	if len(b.nodes)+len(b.stack) >= b.roomNodes || len(b.text) > b.roomText {
		if err := b.outgrow(); err != nil {
			return err
		}
	}
	if len(b.open) == 0 {
		b.nodes = append(b.nodes, n)
		return nil
	}
	if len(b.stack) == cap(b.stack) {
		b.stack = slices.Grow(b.stack, len(b.stack)+64) // a large one would grow in small steps
	}
	b.stack = append(b.stack, n)
	return nil
}

// scalar appends a value that has the text that write appends.
func (b *builder) scalar(k kind, bits uint64, write func([]byte) []byte) *Error {
	n := node{kind: k, bits: bits}
	n.name, n.stop, n.nameEsc = b.place()
	n.start = uint32(len(b.text))
	b.text = write(b.text)
	n.end = uint32(len(b.text))
	return b.put(n)
}

func (b *builder) null() *Error {
	return b.scalar(null, 0, func(dst []byte) []byte { return append(dst, "null"...) })
}

func (b *builder) boolean(v bool) *Error {
	bit := uint64(0)
	if v {
		bit = 1
	}
	return b.scalar(boolean, bit, func(dst []byte) []byte { return strconv.AppendBool(dst, v) })
}

func (b *builder) integer(i int64) *Error {
	return b.scalar(integer, uint64(i), func(dst []byte) []byte { return strconv.AppendInt(dst, i, 10) })
}

func (b *builder) unsigned(u uint64) *Error {
	if u <= math.MaxInt64 {
		return b.integer(int64(u))
	}
	return b.scalar(unsigned, u, func(dst []byte) []byte { return strconv.AppendUint(dst, u, 10) })
}

// number appends a JSON number by its literal, as a JSON payload's own.
func (b *builder) number(lit []byte) *Error {
	k, bits := parseNumber(lit)
	return b.scalar(k, bits, func(dst []byte) []byte { return append(dst, lit...) })
}

// double appends a floating-point number, which is one whatever its value. What is not
// finite is a string in JSON, as Protobuf and Spanner have it.
func (b *builder) double(f float64) *Error {
	return b.scalar(double, math.Float64bits(f), func(dst []byte) []byte {
		switch {
		case math.IsNaN(f):
			return append(dst, `"NaN"`...)
		case math.IsInf(f, 1):
			return append(dst, `"Infinity"`...)
		case math.IsInf(f, -1):
			return append(dst, `"-Infinity"`...)
		default:
			return appendJSONFloat(dst, f, 64)
		}
	})
}

func (b *builder) string(s string) *Error {
	n := node{kind: text}
	n.name, n.stop, n.nameEsc = b.place()
	n.start = uint32(len(b.text))
	if !utf8.ValidString(s) {
		return &Error{Code: BadJSON, Pointer: b.pointer(), Detail: "payload has a string that is not UTF-8"}
	}
	if len(s) > unaskedText/textPerByte {
		if err := b.fits(quotedBytes(s)); err != nil {
			return err
		}
	}
	b.text, _ = jsontext.AppendQuote(b.text, s)
	n.end = uint32(len(b.text))
	n.escaped = strings.IndexByte(alias(b.text[n.start:]), '\\') >= 0
	return b.put(n)
}

// quotedBytes is how long s may be in JSON.
func quotedBytes(s string) int {
	n := len(s) + 2
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ':
			n += textPerByte - 1
		case c == '"', c == '\\':
			n++
		}
	}
	return n
}

// plain is string for one without a character that JSON escapes.
func (b *builder) plain(s string) *Error {
	return b.scalar(text, 0, func(dst []byte) []byte {
		return append(append(append(dst, '"'), s...), '"')
	})
}

// octets appends bytes; their JSON is base64.
func (b *builder) octets(p []byte) *Error {
	if len(p) > unaskedText/textPerByte {
		if err := b.fits(base64.StdEncoding.EncodedLen(len(p)) + 2); err != nil {
			return err
		}
	}
	return b.scalar(octets, 0, func(dst []byte) []byte {
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, p)
		return append(dst, '"')
	})
}

// instant appends a timestamp within the years that RFC 3339 can write.
func (b *builder) instant(t time.Time) *Error {
	t = t.UTC()
	if err := b.inYears(t); err != nil {
		return err
	}
	return b.scalar(instant, 0, func(dst []byte) []byte {
		return append(t.AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
	})
}

func (b *builder) inYears(t time.Time) *Error {
	if y := t.Year(); y < 1 || y > 9999 {
		return &Error{Code: TimestampOutOfRange, Pointer: b.pointer(), Detail: "payload has a time outside the years 1 to 9999"}
	}
	return nil
}

// unique finds a key that the innermost object has twice.
func (b *builder) unique() *Error {
	members := b.stack[b.open[len(b.open)-1].base:]
	twice := duplicate(b.text, members)
	if twice < 0 {
		return nil
	}
	n := &members[twice]
	name := unquote(string(b.text[n.name:n.stop]), n.nameEsc)
	return &Error{Code: BadJSON, Pointer: b.parent() + "/" + pointerToken(name), Detail: "payload has a duplicate key"}
}

// pointer is the JSON pointer of the value that is being built.
func (b *builder) pointer() string { return b.pointerTo(len(b.open)) }

// parent is the JSON pointer of the innermost list or object.
func (b *builder) parent() string { return b.pointerTo(len(b.open) - 1) }

func (b *builder) pointerTo(depth int) string {
	var p strings.Builder
	for i, l := range b.open[:depth] {
		p.WriteByte('/')
		if l.kind == object {
			if l.until > 0 {
				p.WriteString(pointerToken(unquote(string(b.text[l.next:l.until]), l.nextEscaped)))
			}
			continue
		}
		done := len(b.stack)
		if i+1 < len(b.open) {
			done = b.open[i+1].base
		}
		p.WriteString(itoa(done - l.base))
	}
	return p.String()
}
