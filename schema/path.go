package schema

import (
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
)

// root is the variable that a path begins with.
type root uint8

const (
	rootData root = iota
	rootRaw
	rootKey   // inside each
	rootItem  // value, inside each
	rootIndex // inside each
	rootID
	rootPublishTime
	rootAttributes
	rootOrderingKey
	rootSubscription
	rootAttempt
)

// step goes one level down: to a member by name, or to an element by index.
type step struct {
	name  string
	index int
	list  bool // index counts
}

// path is an expression like data.a.b, data.l[0], message.id or value: it needs no
// evaluator.
type path struct {
	root  root
	steps []step
	// optional is the first step that may find nothing without that being worth an
	// error (data.?a); -1 = none. Such a path gives an optional to a larger expression.
	optional int
	text     string // as messages name it
}

func (p *path) eval(s *state) (v value, err error) {
	if p.root == rootData && s.decoded { // what resolve does, without a copy of the value
		at, err := p.node(s, s.tree.root())
		if at >= 0 {
			s.tree.load(at, &v)
		}
		return v, err
	}
	if v, err = p.resolve(s); err != nil {
		return value{}, err
	}
	if v.kind == absent && p.root == rootPublishTime {
		return value{}, p.missing(s, "is absent or unreadable")
	}
	return v, nil
}

// resolve finds the value. Absent: some step found nothing. An error: a step goes into
// something that has no members.
func (p *path) resolve(s *state) (value, error) {
	v := p.start(s)
	if v.origin == 0 || len(p.steps) == 0 {
		return p.walk(s, v)
	}
	at, err := p.node(s, v.origin-1)
	if at < 0 {
		return value{}, err
	}
	return s.tree.value(at), nil
}

// node is resolve within the payload: it takes the steps from node at, without making a
// value of what is on the way. -1 = absent, or an error.
func (p *path) node(s *state, at int) (int, error) {
	for i := range p.steps {
		st, n := &p.steps[i], &s.tree.nodes[at]
		next := -1
		switch {
		case n.kind == object && !st.list:
			next = s.tree.member(at, st.name)
		case n.kind == list && st.list:
			if first, count := n.children(); st.index >= 0 && st.index < count {
				next = first + st.index
			}
		case n.kind != null:
			return -1, p.noStep(s, i, n.kind)
		}
		if next < 0 {
			return -1, nil
		}
		at = next
	}
	return at, nil
}

// walk takes the steps from v, which is no part of the payload, or all there is.
func (p *path) walk(s *state, v value) (value, error) {
	for i, st := range p.steps {
		next, ok := s.down(v, st)
		if !ok {
			return value{}, p.noStep(s, i, v.kind)
		}
		if next.kind == absent {
			return next, nil
		}
		v = next
	}
	return v, nil
}

// noStep: what step i begins at has no such parts.
func (p *path) noStep(s *state, i int, k kind) *Error {
	return &Error{Code: TypeMismatch, Pointer: p.pointerAt(s, i),
		Detail: fmt.Sprintf("%s is %s, not %s", p.prefix(i), k, p.steps[i].wanted())}
}

func (st step) wanted() string {
	if st.list {
		return "a list"
	}
	return "an object"
}

func (p *path) start(s *state) value {
	r := s.rec
	switch p.root {
	case rootData:
		return s.data()
	case rootRaw:
		return value{kind: octets, text: alias(r.Data)}
	case rootKey:
		return s.key
	case rootItem:
		return s.item
	case rootIndex:
		return intValue(int64(s.index))
	case rootID:
		return optionalText(r.ID)
	case rootPublishTime:
		if r.Published.IsZero() {
			return value{}
		}
		return timeValue(r.Published)
	case rootAttributes:
		return value{kind: object, ref: attributes{r}}
	case rootOrderingKey:
		return optionalText(r.OrderingKey)
	case rootSubscription:
		return optionalText(r.Subscription)
	default:
		if r.Attempt == 0 {
			return value{}
		}
		return intValue(int64(r.Attempt))
	}
}

func optionalText(s string) value {
	if s == "" {
		return value{}
	}
	return textValue(s)
}

