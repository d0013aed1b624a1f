package handlers

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/internal/fadinglog"
	"github.com/pushsink/pushsink/internal/traceparent"
)

// OIDC lets in requests whose bearer token v accepts (AUTH=oidc). Refusals are counted and
// logged; nil observers and loggers are none and the default, as in [Config].
func OIDC(v *auth.Verifier, observer Observer, logger *slog.Logger) func(http.Handler) http.Handler {
	return guarded(observer, logger, func(r *http.Request) *auth.Refusal {
		token, refusal := bearerToken(r.Header["Authorization"])
		if refusal != nil {
			return refusal
		}
		return v.Verify(r.Context(), token)
	})
}

// CloudRun lets in requests with a bearer token (AUTH=cloudrun): the platform verified it,
// and took its signature off, so that it can be verified by nobody else. It looks at
// X-Serverless-Authorization first, and so does this.
func CloudRun(observer Observer, logger *slog.Logger) func(http.Handler) http.Handler {
	return guarded(observer, logger, func(r *http.Request) *auth.Refusal {
		header := r.Header["X-Serverless-Authorization"]
		if len(header) == 0 {
			header = r.Header["Authorization"]
		}
		_, refusal := bearerToken(header)
		return refusal
	})
}

// guarded answers what check refuses, before anything else of the request is looked at.
func guarded(observer Observer, logger *slog.Logger, check func(*http.Request) *auth.Refusal) func(http.Handler) http.Handler {
	if observer == nil {
		observer = noObserver{}
	}
	if logger == nil {
		logger = slog.Default()
	}
	var events fadinglog.Kinds[auth.Reason]
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			refusal := check(r)
			if refusal == nil {
				next.ServeHTTP(w, r)
				return
			}
			status := statusOfRefusal(refusal.Reason)
			observer.AuthRefused(refusal.Reason)
			if n, due := events.Due(refusal.Reason); due {
				logger.WarnContext(&traceparent.Context{Context: r.Context(), Header: r.Header}, "request not let in", "reason", string(refusal.Reason), "status", status, "detail", refusal.Detail, "count", n)
			}
			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", challenge(refusal.Reason))
			}
			refuseFor(w, r, status, refusal.Detail, refusal.RetryAfter)
		})
	}
}

// statusOfRefusal is 503 while nothing is known of the token, 403 where it is genuine and of
// somebody else, and 401 otherwise.
func statusOfRefusal(reason auth.Reason) int {
	switch reason {
	case auth.Unavailable:
		return http.StatusServiceUnavailable
	case auth.Email, auth.EmailVerified:
		return http.StatusForbidden
	default:
		return http.StatusUnauthorized
	}
}

// challenge is RFC 6750's (section 3): without an error where no token came.
func challenge(reason auth.Reason) string {
	if reason == auth.Missing {
		return "Bearer"
	}
	return `Bearer error="invalid_token"`
}

// bearerToken takes the token from the values of an Authorization header (RFC 6750, section 2.1).
// Two of them are refused: whoever stands in front may have looked at the other one.
func bearerToken(values []string) (string, *auth.Refusal) {
	if len(values) > 1 {
		return "", &auth.Refusal{Reason: auth.Malformed, Detail: "more than one Authorization header"}
	}
	if len(values) == 0 {
		return "", &auth.Refusal{Reason: auth.Missing, Detail: "no bearer token"}
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", &auth.Refusal{Reason: auth.Missing, Detail: "no bearer token: the Authorization header is of another scheme"}
	case token == "":
		return "", &auth.Refusal{Reason: auth.Missing, Detail: "no bearer token: the Authorization header holds none"}
	case !token68(token):
		return "", &auth.Refusal{Reason: auth.Malformed, Detail: "the Authorization header holds more than one token"}
	}
	return token, nil
}

// token68 reports the characters that a bearer token may have (RFC 9110, section 11.2).
func token68(token string) bool {
	for i := range len(token) {
		switch c := token[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+/=", c) >= 0:
		default:
			return false
		}
	}
	return true
}
