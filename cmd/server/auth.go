package main

import (
	"net/http"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/internal/fadinglog"
)

// auth is what stands before every endpoint that is not open. Its zero value lets nobody in.
func (srv *server) auth(o *observer) (func(http.Handler) http.Handler, error) {
	s := srv.settings
	switch {
	case s.Dev, s.Auth == "none":
		return handlers.NoAuth, nil
	case s.Auth == "cloudrun":
		return handlers.CloudRun(o, srv.logger), nil
	case s.Auth == "oidc":
		verifier, err := auth.New(s.authConfig(srv.keysTransport, srv.keysFetched(o)))
		if err != nil {
			return nil, err
		}
		return handlers.OIDC(verifier, o, srv.logger), nil
	default:
		return nil, nil
	}
}

// authConfig is what tokens are held to.
func (s *settings) authConfig(transport http.RoundTripper, fetched func(error)) auth.Config {
	return auth.Config{
		JWKSURL: s.AuthJWKS.URL, Issuers: s.AuthIssuers, Audiences: s.AuthAudiences, Emails: s.AuthEmails,
		MaxWait: s.RequestTimeout, Transport: transport, OnFetch: fetched,
	}
}

// keysFetched counts fetches of the issuer's keys, and logs those that failed.
func (srv *server) keysFetched(o *observer) func(error) {
	var failures fadinglog.Kinds[struct{}]
	return func(err error) {
		o.keysFetched(err == nil)
		if err == nil {
			return
		}
		if n, due := failures.Due(struct{}{}); due {
			srv.logger.Warn("the keys of the tokens' issuer are out of reach", "option", "PUSHSINK_AUTH_JWKS_URL", "error", err.Error(), "count", n)
		}
	}
}
