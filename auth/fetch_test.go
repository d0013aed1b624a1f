package auth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/internal/issuer"
)

// Keys that are not for this, or that nobody understands, are passed over.
func TestKeySet(t *testing.T) {
	good := issuer.NewKey(t, "good")
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	jwk := func(change func(*jose.JSONWebKey)) json.RawMessage {
		k := good.Public()
		change(&k)
		text, err := k.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	set, err := json.Marshal(map[string]any{"keys": []json.RawMessage{
		[]byte(`7`), []byte(`{"kty":"AKP","alg":"ML-DSA-44","kid":"odd"}`), []byte(`{"kty":"RSA","kid":"none"}`),
		jwk(func(k *jose.JSONWebKey) { k.Key, k.KeyID, k.Algorithm = curve.Public(), "curve", "ES256" }),
		jwk(func(k *jose.JSONWebKey) { k.Key, k.KeyID = short.Public(), "short" }),
		jwk(func(k *jose.JSONWebKey) { k.KeyID, k.Use = "enc", "enc" }),
		jwk(func(k *jose.JSONWebKey) { k.KeyID, k.Algorithm = "rs512", "RS512" }),
		jwk(func(k *jose.JSONWebKey) {}),
		jwk(func(k *jose.JSONWebKey) { k.KeyID, k.Use, k.Algorithm = "plain", "", "" }),
		jwk(func(k *jose.JSONWebKey) { k.Key = short.Public() }), // a second of the same id
	}})
	if err != nil {
		t.Fatal(err)
	}
	i := issuer.New()
	i.Answer(200, string(set))
	v := newVerifier(t, config(i))
	for id, reason := range map[string]auth.Reason{"good": "", "plain": "", "odd": auth.UnknownKey, "none": auth.UnknownKey,
		"short": auth.UnknownKey, "enc": auth.UnknownKey, "rs512": auth.UnknownKey, "curve": auth.UnknownKey} {
		want(t, id, v.Verify(t.Context(), (&issuer.Key{ID: id}).Borrow(good).Sign(t, issuer.Claims())), reason)
	}
}

// A key set has at most 1 MiB.
func TestLargestKeySet(t *testing.T) {
	key := issuer.NewKey(t, "a")
	public := key.Public()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	if err != nil {
		t.Fatal(err)
	}
	for size, reason := range map[int]auth.Reason{1 << 20: "", 1<<20 + 1: auth.Unavailable} {
		i := issuer.New()
		i.Answer(200, string(set)+strings.Repeat(" ", size-len(set)))
		want(t, "a key set of that size", newVerifier(t, config(i)).Verify(t.Context(), key.Sign(t, issuer.Claims())), reason)
	}
}

// Keys come from the URL of the configuration, over a connection that is not kept, and never
// from where that points.
func TestKeysOverHTTP(t *testing.T) {
	key := issuer.NewKey(t, "a")
	i := issuer.New(key)
	keys := httptest.NewServer(i)
	defer keys.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(keys.URL, http.StatusFound))
	defer elsewhere.Close()

	c := config(i)
	c.Transport = nil
	c.JWKSURL = keys.URL + "/certs"
	want(t, "over HTTP", newVerifier(t, c).Verify(t.Context(), key.Sign(t, issuer.Claims())), "")

	fetches := i.Fetches()
	failed := make(chan error, 1)
	c.JWKSURL, c.OnFetch = strings.Replace(elsewhere.URL, "//", "//user:secret@", 1), func(err error) { failed <- err }
	want(t, "redirected", newVerifier(t, c).Verify(t.Context(), key.Sign(t, issuer.Claims())), auth.Unavailable)
	if i.Fetches() != fetches {
		t.Error("the redirect was followed")
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "status 302") || strings.Contains(err.Error(), "secret") {
		t.Errorf("the fetch ended %v, want the status, and no password", err)
	}
}
