package auth_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/pushsink/pushsink/internal/issuer"
)

// FuzzVerify holds that nothing is let in but what the issuer signed: the header and the
// payload of one of its tokens, byte for byte once they are decoded.
func FuzzVerify(f *testing.F) {
	key, other := issuer.NewKey(f, "a"), issuer.NewKey(f, "a")
	v := newVerifier(f, config(issuer.New(key)))
	real := []string{
		key.Sign(f, issuer.Claims()), key.Sign(f, issuer.Claims("iss", "accounts.google.com", "aud", []string{issuer.Audience})),
	}
	signed := map[string]bool{}
	for _, token := range real {
		signed[content(f, token)] = true
	}
	refused := []string{
		other.Sign(f, issuer.Claims()), key.Sign(f, issuer.Claims("aud", "x")), key.Sign(f, issuer.Claims("email_verified", "true")),
		key.Sign(f, issuer.Claims("exp", 1)), key.SignAs(f, jose.RS512, issuer.Claims()), "", ".", "..", "a.b.c", "{}",
		"eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.e30.AA",
	}
	for _, token := range append(refused, real...) {
		f.Add(token)
		for i := 1; i < len(token); i += 97 {
			f.Add(token[:i])
			flipped := []byte(token)
			flipped[i] ^= 1 << (i % 7)
			f.Add(string(flipped))
		}
		if cut := strings.LastIndexByte(token, '.'); cut > 0 {
			f.Add(token[:cut] + ".SIGNATURE_REMOVED_BY_GOOGLE")
			f.Add(token[:cut])
		}
	}
	for _, token := range real {
		want(f, "a real token", v.Verify(f.Context(), token), "")
	}
	f.Fuzz(func(t *testing.T, token string) {
		refusal := v.Verify(t.Context(), token)
		if refusal == nil && !signed[content(t, token)] {
			t.Errorf("let in, though the issuer signed no such token: %q", token)
		}
		if refusal != nil && (refusal.Reason == "" || len(token) > 40 && strings.Contains(refusal.Detail, token[:40])) {
			t.Errorf("refused for %q: %s", refusal.Reason, refusal.Detail)
		}
	})
}

// content is what a token says: its decoded header and payload.
func content(t testing.TB, token string) string {
	t.Helper()
	var parts []string
	for part := range strings.SplitSeq(token, ".") {
		text, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			return "not base64url"
		}
		parts = append(parts, string(text))
	}
	return strings.Join(parts[:len(parts)-1], ".")
}
