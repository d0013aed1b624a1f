package auth

import (
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
)

// leeway is how far the issuer's clock and ours may differ.
const leeway = time.Minute

// claims are the claims that are looked at. Email and EmailVerified are of any type, so that
// one of another type is refused as what it is: not allowed.
type claims struct {
	Issuer        string           `json:"iss"`
	Audience      jwt.Audience     `json:"aud"` // a text, or an array of them
	Expiry        *jwt.NumericDate `json:"exp"`
	IssuedAt      *jwt.NumericDate `json:"iat"`
	NotBefore     *jwt.NumericDate `json:"nbf"`
	Email         any              `json:"email"`
	EmailVerified any              `json:"email_verified"`
}

// allowed holds c to what config accepts at now.
func (c *claims) allowed(config *Config, now time.Time) *Refusal {
	refuse := func(reason Reason, detail string) *Refusal { return &Refusal{Reason: reason, Detail: detail} }
	if !slices.Contains(config.Issuers, c.Issuer) {
		return refuse(Issuer, "the token's issuer is not accepted (AUTH_ISSUERS)")
	}
	if !slices.ContainsFunc(c.Audience, func(aud string) bool { return slices.Contains(config.Audiences, aud) }) {
		return refuse(Audience, "the token's audience is not accepted (AUTH_AUDIENCES)")
	}
	if c.Expiry == nil {
		return refuse(Expired, "the token has no exp")
	}
	if !now.Before(c.Expiry.Time().Add(leeway)) {
		return refuse(Expired, "the token is expired")
	}
	if c.IssuedAt == nil {
		return refuse(IssuedAt, "the token has no iat")
	}
	if c.IssuedAt.Time().After(now.Add(leeway)) {
		return refuse(IssuedAt, "the token was issued in the future (iat)")
	}
	if c.NotBefore != nil && c.NotBefore.Time().After(now.Add(leeway)) {
		return refuse(NotBefore, "the token is not valid yet (nbf)")
	}
	if email, ok := c.Email.(string); !ok || !slices.Contains(config.Emails, email) {
		return refuse(Email, "email not allowed (AUTH_EMAILS)")
	}
	if verified, ok := c.EmailVerified.(bool); !ok || !verified {
		return refuse(EmailVerified, "email_verified is not true")
	}
	return nil
}
