package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/pushsink/pushsink/bench/report"
)

// machine describes this one. What can't be found out is "unknown".
func machine(ctx context.Context, root string) report.Machine {
	m := report.Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Kernel: output(ctx, root, "uname", "-sr"), Commit: output(ctx, root, "git", "rev-parse", "--short", "HEAD"),
		LoadAvg: "unknown",
	}
	if changed := output(ctx, root, "git", "status", "--porcelain", "--untracked-files=no"); changed != "" {
		m.Commit += "+"
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.LoadAvg, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func output(ctx context.Context, dir, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	text, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
