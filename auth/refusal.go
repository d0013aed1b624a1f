package auth

import (
	"slices"
	"time"
)

// Reason says in a word why a token was refused. The words are a fixed set, for metrics.
type Reason string

const (
	Missing          Reason = "missing"           // no bearer token was sent
	Malformed        Reason = "malformed"         // no signed JWT, too large, sent twice, claims of the wrong type
	Algorithm        Reason = "alg"               // not RS256
	SignatureRemoved Reason = "signature_removed" // the platform verified the token and removed its signature
	UnknownKey       Reason = "kid"               // the issuer publishes no such key
	BadSignature     Reason = "signature"         // the key did not sign this
	Issuer           Reason = "iss"
	Audience         Reason = "aud"
	Expired          Reason = "exp" // over, or without an end
	IssuedAt         Reason = "iat" // in the future, or missing
	NotBefore        Reason = "nbf" // in the future
	Email            Reason = "email"
	EmailVerified    Reason = "email_verified" // not the boolean true
	Unavailable      Reason = "keys"           // the issuer's keys cannot be had: nothing is known of the token
)

// Reasons lists every Reason.
func Reasons() []Reason { return slices.Clone(reasons) }

var reasons = []Reason{Missing, Malformed, Algorithm, SignatureRemoved, UnknownKey, BadSignature, Issuer, Audience,
	Expired, IssuedAt, NotBefore, Email, EmailVerified, Unavailable}

// Refusal is why a request is not let in. It holds nothing of the token.
type Refusal struct {
	Reason Reason
	// Detail is for the caller and for the log.
	Detail string
	// RetryAfter is when to try again; only Unavailable has one.
	RetryAfter time.Duration
}

func (r *Refusal) Error() string { return r.Detail }