// data is the decoded payload: absent when it is empty.
func (s *state) data() value {
	switch {
	case s.decoded:
		return s.tree.value(s.tree.root())
	case len(s.rec.Data) > 0:
		return value{kind: octets, text: alias(s.rec.Data)}
	default:
		return value{}
	}
}

// down takes one step; ok = false: v has no such parts. Absent and null have none that
// could be found, which is no error.
func (s *state) down(v value, st step) (next value, ok bool) {
	switch v.kind {
	case absent, null:
		return value{}, true
	case object:
		if st.list {
			return value{}, false
		}
		if v.origin > 0 {
			if j := s.tree.member(v.origin-1, st.name); j >= 0 {
				return s.tree.value(j), true
			}
			return value{}, true
		}
		if a, isAttributes := v.ref.(attributes); isAttributes {
			if text, found := a.lookup(st.name); found {
				return textValue(text), true
			}
			return value{}, true
		}
		if found, ok := v.ref.(traits.Mapper).Find(types.String(st.name)); ok {
			return fromRef(found), true
		}
		return value{}, true
	case list:
		if !st.list {
			return value{}, false
		}
		if v.origin > 0 {
			first, count := s.tree.nodes[v.origin-1].children()
			if st.index < 0 || st.index >= count {
				return value{}, true
			}
			return s.tree.value(first + st.index), true
		}
		l := v.ref.(traits.Lister)
		if size, isInt := l.Size().(types.Int); !isInt || st.index < 0 || st.index >= int(size) {
			return value{}, true
		}
		return fromRef(l.Get(types.Int(st.index))), true
	default:
		return value{}, false
	}
}

// present answers has(path): there and not null, all the way down.
func (p *path) present(s *state) bool {
	v, err := p.resolve(s)
	return err == nil && v.kind != absent && v.kind != null
}

// need is the value for a use that cannot do without.
func (p *path) need(s *state) (value, error) {
	v, err := p.eval(s)
	if err != nil {
		return value{}, err
	}
	switch v.kind {
	case absent:
		return value{}, p.missing(s, "is absent")
	case null:
		return value{}, p.missing(s, "is null")
	}
	return v, nil
}

func (p *path) missing(s *state, why string) *Error {
	return &Error{Code: MissingField, Detail: p.text + " " + why, Pointer: p.pointer(s)}
}

// pointer is the JSON pointer that the path means; empty when it is not into the payload.
func (p *path) pointer(s *state) string { return p.pointerAt(s, len(p.steps)) }

func (p *path) pointerAt(s *state, steps int) string {
	var b strings.Builder
	switch p.root {
	case rootData:
	case rootItem:
		if s.item.origin == 0 {
			return ""
		}
		b.WriteString(s.tree.pointer(s.item.origin - 1))
	default:
		return ""
	}
	for _, st := range p.steps[:steps] {
		b.WriteByte('/')
		if st.list {
			b.WriteString(itoa(st.index))
		} else {
			b.WriteString(pointerToken(st.name))
		}
	}
	return b.String()
}

// prefix is the path's text up to step i.
func (p *path) prefix(i int) string {
	return pathText(p.root, p.steps[:i])
}

func pathText(r root, steps []step) string {
	var b strings.Builder
	b.WriteString(rootNames[r])
	for _, st := range steps {
		switch {
		case st.list:
			b.WriteString("[" + itoa(st.index) + "]")
		case isIdentifier(st.name):
			b.WriteString("." + st.name)
		default:
			b.WriteString("[" + quoteShort(st.name) + "]")
		}
	}
	return b.String()
}

var rootNames = [...]string{
	rootData: "data", rootRaw: "raw", rootKey: "key", rootItem: "value", rootIndex: "index",
	rootID: "message.id", rootPublishTime: "message.publishTime", rootAttributes: "message.attributes",
	rootOrderingKey: "message.orderingKey", rootSubscription: "message.subscription",
	rootAttempt: "message.deliveryAttempt",
}

func isIdentifier(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func appendInt(dst []byte, v value) []byte {
	if v.kind == unsigned {
		return strconv.AppendUint(dst, v.bits, 10)
	}
	return strconv.AppendInt(dst, v.int(), 10)
}
