package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/internal/issuer"
	"github.com/pushsink/pushsink/internal/scripted"
)

// postAs posts with a token; "" = none.
func postAs(token, url, body string) answer {
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	return do(req, err)
}

// oidcOf are the options of a server that trusts the issuer at url.
func oidcOf(url string) []string {
	return []string{"PUSHSINK_AUTH=oidc", "PUSHSINK_AUTH_JWKS_URL=" + url + "/certs", "PUSHSINK_METRICS_PORT=0",
		"PUSHSINK_AUTH_AUDIENCES=https://other.example," + issuer.Audience, "PUSHSINK_AUTH_EMAILS=" + issuer.Email, "PUSHSINK_EXPOSE=dryrun"}
}

// The real server with AUTH=oidc, an issuer on loopback and tokens good and bad.
func TestServesWhoHasAToken(t *testing.T) {
	a, b := issuer.NewKey(t, "a"), issuer.NewKey(t, "b")
	i := issuer.New(a)
	keys := httptest.NewServer(i)
	defer keys.Close()
	bt := scripted.New(t, scripted.Options{})
	p := start(t, real(t, bt, oidcOf(keys.URL)...))
	url := p.url()
	var tokens []string
	push := func(what string, key *issuer.Key, status int, change ...any) {
		t.Helper()
		token := key.Sign(t, issuer.Claims(change...))
		tokens = append(tokens, token)
		if got := postAs(token, url+"/v1/routes/telemetry/push", pushBody(what, 1)); got.status != status {
			t.Errorf("%s: %d %s %v, want %d", what, got.status, got.body, got.err, status)
		}
		if has := bt.Row(readings, what) != nil; has != (status == 204) {
			t.Errorf("%s was answered %d, and its row is there: %v", what, status, has)
		}
	}
	// The first fetch of keys has 3 s.
	eventually(t, func() (bool, string) {
		got := postAs(a.Sign(t, issuer.Claims()), url+"/v1/routes/telemetry/push", pushBody("first", 1))
		return got.status == 204, fmt.Sprintf("the first token is let in: %d %s %v", got.status, got.body, got.err)
	})
	fetches := i.Fetches()
	push("good", a, 204)
	push("AUTH-04", a, 204, "iss", "accounts.google.com")
	push("AUTH-04-evil", a, 401, "iss", "https://accounts.google.com.evil.test")
	push("AUTH-01", a, 401, "aud", "https://wrong.example")
	push("AUTH-03", a, 403, "email_verified", "true")
	push("stranger", a, 403, "email", "stranger@example.com")
	push("expired", a, 401, "exp", 1)
	for _, path := range []string{"/v1/routes/telemetry/push", "/v1/routes/telemetry/records", "/v1/routes/telemetry/dryrun", "/", "/v1/routes/none/push", "/none"} {
		if got := postAs("", url+path, "{}"); got.status != 401 || got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s without a token: %d %s, want 401", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/health/live", "/health/startup", "/openapi.yaml"} {
		if got := get(url + path); got.status != 200 {
			t.Errorf("%s without a token: %d", path, got.status)
		}
	}
	if n := i.Fetches() - fetches; n != 0 {
		t.Errorf("%d fetches of known keys, want none", n)
	}

	// AUTH-06: the key is rotated; after it ids that nobody knows.
	i.Publish(b)
	rotated := time.Now()
	eventually(t, func() (bool, string) {
		got := postAs(b.Sign(t, issuer.Claims()), url+"/v1/routes/telemetry/push", pushBody("AUTH-06", 1))
		return got.status == 204, fmt.Sprintf("the new key is known: %d %s %v", got.status, got.body, got.err)
	})
	for n := range 100 {
		if got := postAs(issuer.NewStray(fmt.Sprint("stray", n)), url+"/", "{}"); got.status != 401 {
			t.Fatalf("a made-up key id: %d %s, want 401", got.status, got.body)
		}
	}
	const coolDown = 10 * time.Second // docs/deploy.md
	if n, most := i.Fetches()-fetches, 1+int(time.Since(rotated)/coolDown); n > most {
		t.Errorf("%d fetches for ids that were not known, want %d at most", n, most)
	}
	push("afterwards", b, 204)

	shows(t, p, `pushsink_auth_key_fetches_total{result="ok"}`)
	page := get(metricsURL(p) + "/metrics").body
	for _, series := range []string{`{reason="aud"} 1`, `{reason="iss"} 1`, `{reason="exp"} 1`, `{reason="email"} 1`, `{reason="email_verified"} 1`, `{reason="missing"} 6`, `{reason="kid"} 100`} {
		if !strings.Contains(page, "pushsink_auth_refusals_total"+series) {
			t.Errorf("no pushsink_auth_refusals_total%s", series)
		}
	}
	documented(t, page)
	p.stop()
	if summary := p.logged("listening"); summary["auth"] != "oidc" {
		t.Errorf("summary %v", summary)
	}
	if n := len(p.entries("request not let in")); n < 7 || n > 40 {
		t.Errorf("%d lines about 112 refusals, want a falling rate", n)
	}
	output := p.output() + p.stderr.String()
	for _, token := range tokens {
		for part := range strings.SplitSeq(token, ".") {
			if strings.Contains(output, part) {
				t.Error("a part of a token is logged")
			}
		}
	}
	for _, claim := range []string{"stranger", "wrong.example", "evil.test"} {
		if strings.Contains(output, claim) {
			t.Errorf("a claim is logged: %s", claim)
		}
	}
}

