package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/schema"
)

// texts are the documents that name options, metrics and files, by path from here.
func texts(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range append(files, "../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
	}
	if len(all) < 10 {
		t.Fatalf("%d documents, at least 10 are wanted", len(all))
	}
	return all
}

// TestEveryOptionNamedExists: what the documents call an option is one. The README's table is
// equal to the code's by a test of the server.
func TestEveryOptionNamedExists(t *testing.T) {
	documents := texts(t)
	options := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllStringSubmatch(documents["../README.md"], -1) {
		options[m[1]] = true
	}
	if len(options) < 50 {
		t.Fatalf("%d options in the README's table", len(options))
	}
	// What is written alike: names of the platform and of SQL, and gRPC's codes.
	other := regexp.MustCompile(`^(K_SERVICE|K_REVISION|GOOGLE_.*|CLOUDSDK_.*|OTEL_.*|[A-Z]+_EMULATOR_HOST|CGO_ENABLED|GENERATE_UUID|GOMEMLIMIT|GOGC|CREATE_IF_NEEDED|DEVICE_1|NULL_FILTERED|` +
		`NOT_FOUND|ALREADY_EXISTS|FAILED_PRECONDITION|INVALID_ARGUMENT|OUT_OF_RANGE|PERMISSION_DENIED|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED)$`)
	named := 0
	for file, text := range documents {
		for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
			for _, name := range regexp.MustCompile(`(?:^|[^A-Za-z0-9_…/{.-])([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b`).FindAllStringSubmatch(m[1], -1) {
				name := strings.TrimPrefix(name[1], "PUSHSINK_")
				named++
				if !options[name] && !other.MatchString(name) {
					t.Errorf("%s: `%s` is no option", file, name)
				}
			}
		}
	}
	if named < 150 {
		t.Errorf("%d names of options were looked up, want many more", named)
	}
}

// TestEveryMetricNamedExists: metrics.md is what the server serves, by a test of the server.
func TestEveryMetricNamedExists(t *testing.T) {
	documents := texts(t)
	for file, text := range documents {
		for _, name := range regexp.MustCompile(`\bpushsink_[a-z_]+[a-z]\b`).FindAllString(text, -1) {
			if !strings.Contains(documents["metrics.md"], "`"+name+"`") {
				t.Errorf("%s: %s is not in metrics.md", file, name)
			}
		}
	}
}

// TestEveryLinkLeadsSomewhere looks for the files that relative links name.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	for file, text := range texts(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: the link to %s: %v", file, m[1], err)
			}
		}
	}
}

// What a case asks to be said is said.
func TestWhatUsersAreTold(t *testing.T) {
	documents := texts(t)
	for _, c := range []struct {
		id    string
		files []string
		says  string
	}{
		{"SPCON-03 a UNIQUE index and NULLs", []string{"../README.md", "troubleshooting.md"}, "NULL_FILTERED"},
		{"RUN-04 the platform's bound on bodies", []string{"../README.md", "deploy.md"}, "HTTP/1 bodies above 32 MiB"},
		{"BTREP-03 one version a millisecond", []string{"mapping.md"}, "are one version: the last wins"},
		{"RAW-06 attributes that came as headers", []string{"mapping.md"}, "without regard to case"},
		{"SPCON-01 an insert delivered again", []string{"mapping.md"}, "onDuplicate"},
	} {
		t.Run(c.id, func(t *testing.T) {
			for _, file := range c.files {
				if !strings.Contains(strings.Join(strings.Fields(documents[file]), " "), c.says) {
					t.Errorf("%s does not say %q", file, c.says)
				}
			}
		})
	}
	contract, err := os.ReadFile("../openapi.yaml")
	if err != nil || !strings.Contains(string(contract), "refuses HTTP/1 bodies above 32 MiB") {
		t.Errorf("RUN-04 openapi.yaml does not say the platform's bound: %v", err)
	}
}

// TestTheRowsOfABigtableSubscription runs the route that stands for one.
func TestTheRowsOfABigtableSubscription(t *testing.T) {
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(texts(t)["from-bigtable-subscription.md"])
	routes, err := schema.Compile("routes.yaml", []byte(block[1]))
	if err != nil {
		t.Fatal(err)
	}
	m, err := routes.List[0].Mapping.Apply(&schema.Record{
		Data: []byte("hello"), ID: "17", Subscription: "projects/p/subscriptions/s", Attributes: map[string]string{"a": "1"},
		Published: time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	if key := m.Bigtable.Key; !regexp.MustCompile(`^projects/p/subscriptions/s#\d{8}#17$`).MatchString(key) {
		t.Errorf("row key %q", key)
	}
	var cells []string
	for _, op := range m.Bigtable.Ops {
		cells = append(cells, op.Family+":"+op.Column+"="+string(op.Value))
	}
	want := []string{"data:=hello", "pubsub_metadata:subscription_name=projects/p/subscriptions/s", "pubsub_metadata:message_id=17",
		"pubsub_metadata:publish_time=2026-11-30T08:00:00Z", `pubsub_metadata:attributes={"a":"1"}`}
	if !slices.Equal(cells, want) {
		t.Errorf("cells %q, want %q", cells, want)
	}
}

// TestTheOptionsOfTheFlinkConnectorsAreMapped: each option of our writers' tables stands on the
// right side of from-flink.md once, so that none is forgotten when one is added.
func TestTheOptionsOfTheFlinkConnectorsAreMapped(t *testing.T) {
	documents := texts(t)
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:WRITER|BIGTABLE|SPANNER)_[A-Z_]+)` \\|").FindAllStringSubmatch(documents["../README.md"], -1) {
		if slices.Contains([]string{"BIGTABLE_PROJECT", "BIGTABLE_INSTANCE"}, m[1]) {
			continue
		}
		if !strings.Contains(documents["from-flink.md"], "`"+m[1]) {
			t.Errorf("from-flink.md does not say what %s is in a job", m[1])
		}
	}
}
