// Package auth verifies the OpenID Connect ID tokens that a push subscription, or another
// caller, sends as its bearer: RS256 by the keys that the issuer publishes, then the claims.
//
// A token is let in when everything about it was checked and held. There is no goroutine but
// while keys are fetched.
package auth
