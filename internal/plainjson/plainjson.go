// Package plainjson tells the bytes that stand for themselves in a JSON string.
package plainjson

// Special has the highest bit set of the lowest byte of w that does not simply stand for
// itself in a string: a quote, a backslash, a control character, a part of a longer
// character. 0 = there is none. What it says of higher bytes means nothing.
func Special(w uint64) uint64 {
	const ones = 0x0101010101010101
	return (w | (w - ones*' ') | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)) & (ones << 7)
}
