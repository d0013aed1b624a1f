// Command bench runs pushsink and what others would use in its place, in turn, under the
// same load, and shows their figures side by side.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/pushsink/pushsink/bench/report"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	root := flags.String("root", "..", "the project's folder")
	names := flags.String("scenario", "", "comma list of scenarios; all without it, \"start\" is the cold start")
	of := flags.String("contenders", "", "comma list of contenders; all without it")
	rounds := flags.Int("rounds", 3, "rounds of each scenario")
	warm := flags.Duration("warm", time.Second, "load before each window")
	measure := flags.Duration("measure", 4*time.Second, "each window")
	profiles := flags.String("profiles", "", "folder for a CPU profile of each contender under each scenario")
	page := flags.String("out", "", "file for the report; standard output without it")
	list := flags.Bool("list", false, "print the scenarios")
	_ = flags.Parse(args) // it exits
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case *list:
		for _, s := range scenarios() {
			fmt.Fprintf(out, "%-14s %s: %v\n", s.id, s.title, s.contenders)
		}
		fmt.Fprintf(out, "%-14s cold start: %v\n", startScenario, started)
		return nil
	case *rounds < 1 || *measure <= 0 || *warm < 0:
		return fmt.Errorf("-rounds %d -measure %v -warm %v: at least one round, a window, and no negative warm-up", *rounds, *measure, *warm)
	}
	if *page != "" && *names+*of != "" {
		return errors.New("-out with -scenario or -contenders: a report holds all of it")
	}
	picked, withStart, err := pickAll(*names, *of)
	if err != nil {
		return err
	}
	absolute, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "pushsink-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	dir := filepath.Join(absolute, "bin", "bench")
	if *profiles != "" {
		if err := os.MkdirAll(*profiles, 0o755); err != nil {
			return err
		}
	}
	r := &runner{
		binaries: &binaries{root: absolute, dir: dir, temp: temp, release: true, profile: *profiles != "", built: map[string]string{}},
		rounds:   *rounds, warm: *warm, measure: *measure, profiles: *profiles, log: os.Stderr,
	}
	results, err := r.all(ctx, picked, withStart, *of)
	if err != nil {
		return err
	}
	if *page == "" {
		return results.Markdown(out)
	}
	var text bytes.Buffer
	if err := results.Markdown(&text); err != nil {
		return err
	}
	return os.WriteFile(*page, text.Bytes(), 0o644)
}

// startScenario is the name of the cold start, started whose.
const startScenario = "start"

var started = []string{naive, ours}

// all runs everything that was picked.
func (r *runner) all(ctx context.Context, picked []scenario, withStart bool, of string) (*report.Results, error) {
	wanted := map[string]bool{"backend": true}
	for _, s := range picked {
		for _, c := range s.contenders {
			wanted[c] = true
		}
	}
	var begun []string
	for _, name := range started {
		if withStart && chosen(of, name) {
			begun = append(begun, name)
			wanted[name] = true
		}
	}
	for name := range wanted {
		fmt.Fprintf(r.log, "building %s\n", name)
		if _, err := r.binaries.path(ctx, name); err != nil {
			return nil, err
		}
	}
	results := &report.Results{Machine: machine(ctx, r.binaries.root), Rounds: r.rounds, Why: report.Explanations()}
	began := time.Now()
	for i := range picked {
		s, err := r.scenario(ctx, &picked[i])
		if err != nil {
			return nil, err
		}
		results.Scenarios = append(results.Scenarios, s)
	}
	for _, name := range begun {
		s, err := r.coldStart(ctx, name)
		if err != nil {
			return nil, err
		}
		results.Starts = append(results.Starts, s)
	}
	results.Took = time.Since(began)
	return results, nil
}
