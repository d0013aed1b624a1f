package schema

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxText is how long a text that an expression makes may become, in bytes: a longer one
// would cost more than MaxCost at a tenth of a unit a byte, the language's price for text.
const maxText = MaxCost * 10

// The evaluator prices a call after it was made. replace and join can make of a small
// payload a text that no memory holds, so they are called through these, which look at
// the result's length first. Expressions cannot call them by their names here.
const (
	guardedReplace = "@replace"
	guardedJoin    = "@join"
)

// guarded are the functions to be called through another.
var guarded = map[string]string{"replace": guardedReplace, "join": guardedJoin}

func guards() []cel.EnvOption {
	str, list := cel.StringType, cel.ListType(cel.DynType)
	return []cel.EnvOption{
		cel.Function(guardedReplace,
			cel.MemberOverload("@replace_all", []*cel.Type{str, str, str}, str, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				return replace(args[0], args[1], args[2], -1)
			})),
			cel.MemberOverload("@replace_some", []*cel.Type{str, str, str, cel.IntType}, str, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				return replace(args[0], args[1], args[2], int(args[3].(types.Int)))
			}))),
		cel.Function(guardedJoin,
			cel.MemberOverload("@join_plain", []*cel.Type{list}, str, cel.UnaryBinding(func(l ref.Val) ref.Val {
				return joinList(l, types.String(""))
			})),
			cel.MemberOverload("@join_separator", []*cel.Type{list, str}, str, cel.BinaryBinding(joinList))),
	}
}

func replace(s, before, after ref.Val, times int) ref.Val {
	text, from, to := string(s.(types.String)), string(before.(types.String)), string(after.(types.String))
	n := strings.Count(text, from)
	if times >= 0 {
		n = min(n, times)
	}
	if grown := len(to) - len(from); grown > 0 && n > (maxText-min(len(text), maxText))/grown {
		return types.WrapErr(tooLong("replace"))
	}
	return types.String(strings.Replace(text, from, to, times))
}

func joinList(l, separator ref.Val) ref.Val {
	sep := string(separator.(types.String))
	var b strings.Builder
	for it, first := l.(traits.Lister).Iterator(), true; it.HasNext() == types.True; first = false {
		item, ok := it.Next().(types.String)
		if !ok {
			return types.NewErr("no such overload")
		}
		if b.Len()+len(sep)+len(item) > maxText {
			return types.WrapErr(tooLong("join"))
		}
		if !first {
			b.WriteString(sep)
		}
		b.WriteString(string(item))
	}
	return types.String(b.String())
}

func tooLong(function string) *Error {
	return &Error{Code: ExpressionTooCostly, Detail: function + ": the text would be longer than " + itoa(maxText) + " bytes"}
}
