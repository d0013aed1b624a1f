package schema

import (
	"bytes"
	"encoding/base64"
	"strings"
	"time"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// kind is what a mapped value is. The zero value means that there is none.
type kind uint8

const (
	absent   kind = iota
	null          // JSON null
	boolean       // bits 0 or 1
	integer       // bits as int64
	unsigned      // bits as uint64, above the largest int64
	literal       // text: a JSON number that is neither, as the input spells it
	double        // bits as float64: computed
	text          // text: a string
	octets        // text: bytes
	instant       // time
	list          // a JSON array or a list that an expression made
	object        // a JSON object or a map that an expression made
	commitTS      // Spanner's commit timestamp
	opaque        // a value of the expression language with no place in a sink
)

// String names the kind as messages to the user call it.
func (k kind) String() string {
	switch k {
	case absent:
		return "absent"
	case null:
		return "null"
	case boolean:
		return "bool"
	case integer:
		return "int"
	case unsigned:
		return "uint"
	case literal:
		return "number"
	case double:
		return "double"
	case text:
		return "string"
	case octets:
		return "bytes"
	case instant:
		return "timestamp"
	case list:
		return "list"
	case object:
		return "object"
	case commitTS:
		return "commit timestamp"
	default:
		return "a value that cannot be stored"
	}
}

// node is one JSON value. It holds positions in the payload instead of copies, so that a
// payload of many small values costs 32 bytes a value.
type node struct {
	start, end uint32 // the value's text in tree.src
	name, stop uint32 // the member's quoted name in tree.src; 0, 0 outside objects
	bits       uint64 // a number's or bool's value; first child << 32 | count for list and object
	kind       kind
	escaped    bool // the string's text has escapes
	nameEsc    bool // the name has escapes
}

func (n *node) children() (first, count int) { return int(n.bits >> 32), int(uint32(n.bits)) }

// tree is a decoded JSON payload. Children of one parent stand side by side, the root is
// the last node. A tree is owned by the one Apply that filled it and aliases its payload.
type tree struct {
	src   string
	nodes []node

	// index holds the names of objects with many members, made when one is first asked
	// for; otherwise n look-ups among n members would cost n*n.
	index map[int]map[string]int

	found int // the member that was last found

	room *room // nil = there is enough
	most int   // values for which it has room

	// own: src is a copy of the payload, which values may go on referring to.
	own bool

	dec   *jsontext.Decoder
	buf   bytes.Buffer
	stack []node  // finished values whose parent is still open
	open  []frame // parents, outermost first
}

// indexedMembers is from how many members on an object gets an index.
const indexedMembers = 24

// alias makes data readable as a string. The caller of Apply leaves a record's payload
// alone while Apply runs, and nothing that Apply returns refers to it.
func alias(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

func (t *tree) root() int { return len(t.nodes) - 1 }

// raw is the node's own text.
func (t *tree) raw(i int) string { n := &t.nodes[i]; return t.src[n.start:n.end] }

// str is the text of a string node.
func (t *tree) str(i int) string {
	n := &t.nodes[i]
	return unquote(t.src[n.start:n.end], n.escaped)
}

// nameOf is the member name of a node inside an object.
func (t *tree) nameOf(i int) string {
	n := &t.nodes[i]
	return unquote(t.src[n.name:n.stop], n.nameEsc)
}

func unquote(quoted string, escaped bool) string {
	if !escaped {
		return quoted[1 : len(quoted)-1]
	}
	b, _ := jsontext.AppendUnquote(nil, quoted) // the decoder found it valid
	return string(b)
}

// member finds a member of object i by name; -1 = there is none.
func (t *tree) member(i int, name string) int {
	first, count := t.nodes[i].children()
	if count >= indexedMembers {
		return t.indexed(i, first, count, name)
	}
	// Mappings mostly read members in the payload's order.
	if j := t.found + 1; j >= first && j < first+count && t.named(j, name) {
		t.found = j
		return j
	}
	for j := first; j < first+count; j++ {
		if t.named(j, name) {
			t.found = j
			return j
		}
	}
	return -1
}

func (t *tree) named(j int, name string) bool {
	n := &t.nodes[j]
	if n.nameEsc {
		return t.nameOf(j) == name
	}
	return int(n.stop-n.name) == len(name)+2 && t.src[n.name+1:n.stop-1] == name
}

func (t *tree) indexed(i, first, count int, name string) int {
	names, ok := t.index[i]
	if !ok {
		names = make(map[string]int, count)
		for j := first; j < first+count; j++ {
			names[t.nameOf(j)] = j
		}
		if t.index == nil {
			t.index = map[int]map[string]int{}
		}
		t.index[i] = names
	}
	j, ok := names[name]
	if !ok {
		return -1
	}
	return j
}

// value is node i as a mapped value.
func (t *tree) value(i int) (v value) {
	t.load(i, &v)
	return v
}

// load makes the empty v that value.
func (t *tree) load(i int, v *value) {
	n := &t.nodes[i]
	v.kind, v.origin = n.kind, i+1
	switch n.kind {
	case boolean, integer, unsigned, double:
		v.bits = n.bits
	case literal:
		v.text = t.raw(i)
	case text:
		v.text = t.str(i)
	case octets: // the builder wrote them
		b, _ := base64.StdEncoding.DecodeString(t.src[n.start+1 : n.end-1])
		v.text = alias(b)
	case instant: // likewise
		v.time, _ = time.Parse(time.RFC3339Nano, t.src[n.start+1:n.end-1])
	}
}

// pointer is the JSON pointer of node i. It searches from the root: for errors only.
func (t *tree) pointer(i int) string {
	var tokens []string
	for at := t.root(); at != i; {
		next := -1
		first, count := t.nodes[at].children()
		if k := t.nodes[at].kind; k != list && k != object {
			return ""
		}
		for j := first; j < first+count; j++ {
			if t.nodes[j].start <= t.nodes[i].start && t.nodes[i].end <= t.nodes[j].end {
				next = j
				break
			}
		}
		if next < 0 {
			return ""
		}
		if t.nodes[at].kind == object {
			tokens = append(tokens, pointerToken(t.nameOf(next)))
		} else {
			tokens = append(tokens, itoa(next-first))
		}
		at = next
	}
	if len(tokens) == 0 {
		return ""
	}
	return "/" + strings.Join(tokens, "/")
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func pointerToken(name string) string { return pointerEscapes.Replace(name) }

// keptNodes is how many nodes a tree that is kept for the next payload has room for.
const keptNodes = 4096

// letGo gives large memory back.
func (t *tree) letGo() {
	t.src, t.index = "", nil
	if cap(t.nodes) > keptNodes || cap(t.stack) > keptNodes {
		*t = tree{own: t.own, room: t.room}
		return
	}
	t.nodes, t.stack, t.open = t.nodes[:0], t.stack[:0], t.open[:0]
}

// release forgets the payload, after letGo.
func (t *tree) release() { t.own, t.room = false, nil }
