package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var terraformDir = filepath.Join("..", "..", "terraform")

// terraformOption is what the Terraform module knows of an option.
type terraformOption struct {
	Kind    string   `json:"kind"` // integer, duration, bool, text or list
	Default *string  `json:"default"`
	Min     *int64   `json:"min"` // of an integer
	Max     *int64   `json:"max"`
	Or      *int64   `json:"or"`    // one more integer that is allowed
	Words   []string `json:"words"` // null = any
}

func terraformOptions() map[string]terraformOption {
	known := map[string]terraformOption{}
	for _, o := range optionsOf(&config{}) {
		field := o.Field.Type()
		for field.Kind().String() == "ptr" {
			field = field.Elem()
		}
		t := terraformOption{Kind: "text"}
		switch {
		case field.String() == "time.Duration":
			t.Kind = "duration"
		case field.Kind().String() == "int", field.Kind().String() == "int64":
			t.Kind = "integer"
		case field.Kind().String() == "bool":
			t.Kind = "bool"
		case field.Kind().String() == "slice":
			t.Kind = "list"
		}
		if text, ok := o.Tags.Lookup("default"); ok {
			t.Default = &text
		}
		if words, ok := o.Tags.Lookup("oneof"); ok {
			t.Words = strings.Split(words, ",")
		}
		if t.Kind == "integer" {
			for tag, to := range map[string]**int64{"min": &t.Min, "max": &t.Max, "or": &t.Or} {
				if text, ok := o.Tags.Lookup(tag); ok {
					n := mustInt(text)
					*to = &n
				}
			}
		}
		known[o.short()] = t
	}
	return known
}

// terraform/options.json, which the module checks the options map with, is what is
// declared here.
func TestTerraformOptionsFile(t *testing.T) {
	var want bytes.Buffer
	out := json.NewEncoder(&want)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if err := out.Encode(terraformOptions()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(terraformDir, "options.json")
	got, err := os.ReadFile(file)
	if err == nil && bytes.Equal(got, want.Bytes()) {
		return
	}
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Error("terraform/options.json differs from the declarations; run\n\tgo test ./cmd/server -run Terraform -update")
}

// Every option that the module sets or names is one of the server's, and the defaults that
// the module has itself are the server's.
func TestTerraformNamesOptionsOfTheServer(t *testing.T) {
	known := terraformOptions()
	text := terraformText(t)
	block := regexp.MustCompile(`(?s)owned_options = \[(.*?)\]`).FindStringSubmatch(text)
	set := regexp.MustCompile(`(?s)environment = \{ for name, value in merge\(var\.options, \{(.*?)\n  \}\)`).FindStringSubmatch(text)
	if block == nil || set == nil {
		t.Fatal("terraform/options.tf has no owned_options or no environment")
	}
	owned := map[string]bool{}
	for _, m := range regexp.MustCompile(`"([A-Z_]+)"`).FindAllStringSubmatch(block[1], -1) {
		owned[m[1]] = true
		if _, ok := known[m[1]]; !ok {
			t.Errorf("owned_options: the server has no %s", m[1])
		}
	}
	count := 0
	for _, m := range regexp.MustCompile(`(?m)^ +([A-Z_]+) += `).FindAllStringSubmatch(set[1], -1) {
		count++
		if !owned[m[1]] {
			t.Errorf("environment sets %s, which the options map may set as well: add it to owned_options", m[1])
		}
	}
	if count < 12 || len(owned) != count+1 { // SHUTDOWN_TIMEOUT keeps its default
		t.Errorf("%d options set, %d owned", count, len(owned))
	}
	for _, m := range regexp.MustCompile(`PUSHSINK_([A-Z][A-Z_]*)`).FindAllStringSubmatch(text, -1) {
		if _, ok := known[m[1]]; !ok {
			t.Errorf("the server has no PUSHSINK_%s", m[1])
		}
	}
	for variable, option := range map[string]string{
		"ack_deadline_seconds": "ACK_DEADLINE", "request_timeout_seconds": "REQUEST_TIMEOUT", "batch_timeout_seconds": "BATCH_TIMEOUT",
	} {
		m := regexp.MustCompile(`(?s)variable "` + variable + `" \{.*?default +=? *(\d+)`).FindStringSubmatch(text)
		if m == nil {
			t.Errorf("no default of %s", variable)
			continue
		}
		if d, err := time.ParseDuration(m[1] + "s"); err != nil || d != mustDuration(*known[option].Default) {
			t.Errorf("%s is %s s by default, %s is %s", variable, m[1], option, *known[option].Default)
		}
	}
	// The platform kills 10 s after SIGTERM.
	if d := mustDuration(*known["SHUTDOWN_TIMEOUT"].Default); d >= 10*time.Second {
		t.Errorf("SHUTDOWN_TIMEOUT is %v", d)
	}
}

// The memory that the module asks for is the server's own limit and a tenth beside it.
func TestTerraformMemoryIsTheServersLimit(t *testing.T) {
	text := terraformText(t)
	if !strings.Contains(text, "memory_needed_mib = ceil((2 * local.bytes_in_flight / 1048576 + 64) / 0.9)") {
		t.Fatal("memory_needed_mib has another form: hold this test to it")
	}
	known := terraformOptions()
	var s settings
	s.BodyBytesInFlight = size(mustInt(*known["BODY_BYTES_IN_FLIGHT"].Default))
	s.Bigtable.MaxInFlightBytes = size(mustInt(*known["BIGTABLE_MAX_IN_FLIGHT_BYTES"].Default))
	s.Spanner.MaxInFlightBytes = size(mustInt(*known["SPANNER_MAX_IN_FLIGHT_BYTES"].Default))
	held := int64(s.BodyBytesInFlight + s.Bigtable.MaxInFlightBytes + s.Spanner.MaxInFlightBytes)
	if want := 2*held + 64<<20; s.memoryLimit(sinks{bigtable: true, spanner: true}) != want {
		t.Errorf("the server's limit is %d, the module reckons with %d", s.memoryLimit(sinks{bigtable: true, spanner: true}), want)
	}
}

// terraformText is every .tf file of the module and of its examples.
func terraformText(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, pattern := range []string{"*.tf", "examples/*/*.tf"} {
		files, err := filepath.Glob(filepath.Join(terraformDir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	return b.String()
}
