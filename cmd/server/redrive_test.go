package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
)

const deadSubscription = "projects/p/subscriptions/dead"

// deadLetters is a Pub/Sub with n letters of the route telemetry, and its environment.
func deadLetters(t *testing.T, n int) (*pstest.Server, func(string) string) {
	t.Helper()
	const topic = "projects/p/topics/dead"
	srv := pstest.NewServerWithAddress("127.0.0.1:0")
	t.Cleanup(func() { srv.Close() })
	if _, err := srv.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic}); err != nil {
		t.Fatal(err)
	}
	if _, err := srv.GServer.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: deadSubscription, Topic: topic, AckDeadlineSeconds: 10,
	}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		srv.Publish(topic, []byte("data"), map[string]string{"pushsink-route": "telemetry", "pushsink-message-id": fmt.Sprint(i)})
	}
	return srv, func(name string) string {
		if name == "PUBSUB_EMULATOR_HOST" {
			return srv.Addr
		}
		return ""
	}
}

// redriveArgs end a run at its -max: on a slow machine letters may be long in coming.
func redriveArgs(url string, more ...string) []string {
	return append([]string{"-subscription", deadSubscription, "-route", "telemetry", "-url", url, "-idle", "10m"}, more...)
}

func TestRedriveExitsWithAnErrorWhenALetterFailed(t *testing.T) {
	srv, getenv := deadLetters(t, 3)
	fails := true
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if fails {
			fails = false
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	var out bytes.Buffer
	err := redrive(t.Context(), getenv, redriveArgs(server.URL, "-max", "3"), &out)
	if err == nil || !strings.Contains(err.Error(), "1 letters failed") || !strings.Contains(out.String(), "redriven 2, failed 1") {
		t.Errorf("first run: %v\n%s", err, &out)
	}
	if err := redrive(t.Context(), getenv, redriveArgs(server.URL, "-max", "1"), &out); err != nil {
		t.Errorf("second run: %v\n%s", err, &out)
	}
	for _, m := range srv.Messages() {
		if m.Acks != 1 {
			t.Errorf("%s acknowledged %d times", m.ID, m.Acks)
		}
	}
}

func TestRedriveNamesEveryBadFlag(t *testing.T) {
	var out bytes.Buffer
	err := redrive(t.Context(), os.Getenv, []string{"-url", "http://example.test", "-audience", "a", "-max", "0", "-idle", "0s"}, &out)
	for _, want := range []string{"-subscription", "-route", "-url: must be https", "-max=0", "-idle=0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in %v", want, err)
		}
	}
	for _, args := range [][]string{{"-no-such"}, {"-idle", "5"}, redriveArgs("https://example.test", "extra")} {
		if err := redrive(t.Context(), os.Getenv, args, &out); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if err := redrive(t.Context(), os.Getenv, []string{"-h"}, &out); err != nil || !strings.Contains(out.String(), "-max-failed") {
		t.Errorf("-h: %v", err)
	}
}

func TestRedriveRefusesAnEmulatorOnCloudRun(t *testing.T) {
	for _, name := range []string{"K_SERVICE", "CLOUD_RUN_JOB"} {
		getenv := func(n string) string {
			return map[string]string{"PUBSUB_EMULATOR_HOST": "127.0.0.1:1", name: "x"}[n]
		}
		if err := redrive(t.Context(), getenv, redriveArgs("http://127.0.0.1:1"), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "PUBSUB_EMULATOR_HOST") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A service account's key makes the ID token, for the audience that was asked for.
func TestRedriveSendsAnIDTokenForItsAudience(t *testing.T) {
	_, getenv := deadLetters(t, 2)
	var audiences []string
	var mu sync.Mutex
	idToken := unsignedToken(t, map[string]any{"aud": "https://sink.example", "exp": 4102444800})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/token" {
			_ = r.ParseForm()
			audiences = append(audiences, claims(t, r.PostForm.Get("assertion"))["target_audience"].(string))
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"id_token": idToken})
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+idToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", serviceAccount(t, server.URL+"/token"))
	var out bytes.Buffer
	if err := redrive(t.Context(), getenv, redriveArgs(server.URL, "-audience", "https://sink.example", "-max", "2"), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "redriven 2, failed 0") || strings.Contains(out.String(), idToken) {
		t.Errorf("printed %s", &out)
	}
	if len(audiences) != 1 || audiences[0] != "https://sink.example" {
		t.Errorf("tokens asked for %v, want one", audiences)
	}
}

func TestRedriveEndsWithItsContext(t *testing.T) {
	srv, getenv := deadLetters(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client left
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	if err := redrive(ctx, getenv, redriveArgs(server.URL), &bytes.Buffer{}); err == nil {
		t.Error("an interrupted run is no success")
	}
	if m := srv.Messages()[0]; m.Acks != 0 {
		t.Error("acknowledged")
	}
}

func serviceAccount(t *testing.T, tokenURL string) (file string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "private_key_id": "k", "client_email": "redrive@p.example", "client_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": tokenURL,
	})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func unsignedToken(t *testing.T, claims map[string]any) string {
	t.Helper()
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part(text) + "." + part([]byte("signature"))
}

func claims(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Errorf("no token in %d parts", len(parts))
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Error(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Error(err)
	}
	return m
}

// The server itself takes each envelope for the record it was.
func TestRedriveThroughTheServer(t *testing.T) {
	srv, getenv := deadLetters(t, 0)
	for _, envelope := range []string{"", "unwrapped", "cloudevents"} {
		attributes := map[string]string{
			"pushsink-route": "telemetry", "pushsink-message-id": "id-" + envelope,
			"pushsink-publish-time": "2026-11-30T08:00:00.123Z", "pushsink-subscription": "projects/p/subscriptions/s",
		}
		if envelope != "" {
			attributes["pushsink-envelope"] = envelope
		}
		srv.Publish("projects/p/topics/dead", []byte(`{"device":"d","via":"`+envelope+`"}`), attributes)
	}
	p := start(t, []string{"PORT=0"})
	url := "http://" + p.logged("listening")["address"].(string)
	eventually(t, func() (bool, string) {
		a := get(url + "/health/ready")
		return a.status == 200, fmt.Sprintf("ready: %d %s %v", a.status, a.body, a.err)
	})
	var out bytes.Buffer
	if err := redrive(t.Context(), getenv, redriveArgs(url, "-route", "demo", "-from", "telemetry", "-max", "3"), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	a := get(url + "/v1/routes/demo/rows?decode=1")
	got := map[string]string{} // message id -> via
	for line := range strings.Lines(a.body) {
		var row struct {
			Key   string
			Cells []struct {
				Column, Timestamp string
				Value             any
			}
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("rows: %d %q: %v", a.status, a.body, err)
		}
		for _, c := range row.Cells {
			if c.Timestamp != "2026-11-30T08:00:00.123Z" {
				t.Errorf("%s: cell time %s is not the record's publish time", row.Key, c.Timestamp)
			}
			if c.Column == "via" {
				got[row.Key[strings.LastIndex(row.Key, "#")+1:]] = fmt.Sprint(c.Value)
			}
		}
	}
	want := map[string]string{"id-": "", "id-unwrapped": "unwrapped", "id-cloudevents": "cloudevents"}
	if !maps.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	p.stop()
}
