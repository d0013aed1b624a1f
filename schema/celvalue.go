package schema

import (
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// The payload as values of the expression language. Objects and lists are views of the
// tree: nothing is copied before an expression asks for it.

// toRef is v as a value of the expression language. Literals become doubles.
func (s *state) toRef(v value) ref.Val {
	switch v.kind {
	case absent, null:
		return types.NullValue
	case boolean:
		return types.Bool(v.bits == 1)
	case integer:
		return types.Int(v.int())
	case unsigned:
		return types.Uint(v.bits)
	case literal:
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil {
			return types.WrapErr(&Error{Code: TypeMismatch, Detail: "a number is outside the range of double"})
		}
		return types.Double(f)
	case double:
		return types.Double(v.float())
	case text:
		return types.String(v.text)
	case octets:
		return types.Bytes(v.text)
	case instant:
		return types.Timestamp{Time: v.time}
	case list:
		if v.origin > 0 {
			return treeList{s, v.origin - 1}
		}
	case object:
		if v.origin > 0 {
			return treeObject{s, v.origin - 1}
		}
	}
	return v.ref
}

// fromRef is the way back. An optional without a value is absent.
func fromRef(r ref.Val) value {
	switch r := r.(type) {
	case types.Bool:
		return boolValue(bool(r))
	case types.Int:
		return intValue(int64(r))
	case types.Uint:
		return value{kind: unsigned, bits: uint64(r)}
	case types.Double:
		return floatValue(float64(r))
	case exact:
		return value{kind: literal, text: r.text}
	case types.String:
		return textValue(string(r))
	case types.Bytes:
		return value{kind: octets, text: alias(r)}
	case types.Timestamp:
		return timeValue(r.Time)
	case types.Null:
		return value{kind: null}
	case treeList:
		return value{kind: list, origin: r.node + 1}
	case treeObject:
		return value{kind: object, origin: r.node + 1}
	case *types.Optional:
		if !r.HasValue() {
			return value{}
		}
		return fromRef(r.GetValue())
	case traits.Mapper:
		return value{kind: object, ref: r}
	case traits.Lister:
		return value{kind: list, ref: r}
	default:
		return value{kind: opaque, ref: r}
	}
}

// treeObject is a JSON object. A member that is null is found by == null and by `in`
// alone: has() and optionals take it for absent, and everything else fails on it.
type treeObject struct {
	s    *state
	node int
}

func (o treeObject) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	j := o.s.tree.member(o.node, string(name))
	if j < 0 || o.s.tree.nodes[j].kind == null {
		o.s.miss = string(name)
		return nil, false
	}
	return o.s.toRef(o.s.tree.value(j)), true
}

func (o treeObject) Get(key ref.Val) ref.Val {
	v, ok := o.Find(key)
	if !ok {
		if v != nil {
			return v
		}
		return types.WrapErr(&Error{Code: MissingField, Detail: "a member is absent or null"})
	}
	return v
}

func (o treeObject) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	return types.Bool(ok && o.s.tree.member(o.node, string(name)) >= 0)
}

func (o treeObject) Size() ref.Val {
	_, count := o.s.tree.nodes[o.node].children()
	return types.Int(count)
}

func (o treeObject) Iterator() traits.Iterator {
	first, count := o.s.tree.nodes[o.node].children()
	return &treeIterator{s: o.s, next: first, end: first + count, names: true}
}

func (o treeObject) Equal(other ref.Val) ref.Val {
	m, ok := other.(traits.Mapper)
	if !ok || o.Size().Equal(m.Size()) != types.True {
		return types.False
	}
	first, count := o.s.tree.nodes[o.node].children()
	for j := first; j < first+count; j++ {
		theirs, found := m.Find(types.String(o.s.tree.nameOf(j)))
		if t, same := other.(treeObject); same && !found {
			// Find does not show members that are null.
			k := t.s.tree.member(t.node, o.s.tree.nameOf(j))
			if k < 0 {
				return types.False
			}
			theirs, found = types.NullValue, true
		}
		if !found || types.Equal(o.s.toRef(o.s.tree.value(j)), theirs) != types.True {
			return types.False
		}
	}
	return types.True
}

func (o treeObject) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from map to %s", t)
}

func (o treeObject) ConvertToNative(t reflect.Type) (any, error) {
	members := map[ref.Val]ref.Val{}
	first, count := o.s.tree.nodes[o.node].children()
	for j := first; j < first+count; j++ {
		members[types.String(o.s.tree.nameOf(j))] = o.s.toRef(o.s.tree.value(j))
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, members).ConvertToNative(t)
}

func (o treeObject) Type() ref.Type { return types.MapType }
func (o treeObject) Value() any     { return o }

// treeList is a JSON array.
type treeList struct {
	s    *state
	node int
}

