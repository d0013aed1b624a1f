package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated into README.md and docs")

const (
	tableBegin = "<!-- options -->\n"
	tableEnd   = "<!-- /options -->\n"
)

var readme = filepath.Join("..", "..", "README.md")

func TestReadmeOptionsTable(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), tableBegin)
	table, tail, found := strings.Cut(rest, tableEnd)
	if !found {
		t.Fatalf("README.md has no options table between %q and %q", tableBegin, tableEnd)
	}
	want := markdown()
	if table == want {
		return
	}
	if *update {
		if err := os.WriteFile(readme, []byte(head+tableBegin+want+tableEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the options table of README.md differs from the declarations; run\n\tgo test ./cmd/server -run 'Readme|Terraform' -update\ngot\n%s\nwant\n%s", table, want)
}

// What -h prints holds every option with its default and its bounds.
func TestUsageHoldsEveryOption(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), nil, []string{"-h"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, o := range optionsOf(&config{}) {
		row := regexp.MustCompile(`(?m)^` + o.short() + ` +` + regexp.QuoteMeta(o.defaultShown()) + ` +` + regexp.QuoteMeta(o.bounds()) + ` +` + regexp.QuoteMeta(o.Tags.Get("desc")) + `$`)
		if !row.MatchString(out.String()) {
			t.Errorf("-h has no line of %s", o.short())
		}
		if o.Tags.Get("desc") == "" {
			t.Errorf("%s says nothing about itself", o.short())
		}
	}
}

func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 250 {
		t.Errorf("README.md has %d lines, want under 250", n)
	}
}

// section is the text of README.md under a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("README.md has no section %q", heading)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

// routesFile is the one routes file of a section.
func routesFile(t *testing.T, heading string) string {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(section(t, heading), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d routes files in %q, want 1", len(blocks), heading)
	}
	return blocks[0][1]
}

// The README's routes file compiles, and maps a record with the fields that it names.
func TestReadmeRoutesFile(t *testing.T) {
	routes := write(t, "routes.yaml", routesFile(t, "Run it for real"))
	sample := write(t, "records.ndjson", `{"device":"pump-1","temp":21.5,"state":"on"}`)
	if out, err := checked(t, "-routes", routes, "-sample", sample); err != nil || strings.Count(out, "setCell") != 2 {
		t.Errorf("%s%v, want two cells", out, err)
	}
}

// consoleCommands are what a section's ```console blocks say: a line that begins with "$ "
// is a command, the lines after it are what it prints.
func consoleCommands(t *testing.T, heading string) (list []command) {
	t.Helper()
	for _, block := range regexp.MustCompile("(?ms)^```console\n(.*?)^```$").FindAllStringSubmatch(section(t, heading), -1) {
		for line := range strings.Lines(block[1]) {
			if script, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, command{script: strings.TrimSpace(script)})
				continue
			}
			last := &list[len(list)-1]
			last.output += line
		}
	}
	return list
}

type command struct{ script, output string }

// The README's curl lines are run as they stand, against a server with nothing configured
// but its port, and print what the README says.
func TestReadmeCommands(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("the README's lines need curl:", err)
	}
	p := start(t, []string{"PORT=0"})
	url := p.url()
	commands := consoleCommands(t, "Try it")
	curls := 0
	for _, c := range commands {
		if !strings.HasPrefix(c.script, "curl ") {
			t.Errorf("a command that this test cannot run: %s", c.script)
			continue
		}
		curls++
		script := strings.ReplaceAll(c.script, "http://localhost:8080", url)
		if script == c.script {
			t.Errorf("not for the server's default address: %s", c.script)
		}
		got, err := sh(script)
		if err != nil {
			t.Errorf("%s\n%v\n%s", c.script, err, got)
		}
		if same, want := masked(got), masked(c.output); same != want {
			t.Errorf("%s\nprints\n%s\nREADME.md says\n%s", c.script, same, want)
		}
	}
	if curls < 3 {
		t.Errorf("%d curl lines in the README, want at least 3", curls)
	}
	p.stop()
}

func sh(script string) (string, error) {
	out, err := exec.Command("bash", "-c", script).Output()
	return string(out), err
}

// masked blanks what differs from run to run (arrival times, and the keys and ids that
// they make) and leaves out white space, so that README.md may wrap long answers.
func masked(output string) string {
	for _, m := range []struct{ pattern, by string }{
		{`(?m)^Date: .*$`, "Date: …"},
		{`#\d{19}#[^"]+"`, `#…"`},
		{`"id":"[^"]+"`, `"id":"…"`},
		{`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "…"},
	} {
		output = regexp.MustCompile(m.pattern).ReplaceAllString(output, m.by)
	}
	return strings.Join(strings.Fields(output), "")
}

// The banner's lines are run as they are printed.
func TestBannerLinesWork(t *testing.T) {
	p := start(t, []string{"PORT=0", "BIGTABLE_EMULATOR_HOST=127.0.0.1:1"})
	p.url()
	var lines []string
	eventually(t, func() (bool, string) {
		lines = nil
		for line := range strings.Lines(p.output()) {
			if curl := strings.TrimSpace(line); strings.HasPrefix(curl, "curl ") {
				lines = append(lines, curl)
			}
		}
		return len(lines) == 3, "three curl lines in " + p.output()
	})
	wants := []string{"HTTP/1.1 204 No Content", `"written":2`, `"column":"temp"`}
	for i, line := range lines {
		got, err := sh(line)
		if err != nil || !strings.Contains(got, wants[i]) {
			t.Errorf("%s\nprints %s (%v), want %s in it", line, got, err, wants[i])
		}
		if i == 2 && strings.Count(strings.TrimSpace(got), "\n") != 2 {
			t.Errorf("%s\nprints %s, want the three rows", line, got)
		}
	}
	for _, want := range []string{"LOST AT EXIT", "BIGTABLE_EMULATOR_HOST=127.0.0.1:1 is ignored", "Only this machine", "in a browser:  " + p.url() + "/\n"} {
		if !strings.Contains(p.output(), want) {
			t.Errorf("the banner does not say %q", want)
		}
	}
	p.stop()
}
