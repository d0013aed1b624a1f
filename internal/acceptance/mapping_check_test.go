package acceptance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/scripted"
)

// TestCheckAndDryrunSayTheSame: `server check -sample` and POST /dryrun of a running
// server, for each record of one sample: real events, pushes, and records that fail.
func TestCheckAndDryrunSayTheSame(t *testing.T) {
	quakes, err := os.ReadFile("testdata/earthquakes.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range bytes.Lines(quakes) {
		if len(lines) == 25 {
			break
		}
		lines = append(lines, strings.TrimSpace(string(line)))
	}
	push := message{ID: "77", Data: []byte(lines[0]), Attributes: map[string]string{"tenant": "t1"}, Published: published}
	empty := message{ID: "78", Published: published}
	lines = append(lines, string(push.body(t)), string(empty.body(t)),
		strings.Replace(lines[0], `"type":"earthquake"`, `"type":"explosion"`, 1), // skipped by where
		strings.Replace(lines[0], `"mag":2`, `"mag":"2"`, 1),
		strings.Replace(lines[0], `"net":"ci"`, `"net":""`, 1),
		strings.Replace(lines[0], `"time":1517966773840`, `"time":1517966773`, 1),
		`{"properties":{"type":"earthquake"}}`, `{}`, `[]`, `7`, `{"a":1,"a":2}`, `{"a"`, `{"message":{"data":"!","messageId":"1"}}`)

	dir := t.TempDir()
	routes, sample := filepath.Join(dir, "routes.yaml"), filepath.Join(dir, "sample.ndjson")
	for file, text := range map[string]string{routes: catalogRoutes, sample: strings.Join(lines, "\n") + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(serverBinary(t), "check", "-routes", routes, "-sample", sample)
	cmd.Env = []string{"HOME=" + dir}
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("check ends with %v, want exit code 1", err)
	}
	printed := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(printed) != len(lines) {
		t.Fatalf("%d lines for %d records:\n%s", len(printed), len(lines), out)
	}

	bt := scripted.New(t, scripted.Options{AnyTable: true})
	bt.AddTable(tableName("catalog"), "q", "maybe", "at", "xyz", "kinds", "top")
	s := startServer(t, serverBinary(t), bt.Addr(), catalogRoutes, map[string]string{"PUSHSINK_EXPOSE": "dryrun"})
	client := newClient(t)
	became, failed := 0, 0
	for i, line := range lines {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/routes/catalog/dryrun", strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		a := do(client, request, time.Now())
		isPush := strings.Contains(line, `"message"`)
		if a.Status == http.StatusOK {
			became++
			if got, want := arrival(printed[i], isPush), arrival(strings.TrimSpace(a.Body), isPush); got != want {
				t.Errorf("record %d: check prints\n%s\nthe dry run answers\n%s", i, got, want)
			}
			continue
		}
		failed++
		type reason struct{ Code, Detail, Pointer string }
		var check struct {
			Line  int
			Error reason
		}
		var dry reason
		for text, into := range map[string]any{printed[i]: &check, a.Body: &dry} {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				t.Fatalf("record %d: %q: %v", i, text, err)
			}
		}
		if check.Line != i+1 || check.Error != dry || dry.Detail == "" {
			t.Errorf("record %d: check prints %+v, the dry run answers %d %+v", i, check, a.Status, dry)
		}
	}
	if became < 27 || failed < 9 {
		t.Errorf("%d records became something and %d failed: the sample shows too little", became, failed)
	}
	if n := bt.Stats().Requests; n != 0 {
		t.Errorf("%d writes", n)
	}
	t.Logf("%d records, %d of them refused, the same both ways", len(lines), failed)
}

var arrived = regexp.MustCompile(`"record":\{"id":"[^"]+","publishTime":"[^"]+",`)

// arrival blanks the id and the time that a record without a message gets when it comes.
func arrival(text string, isPush bool) string {
	if isPush {
		return text
	}
	return arrived.ReplaceAllString(text, `"record":{`)
}
