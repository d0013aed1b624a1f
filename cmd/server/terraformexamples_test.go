package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The examples' routes files are right, and what Terraform makes for them is what they
// write to.
func TestTerraformExamples(t *testing.T) {
	for _, example := range []string{"bigtable", "spanner"} {
		dir := filepath.Join(terraformDir, "examples", example)
		text, err := os.ReadFile(filepath.Join(dir, "main.tf"))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "routes.yaml")
		var out strings.Builder
		if err := run(t.Context(), nil, []string{"check", "-routes", file}, &out); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out.String())
		}
		routes, err := compile("-routes", file)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range routes.List {
			if !regexp.MustCompile(`subscriptions += \{ ` + r.Name + ` = \{`).Match(text) {
				t.Errorf("%s: no subscription of route %s", example, r.Name)
			}
		}
		out.Reset()
		if err := run(t.Context(), nil, []string{"ddl", "-routes", file}, &out); err != nil {
			t.Fatal(err)
		}
		made := strings.Join(strings.Fields(string(text)), " ")
		for statement := range strings.SplitSeq(out.String(), ";\n") {
			if !strings.Contains(made, strings.Join(strings.Fields(statement), " ")) {
				t.Errorf("%s: server ddl prints what the example does not make:\n%s", example, statement)
			}
		}
	}
}

func TestTerraformExampleHasTheFamiliesOfItsRoutes(t *testing.T) {
	dir := filepath.Join(terraformDir, "examples", "bigtable")
	routes, err := os.ReadFile(filepath.Join(dir, "routes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "main.tf"))
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?m)^ +table: (\w+)$`).FindStringSubmatch(string(routes))
	families := regexp.MustCompile(`family: (\w+)`).FindAllStringSubmatch(string(routes), -1)
	if table == nil || len(families) == 0 {
		t.Fatal("the example writes no cells")
	}
	for _, f := range families {
		if !regexp.MustCompile(table[1] + ` = \{ families = \{ ` + f[1] + ` = \{`).Match(text) {
			t.Errorf("main.tf makes no family %s of %s", f[1], table[1])
		}
	}
}
