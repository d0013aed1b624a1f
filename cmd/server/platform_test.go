package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// metadataServer is Cloud Run's, as far as a start asks.
func metadataServer(t *testing.T, answer http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
}

func TestPlatform(t *testing.T) {
	asked := make(chan string, 10)
	metadataServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		if r.Header.Get("Metadata-Flavor") != "Google" {
			http.Error(w, "not asked as it wants", http.StatusForbidden)
			return
		}
		switch strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/") {
		case "project/project-id":
			fmt.Fprint(w, "of-metadata")
		case "instance/region":
			fmt.Fprint(w, "projects/1234/regions/europe-west1")
		case "instance/id":
			fmt.Fprint(w, "00abc")
		default:
			http.NotFound(w, r)
		}
	})
	got := findPlatform(t.Context(), &settings{Service: "s", Revision: "s-1"}, patience)
	if want := (platform{"s", "s-1", "of-metadata", "europe-west1", "00abc"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	text := fmt.Sprint(got.attributes())
	for _, want := range []string{"gcp_cloud_run", "europe-west1", "s-1", "00abc", "of-metadata"} {
		if !strings.Contains(text, want) {
			t.Errorf("attributes %s, without %s", text, want)
		}
	}
	if got := findPlatform(t.Context(), &settings{Service: "s", Project: "named"}, patience); got.project != "named" {
		t.Errorf("project %q, want the one that GOOGLE_CLOUD_PROJECT names", got.project)
	}
	for len(asked) > 0 {
		<-asked
	}
	if got := findPlatform(t.Context(), &settings{Project: "named"}, patience); got != (platform{project: "named"}) || len(asked) > 0 || got.attributes() != nil {
		t.Errorf("outside Cloud Run: %+v, asked %d times", got, len(asked))
	}
}

// Where nothing answers, as with Knative elsewhere, a start waits half a second.
func TestPlatformWithoutMetadata(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, host := range []string{"127.0.0.1:1", silent.Addr().String()} {
		t.Setenv("GCE_METADATA_HOST", host)
		began := time.Now()
		if got := findPlatform(t.Context(), &settings{Service: "s"}, metadataTimeout); got != (platform{service: "s"}) {
			t.Errorf("%s: %+v", host, got)
		}
		if took := time.Since(began); took > 60*metadataTimeout {
			t.Errorf("%s: %s", host, took)
		}
		if text := fmt.Sprint(platform{service: "s"}.attributes()); strings.Contains(text, "gcp") {
			t.Errorf("attributes of a platform that did not answer: %s", text)
		}
	}
}
