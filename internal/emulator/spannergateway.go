package emulator

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// standIn takes the place of the emulator that a gateway starts: the one it serves runs
// already. It ends with the gateway.
const standIn = `#!/bin/sh
gateway=$PPID
while kill -0 "$gateway" 2>/dev/null; do sleep 0.2; done
`

// REST serves the emulator's REST interface for t and returns its host:port. The gcloud
// command speaks to it.
func (s *SpannerEmulator) REST(t testing.TB) string {
	t.Helper()
	binary, err := sdkFile("bin/cloud_spanner_emulator/gateway_main")
	if err != nil {
		absent(t, "Spanner", err)
	}
	script := filepath.Join(t.TempDir(), "stand-in")
	if err := os.WriteFile(script, []byte(standIn), 0o700); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	rest := FreePort(t)
	p := StartFor(t, exec.Command(binary, "--hostname="+host, "--grpc_binary="+script,
		"--grpc_port="+port, "--http_port="+strconv.Itoa(rest)))
	addr := net.JoinHostPort(host, strconv.Itoa(rest))
	for deadline := time.Now().Add(readyTimeout); ; <-time.After(20 * time.Millisecond) {
		answer, err := http.Get("http://" + addr + "/v1/projects/test/instances")
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return addr
			}
		}
		if p.Exited() || time.Now().After(deadline) {
			t.Fatalf("the REST interface of the Spanner emulator: %v; output: %s", err, p.Output())
		}
	}
}
