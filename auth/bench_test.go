package auth

import (
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/issuer"
)

// BenchmarkVerify is the cost of a token: one that is remembered, as nearly all of a push
// subscription's are, and one that is not.
func BenchmarkVerify(b *testing.B) {
	key := issuer.NewKey(b, "a")
	token := key.Sign(b, issuer.Claims())
	v, err := New(Config{JWKSURL: "https://issuer.test/keys", Issuers: []string{issuer.Google}, Audiences: []string{issuer.Audience},
		Emails: []string{issuer.Email}, MaxWait: time.Minute, Transport: issuer.New(key)})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		forget bool
	}{{"remembered", false}, {"new", true}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if c.forget {
					clear(v.verified.tokens)
				}
				if refusal := v.Verify(b.Context(), token); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
