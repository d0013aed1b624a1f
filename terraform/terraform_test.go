// Package terraform holds what Terraform's own tests cannot see: that the module's words
// are those of the server and of its documents.
package terraform

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of variables and outputs into README.md")

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// module is the text of the files of the module that match, comments left out.
func module(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	var b strings.Builder
	for _, file := range files {
		for line := range strings.Lines(read(t, file)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// RUN-01: the probes are paths that the server has and the contract names, and none ends
// in z, which the platform's front end answers itself.
func TestRUN01ProbesAreInTheContract(t *testing.T) {
	contract := read(t, filepath.Join("..", "openapi.yaml"))
	block := regexp.MustCompile(`(?s)probes = \{(.*?)\}`).FindStringSubmatch(module(t, "service.tf"))
	if block == nil {
		t.Fatal("service.tf has no probes")
	}
	paths := regexp.MustCompile(`"(/[^"]*)"`).FindAllStringSubmatch(block[1], -1)
	if len(paths) != 3 {
		t.Fatalf("%d probes, want startup, readiness and liveness", len(paths))
	}
	for _, m := range paths {
		if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(m[1]) + `:$`).MatchString(contract) {
			t.Errorf("openapi.yaml has no %s", m[1])
		}
		if strings.HasSuffix(m[1], "z") {
			t.Errorf("%s ends in z", m[1])
		}
	}
	// No path is written a second time beside the list.
	if again := regexp.MustCompile(`path += "/`).FindString(module(t, "service.tf")); again != "" {
		t.Errorf("a probe's path is written out: %s", again)
	}
}

// resource is the body of a resource of a file.
func resource(t *testing.T, file, kind, name string) string {
	t.Helper()
	m := regexp.MustCompile(`(?ms)^resource "` + kind + `" "` + name + `" \{\n(.*?)^\}`).FindStringSubmatch(module(t, file))
	if m == nil {
		t.Fatalf("%s has no %s.%s", file, kind, name)
	}
	return m[1]
}

// has fails for each line that a body lacks, however its columns are aligned.
func has(t *testing.T, what, body string, lines ...string) {
	t.Helper()
	flat := regexp.MustCompile(`[ \t]+`).ReplaceAllString(body, " ")
	for _, line := range lines {
		if !strings.Contains(flat, "\n "+line+"\n") && !strings.HasPrefix(flat, " "+line+"\n") {
			t.Errorf("%s: no line %q in\n%s", what, line, body)
		}
	}
}

// CFG-06: Pub/Sub's agent may publish dead letters and acknowledge the original, and
// something keeps them; all of it hangs on the one variable. The runs CFG_06_… plan it.
func TestCFG06DeadLettersWithBothRoles(t *testing.T) {
	const file = "pubsub.tf"
	const on = "count = local.dead_letter ? 1 : 0"
	has(t, "switch", module(t, file), "dead_letter = var.dead_letter != null && length(var.subscriptions) > 0")
	has(t, "topic", resource(t, file, "google_pubsub_topic", "dead_letter"), on)
	has(t, "subscription", resource(t, file, "google_pubsub_subscription", "dead_letter"), on,
		"topic = google_pubsub_topic.dead_letter[0].id", `ttl = ""`)
	has(t, "publisher", resource(t, file, "google_pubsub_topic_iam_member", "dead_letter_publisher"), on,
		"topic = google_pubsub_topic.dead_letter[0].name", `role = "roles/pubsub.publisher"`, "member = local.pubsub_agent")
	has(t, "subscriber", resource(t, file, "google_pubsub_subscription_iam_member", "dead_letter_subscriber"),
		"for_each = var.dead_letter == null ? {} : local.subscriptions",
		"subscription = google_pubsub_subscription.push[each.key].name", `role = "roles/pubsub.subscriber"`, "member = local.pubsub_agent")
	has(t, "policy", resource(t, file, "google_pubsub_subscription", "push"),
		"for_each = var.dead_letter == null ? [] : [var.dead_letter]", "dead_letter_topic = google_pubsub_topic.dead_letter[0].id")
	has(t, "agent", module(t, "main.tf"), `pubsub_agent = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"`)
	runs := module(t, filepath.Join("tests", "pubsub.tftest.hcl"))
	for _, run := range []string{"CFG_06_dead_letters_with_both_roles", "CFG_06_no_dead_letters_no_roles"} {
		if !strings.Contains(runs, `run "`+run+`"`) {
			t.Errorf("no run %s", run)
		}
	}
}

// CFG-07: one local value is the endpoint, the audience of the tokens, the one that the
// platform takes and the one that the server takes; the account that signs them may call.
func TestCFG07OneValueIsURLAndAudience(t *testing.T) {
	has(t, "audience", module(t, "main.tf"), "audience = local.service_url")
	push := resource(t, "pubsub.tf", "google_pubsub_subscription", "push")
	has(t, "push", push, "audience = local.audience", "service_account_email = google_service_account.push.email",
		`push_endpoint = "${local.service_url}/v1/routes/${each.value.route}/push"`)
	has(t, "service", resource(t, "service.tf", "google_cloud_run_v2_service", "server"), "custom_audiences = [local.audience]")
	has(t, "server", module(t, "options.tf"), `AUTH_AUDIENCES = var.auth == "oidc" ? local.audience : null`)
	has(t, "invoker", resource(t, "accounts.tf", "google_cloud_run_v2_service_iam_member", "push"),
		`count = var.auth == "cloudrun" ? 1 : 0`, "name = google_cloud_run_v2_service.server.name", `role = "roles/run.invoker"`, "member = google_service_account.push.member")
	// Nothing spells an audience or the service's address a second time.
	all := module(t, "*.tf")
	if n := strings.Count(all, ".run.app"); n != 1 {
		t.Errorf("the service's address is written %d times", n)
	}
	for _, m := range regexp.MustCompile(`(?m)^ *(?:custom_)?audiences? += +(.*)$`).FindAllStringSubmatch(all, -1) {
		switch m[1] {
		case "local.service_url", "local.audience", "[local.audience]":
		default:
			t.Errorf("another audience: %s", m[1])
		}
	}
}

// The metrics of alerts and tiles are metrics that the server has.
func TestMetricsOfAlertsAndDashboardExist(t *testing.T) {
	documented := read(t, filepath.Join("..", "docs", "metrics.md"))
	seen := map[string]bool{}
	for _, name := range regexp.MustCompile(`pushsink_[a-z0-9_]+`).FindAllString(module(t, "*.tf"), -1) {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, part)
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		if !strings.Contains(documented, "`"+name+"`") {
			t.Errorf("docs/metrics.md has no %s", name)
		}
	}
	if len(seen) < 9 {
		t.Errorf("%d metrics, want those of all tiles", len(seen))
	}
}

// The module gives nobody a role on the project, and nothing to everybody: no resource
// that could do so is in it. The checks of callers are the one place that names them.
func TestNoRoleOnTheProjectAndNothingForEverybody(t *testing.T) {
	text := module(t, "*.tf")
	for _, resource := range []string{"google_project_iam", "google_organization_iam", "google_folder_iam", "iam_binding", "iam_policy", "roles/owner", "roles/editor"} {
		if strings.Contains(text, resource) {
			t.Errorf("%s is in the module", resource)
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "allUsers") && !strings.Contains(line, "error_message") {
			t.Errorf("allUsers: %s", strings.TrimSpace(line))
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ +member += +(.*)$`).FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "google_service_account.runtime.member", "google_service_account.push.member", "local.pubsub_agent", "each.value":
		default:
			t.Errorf("a role for %s", m[1])
		}
	}
}

// The runs that show the handed cases are there, and enough of them expect a refusal.
func TestRunsOfTheModule(t *testing.T) {
	text := module(t, filepath.Join("tests", "*.tftest.hcl"))
	runs := regexp.MustCompile(`(?m)^run "(\w+)"`).FindAllStringSubmatch(text, -1)
	if len(runs) < 12 {
		t.Errorf("%d runs, want 12 at least", len(runs))
	}
	names := ""
	for _, m := range runs {
		names += m[1] + "\n"
	}
	for _, id := range []string{"RUN_01", "CONN_03", "CONN_04", "ACK_03", "CFG_06", "CFG_07"} {
		if !strings.Contains(names, id) {
			t.Errorf("no run of %s", id)
		}
	}
	// Every variable with a bound is refused in some run.
	refused := strings.Join(regexp.MustCompile(`expect_failures = \[[^\]]*\]`).FindAllString(text, -1), "\n")
	for _, block := range variables(t) {
		if strings.Contains(block.body, "validation {") && !regexp.MustCompile(`var\.`+block.name+`\b`).MatchString(refused) {
			t.Errorf("no run is refused by the bounds of %s", block.name)
		}
	}
}

type variable struct{ name, body string }

func variables(t *testing.T) (list []variable) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?ms)^variable "(\w+)" \{\n(.*?)^\}`).FindAllStringSubmatch(module(t, "variables.tf"), -1) {
		list = append(list, variable{m[1], m[2]})
	}
	if len(list) < 25 {
		t.Fatalf("%d variables", len(list))
	}
	return list
}

// The README's table of variables is what variables.tf says.
func TestReadmeVariablesTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| variable | default | |\n|---|---|---|\n")
	for _, v := range variables(t) {
		fallback := "—"
		if m := regexp.MustCompile(`(?m)^  default +=? *= (.*)$`).FindStringSubmatch(v.body); m != nil {
			fallback = "`" + m[1] + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", v.name, fallback, description(t, v.name, v.body))
	}
	generated(t, "variables", table.String())
}

// The README's table of outputs is what outputs.tf says.
func TestReadmeOutputsTable(t *testing.T) {
	var table strings.Builder
	table.WriteString("| output | |\n|---|---|\n")
	outputs := regexp.MustCompile(`(?ms)^output "(\w+)" \{\n(.*?)^\}`).FindAllStringSubmatch(read(t, "outputs.tf"), -1)
	if len(outputs) < 10 {
		t.Fatalf("%d outputs", len(outputs))
	}
	for _, o := range outputs {
		fmt.Fprintf(&table, "| `%s` | %s |\n", o[1], description(t, o[1], o[2]))
	}
	generated(t, "outputs", table.String())
}

// Whoever copies an example is told what its variables and outputs are.
func TestExamplesAreDescribed(t *testing.T) {
	files, err := filepath.Glob("examples/*/main.tf")
	if err != nil || len(files) < 2 {
		t.Fatalf("examples %q: %v", files, err)
	}
	for _, file := range files {
		for _, m := range regexp.MustCompile(`(?ms)^(?:variable|output) "(\w+)" \{\n(.*?)^\}`).FindAllStringSubmatch(read(t, file), -1) {
			description(t, file+": "+m[1], m[2])
		}
	}
}

// description is what the body of a variable or an output says of it, for a table's cell.
func description(t *testing.T, name, body string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^  description += "(.*)"$`).FindStringSubmatch(body)
	if m == nil {
		t.Errorf("%s has no description", name)
		return ""
	}
	return strings.NewReplacer("|", `\|`, `\"`, `"`).Replace(m[1])
}

// generated holds README.md to have table between the marks of that name.
func generated(t *testing.T, name, table string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	text := read(t, "README.md")
	head, rest, _ := strings.Cut(text, begin)
	got, tail, found := strings.Cut(rest, end)
	switch {
	case !found:
		t.Fatalf("README.md has no table between %q and %q", begin, end)
	case got == table:
	case *update:
		if err := os.WriteFile("README.md", []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("README.md's table of %s differs from %s.tf; run\n\tgo test ./terraform -update", name, name)
	}
}
