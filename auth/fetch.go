package auth

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchTimeout bounds a whole fetch of keys.
	fetchTimeout = 3 * time.Second
	// maxKeySetBytes bounds a key set, decompressed. Google's has 2 kB.
	maxKeySetBytes = 1 << 20
	// minKeyBits is RFC 7518's (section 3.3) for RS256; maxKeyBits bounds the cost of a verification.
	minKeyBits = 2048
	maxKeyBits = 8192
)

// fetchKeys reads the key set at url: its RSA keys that verify RS256, by key id. A set
// without any is an error, so that a bad answer never takes the place of good keys. The
// error holds nothing of the answer.
func fetchKeys(ctx context.Context, client *http.Client, url string) (map[string]*rsa.PublicKey, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: status %d", req.URL.Redacted(), resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySetBytes+1))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", req.URL.Redacted(), err)
	}
	if len(body) > maxKeySetBytes {
		return nil, fmt.Errorf("GET %s: over %d bytes", req.URL.Redacted(), maxKeySetBytes)
	}
	keys, err := parseKeys(body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", req.URL.Redacted(), err)
	}
	return keys, nil
}

// parseKeys skips keys that it does not understand or that are for something else, as RFC
// 7517 (section 5) wants. Of two with one id the first holds.
func parseKeys(body []byte) (map[string]*rsa.PublicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal(body, &set) != nil {
		return nil, errors.New("no JSON Web Key Set")
	}
	keys := map[string]*rsa.PublicKey{}
	for _, text := range set.Keys {
		var jwk jose.JSONWebKey
		if jwk.UnmarshalJSON(text) != nil || jwk.Use != "" && jwk.Use != "sig" || jwk.Algorithm != "" && jwk.Algorithm != string(jose.RS256) {
			continue
		}
		key, ok := jwk.Key.(*rsa.PublicKey)
		if !ok || key.N.BitLen() < minKeyBits || key.N.BitLen() > maxKeyBits {
			continue
		}
		if _, twice := keys[jwk.KeyID]; !twice {
			keys[jwk.KeyID] = key
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no RSA key for RS256 of %d to %d bits in the key set", minKeyBits, maxKeyBits)
	}
	return keys, nil
}
