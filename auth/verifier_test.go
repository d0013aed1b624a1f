package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/internal/issuer"
)

func TestClaims(t *testing.T) {
	key := issuer.NewKey(t, "a")
	v := newVerifier(t, config(issuer.New(key)))
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for _, c := range []struct {
		name   string
		change []any
		reason auth.Reason
	}{
		{"as it is sent", nil, ""},
		{"AUTH-01 another service's audience", []any{"aud", "https://other.example"}, auth.Audience},
		{"AUTH-01 no audience", []any{"aud", nil}, auth.Audience},
		{"AUTH-01 an empty audience", []any{"aud", ""}, auth.Audience},
		{"AUTH-01 no item of an array", []any{"aud", []string{}}, auth.Audience},
		{"AUTH-01 an audience that begins so", []any{"aud", issuer.Audience + "/x"}, auth.Audience},
		{"AUTH-01 one of an array", []any{"aud", []string{"https://other.example", issuer.Audience}}, ""},
		{"AUTH-01 none of an array", []any{"aud", []string{"https://other.example"}}, auth.Audience},
		{"AUTH-01 an audience of another type", []any{"aud", 5}, auth.Malformed},
		{"AUTH-01 an array of another type", []any{"aud", []any{issuer.Audience, 5}}, auth.Malformed},
		{"AUTH-01 under another case", []any{"aud", nil, "AUD", issuer.Audience}, auth.Audience},
		{"AUTH-03 email_verified false", []any{"email_verified", false}, auth.EmailVerified},
		{"AUTH-03 email_verified absent", []any{"email_verified", nil}, auth.EmailVerified},
		{"AUTH-03 email_verified the text", []any{"email_verified", "true"}, auth.EmailVerified},
		{"AUTH-03 email_verified 1", []any{"email_verified", 1}, auth.EmailVerified},
		{"AUTH-03 email_verified under another case", []any{"email_verified", nil, "Email_Verified", true}, auth.EmailVerified},
		{"another account", []any{"email", "other@project.iam.gserviceaccount.com"}, auth.Email},
		{"no account", []any{"email", nil}, auth.Email},
		{"an account of another type", []any{"email", []string{issuer.Email}}, auth.Email},
		{"an account that ends so", []any{"email", "x" + issuer.Email}, auth.Email},
		{"AUTH-04 the issuer without a scheme", []any{"iss", "accounts.google.com"}, ""},
		{"AUTH-04 the issuer with one", []any{"iss", "https://accounts.google.com"}, ""},
		{"AUTH-04 an issuer that begins so", []any{"iss", "https://accounts.google.com.evil.test"}, auth.Issuer},
		{"AUTH-04 with a slash", []any{"iss", "https://accounts.google.com/"}, auth.Issuer},
		{"AUTH-04 no issuer", []any{"iss", nil}, auth.Issuer},
		{"expired a second within the leeway", []any{"exp", at(-50 * time.Second)}, ""},
		{"expired past the leeway", []any{"exp", at(-61 * time.Second)}, auth.Expired},
		{"no end", []any{"exp", nil}, auth.Expired},
		{"end null", []any{"exp", any(nullJSON{})}, auth.Expired},
		{"an end of another type", []any{"exp", fmt.Sprint(at(time.Hour))}, auth.Malformed},
		{"an end beyond all time", []any{"exp", 1e300}, auth.Malformed},
		{"a fraction of a second", []any{"exp", float64(at(time.Hour)) + .5}, ""},
		{"issued within the leeway", []any{"iat", at(50 * time.Second)}, ""},
		{"issued in the future", []any{"iat", at(70 * time.Second)}, auth.IssuedAt},
		{"issued at no time", []any{"iat", nil}, auth.IssuedAt},
		{"valid from within the leeway", []any{"nbf", at(50 * time.Second)}, ""},
		{"valid later", []any{"nbf", at(70 * time.Second)}, auth.NotBefore},
		{"other claims", []any{"nonce", "x", "google", map[string]any{"a": 1}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := key.Sign(t, issuer.Claims(c.change...))
			for _, again := range []string{"first", "again"} {
				want(t, again, v.Verify(t.Context(), token), c.reason)
			}
		})
	}
}

// nullJSON is null in a token, where nil would leave the claim out.
type nullJSON struct{}

