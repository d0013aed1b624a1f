package spanner

import (
	"math/big"
	"strconv"
	"strings"
)

// decimal is an exact decimal number: 0.digits * 10^point. digits has no zero at its
// ends; zero has no digits and no sign. So equal numbers are equal decimals.
type decimal struct {
	neg    bool
	digits string
	point  int
}

// maxExponent bounds what an exponent is read as: far beyond every type, and small enough
// to add to.
const maxExponent = 1 << 30

// parseDecimal reads a JSON number, or a plain or scientific decimal as Spanner returns
// it. False = it is none (NaN included).
func parseDecimal(text string) (decimal, bool) {
	var d decimal
	text, d.neg = strings.CutPrefix(text, "-")
	mantissa, exp := text, 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa = text[:at]
		rest := text[at+1:]
		n, err := strconv.Atoi(rest)
		if err != nil {
			sign := strings.HasPrefix(rest, "-")
			digits := strings.TrimLeft(rest, "+-")
			if digits == "" || len(rest)-len(digits) > 1 || strings.Trim(digits, "0123456789") != "" {
				return decimal{}, false
			}
			if n = maxExponent; sign { // beyond the range of int
				n = -maxExponent
			}
		}
		exp = max(-maxExponent, min(n, maxExponent))
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	if whole == "" && frac == "" || strings.Trim(whole, "0123456789") != "" || strings.Trim(frac, "0123456789") != "" {
		return decimal{}, false
	}
	digits := whole + frac
	d.point = len(whole) + exp
	lead := len(digits) - len(strings.TrimLeft(digits, "0"))
	d.point -= lead
	d.digits = strings.TrimRight(digits[lead:], "0")
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

// exactDecimal is the exact value of a finite double.
func exactDecimal(f float64) (decimal, bool) {
	r := new(big.Rat)
	if r.SetFloat64(f) == nil {
		return decimal{}, false
	}
	// The denominator is a power of two: as many decimals as it has bits are exact.
	return parseDecimal(r.FloatString(r.Denom().BitLen() - 1))
}

// wholeDigits and scale are how many digits stand before and behind the point.
func (d decimal) wholeDigits() int { return max(0, d.point) }
func (d decimal) scale() int       { return max(0, len(d.digits)-d.point) }

// String is the number in plain decimal, or in scientific notation where plain decimal
// would be mostly zeros: a short literal never becomes a long text.
func (d decimal) String() string {
	const zeros = 64
	var b strings.Builder
	if d.neg {
		b.WriteByte('-')
	}
	n := len(d.digits)
	switch {
	case n == 0:
		return "0"
	case d.point > n+zeros || d.point < -zeros:
		b.WriteString(d.digits[:1])
		if n > 1 {
			b.WriteByte('.')
			b.WriteString(d.digits[1:])
		}
		b.WriteByte('e')
		b.WriteString(strconv.Itoa(d.point - 1))
	case d.point <= 0:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -d.point))
		b.WriteString(d.digits)
	case d.point >= n:
		b.WriteString(d.digits)
		b.WriteString(strings.Repeat("0", d.point-n))
	default:
		b.WriteString(d.digits[:d.point])
		b.WriteByte('.')
		b.WriteString(d.digits[d.point:])
	}
	return b.String()
}
