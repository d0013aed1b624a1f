package schema

import (
	"math"
	"math/bits"
	"strconv"
)

// MaxNumberText is how many characters a number in plain decimal may have: as many as
// the longest row key.
const MaxNumberText = 4096

// parseNumber classifies a valid JSON number: integer within int64, unsigned within
// uint64, both also for integral spellings like 1.0 and 1e3, else literal. -0 is literal,
// since no integer is its value.
func parseNumber(lit []byte) (kind, uint64) {
	neg := lit[0] == '-'
	digits := lit
	if neg {
		digits = lit[1:]
	}
	mag, ok := magnitude(digits)
	switch {
	case !ok || neg && mag == 0:
		return literal, 0
	case neg && mag <= 1<<63:
		return integer, -mag
	case neg:
		return literal, 0
	case mag <= math.MaxInt64:
		return integer, mag
	default:
		return unsigned, mag
	}
}

// magnitude is the exact value of an unsigned JSON number; false = not integral or above
// the largest uint64. It never computes with more than 20 digits, whatever the exponent.
func magnitude(lit []byte) (mag uint64, ok bool) {
	var (
		zeros int // zeros read and not yet multiplied in
		frac  int // digits behind the point
		point bool
		exp   int
		fits  = true
	)
	i := 0
scan:
	for ; i < len(lit); i++ {
		switch c := lit[i]; {
		case c == '.':
			point = true
			continue
		case c == 'e' || c == 'E':
			exp = exponent(lit[i+1:])
			break scan
		case c == '0':
			zeros++
		default:
			if mag != 0 {
				mag, fits = timesTen(mag, zeros, fits)
			}
			zeros = 0
			hi, lo := bits.Mul64(mag, 10)
			sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
			fits = fits && hi == 0 && carry == 0
			mag = sum
		}
		if point {
			frac++
		}
	}
	if mag == 0 && fits {
		return 0, true
	}
	scale := zeros + exp - frac
	if scale < 0 || !fits {
		return 0, false
	}
	mag, fits = timesTen(mag, scale, fits)
	return mag, fits
}

func timesTen(mag uint64, times int, fits bool) (uint64, bool) {
	if times > 20 {
		return 0, false
	}
	for range times {
		hi, lo := bits.Mul64(mag, 10)
		fits = fits && hi == 0
		mag = lo
	}
	return mag, fits
}

// exponent reads a JSON exponent, held within what a sum of two stays an int of.
func exponent(lit []byte) int {
	const limit = 1 << 30
	neg := len(lit) > 0 && lit[0] == '-'
	n := 0
	for _, c := range lit {
		if c == '-' || c == '+' {
			continue
		}
		if n < limit {
			n = n*10 + int(c-'0')
		}
	}
	n = min(n, limit)
	if neg {
		return -n
	}
	return n
}

// appendPlain appends a JSON number in plain decimal: no exponent, no zeros that carry no
// value, no sign on zero. So numbers of one value have one spelling. False = it would be
// longer than MaxNumberText.
func appendPlain(dst []byte, lit string) ([]byte, bool) {
	start := len(dst)
	neg := lit[0] == '-'
	if neg {
		lit = lit[1:]
	}
	// The value is 0.D1D2... * 10^point for the significant digits D.
	var digits []byte
	point, seenPoint, exp := 0, false, 0
scan:
	for i := 0; i < len(lit); i++ {
		switch c := lit[i]; {
		case c == '.':
			seenPoint = true
		case c == 'e' || c == 'E':
			exp = exponent([]byte(lit[i+1:]))
			break scan
		case c == '0' && len(digits) == 0:
			if seenPoint {
				point--
			}
		default:
			digits = append(digits, c)
			if !seenPoint {
				point++
			}
		}
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	if len(digits) == 0 {
		return append(dst, '0'), true
	}
	point += exp
	if max(point, len(digits), len(digits)-point) > MaxNumberText-4 {
		return dst, false
	}
	if neg {
		dst = append(dst, '-')
	}
	if point <= 0 {
		dst = append(dst, '0', '.')
		for range -point {
			dst = append(dst, '0')
		}
		dst = append(dst, digits...)
	} else {
		for i, c := range digits {
			if i == point {
				dst = append(dst, '.')
			}
			dst = append(dst, c)
		}
		for range point - len(digits) {
			dst = append(dst, '0')
		}
	}
	return dst, len(dst)-start <= MaxNumberText
}

// appendDouble appends a computed number like appendPlain. False = infinite or NaN.
func appendDouble(dst []byte, f float64) ([]byte, bool) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, false
	}
	if f == 0 {
		return append(dst, '0'), true
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64), true
}