// A server whose issuer is out of reach starts, says so, and answers 503.
func TestAUTH06IssuerOutOfReach(t *testing.T) {
	key := issuer.NewKey(t, "a")
	i := issuer.New(key)
	i.Down()
	keys := httptest.NewServer(i)
	defer keys.Close()
	p := start(t, real(t, scripted.New(t, scripted.Options{}), oidcOf(keys.URL)...))
	token := key.Sign(t, issuer.Claims())
	got := postAs(token, p.url()+"/v1/routes/telemetry/push", pushBody("a", 1))
	if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "AUTH_JWKS_URL") {
		t.Errorf("%d %s, want 503 by the option's name", got.status, got.body)
	}
	entry := p.logged("the keys of the tokens' issuer are out of reach")
	if entry["severity"] != "WARNING" || entry["option"] != "PUSHSINK_AUTH_JWKS_URL" || !strings.Contains(fmt.Sprint(entry["error"]), keys.URL) {
		t.Errorf("logged %v", entry)
	}
	reaches(t, metricsURL(p), "pushsink_auth_key_fetches_total", 1)
	i.Publish(key)
	eventually(t, func() (bool, string) {
		a := postAs(token, p.url()+"/v1/routes/telemetry/push", pushBody("a", 1))
		return a.status == 204, fmt.Sprintf("%d %s", a.status, a.body)
	})
	p.stop()
}

// Each mode puts its own guard up, and none is none only where that was typed, or in dev mode.
func TestAUTH07Modes(t *testing.T) {
	for _, c := range []struct {
		name          string
		environ       []string
		without, with int // a token; 404 = let in
	}{
		{"none", []string{"PUSHSINK_ROUTES_FILE=r", "PUSHSINK_AUTH=none"}, 404, 404},
		{"cloudrun", []string{"PUSHSINK_ROUTES_FILE=r", "PUSHSINK_AUTH=cloudrun", "K_SERVICE=s"}, 401, 404},
		{"oidc", []string{"PUSHSINK_ROUTES_FILE=r", "PUSHSINK_AUTH=oidc", "PUSHSINK_AUTH_AUDIENCES=a", "PUSHSINK_AUTH_EMAILS=a@b"}, 401, 401},
		{"dev mode", []string{}, 404, 404},
		{"oidc in dev mode", []string{"PUSHSINK_AUTH=oidc", "PUSHSINK_AUTH_AUDIENCES=a", "PUSHSINK_AUTH_EMAILS=a@b"}, 404, 404},
	} {
		s, err := load(c.environ)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		wantGuard(t, c.name, s, c.without, c.with)
	}
	// Settings that nobody checked let nobody in.
	wantGuard(t, "nothing", &settings{}, 401, 401)
	wantGuard(t, "a word that is no mode", &settings{config: config{Auth: "off"}}, 401, 401)
	srv := &server{settings: &settings{config: config{Auth: "oidc"}}, logger: slog.New(slog.DiscardHandler)}
	if guard, err := srv.auth(nil); guard != nil || err == nil {
		t.Error("oidc without its lists starts")
	}
}

func wantGuard(t *testing.T, name string, s *settings, without, with int) {
	t.Helper()
	srv := &server{settings: s, logger: slog.New(slog.DiscardHandler)}
	o, err := newObserver(noop.Meter{})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := srv.auth(o)
	if err != nil {
		t.Fatal(err)
	}
	h := handlers.New(handlers.Config{Limits: handlers.DefaultLimits(), Auth: guard})
	for authorization, want := range map[string]int{"": without, "Bearer x.y.SIGNATURE_REMOVED_BY_GOOGLE": with} {
		r := httptest.NewRequest("POST", "/", nil)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s, Authorization %q: %d, want %d", name, authorization, w.Code, want)
		}
	}
}
