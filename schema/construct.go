package schema

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// construction is a list or a map that an expression consists of, like [data.a, 1] or
// {"a": data.a}. It is built past the evaluator, so that numbers keep their literals.
type construction struct {
	names []string // a map's; nil = a list
	parts []evaluator
}

// construct compiles e when it is a list, or a map with fixed names.
func (x *exprCompiler) construct(e ast.Expr) (*construction, bool) {
	c := &construction{}
	switch e.Kind() {
	case ast.ListKind:
		if len(e.AsList().OptionalIndices()) > 0 {
			return nil, false
		}
		for _, el := range e.AsList().Elements() {
			c.parts = append(c.parts, x.value(el))
		}
		return c, true
	case ast.MapKind:
		c.names = []string{}
		for _, entry := range e.AsMap().Entries() {
			m := entry.AsMapEntry()
			if m.IsOptional() || m.Key().Kind() != ast.LiteralKind {
				return nil, false
			}
			name, ok := m.Key().AsLiteral().(types.String)
			if !ok || contains(c.names, string(name)) {
				return nil, false
			}
			c.names = append(c.names, string(name))
		}
		for _, entry := range e.AsMap().Entries() {
			c.parts = append(c.parts, x.value(entry.AsMapEntry().Value()))
		}
		return c, true
	}
	return nil, false
}

func (c *construction) eval(s *state) (value, error) {
	elems := make([]ref.Val, len(c.parts))
	for i, p := range c.parts {
		v, err := evalPart(s, p)
		if err != nil {
			return value{}, err
		}
		elems[i] = s.exactRef(v)
	}
	if c.names == nil {
		return value{kind: list, ref: types.NewRefValList(types.DefaultTypeAdapter, elems)}, nil
	}
	members := make(map[ref.Val]ref.Val, len(elems))
	for i, name := range c.names {
		members[types.String(name)] = elems[i]
	}
	return value{kind: object, ref: types.NewRefValMap(types.DefaultTypeAdapter, members)}, nil
}

func evalPart(s *state, p evaluator) (value, error) {
	if p, ok := p.(*path); ok {
		return p.need(s)
	}
	v, err := p.eval(s)
	if err == nil && v.kind == absent {
		err = &Error{Code: MissingField, Detail: "a part of a list or a map is absent", Pointer: pointerOf(s, p)}
	}
	return v, err
}

// exact is a number with its literal, inside a construction. It never takes part in
// arithmetic: an expression that reads it gets a double.
type exact struct {
	types.Double
	text string
}

// exactRef is toRef for a part of a construction.
func (s *state) exactRef(v value) ref.Val {
	if v.kind == literal {
		return exact{text: v.text}
	}
	return s.toRef(v)
}
