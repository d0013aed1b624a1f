package schema

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// program is an expression that needs the evaluator.
type program struct {
	fast     cel.Program
	measured cel.Program // the same, measuring and limiting its cost
	direct   *direct     // nil = there is only the evaluator
	vars     []variable
	text     string
	shape    shape
	members  []string // that the text names; another may be a part of the payload
}

// errMeasure: the cost of the record's expressions could not be bounded below MaxCost
// beforehand. The record is mapped again with state.exact set.
var errMeasure = errors.New("schema: measure the cost")

func (p *program) eval(s *state) (value, error) {
	s.prog, s.miss = p, ""
	run := p.fast
	if s.exact || !p.shape.bounded {
		run = p.measured
	} else if s.cost += p.shape.bound(max(len(s.rec.Data), len(s.tree.src))); s.cost > MaxCost {
		return value{}, errMeasure
	} else if p.direct != nil {
		if v, ok := p.direct.eval(s); ok {
			return v, nil
		}
	}
	out, details, err := run.Eval(s)
	if run == p.measured {
		if cost := details.ActualCost(); cost != nil {
			s.cost += *cost
		}
		if over := s.cost > MaxCost; over && !s.exact && !isCancelled(err) {
			return value{}, errMeasure
		} else if over || isCancelled(err) {
			return value{}, &Error{Code: ExpressionTooCostly,
				Detail: fmt.Sprintf("the record's expressions cost more than %d, last %s", MaxCost, p.text)}
		}
	}
	if err != nil {
		return value{}, p.fail(s, err)
	}
	return fromRef(out), nil
}

func isCancelled(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled)
}

// fail words why p could not be evaluated. The evaluator's own messages may hold values
// and are not shown.
func (p *program) fail(s *state, err error) error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	if isLookup(err) {
		what := "an element or a member"
		if contains(p.members, s.miss) {
			what = "member " + quoteShort(s.miss)
		}
		return &Error{Code: MissingField, Detail: fmt.Sprintf("%s is absent or null in %s", what, p.text)}
	}
	var kinds []string
	pointer := ""
	for _, v := range p.vars {
		if v.use != useNeed {
			continue
		}
		if found, err := v.path.resolve(s); err == nil {
			kinds = append(kinds, v.path.text+" is "+found.kind.String())
			pointer = v.path.pointer(s)
		}
	}
	e := &Error{Code: TypeMismatch, Detail: fmt.Sprintf("%s cannot be evaluated: a type, a format or a range does not fit", p.text)}
	if len(kinds) > 0 {
		e.Detail += " (" + strings.Join(kinds, ", ") + ")"
	}
	if len(kinds) == 1 {
		e.Pointer = pointer
	}
	return e
}

// isLookup tells that a member or an element was not found: the evaluator's type for
// that is the only one that can be compared and is no value of the language.
func isLookup(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if _, isValue := err.(*types.Err); isValue {
			continue
		}
		_, ok := err.(interface{ Is(error) bool })
		return ok
	}
	return false
}

// ResolveName gives an expression its variables; they are named @0, @1 and so on.
func (s *state) ResolveName(name string) (any, bool) {
	if len(name) < 2 || name[0] != '@' {
		return nil, false
	}
	i := 0
	for _, c := range []byte(name[1:]) {
		if c < '0' || c > '9' {
			return nil, false
		}
		i = i*10 + int(c-'0')
	}
	if i >= len(s.prog.vars) {
		return nil, false
	}
	return s.prog.vars[i].resolve(s), true
}

// Parent: there is none.
func (s *state) Parent() interpreter.Activation { return nil }

func (v variable) resolve(s *state) ref.Val {
	switch v.use {
	case useHas:
		return types.Bool(v.path.present(s))
	case useOptional:
		found, err := optionalPath{v.path}.eval(s)
		if err != nil {
			return types.WrapErr(err)
		}
		if found.kind == absent {
			return types.OptionalNone
		}
		return types.OptionalOf(s.toRef(found))
	case useIsNull, useNotNull:
		found, err := v.path.eval(s)
		if err == nil && found.kind == absent {
			err = v.path.missing(s, "is absent")
		}
		if err != nil {
			return types.WrapErr(err)
		}
		return types.Bool((found.kind == null) == (v.use == useIsNull))
	case useJSON:
		found, err := jsonOf{v.path}.eval(s)
		if err != nil {
			return types.WrapErr(err)
		}
		return types.String(found.text)
	default:
		found, err := v.path.need(s)
		if err != nil {
			return types.WrapErr(err)
		}
		return s.toRef(found)
	}
}

// optionalPath is data.?a: absent where nothing is found or null.
type optionalPath struct{ *path }

func (p optionalPath) eval(s *state) (value, error) {
	if p.optional > 0 {
		before := path{root: p.root, steps: p.steps[:p.optional], text: pathText(p.root, p.steps[:p.optional])}
		if _, err := before.need(s); err != nil {
			return value{}, err
		}
	}
	v, err := p.path.eval(s)
	if err != nil {
		return value{}, err
	}
	if v.kind == null {
		return value{}, nil
	}
	return v, nil
}

// conditional is test ? then : otherwise.
type conditional struct {
	test, then, otherwise evaluator
	source                string
}

func (c *conditional) eval(s *state) (value, error) {
	yes, err := evalBool(s, c.test, c.source)
	if err != nil {
		return value{}, err
	}
	if yes {
		return c.then.eval(s)
	}
	return c.otherwise.eval(s)
}

// orElse is optional.orValue(otherwise).
type orElse struct{ optional, otherwise evaluator }

func (o *orElse) eval(s *state) (value, error) {
	v, err := o.optional.eval(s)
	if err != nil || v.kind != absent {
		return v, err
	}
	return o.otherwise.eval(s)
}

// jsonOf is json(path): the input's own text.
type jsonOf struct{ *path }

func (j jsonOf) eval(s *state) (value, error) {
	v, err := j.path.need(s)
	if err != nil {
		return value{}, err
	}
	b, err := appendJSON(nil, s, v)
	return textValue(string(b)), err
}

// evalBool evaluates a condition: nothing but true and false will do.
func evalBool(s *state, e evaluator, source string) (bool, error) {
	v, err := e.eval(s)
	if err != nil {
		return false, err
	}
	switch v.kind {
	case boolean:
		return v.bits == 1, nil
	case absent, null:
		return false, &Error{Code: MissingField, Detail: source + " is " + v.kind.String(), Pointer: pointerOf(s, e)}
	default:
		return false, &Error{Code: TypeMismatch, Detail: source + " is " + v.kind.String() + ", not a bool", Pointer: pointerOf(s, e)}
	}
}

// pointerOf is the JSON pointer of an expression that is a path.
func pointerOf(s *state, e evaluator) string {
	switch e := e.(type) {
	case *path:
		return e.pointer(s)
	case optionalPath:
		return e.pointer(s)
	}
	return ""
}
