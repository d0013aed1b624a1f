package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/internal/emulator"
)

// The README's way to Spanner is gone as it stands, but for the ports, the emulator's start
// and `go run`, which is the code under test as it was built.
func TestReadmeSpanner(t *testing.T) {
	const heading = "Spanner in five minutes"
	e := emulator.Spanner(t)
	rest := e.REST(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "orders.yaml"), []byte(routesFile(t, heading)), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(e.Addr)
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("localhost:9010", "127.0.0.1:"+port, "http://localhost:9020/", "http://"+rest+"/",
		"go run ./cmd/server", asServer+"=1 "+self)
	var exports, url string
	environ := append(os.Environ(), "CLOUDSDK_CONFIG="+filepath.Join(dir, "gcloud"), "CLOUDSDK_CORE_DISABLE_PROMPTS=1")
	var server *process
	answered := 0
	for _, c := range consoleCommands(t, heading) {
		script := here.Replace(c.script)
		switch {
		case c.script == "gcloud emulators spanner start": // it runs
			continue
		case strings.HasPrefix(script, "export "):
			exports += script + "\n"
			continue
		case strings.HasSuffix(c.script, " go run ./cmd/server"):
			env, _, _ := strings.Cut(script, " "+asServer)
			env = strings.ReplaceAll(env, "orders.yaml", filepath.Join(dir, "orders.yaml"))
			server = start(t, append([]string{"PORT=0"}, strings.Fields(env)...))
			url = server.url()
			ready(t, url)
			continue
		}
		cmd := exec.Command("bash", "-e", "-c", exports+strings.ReplaceAll(script, "http://localhost:8080", url))
		cmd.Dir, cmd.Env = dir, environ
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s\n%v\n%s%s", c.script, err, out, complaints.String())
		}
		if c.output == "" {
			continue
		}
		answered++
		if got, want := strings.Fields(string(out)), strings.Fields(c.output); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s\nprints\n%s\nREADME.md says\n%s", c.script, out, c.output)
		}
	}
	if server == nil || answered < 2 {
		t.Fatalf("server started: %v, %d outputs compared; is a block not recognised?", server != nil, answered)
	}
	server.stop()
}
