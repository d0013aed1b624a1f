package plainjson

import "bytes"

// Count is how often each of characters stands in text outside its strings, where text is JSON
// from between two values on. No JSON is counted as anything.
func Count(text []byte, characters string) (counts [4]int) {
	for len(text) > 0 {
		at := bytes.IndexByte(text, '"')
		outside := text
		if at >= 0 {
			outside, text = text[:at], text[at+1:]
		}
		for i := range len(characters) {
			counts[i] += bytes.Count(outside, []byte{characters[i]})
		}
		if at < 0 {
			return counts
		}
		text = text[stringEnd(text):]
	}
	return counts
}

// stringEnd is where the text after a quote goes on behind the string.
func stringEnd(text []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(text[at:], '"')
		if n < 0 {
			return len(text)
		}
		at += n + 1
		escapes := 0
		for i := at - 2; i >= 0 && text[i] == '\\'; i-- {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}
