package imagetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the module's root.
var root = filepath.Join("..", "..")

// instruction is one line of a Dockerfile, its continuations joined.
type instruction struct{ name, rest string }

func instructions(t *testing.T) []instruction {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	var list []instruction
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		list = append(list, instruction{strings.ToUpper(name), strings.TrimSpace(rest)})
	}
	return list
}

// bases are the images of the FROM lines, in their order.
func bases(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, in := range instructions(t) {
		if in.name == "FROM" {
			names = append(names, strings.Fields(in.rest)[0])
		}
	}
	if len(names) != 2 {
		t.Fatalf("bases %q, want a builder and a base without a shell", names)
	}
	return names
}

// CFG-04: the last stage starts the server itself, without a shell, and not as root.
func TestCFG04EntrypointIsTheServerItself(t *testing.T) {
	var final []instruction
	for _, in := range instructions(t) {
		if in.name == "FROM" {
			final = nil
		}
		final = append(final, in)
	}
	seen := map[string]string{}
	for _, in := range final {
		switch in.name {
		case "RUN", "SHELL", "CMD", "HEALTHCHECK", "ADD":
			t.Errorf("%s in the last stage: it has no shell, and one program", in.name)
		}
		seen[in.name] = in.rest
	}
	var entrypoint []string
	if err := json.Unmarshal([]byte(seen["ENTRYPOINT"]), &entrypoint); err != nil {
		t.Fatalf("ENTRYPOINT %s is not in exec form: %v", seen["ENTRYPOINT"], err)
	}
	if len(entrypoint) != 1 || entrypoint[0] != "/server" {
		t.Errorf("ENTRYPOINT %q, want the server alone", entrypoint)
	}
	if seen["USER"] != "nonroot:nonroot" {
		t.Errorf("USER %q", seen["USER"])
	}
	if !strings.HasPrefix(seen["FROM"], "gcr.io/distroless/static-") || !strings.HasSuffix(seen["FROM"], ":nonroot") {
		t.Errorf("last stage FROM %s", seen["FROM"])
	}
}

// RUN-07: nothing stands between the platform's SIGTERM and the server: no launcher in front
// of it, no other signal in its place. make image-test sends it to the running image.
func TestRUN07TheServerGetsTheSignal(t *testing.T) {
	entrypoints := 0
	for _, in := range instructions(t) {
		switch in.name {
		case "STOPSIGNAL":
			t.Errorf("STOPSIGNAL %s: the server drains on SIGTERM", in.rest)
		case "ENTRYPOINT":
			entrypoints++
			var program []string
			if err := json.Unmarshal([]byte(in.rest), &program); err != nil || len(program) != 1 {
				t.Errorf("ENTRYPOINT %s: process 1 is not the server itself", in.rest)
			} else if !strings.HasSuffix(finalCopy(t), " "+program[0]) {
				t.Errorf("ENTRYPOINT %s is not what the last stage copies", in.rest)
			}
		}
	}
	if entrypoints != 1 {
		t.Errorf("%d entrypoints, want one", entrypoints)
	}
	build, err := os.ReadFile(filepath.Join(root, "cloudbuild.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, over := range []string{"--command", "--args"} {
		if strings.Contains(string(build), over) {
			t.Errorf("cloudbuild.yaml deploys with %s: another program may be process 1", over)
		}
	}
	service, err := os.ReadFile(filepath.Join(root, "terraform", "service.tf"))
	if err != nil {
		t.Fatal(err)
	}
	if over := regexp.MustCompile(`(?m)^ +(command|args) += `).FindString(string(service)); over != "" {
		t.Errorf("service.tf has%s: another program may be process 1", over)
	}
}

// finalCopy is what the last stage copies from the build.
func finalCopy(t *testing.T) (what string) {
	for _, in := range instructions(t) {
		if in.name == "COPY" && strings.HasPrefix(in.rest, "--from=build ") {
			what = in.rest
		}
	}
	return what
}

// A base is named by a version, and the builder's is at least what go.mod asks for.
func TestBasesAreNamedByVersion(t *testing.T) {
	names := bases(t)
	version := regexp.MustCompile(`^golang:(\d+\.\d+)\.\d+-`).FindStringSubmatch(names[0])
	if version == nil {
		t.Fatalf("builder %s, want golang:1.N.P-…", names[0])
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if directive := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod)); directive[1] != version[1] {
		t.Errorf("builder %s, go.mod asks for %s", names[0], directive[1])
	}
}

// cloudbuild.yaml tests with the builder's Go, pushes before it deploys, and documents
// each of its substitutions.
func TestCloudBuild(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "cloudbuild.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if !strings.Contains(text, "name: "+bases(t)[0]+"\n") {
		t.Errorf("the tests run on another Go than %s", bases(t)[0])
	}
	at := -1
	for _, step := range []string{"test", "build", "push", "deploy"} {
		i := strings.Index(text, "- id: "+step+"\n")
		if i <= at {
			t.Errorf("step %s is missing, or too early", step)
		}
		at = i
	}
	_, declared, _ := strings.Cut(text, "\nsubstitutions:\n")
	declared, _, _ = strings.Cut(declared, "\nsteps:\n")
	for _, m := range regexp.MustCompile(`\$(_[A-Z]+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(declared, "  "+m[1]+": ") {
			t.Errorf("%s has no default", m[1])
		}
		if !regexp.MustCompile(`(?m)^#   ` + m[1] + ` +\S`).MatchString(text) {
			t.Errorf("%s is not documented", m[1])
		}
	}
}
