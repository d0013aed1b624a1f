package schema

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// MaxCost is the most that all expressions of one record may cost together, in the
// expression language's own units; more is ExpressionTooCostly.
const MaxCost = 1_000_000

// Measuring the cost while an expression runs makes it several times as slow, and most
// expressions cannot come near the limit. So each is first given an upper bound from its
// shape and the payload's size. While the bounds of a record add up to less than MaxCost
// nothing is measured; when they do not, the record is mapped again with everything
// measured. Both ways give the same answer.

// shape is what bounds an expression's cost.
type shape struct {
	bounded bool
	nodes   uint64
	growth  uint64 // how many times the input's size an intermediate value may have
	text    uint64 // the expression's length
}

// bound is an upper bound of the cost for a payload of size bytes.
func (s shape) bound(size int) uint64 {
	return s.nodes * (40 + s.growth*(uint64(size)+s.text)/5)
}

// linear are the functions whose cost is at most linear in their arguments' sizes and
// whose result is no larger than their arguments together (base64 makes it 4/3).
var linear = map[string]bool{
	operators.Add: true, operators.Subtract: true, operators.Multiply: true, operators.Divide: true,
	operators.Modulo: true, operators.Negate: true, operators.LogicalNot: true, operators.LogicalAnd: true,
	operators.LogicalOr: true, operators.Conditional: true, operators.Equals: true, operators.NotEquals: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	operators.In: true, operators.Index: true, operators.OptIndex: true, operators.OptSelect: true,
	"size": true, "string": true, "bytes": true, "int": true, "uint": true, "double": true, "bool": true,
	"timestamp": true, "duration": true, "type": true, "dyn": true, "startsWith": true, "endsWith": true,
	"lowerAscii": true, "upperAscii": true, "trim": true, "substring": true, "charAt": true,
	"getFullYear": true, "getMonth": true, "getDate": true, "getDayOfMonth": true, "getDayOfWeek": true,
	"getDayOfYear": true, "getHours": true, "getMinutes": true, "getSeconds": true, "getMilliseconds": true,
	"orValue": true, "or": true, "hasValue": true, "value": true, "optional.of": true, "optional.none": true,
	"base64.encode": true, "base64.decode": true,
	"math.@min": true, "math.@max": true, "math.abs": true, "math.sign": true, "math.ceil": true,
	"math.floor": true, "math.round": true, "math.trunc": true,
	"reverseMillis": true, "date": true, "hash": true, "pad": true, "uuid": true, "json": true, isNullFunction: true,
}

func shapeOf(e ast.Expr, length int) shape {
	s := shape{bounded: true, growth: 1, text: uint64(length)}
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		s.nodes++
		switch e.Kind() {
		case ast.ComprehensionKind, ast.StructKind, ast.UnspecifiedExprKind:
			s.bounded = false
		case ast.ListKind, ast.MapKind:
			s.growth++
		case ast.CallKind:
			call := e.AsCall()
			switch name := call.FunctionName(); {
			case name == "contains":
				// Its cost is the product of both sizes.
				if arg := call.Args(); len(arg) != 1 || arg[0].Kind() != ast.LiteralKind {
					s.bounded = false
				} else {
					s.growth += uint64(length)
				}
			case !linear[name]:
				s.bounded = false
			case name == operators.Add, name == "base64.encode", name == "pad", name == "string", name == "json":
				s.growth++
			}
		}
	}))
	return s
}

// callCosts gives the functions of ours that read their whole argument their price.
type callCosts struct{}

func (callCosts) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	var cost uint64
	switch function {
	case "hash", "uuid", "json":
		cost = 1 + sizeOf(args[0])/10
	default:
		return nil
	}
	return &cost
}

func sizeOf(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	case treeObject:
		return uint64(len(v.s.tree.raw(v.node)))
	case treeList:
		return uint64(len(v.s.tree.raw(v.node)))
	default:
		return 0
	}
}
