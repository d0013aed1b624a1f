package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep a payload may nest; one level more is TooDeep. The value of a
// plain scalar is level 0.
const MaxDepth = 64

// MaxValues is how many JSON values a payload may hold, names not counted; more is
// TooLarge. It bounds what decoding a record may cost in memory whatever the payload's size
// limit is: 72 MiB, and 48 MiB for names, or 160 MiB where jsontext reads them (see room.go).
// It is ten times what any sink can store of one record.
const MaxValues = 1 << 20

// frame is a list or object that is being read.
type frame struct {
	kind       kind
	named      bool // a member's name was read, its value comes next
	nameEsc    bool // as in node, of the container itself
	start      uint32
	name, stop uint32
	base       int // where the children begin in tree.stack
	nextName   uint32
	nextStop   uint32
	nextEsc    bool
}

// decode reads data, one strict JSON value: no duplicate names, no invalid UTF-8, no
// lone surrogates, nothing after the value. The tree aliases data
// unless it has to own what it reads.
func (t *tree) decode(data []byte) *Error {
	if uint64(len(data)) > math.MaxUint32 {
		return &Error{Code: TooLarge, Detail: "payload is larger than 4 GiB"}
	}
	if t.own {
		t.src = string(data)
	} else {
		t.src = alias(data)
	}
	t.index, t.most = nil, unaskedValues
	if ok, err := t.scan(data); ok || err != nil {
		return err
	}
	return t.read(data)
}

// fit makes room for more values than t.most, where the text from at on can hold as many.
func (t *tree) fit(values int, data []byte, at int, nameCost int) *Error {
	if values > MaxValues {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload holds more than %d JSON values", MaxValues)}
	}
	if t.room != nil {
		n := t.room.treeBytes(values, data[at:], nameCost)
		if t.own {
			n += int64(len(data))
		}
		if err := t.room.grow(forReading, n); err != nil {
			return err
		}
	}
	t.most = MaxValues
	return nil
}

// read is decode by jsontext, a token at a time.
func (t *tree) read(data []byte) *Error {
	t.nodes, t.stack, t.open = t.nodes[:0], t.stack[:0], t.open[:0]
	t.most = unaskedValues
	t.buf = *bytes.NewBuffer(data)
	if t.dec == nil {
		t.dec = jsontext.NewDecoder(&t.buf)
	} else {
		t.dec.Reset(&t.buf)
	}
	defer func() { // it must not hold on to the payload
		t.buf = bytes.Buffer{}
		t.dec.Reset(&t.buf)
	}()
	for {
		done, err := t.step()
		if err != nil {
			return jsonError(data, err)
		}
		if n := len(t.nodes) + len(t.stack); n > t.most {
			if err := t.fit(n, data, int(t.dec.InputOffset()), nameBytes); err != nil {
				return err
			}
		}
		if done {
			break
		}
	}
	end := t.dec.InputOffset()
	if _, err := t.dec.ReadToken(); !errors.Is(err, io.EOF) {
		for data[end] == ' ' || data[end] == '\t' || data[end] == '\r' || data[end] == '\n' {
			end++
		}
		return &Error{Code: BadJSON, Detail: fmt.Sprintf("payload has data after the JSON value at byte %d", end)}
	}
	return nil
}

// step reads one token; done = the root is complete.
func (t *tree) step() (done bool, err error) {
	var top *frame
	if len(t.open) > 0 {
		top = &t.open[len(t.open)-1]
	}
	switch k := t.dec.PeekKind(); k {
	case '{', '[':
		if _, err := t.dec.ReadToken(); err != nil {
			return false, err
		}
		start := uint32(t.dec.InputOffset()) - 1
		if len(t.open) == MaxDepth {
			return false, &Error{Code: TooDeep, Detail: fmt.Sprintf("payload nests deeper than %d levels at byte %d", MaxDepth, start)}
		}
		f := frame{kind: list, start: start, base: len(t.stack)}
		if k == '{' {
			f.kind = object
		}
		if top != nil && top.kind == object {
			f.name, f.stop, f.nameEsc, top.named = top.nextName, top.nextStop, top.nextEsc, false
		}
		t.open = append(t.open, f)
		return false, nil
	case '}', ']':
		if _, err := t.dec.ReadToken(); err != nil {
			return false, err
		}
		first, count := len(t.nodes), len(t.stack)-top.base
		t.nodes = append(t.nodes, t.stack[top.base:]...)
		t.stack = t.stack[:top.base]
		n := node{kind: top.kind, start: top.start, end: uint32(t.dec.InputOffset()),
			name: top.name, stop: top.stop, nameEsc: top.nameEsc, bits: uint64(first)<<32 | uint64(count)}
		t.open = t.open[:len(t.open)-1]
		return t.add(n), nil
	default:
		raw, err := t.dec.ReadValue()
		if err != nil {
			return false, err
		}
		end := uint32(t.dec.InputOffset())
		start := end - uint32(len(raw))
		if top != nil && top.kind == object && !top.named {
			top.named, top.nextName, top.nextStop = true, start, end
			top.nextEsc = bytes.IndexByte(raw, '\\') >= 0
			return false, nil
		}
		n := node{start: start, end: end}
		if top != nil && top.kind == object {
			n.name, n.stop, n.nameEsc, top.named = top.nextName, top.nextStop, top.nextEsc, false
		}
		switch k {
		case 'n':
			n.kind = null
		case 't':
			n.kind, n.bits = boolean, 1
		case 'f':
			n.kind = boolean
		case '"':
			n.kind, n.escaped = text, bytes.IndexByte(raw, '\\') >= 0
		default:
			n.kind, n.bits = parseNumber(raw)
		}
		return t.add(n), nil
	}
}

// add puts a finished value in its parent's list; true = it is the root.
func (t *tree) add(n node) bool {
	if len(t.open) == 0 {
		t.nodes = append(t.nodes, n)
		return true
	}
	t.stack = append(t.stack, n)
	return false
}

// jsonError says where and why data is not strict JSON, without showing any of it but
// the name of a duplicate member.
func jsonError(data []byte, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	at := int64(len(data))
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		at = syn.ByteOffset
		if errors.Is(err, jsontext.ErrDuplicateName) {
			name := syn.JSONPointer.LastToken()
			return &Error{Code: BadJSON, Pointer: string(syn.JSONPointer),
				Detail: fmt.Sprintf("payload has a duplicate key %s at byte %d", quoteShort(name), at)}
		}
	}
	if bad := firstInvalidUTF8(data); bad >= 0 && int64(bad) <= max(at, 0)+3 {
		return &Error{Code: BadJSON, Detail: fmt.Sprintf("payload has invalid UTF-8 at byte %d", bad)}
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || at >= int64(len(data)):
		return &Error{Code: BadJSON, Detail: fmt.Sprintf("payload is not JSON: it ends early at byte %d", len(data))}
	case data[at] == '\\':
		return &Error{Code: BadJSON, Detail: fmt.Sprintf("payload has an unpaired surrogate or a bad escape at byte %d", at)}
	default:
		return &Error{Code: BadJSON, Detail: fmt.Sprintf("payload is not JSON: unexpected character at byte %d", at)}
	}
}

func firstInvalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return -1
}

// quoteShort quotes a name for a message, cut so that a message stays short.
func quoteShort(name string) string {
	const limit = 64 // characters
	if utf8.RuneCountInString(name) > limit {
		name = string([]rune(name)[:limit]) + "…"
	}
	return strconv.Quote(name)
}

func itoa(i int) string { return strconv.Itoa(i) }
