package schema

import (
	"math"
	"time"

	"cel.dev/cel-go/common/types/ref"
)

// value is what an expression gives. Text may alias the payload.
type value struct {
	kind   kind
	bits   uint64
	text   string
	time   time.Time
	origin int     // 1 + the node of the payload's tree that this is; 0 = computed
	ref    ref.Val // a list or map made by an expression
}

func (v value) int() int64     { return int64(v.bits) }
func (v value) float() float64 { return math.Float64frombits(v.bits) }

func textValue(s string) value    { return value{kind: text, text: s} }
func intValue(i int64) value      { return value{kind: integer, bits: uint64(i)} }
func floatValue(f float64) value  { return value{kind: double, bits: math.Float64bits(f)} }
func timeValue(t time.Time) value { return value{kind: instant, time: t} }
func boolValue(b bool) value {
	v := value{kind: boolean}
	if b {
		v.bits = 1
	}
	return v
}

// evaluator is a compiled expression. Absent and null are values for a plain path, a
// conditional between paths and an optional; everything else has failed on them before.
// The error is an *Error without the name of the place that asked.
type evaluator interface {
	eval(s *state) (value, error)
}

// constant is an expression of literals only.
type constant struct{ v value }

func (c constant) eval(*state) (value, error) { return c.v, nil }
