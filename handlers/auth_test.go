package handlers

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/internal/issuer"
)

// withOIDC puts the fixture behind AUTH=oidc, with i's keys.
func withOIDC(t testing.TB, i *issuer.Issuer) func(*fixture) {
	return func(f *fixture) {
		v, err := auth.New(auth.Config{
			JWKSURL: "https://issuer.test/keys", Issuers: []string{"accounts.google.com", "https://accounts.google.com"},
			Audiences: []string{issuer.Audience}, Emails: []string{issuer.Email}, MaxWait: f.config.Limits.RequestTimeout, Transport: i,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.config.Auth = OIDC(v, f.counts, f.config.Logger)
	}
}

// refused is how many requests were counted for that reason.
func (f *fixture) refused(reason auth.Reason) int {
	return f.counts.of(func(c *counts) map[string]int { return c.requests }, "refused "+string(reason))
}

// asked sends a request whose body must not be read.
func (f *fixture) asked(method, path string, authorization ...string) *recorder {
	f.t.Helper()
	body := &untouched{}
	r := newServerRequest(method, path, body)
	r.ContentLength = 800 << 20
	r.Header.Set("Content-Encoding", "gzip")
	r.Header["Authorization"] = authorization
	w := newRecorder()
	f.handler.ServeHTTP(w, r)
	if body.read {
		f.t.Errorf("%s %s: the body was read", method, path)
	}
	if w.Header().Get("Connection") != "close" {
		f.t.Errorf("%s %s: the connection goes on although the body was left", method, path)
	}
	return w
}

func TestTokensAreRefusedBeforeTheBody(t *testing.T) {
	key, other := issuer.NewKey(t, "a"), issuer.NewKey(t, "b")
	f := newFixture(t, offline, withOIDC(t, issuer.New(key)))
	sign := func(change ...any) string { return "Bearer " + key.Sign(t, issuer.Claims(change...)) }
	good := sign()
	for _, c := range []struct {
		name          string
		authorization []string
		status        int
		reason        auth.Reason
		challenge     string
	}{
		{"no header", nil, 401, auth.Missing, "Bearer"},
		{"an empty header", []string{""}, 401, auth.Missing, "Bearer"},
		{"no token", []string{"Bearer"}, 401, auth.Missing, "Bearer"},
		{"blanks", []string{"Bearer   "}, 401, auth.Missing, "Bearer"},
		{"another scheme", []string{"Basic dXNlcjpwYXNz"}, 401, auth.Missing, "Bearer"},
		{"a scheme that begins so", []string{strings.Replace(good, "Bearer", "BearerX", 1)}, 401, auth.Missing, "Bearer"},
		{"no scheme", []string{good[7:]}, 401, auth.Missing, "Bearer"},
		{"two headers", []string{good, good}, 401, auth.Malformed, `Bearer error="invalid_token"`},
		{"a good one after a bad one", []string{"Bearer x", good}, 401, auth.Malformed, `Bearer error="invalid_token"`},
		{"two in one", []string{good + ", " + good}, 401, auth.Malformed, `Bearer error="invalid_token"`},
		{"something behind it", []string{good + " x"}, 401, auth.Malformed, `Bearer error="invalid_token"`},
		{"no JWT", []string{"Bearer ya29.x~+/="}, 401, auth.Malformed, `Bearer error="invalid_token"`},
		{"AUTH-01 another audience", []string{sign("aud", "https://other.example")}, 401, auth.Audience, `Bearer error="invalid_token"`},
		{"AUTH-03 false", []string{sign("email_verified", false)}, 403, auth.EmailVerified, ""},
		{"AUTH-03 absent", []string{sign("email_verified", nil)}, 403, auth.EmailVerified, ""},
		{"AUTH-03 a text", []string{sign("email_verified", "true")}, 403, auth.EmailVerified, ""},
		{"another account", []string{sign("email", "other@example.com")}, 403, auth.Email, ""},
		{"AUTH-04 evil suffix", []string{sign("iss", "https://accounts.google.com.evil.test")}, 401, auth.Issuer, `Bearer error="invalid_token"`},
		{"expired", []string{sign("exp", time.Now().Add(-time.Hour).Unix())}, 401, auth.Expired, `Bearer error="invalid_token"`},
		{"another key", []string{"Bearer " + other.Sign(t, issuer.Claims())}, 401, auth.UnknownKey, `Bearer error="invalid_token"`},
		{"signature removed", []string{good[:strings.LastIndexByte(good, '.')] + ".SIGNATURE_REMOVED_BY_GOOGLE"}, 401, auth.SignatureRemoved, `Bearer error="invalid_token"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := f.refused(c.reason)
			paths := []struct{ method, path string }{
				{"POST", "/v1/routes/r/push"}, {"POST", "/v1/routes/r/records"}, {"POST", "/"}, {"POST", "/v1/routes/r/dryrun"}, {"GET", "/v1/routes/r/rows"},
				{"POST", "/v1/routes/unknown/push"}, {"POST", "/nowhere"}, {"DELETE", "/v1/routes/r/push"},
			}
			for _, p := range paths {
				w := f.asked(p.method, p.path, c.authorization...)
				if got := w.Header().Get("WWW-Authenticate"); w.Code != c.status || got != c.challenge {
					t.Errorf("%s %s: %d, WWW-Authenticate %q; want %d, %q: %s", p.method, p.path, w.Code, got, c.status, c.challenge, w.Body)
				}
			}
			if n := f.refused(c.reason) - before; n != len(paths) {
				t.Errorf("%d counted for %s, want %d", n, c.reason, len(paths))
			}
		})
	}
	if len(f.mapper.records()) != 0 {
		t.Error("a record came through")
	}
	if n := len(f.counts.records); n != 0 {
		t.Errorf("records counted: %v", f.counts.records)
	}
}

// The scheme's case and the blanks behind it do not matter (RFC 9110).
func TestGoodTokens(t *testing.T) {
	key := issuer.NewKey(t, "a")
	f := newFixture(t, withOIDC(t, issuer.New(key)))
	for name, c := range map[string]struct {
		scheme string
		change []any
	}{
		"as Pub/Sub sends it":          {"Bearer ", nil},
		"lower case":                   {"bearer ", nil},
		"upper case, blanks":           {"BEARER    ", nil},
		"AUTH-04 the other spelling":   {"Bearer ", []any{"iss", "accounts.google.com"}},
		"AUTH-01 one of the audiences": {"Bearer ", []any{"aud", []string{"https://other.example", issuer.Audience}}},
	} {
		token := c.scheme + key.Sign(t, issuer.Claims(c.change...))
		f.want(name, f.push(wrap(`{"id":"a"}`, "m"), "Authorization", token), 204, "")
		f.want(name, f.records("json", `{"id":"a"}`, "Authorization", token), 200, "")
		f.want("unknown route", f.do(f.request("POST", "/v1/routes/x/push", "{}", "Authorization", token)), 404, "")
	}
}

// What EXPOSE opens, and what is not there, stands behind the token; probes and the contract
// do not.
func TestWhatIsOpen(t *testing.T) {
	key := issuer.NewKey(t, "a")
	token := "Bearer " + key.Sign(t, issuer.Claims())
	for _, exposed := range []bool{true, false} {
		f := newFixture(t, withOIDC(t, issuer.New(key)), func(f *fixture) {
			if !exposed {
				f.config.Expose = Expose{}
			}
		})
		for _, c := range []struct {
			method, path    string
			open            bool
			exposed, hidden int // with a token
		}{
			{"GET", "/health/startup", true, 200, 200}, {"GET", "/health/ready", true, 200, 200}, {"GET", "/health/live", true, 200, 200},
			{"GET", "/health/routes/r", true, 200, 200}, {"GET", "/openapi.yaml", true, 200, 200},
			{"POST", "/v1/routes/r/dryrun", false, 400, 404}, {"GET", "/v1/routes/r/rows", false, 404, 404},
			{"GET", "/metrics", false, 404, 404}, {"GET", "/", false, 405, 405}, {"GET", "/v1", false, 404, 404},
			{"OPTIONS", "/v1/routes/r/push", false, 405, 405},
			// Nothing gets by with a path that looks open.
			{"POST", "/health/../v1/routes/r/push", true, 404, 404}, {"POST", "/health/%2e%2e/v1/routes/r/push", true, 404, 404},
			{"POST", "//v1/routes/r/push", false, 404, 404}, {"POST", "/openapi.yaml/../v1/routes/r/push", false, 404, 404},
			{"POST", "/v1/routes/r/push/../../../../health/live", false, 404, 404},
		} {
			want := map[bool]int{true: c.exposed, false: c.hidden}[exposed]
			if a := f.do(f.request(c.method, c.path, "", "Authorization", token)); a.status != want {
				t.Errorf("exposed %v: %s %s with a token: %d, want %d", exposed, c.method, c.path, a.status, want)
			}
			if !c.open {
				want = 401
			}
			if a := f.do(f.request(c.method, c.path, "")); a.status != want {
				t.Errorf("exposed %v: %s %s without a token: %d, want %d", exposed, c.method, c.path, a.status, want)
			}
		}
	}
}

// AUTH=cloudrun wants a token that somebody else has verified.
func TestCloudRun(t *testing.T) {
	removed := "Bearer " + strings.Repeat("h", 40) + "." + strings.Repeat("p", 600) + ".SIGNATURE_REMOVED_BY_GOOGLE"
	f := newFixture(t, offline, func(f *fixture) { f.config.Auth = CloudRun(f.counts, f.config.Logger) })
	for _, c := range []struct {
		name   string
		header []string
		status int
		reason auth.Reason
	}{
		{"as the platform hands it on", []string{"Authorization", removed}, 204, ""},
		{"in the other header", []string{"X-Serverless-Authorization", removed}, 204, ""},
		{"in the other header, whatever this one says", []string{"X-Serverless-Authorization", removed, "Authorization", "Basic x"}, 204, ""},
		{"lower case", []string{"Authorization", "bearer x"}, 204, ""},
		{"no token", nil, 401, auth.Missing},
		{"another scheme", []string{"Authorization", "Basic x"}, 401, auth.Missing},
		{"not in the header that the platform looks at", []string{"X-Serverless-Authorization", "", "Authorization", removed}, 401, auth.Missing},
		{"two", []string{"Authorization", removed, "Authorization", removed}, 401, auth.Malformed},
	} {
		before := f.refused(c.reason)
		a := f.push(wrap(`{"id":"a"}`, "m"), c.header...)
		f.want(c.name, a, c.status, "")
		if c.reason != "" && f.refused(c.reason) != before+1 {
			t.Errorf("%s: not counted as %s", c.name, c.reason)
		}
		if c.status == 401 {
			if w := f.asked("POST", "/v1/routes/unknown/push", "Basic x"); w.Code != 401 {
				t.Errorf("%s: %d, want 401 before the body and before 404", c.name, w.Code)
			}
		}
	}
	for _, path := range []string{"/health/live", "/openapi.yaml"} {
		if a := f.do(f.request("GET", path, "")); a.status != 200 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// While the issuer's keys are out of reach nothing is known of a token: 503, to be sent again.
func TestAUTH06KeysOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := issuer.NewKey(t, "a")
		i := issuer.New(key)
		i.Down()
		f := newFixture(t, offline, withOIDC(t, i))
		w := f.asked("POST", "/v1/routes/r/push", "Bearer "+key.Sign(t, issuer.Claims()))
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
		}
		if f.refused(auth.Unavailable) != 1 {
			t.Errorf("counted %v", f.counts.requests)
		}
		// Who has no token needs no keys to be told so.
		if w := f.asked("POST", "/v1/routes/r/push"); w.Code != 401 {
			t.Errorf("without a token: %d, want 401", w.Code)
		}
		i.Publish(key)
		time.Sleep(time.Second)
		f.want("with keys", f.push(wrap(`{"id":"a"}`, "m"), "Authorization", "Bearer "+key.Sign(t, issuer.Claims())), 204, "")
	})
}

// A wait for keys is part of the request's time.
func TestWaitForKeysCountsForTheDeadline(t *testing.T) {
	eachProtocol(t, func(t *testing.T, h2 bool) {
		key := issuer.NewKey(t, "a")
		i := issuer.New(key)
		i.Delay(2 * time.Second)
		f := newFixture(t, offline, func(f *fixture) {
			f.config.Limits.RequestTimeout = 5 * time.Second
			f.writer.gate = make(chan struct{})
		}, withOIDC(t, i))
		token := "Bearer " + key.Sign(t, issuer.Claims())
		a, took := f.timed(servePipes(t, f).client(h2), post(t, "/v1/routes/r/push", strings.NewReader(wrap(`{"id":"a"}`, "m")), -1, "Authorization", token))
		if a.status != 503 || took != 5*time.Second {
			t.Errorf("%d after %s, want 503 after 5 s: %s", a.status, took, a.body)
		}
		close(f.writer.gate)
	})
}

// A client that is refused is not told to go on with its body, and its connection ends.
func TestRefusedClientsAreNotWaitedFor(t *testing.T) {
	for name, header := range map[string]string{"expects to be told": "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n", "stalls": "Content-Length: 100\r\n\r\n{"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, offline, withOIDC(t, issuer.New()), func(f *fixture) { f.config.Limits.ReadBodyTimeout = 3 * time.Second })
				start := time.Now()
				conn, err := servePipes(t, f).dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, "POST /v1/routes/r/push HTTP/1.1\r\nHost: h\r\n"+header); err != nil {
					t.Fatal(err)
				}
				in := bufio.NewReader(conn)
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode != 401 {
					t.Fatalf("answer %v %v, want 401", resp, err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
				if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
					t.Errorf("the connection goes on: %v", err)
				}
				if took := time.Since(start); took > 3*time.Second+500*time.Millisecond {
					t.Errorf("the connection ended after %s", took)
				}
			})
		})
	}
}

// Refusals are logged by reason at a falling rate, and never with a part of the token.
func TestRefusalsAreLogged(t *testing.T) {
	key := issuer.NewKey(t, "a")
	f := newFixture(t, offline, withOIDC(t, issuer.New(key)))
	tokens := []string{key.Sign(t, issuer.Claims("aud", "https://other.example")), key.Sign(t, issuer.Claims("email", "stranger@example.com")),
		"secret-opaque-token", issuer.NewKey(t, "zz-secret-kid").Sign(t, issuer.Claims())}
	var answers strings.Builder
	for range 5 {
		for _, token := range tokens {
			answers.WriteString(f.asked("POST", "/v1/routes/r/push", "Bearer "+token).Body.String())
			answers.WriteString(f.asked("POST", "/v1/routes/r/push", "Basic "+token).Body.String())
			answers.WriteString(f.asked("POST", "/v1/routes/r/push", "Bearer "+token, "Bearer "+token).Body.String())
		}
	}
	log := f.logs.String()
	for _, want := range []string{
		`level=WARN msg="request not let in" reason=aud status=401 detail="the token's audience is not accepted (AUTH_AUDIENCES)" count=4`,
		`reason=email status=403 detail="email not allowed (AUTH_EMAILS)" count=1`, `reason=kid`, `reason=missing`, `reason=malformed`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no line with %s in\n%s", want, log)
		}
	}
	if n := strings.Count(log, "reason=aud"); n != 3 {
		t.Errorf("%d lines of 5 refusals, want those of the 1st, 2nd and 4th", n)
	}
	for _, token := range tokens {
		parts := append(strings.Split(token, "."), "other.example", "stranger", "zz-secret-kid")
		for _, part := range parts {
			if strings.Contains(log, part) || strings.Contains(answers.String(), part) {
				t.Errorf("a part of a token is shown: %q", part)
			}
		}
	}
}

// FuzzAuthorization holds that no Authorization header gets a request in but the bearer of a
// token that the issuer signed.
func FuzzAuthorization(f *testing.F) {
	key := issuer.NewKey(f, "a")
	fixture := newFixture(f, offline, withOIDC(f, issuer.New(key)))
	guarded := fixture.api.handler(fixture.config.Auth)
	real := key.Sign(f, issuer.Claims())
	for _, header := range []string{"", "Bearer", "Bearer ", "Basic x", "Bearer x", real, "Bearer " + real + ", Bearer " + real, "Bearer " + real + " " + real} {
		f.Add(header)
	}
	for _, prefix := range []string{"Bearer ", "bearer ", "BEARER   ", "Bearer\t", " Bearer "} {
		header := prefix + real
		f.Add(header)
		for i := 0; i < len(header); i += 61 {
			f.Add(header[:i])
			flipped := []byte(header)
			flipped[i] ^= 1 << (i % 7)
			f.Add(string(flipped))
		}
	}
	// content is a token's header and payload, decoded: their last characters have idle bits.
	content := func(token string) (parts [2]string) {
		for i, part := range strings.SplitN(token, ".", 3)[:2] {
			text, err := base64.RawURLEncoding.DecodeString(part)
			if err != nil {
				return parts
			}
			parts[i] = string(text)
		}
		return parts
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := newServerRequest("GET", "/v1/routes/r/rows", http.NoBody)
		r.Header["Authorization"] = []string{header}
		w := newRecorder()
		guarded.ServeHTTP(w, r)
		// 404: the route has no rows to read, which only those are told who are let in.
		switch {
		case w.Code == 401 || w.Code == 403:
			if len(header) > 20 && strings.Contains(w.Body.String(), header) {
				t.Errorf("%q is answered with itself", header)
			}
		case w.Code == 404:
			scheme, token, _ := strings.Cut(header, " ")
			if !strings.EqualFold(scheme, "bearer") || strings.Count(token, ".") != 2 || content(strings.TrimLeft(token, " ")) != content(real) {
				t.Errorf("let in with %q", header)
			}
		default:
			t.Errorf("%q: %d %s", header, w.Code, w.Body)
		}
	})
}

// BenchmarkPushAuth is a push with and without a token to verify.
func BenchmarkPushAuth(b *testing.B) {
	key := issuer.NewKey(b, "a")
	token := "Bearer " + key.Sign(b, issuer.Claims())
	for name, change := range map[string]func(*fixture){"none": func(*fixture) {}, "oidc": withOIDC(b, issuer.New(key))} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, offline, change)
			h := f.api.handler(f.config.Auth)
			body := wrap(`{"id":"a"}`, "m")
			b.ReportAllocs()
			for b.Loop() {
				r := newServerRequest("POST", "/v1/routes/r/push", io.NopCloser(strings.NewReader(body)))
				r.Header.Set("Authorization", token)
				w := newRecorder()
				h.ServeHTTP(w, r)
				if w.Code != 204 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
