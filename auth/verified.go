package auth

import (
	"crypto/rsa"
	"crypto/sha256"
	"sync"
	"time"
)

// maxVerified bounds the remembered tokens, some 200 bytes each. A subscription sends the
// same token for up to an hour.
const maxVerified = 1024

type tokenSum = [sha256.Size]byte

// verifiedTokens remembers tokens that were let in, by their SHA-256, to spare the signature's
// arithmetic when they come again. A token that is refused is not remembered, so that whoever
// cannot get in cannot push others out.
type verifiedTokens struct {
	mu     sync.Mutex // guards tokens; held for a map's operation, or for a sweep when it is full
	tokens map[tokenSum]verifiedToken
}

// verifiedToken was let in by key, and is again until expiry (its exp, without leeway) or until
// the keys are fetched again. Its other claims cannot become worse with time.
type verifiedToken struct {
	kid    string
	key    *rsa.PublicKey
	expiry time.Time
}

func (v *verifiedTokens) get(sum tokenSum) (verifiedToken, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t, ok := v.tokens[sum]
	return t, ok
}

func (v *verifiedTokens) add(sum tokenSum, t verifiedToken) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.tokens == nil {
		v.tokens = make(map[tokenSum]verifiedToken)
	}
	if _, again := v.tokens[sum]; !again && len(v.tokens) >= maxVerified {
		v.makeRoom(time.Now())
	}
	v.tokens[sum] = t
}

// makeRoom drops what has expired, and one more where that is not enough: any one, which
// costs its sender one verification.
func (v *verifiedTokens) makeRoom(now time.Time) {
	for sum, t := range v.tokens {
		if !now.Before(t.expiry) {
			delete(v.tokens, sum)
		}
	}
	for sum := range v.tokens {
		if len(v.tokens) < maxVerified {
			return
		}
		delete(v.tokens, sum)
	}
}
