// Package issuer is an identity provider for tests. It signs ID tokens and publishes its keys,
// over HTTP or, in a synctest bubble, as a transport. It can be slow, broken or out of reach.
package issuer

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// What [Claims] says.
const (
	Google   = "https://accounts.google.com"
	Audience = "https://pushsink.example"
	Email    = "pusher@project.iam.gserviceaccount.com"
)

// Key signs tokens.
type Key struct {
	ID      string
	private *rsa.PrivateKey
}

// NewKey makes an RSA key of 2048 bits.
func NewKey(t testing.TB, id string) *Key {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &Key{id, private}
}

// Borrow gives k the secret of other, under its own id.
func (k *Key) Borrow(other *Key) *Key {
	k.private = other.private
	return k
}

// Public is the key as a key set holds it.
func (k *Key) Public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.ID, Use: "sig", Algorithm: "RS256"}
}

// Claims are what a push subscription's token says, an hour long from now on. change holds
// names and values; the value nil takes the claim out.
func Claims(change ...any) map[string]any {
	now := time.Now()
	c := map[string]any{
		"iss": Google, "aud": Audience, "azp": "1234567890", "sub": "1234567890",
		"email": Email, "email_verified": true, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	for i := 0; i < len(change); i += 2 {
		if change[i+1] == nil {
			delete(c, change[i].(string))
		} else {
			c[change[i].(string)] = change[i+1]
		}
	}
	return c
}

// Sign makes a token of claims by RS256.
func (k *Key) Sign(t testing.TB, claims map[string]any) string {
	return k.SignAs(t, jose.RS256, claims)
}

// SignAs signs by another algorithm of RSA keys.
func (k *Key) SignAs(t testing.TB, alg jose.SignatureAlgorithm, claims map[string]any) string {
	t.Helper()
	return sign(t, jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: k.private, KeyID: k.ID}}, claims)
}

// SignWith signs with any key, under id.
func SignWith(t testing.TB, alg jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	return sign(t, jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, claims)
}

func sign(t testing.TB, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(maps.Clone(claims)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// NewStray is a token with a key id that somebody made up, and a signature of no use.
func NewStray(id string) string {
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"` + id + `"}`))
	return header + ".e30." + strings.Repeat("A", 342)
}

// Issuer publishes keys. Its methods may be called from many goroutines.
type Issuer struct {
	mu      sync.Mutex // guards what follows
	keys    []*Key
	status  int    // 0 = 200
	body    string // instead of the keys
	delay   time.Duration
	down    bool
	fetches int
}

// New publishes keys.
func New(keys ...*Key) *Issuer { return &Issuer{keys: keys} }

// Publish replaces the keys, and mends what was broken.
func (i *Issuer) Publish(keys ...*Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.status, i.body, i.delay, i.down = keys, 0, "", 0, false
}

// Answer makes the issuer answer so.
func (i *Issuer) Answer(status int, body string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status, i.body, i.down = status, body, false
}

// Delay makes it wait before it answers.
func (i *Issuer) Delay(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.delay = d
}

// Down makes it refuse connections; over HTTP it breaks them off.
func (i *Issuer) Down() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = true
}

// Fetches is how often it was asked.
func (i *Issuer) Fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

// RoundTrip answers without a network.
func (i *Issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	i.fetches++
	keys, status, body, delay, down := i.keys, i.status, i.body, i.delay, i.down
	i.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if down {
		return nil, errors.New("connection refused")
	}
	if body == "" {
		var set jose.JSONWebKeySet
		for _, k := range keys {
			set.Keys = append(set.Keys, k.Public())
		}
		text, err := json.Marshal(set)
		if err != nil {
			return nil, fmt.Errorf("key set: %w", err)
		}
		body = string(text)
	}
	if status == 0 {
		status = http.StatusOK
	}
	return &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// ServeHTTP answers over HTTP.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, err := i.RoundTrip(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
