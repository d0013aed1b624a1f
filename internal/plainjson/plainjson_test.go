package plainjson

import (
	"encoding/binary"
	"math/bits"
	"testing"
)

// Every byte at every place, with each other byte behind it.
func TestSpecial(t *testing.T) {
	special := func(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c >= 0x80 }
	for place := range 8 {
		for c := range 256 {
			for behind := range 256 {
				word := []byte("xxxxxxxx")
				for i := place + 1; i < 8; i++ {
					word[i] = byte(behind)
				}
				word[place] = byte(c)
				want := 8
				for i, b := range word {
					if special(b) {
						want = i
						break
					}
				}
				if got := bits.TrailingZeros64(Special(binary.LittleEndian.Uint64(word))) / 8; got != want {
					t.Fatalf("%q: the first is at %d, want %d", word, got, want)
				}
			}
		}
	}
}
