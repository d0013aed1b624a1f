package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// MaxTokenBytes is the longest token that is looked at. Google's have some 1,200 bytes.
const MaxTokenBytes = 8192

// removed stands in place of the signature in a token that Cloud Run verified itself
// (docs.cloud.google.com/run/docs/troubleshooting#signature-removed).
const removed = ".SIGNATURE_REMOVED_BY_GOOGLE"

// Config is what tokens are held to. Every field but Transport and OnFetch is required.
type Config struct {
	// JWKSURL is where the issuer publishes its keys, an http or https URL.
	JWKSURL string
	// Issuers, Audiences and Emails are the accepted values of the claims iss, aud and
	// email, compared byte by byte. None may be empty.
	Issuers, Audiences, Emails []string
	// MaxWait bounds how long Verify waits for keys.
	MaxWait time.Duration
	// Transport fetches the keys; nil = a plain one that obeys the environment's proxy.
	Transport http.RoundTripper
	// OnFetch is told how each fetch of keys ended. The error holds nothing of the answer.
	OnFetch func(error)
}

// Verifier decides on tokens. Its methods may be called from many goroutines.
type Verifier struct {
	config   Config
	keys     *keySet
	verified verifiedTokens
}

// New checks c. It fetches nothing: the first token does.
func New(c Config) (*Verifier, error) {
	var errs []error
	if u, err := url.Parse(c.JWKSURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		errs = append(errs, errors.New("auth: JWKSURL: an http or https URL"))
	}
	for _, list := range []struct {
		name  string
		items []string
	}{{"Issuers", c.Issuers}, {"Audiences", c.Audiences}, {"Emails", c.Emails}} {
		if len(list.items) == 0 {
			errs = append(errs, fmt.Errorf("auth: %s: must not be empty", list.name))
		}
		for _, item := range list.items {
			if item == "" {
				errs = append(errs, fmt.Errorf("auth: %s: an item is empty", list.name))
			}
		}
	}
	if c.MaxWait <= 0 {
		errs = append(errs, fmt.Errorf("auth: MaxWait=%s: > 0", c.MaxWait))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Verifier{config: c, keys: newKeySet(c)}, nil
}

// Verify returns nil when the token is genuine and allowed, and else why not. It waits for
// keys, at most MaxWait and while ctx lasts, where they are needed and not there.
func (v *Verifier) Verify(ctx context.Context, token string) *Refusal {
	if len(token) > MaxTokenBytes {
		return &Refusal{Reason: Malformed, Detail: fmt.Sprintf("the token is over %d bytes", MaxTokenBytes)}
	}
	var room [2048]byte // on the stack, for all but odd tokens
	sum := sha256.Sum256(append(room[:0], token...))
	if known, ok := v.verified.get(sum); ok && time.Now().Before(known.expiry) {
		key, refusal := v.keys.lookup(ctx, known.kid)
		if refusal != nil {
			return refusal
		}
		if key == known.key {
			return nil
		}
	}
	return v.verify(ctx, token, sum)
}

// verify is Verify of a token that is not remembered.
func (v *Verifier) verify(ctx context.Context, token string, sum tokenSum) *Refusal {
	if strings.HasSuffix(token, removed) {
		return &Refusal{Reason: SignatureRemoved, Detail: "the token's signature was removed by the platform, which checked it: use AUTH=cloudrun"}
	}
	if !compactForm(token) {
		return &Refusal{Reason: Malformed, Detail: "the token is no signed JWT"}
	}
	jws, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		if other := (*jose.ErrUnexpectedSignatureAlgorithm)(nil); errors.As(err, &other) {
			return &Refusal{Reason: Algorithm, Detail: "the token's alg is not RS256"}
		}
		return &Refusal{Reason: Malformed, Detail: "the token is no signed JWT"}
	}
	kid := jws.Signatures[0].Header.KeyID
	key, refusal := v.keys.lookup(ctx, kid)
	if refusal != nil {
		return refusal
	}
	payload, err := jws.Verify(key)
	if err != nil {
		return &Refusal{Reason: BadSignature, Detail: "the token's signature does not verify"}
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil { // go-jose's: names are exact-case, and none comes twice
		return &Refusal{Reason: Malformed, Detail: "the token's claims are not of their types"}
	}
	if refusal := c.allowed(&v.config, time.Now()); refusal != nil {
		return refusal
	}
	v.verified.add(sum, verifiedToken{kid: kid, key: key, expiry: c.Expiry.Time()})
	return nil
}

// compactForm reports three parts of base64url: decoders overlook line breaks.
func compactForm(token string) bool {
	dots := 0
	for i := range len(token) {
		switch c := token[i]; {
		case c == '.':
			dots++
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return dots == 2
}