func (l treeList) Get(index ref.Val) ref.Val {
	i, err := types.GetOrError(index)
	if err != nil {
		return types.WrapErr(err)
	}
	first, count := l.s.tree.nodes[l.node].children()
	if i < 0 || i >= count {
		return types.NewErr("index out of range")
	}
	return l.s.toRef(l.s.tree.value(first + i))
}

func (l treeList) Size() ref.Val {
	_, count := l.s.tree.nodes[l.node].children()
	return types.Int(count)
}

func (l treeList) Iterator() traits.Iterator {
	first, count := l.s.tree.nodes[l.node].children()
	return &treeIterator{s: l.s, next: first, end: first + count}
}

func (l treeList) Contains(elem ref.Val) ref.Val {
	first, count := l.s.tree.nodes[l.node].children()
	for j := first; j < first+count; j++ {
		if types.Equal(l.s.toRef(l.s.tree.value(j)), elem) == types.True {
			return types.True
		}
	}
	return types.False
}

func (l treeList) Add(other ref.Val) ref.Val { return l.list().Add(other) }

func (l treeList) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok || l.Size().Equal(o.Size()) != types.True {
		return types.False
	}
	first, count := l.s.tree.nodes[l.node].children()
	for i := range count {
		if types.Equal(l.s.toRef(l.s.tree.value(first+i)), o.Get(types.Int(i))) != types.True {
			return types.False
		}
	}
	return types.True
}

func (l treeList) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.ListType:
		return l
	case types.TypeType:
		return types.ListType
	}
	return types.NewErr("type conversion error from list to %s", t)
}

func (l treeList) ConvertToNative(t reflect.Type) (any, error) { return l.list().ConvertToNative(t) }

// list is the elements, still lazy one level down.
func (l treeList) list() traits.Lister {
	first, count := l.s.tree.nodes[l.node].children()
	elems := make([]ref.Val, count)
	for i := range elems {
		elems[i] = l.s.toRef(l.s.tree.value(first + i))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elems)
}

func (l treeList) Type() ref.Type { return types.ListType }
func (l treeList) Value() any     { return l }

// treeIterator walks the elements of a list, or the names of an object.
type treeIterator struct {
	s         *state
	next, end int
	names     bool
}

func (it *treeIterator) HasNext() ref.Val { return types.Bool(it.next < it.end) }

func (it *treeIterator) Next() ref.Val {
	if it.next >= it.end {
		return nil
	}
	it.next++
	if it.names {
		return types.String(it.s.tree.nameOf(it.next - 1))
	}
	return it.s.toRef(it.s.tree.value(it.next - 1))
}

func (it *treeIterator) ConvertToNative(reflect.Type) (any, error) {
	return nil, &Error{Code: TypeMismatch, Detail: "an iterator cannot be stored"}
}
func (it *treeIterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }
func (it *treeIterator) Equal(ref.Val) ref.Val          { return types.NewErr("no such overload") }
func (it *treeIterator) Type() ref.Type                 { return types.IteratorType }
func (it *treeIterator) Value() any                     { return nil }

// attributes are the message's, looked up without regard to case when they came as HTTP
// headers.
type attributes struct{ r *Record }

func (a attributes) lookup(name string) (string, bool) {
	v, ok := a.r.Attributes[name]
	if ok || !a.r.FoldAttributes {
		return v, ok
	}
	found := ""
	for k, text := range a.r.Attributes {
		// The smallest spelling wins, so that the answer does not depend on the map's order.
		if strings.EqualFold(k, name) && (!ok || k < found) {
			found, v, ok = k, text, true
		}
	}
	return v, ok
}

func (a attributes) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	v, ok := a.lookup(string(name))
	if !ok {
		return nil, false
	}
	return types.String(v), true
}

func (a attributes) Get(key ref.Val) ref.Val {
	if v, ok := a.Find(key); ok || v != nil {
		return v
	}
	return types.WrapErr(&Error{Code: MissingField, Detail: "an attribute is absent"})
}

func (a attributes) Contains(key ref.Val) ref.Val {
	_, ok := a.Find(key)
	return types.Bool(ok)
}

func (a attributes) plain() traits.Mapper {
	return types.NewStringStringMap(types.DefaultTypeAdapter, a.r.Attributes)
}

func (a attributes) Size() ref.Val                    { return types.Int(len(a.r.Attributes)) }
func (a attributes) Iterator() traits.Iterator        { return a.plain().Iterator() }
func (a attributes) Equal(other ref.Val) ref.Val      { return a.plain().Equal(other) }
func (a attributes) ConvertToType(t ref.Type) ref.Val { return a.plain().ConvertToType(t) }
func (a attributes) Type() ref.Type                   { return types.MapType }
func (a attributes) Value() any                       { return a.r.Attributes }
func (a attributes) ConvertToNative(t reflect.Type) (any, error) {
	return a.plain().ConvertToNative(t)
}
