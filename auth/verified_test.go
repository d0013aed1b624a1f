package auth

import (
	"testing"
	"time"
)

// What is remembered is bounded; what has expired goes first.
func TestVerifiedTokensAreBounded(t *testing.T) {
	var v verifiedTokens
	end := time.Now().Add(time.Hour)
	sum := func(n int) (s tokenSum) { s[0], s[1], s[2] = byte(n), byte(n>>8), 1; return s }
	v.add(tokenSum{}, verifiedToken{expiry: time.Now().Add(-time.Second)})
	for n := range maxVerified - 1 {
		v.add(sum(n), verifiedToken{expiry: end})
	}
	v.add(sum(maxVerified), verifiedToken{expiry: end})
	if _, ok := v.get(tokenSum{}); ok || len(v.tokens) != maxVerified {
		t.Errorf("%d remembered, the expired one %v; want %d, without it", len(v.tokens), ok, maxVerified)
	}
	for n := range 5000 {
		v.add(sum(n), verifiedToken{expiry: end})
		if _, ok := v.get(sum(n)); !ok || len(v.tokens) > maxVerified {
			t.Fatalf("%d remembered, the last one %v", len(v.tokens), ok)
		}
	}
}
