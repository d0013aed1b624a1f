package auth_test

import (
	"os"
	"testing"
	"time"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/internal/issuer"
)

func TestMain(m *testing.M) {
	emulator.LoopbackOnly()
	os.Exit(m.Run())
}

// config accepts what issuer.Claims says, by the keys of i.
func config(i *issuer.Issuer) auth.Config {
	return auth.Config{
		JWKSURL:   "https://issuer.test/keys",
		Issuers:   []string{"accounts.google.com", "https://accounts.google.com"},
		Audiences: []string{"https://another.example", issuer.Audience},
		Emails:    []string{"another@example.com", issuer.Email},
		MaxWait:   8 * time.Second, Transport: i,
	}
}

func newVerifier(t testing.TB, c auth.Config) *auth.Verifier {
	t.Helper()
	v, err := auth.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// want wants the reason; "" = let in.
func want(t testing.TB, what string, got *auth.Refusal, reason auth.Reason) {
	t.Helper()
	switch {
	case got == nil && reason != "":
		t.Errorf("%s: let in, want refused for %s", what, reason)
	case got != nil && got.Reason != reason:
		t.Errorf("%s: refused for %s (%s), want %q", what, got.Reason, got.Detail, reason)
	case got != nil && got.Detail == "":
		t.Errorf("%s: refused without a detail", what)
	}
}