func (nullJSON) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func TestSignatures(t *testing.T) {
	key, other := issuer.NewKey(t, "a"), issuer.NewKey(t, "a")
	v := newVerifier(t, config(issuer.New(key)))
	good := key.Sign(t, issuer.Claims())
	header, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	encode := base64.RawURLEncoding.EncodeToString
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public().Key)
	if err != nil {
		t.Fatal(err)
	}
	long := key.Sign(t, issuer.Claims("pad", strings.Repeat("x", auth.MaxTokenBytes)))
	for _, c := range []struct {
		name, token string
		reason      auth.Reason
	}{
		{"good", good, ""},
		{"empty", "", auth.Malformed},
		{"no JWT", "ya29.opaque-access-token", auth.Malformed},
		{"two parts", header + "." + payload, auth.Malformed},
		{"four parts", good + ".x", auth.Malformed},
		{"five parts", good + ".x.x", auth.Malformed},
		{"JSON form", `{"payload":"` + payload + `","protected":"` + header + `","signature":"` + signature + `"}`, auth.Malformed},
		{"a line break within", header + "." + payload[:5] + "\n" + payload[5:] + "." + signature, auth.Malformed},
		{"a header that is no JSON", encode([]byte("{")) + "." + payload + "." + signature, auth.Malformed},
		{"no signature", header + "." + payload + ".", auth.BadSignature},
		{"a byte of a signature", header + "." + payload + ".AA", auth.BadSignature},
		{"signed by somebody else under that id", other.Sign(t, issuer.Claims()), auth.BadSignature},
		{"claims exchanged", header + "." + encode([]byte(`{"aud":"x"}`)) + "." + signature, auth.BadSignature},
		{"alg none", encode([]byte(`{"alg":"none","typ":"JWT","kid":"a"}`)) + "." + payload + ".", auth.Algorithm},
		{"alg none, signed", encode([]byte(`{"alg":"none","kid":"a"}`)) + "." + payload + "." + signature, auth.Algorithm},
		{"alg absent", encode([]byte(`{"kid":"a"}`)) + "." + payload + "." + signature, auth.Algorithm},
		{"alg in another case", encode([]byte(`{"alg":"rs256","kid":"a"}`)) + "." + payload + "." + signature, auth.Algorithm},
		{"HS256 by the public key", issuer.SignWith(t, jose.HS256, public, "a", issuer.Claims()), auth.Algorithm},
		{"ES256", issuer.SignWith(t, jose.ES256, curve, "a", issuer.Claims()), auth.Algorithm},
		{"ES256 with a byte of a signature", encode([]byte(`{"alg":"ES256","kid":"a"}`)) + "." + payload + ".AA", auth.Algorithm},
		{"RS512", key.SignAs(t, jose.RS512, issuer.Claims()), auth.Algorithm},
		{"PS256", key.SignAs(t, jose.PS256, issuer.Claims()), auth.Algorithm},
		{"an extension that must be understood", encode([]byte(`{"alg":"RS256","kid":"a","crit":["x"],"x":1}`)) + "." + payload + "." + signature, auth.BadSignature},
		{"a key id of another type", encode([]byte(`{"alg":"RS256","kid":7}`)) + "." + payload + "." + signature, auth.Malformed},
		{"no key id", encode([]byte(`{"alg":"RS256"}`)) + "." + payload + "." + signature, auth.UnknownKey},
		{"its own key within", encode([]byte(`{"alg":"RS256","kid":"b","jwk":`+jwkOf(t, other)+`}`)) + "." + payload + "." + signature, auth.UnknownKey},
		{"signature removed", header + "." + payload + ".SIGNATURE_REMOVED_BY_GOOGLE", auth.SignatureRemoved},
		{"too long, though it is signed", long, auth.Malformed},
		{"endless", strings.Repeat("a", 1<<20), auth.Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal := v.Verify(t.Context(), c.token)
			want(t, "verify", refusal, c.reason)
			if refusal == nil {
				return
			}
			for _, part := range []string{payload, signature, issuer.Email, issuer.Audience} {
				if strings.Contains(refusal.Detail, part) {
					t.Errorf("the detail %q holds a part of the token", refusal.Detail)
				}
			}
			if c.reason == auth.SignatureRemoved && !strings.Contains(refusal.Detail, "AUTH=cloudrun") {
				t.Errorf("the detail %q does not name AUTH=cloudrun", refusal.Detail)
			}
		})
	}
}

func jwkOf(t *testing.T, k *issuer.Key) string {
	t.Helper()
	public := k.Public()
	text, err := public.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The bound on a token is exact.
func TestLongestToken(t *testing.T) {
	key := issuer.NewKey(t, "a")
	v := newVerifier(t, config(issuer.New(key)))
	padded := func(n int) string { return key.Sign(t, issuer.Claims("pad", strings.Repeat("x", n))) }
	pad := (auth.MaxTokenBytes - len(padded(0))) * 3 / 4
	longest := padded(pad)
	for len(longest) > auth.MaxTokenBytes {
		pad--
		longest = padded(pad)
	}
	for next := padded(pad + 1); len(next) <= auth.MaxTokenBytes; next = padded(pad + 1) {
		pad++
		longest = next
	}
	if len(longest) < auth.MaxTokenBytes-1 {
		t.Fatalf("a token of %d bytes is no test of %d", len(longest), auth.MaxTokenBytes)
	}
	want(t, "the longest", v.Verify(t.Context(), longest), "")
	want(t, "longer", v.Verify(t.Context(), longest+strings.Repeat("x", 3)), auth.Malformed)
}

// A configuration that would let nobody in, or anybody, is no configuration.
func TestAUTH07ConfigIsWhole(t *testing.T) {
	i := issuer.New()
	for name, change := range map[string]func(*auth.Config){
		"JWKSURL":   func(c *auth.Config) { c.JWKSURL = "keys" },
		"Issuers":   func(c *auth.Config) { c.Issuers = nil },
		"Audiences": func(c *auth.Config) { c.Audiences = nil },
		"Emails":    func(c *auth.Config) { c.Emails = []string{issuer.Email, ""} },
		"MaxWait":   func(c *auth.Config) { c.MaxWait = 0 },
	} {
		c := config(i)
		change(&c)
		if v, err := auth.New(c); err == nil || v != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want a refusal by its name", name, err)
		}
	}
}

func TestReasonsAreAll(t *testing.T) {
	seen := map[auth.Reason]bool{}
	for _, r := range auth.Reasons() {
		if seen[r] || r == "" {
			t.Errorf("%q comes twice, or is empty", r)
		}
		seen[r] = true
	}
	for _, r := range []auth.Reason{auth.Missing, auth.Malformed, auth.Algorithm, auth.SignatureRemoved, auth.UnknownKey, auth.BadSignature, auth.Issuer,
		auth.Audience, auth.Expired, auth.IssuedAt, auth.NotBefore, auth.Email, auth.EmailVerified, auth.Unavailable} {
		if !seen[r] {
			t.Errorf("%s is not listed", r)
		}
	}
}
