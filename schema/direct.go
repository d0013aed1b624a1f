package schema

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// direct is a way past the evaluator, which costs some ten times as much as what it calls:
// for an expression that is a function of a path, a comparison of it with a literal, or a
// function of such a function. It only ever gives a value. Where there is none, the
// evaluator is asked and says why.
type direct struct {
	path  *path
	calls []call // the innermost first
}

// call is what a function makes of v, which is a value of the expression language: no
// number that keeps its literal, no part of the payload. False = the evaluator has to look.
type call func(v value) (value, bool)

func (d *direct) eval(s *state) (value, bool) {
	v, err := d.path.need(s)
	if err != nil {
		return value{}, false
	}
	switch v.kind {
	case boolean, integer, unsigned, double, text, octets, instant:
	case literal: // toRef
		f, err := strconv.ParseFloat(v.text, 64)
		if err != nil {
			return value{}, false
		}
		v = floatValue(f)
	default:
		return value{}, false
	}
	v.origin = 0
	for _, call := range d.calls {
		var ok bool
		if v, ok = call(v); !ok {
			return value{}, false
		}
	}
	return v, true
}

// directOf finds the way past the evaluator for e, whose paths are p.vars by now; nil =
// there is none.
func directOf(p *program, e ast.Expr) *direct {
	if e.Kind() == ast.IdentKind {
		for i, v := range p.vars {
			if v.use == useNeed && e.AsIdent() == variableName(i) {
				return &direct{path: v.path}
			}
		}
		return nil
	}
	if e.Kind() != ast.CallKind || e.AsCall().IsMemberFunction() {
		return nil
	}
	name, args := e.AsCall().FunctionName(), e.AsCall().Args()
	var fn call
	switch {
	case len(args) == 1:
		fn = callOf(name)
	case len(args) == 2 && args[1].Kind() == ast.LiteralKind:
		with := fromRef(args[1].AsLiteral())
		if fn = compareWith(name, with); fn == nil && with.kind == integer {
			fn = callWith(name, with.int())
		}
	}
	if fn == nil {
		return nil
	}
	d := directOf(p, args[0])
	if d != nil {
		d.calls = append(d.calls, fn)
	}
	return d
}

// callOf is a function of one argument; nil = it has no direct way.
func callOf(name string) call {
	switch name {
	case "timestamp":
		return func(v value) (value, bool) {
			if v.kind == text {
				if t, ok := parseTime(v.text); ok {
					return timeValue(t), true
				}
			}
			return convert(v, instant, types.TimestampType, text, integer)
		}
	case "int":
		return func(v value) (value, bool) {
			return convert(v, integer, types.IntType, double, text, instant, unsigned)
		}
	case "uint":
		return func(v value) (value, bool) {
			return convert(v, unsigned, types.UintType, double, integer, text)
		}
	case "double":
		return func(v value) (value, bool) {
			if v.kind == integer {
				return floatValue(float64(v.int())), true
			}
			return convert(v, double, types.DoubleType, text, unsigned)
		}
	case "string":
		return func(v value) (value, bool) {
			if v.kind == integer {
				return textValue(strconv.FormatInt(v.int(), 10)), true
			}
			return convert(v, text, types.StringType, boolean, octets, double, instant, unsigned)
		}
	case "bytes":
		return func(v value) (value, bool) { return convert(v, octets, types.BytesType, text) }
	case "bool":
		return func(v value) (value, bool) { return convert(v, boolean, types.BoolType, text) }
	case "reverseMillis":
		return func(v value) (value, bool) {
			switch v.kind {
			case integer:
				return made(reverseMillis(v.int()))
			case instant:
				return made(reverseMillis(v.time.UnixMilli()))
			}
			return value{}, false
		}
	case "date":
		return func(v value) (value, bool) {
			switch v.kind {
			case integer:
				return made(date(time.UnixMilli(v.int())))
			case instant:
				return made(date(v.time))
			}
			return value{}, false
		}
	case "uuid":
		return func(v value) (value, bool) { return textValue(uuidOf(v.text)), v.kind == text }
	}
	return nil
}

// callWith is a function whose second argument is n.
func callWith(name string, n int64) call {
	switch name {
	case "hash":
		return func(v value) (value, bool) {
			if v.kind != text && v.kind != octets {
				return value{}, false
			}
			i, err := hash(v.text, n)
			return intValue(i), err == nil
		}
	case "pad":
		return func(v value) (value, bool) {
			if v.kind != integer && v.kind != unsigned {
				return value{}, false
			}
			var digits [20]byte
			return made(pad(string(appendInt(digits[:0], v)), n))
		}
	}
	return nil
}

// compareWith compares with a literal of the same type. Numbers of two types, and what is
// no number, the evaluator compares.
func compareWith(name string, with value) call {
	var holds [3]bool // less, equal, greater
	switch name {
	case operators.Less:
		holds = [3]bool{true, false, false}
	case operators.LessEquals:
		holds = [3]bool{true, true, false}
	case operators.Equals:
		holds = [3]bool{false, true, false}
	case operators.NotEquals:
		holds = [3]bool{true, false, true}
	case operators.GreaterEquals:
		holds = [3]bool{false, true, true}
	case operators.Greater:
		holds = [3]bool{false, false, true}
	default:
		return nil
	}
	return func(v value) (value, bool) {
		if v.kind != with.kind {
			return value{}, false
		}
		order := 0
		switch v.kind {
		case integer:
			order = cmp.Compare(v.int(), with.int())
		case double:
			if math.IsNaN(v.float()) || math.IsNaN(with.float()) {
				return value{}, false
			}
			order = cmp.Compare(v.float(), with.float())
		case text:
			order = strings.Compare(v.text, with.text)
		case boolean:
			order = cmp.Compare(v.bits, with.bits)
		default:
			return value{}, false
		}
		return boolValue(holds[order+1]), true
	}
}

func made(s string, err error) (value, bool) { return textValue(s), err == nil }

// convert is one of the language's conversions, by the evaluator's own code. It takes what
// is of kind to already, and kinds from.
func convert(v value, to kind, typ *types.Type, from ...kind) (value, bool) {
	if v.kind == to {
		return v, true
	}
	for _, k := range from {
		if v.kind == k {
			out := (*state)(nil).toRef(v).ConvertToType(typ)
			return fromRef(out), !types.IsError(out)
		}
	}
	return value{}, false
}

// parseTime is timestamp(s) for the usual spellings of RFC 3339: capital letters, and a
// second below 60. False = the evaluator has to look: time.Parse takes more than it does.
func parseTime(s string) (time.Time, bool) {
	const layout = "0000-00-00T00:00:00"
	if len(s) < len(layout)+1 {
		return time.Time{}, false
	}
	for i, c := range []byte(s[:len(layout)]) {
		if l := layout[i]; c != l && (l != '0' || c < '0' || c > '9') {
			return time.Time{}, false
		}
	}
	rest := s[len(layout):]
	if rest[0] == '.' {
		n := 1
		for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
			n++
		}
		if n == 1 {
			return time.Time{}, false
		}
		rest = rest[n:]
	}
	if rest != "Z" {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Year() < 1 {
		return time.Time{}, false
	}
	return t, true
}
