package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
	"github.com/pushsink/pushsink/sink/spanner"
)

const checkUsage = `Usage: server check -routes FILE [-sample FILE] [-route NAME]

Compiles a routes file and shows warnings. With a sample, prints for each of its lines what
the record becomes, as JSON, or why it is refused; exits with 1 when any is.

  -routes FILE   the routes file
  -sample FILE   one record or push envelope a line; - is the standard input
  -route NAME    the route of the sample; default: the file's default route, or its only one
`

// check is `server check`: it compiles a routes file and, with a sample, prints per line
// what the record of that line becomes, or why it becomes nothing. The sample goes through
// the very handler of a dry run. The error names how many lines failed.
func check(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("server check", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its error is returned
	file := flags.String("routes", "", "the routes file")
	sample := flags.String("sample", "", "a file with one JSON record or push envelope a line; - is the standard input")
	name := flags.String("route", "", "the route of the sample; default: the file's default route")
	help, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return err
	case help:
		_, err := io.WriteString(out, checkUsage)
		return err
	case *file == "":
		return errors.New("check needs -routes FILE")
	}
	routes, err := compile("-routes", *file)
	if err != nil {
		return err
	}
	// What the mapping alone cannot know is checked too.
	if err := fitsAdapters(routes); err != nil {
		return err
	}
	for _, warning := range routes.Warnings {
		if _, err := fmt.Fprintln(out, "warning:", warning); err != nil {
			return err
		}
	}
	if *sample == "" {
		_, err := fmt.Fprintf(out, "%s: %s\n", *file, plural(len(routes.List), "route"))
		return err
	}
	route := routes.Default
	if *name != "" {
		if route = find(routes, *name); route == nil {
			return fmt.Errorf("-route %s: no such route in %s; there is %s", *name, *file, strings.Join(names(routes), ", "))
		}
	}
	if route == nil {
		return fmt.Errorf("%s: name the sample's route with -route: %s", *file, strings.Join(names(routes), ", "))
	}
	lines := io.Reader(os.Stdin)
	if *sample != "-" {
		opened, err := os.Open(*sample)
		if err != nil {
			return fmt.Errorf("-sample: %w", err)
		}
		defer opened.Close()
		lines = opened
	}
	return dryRun(ctx, route, *sample, lines, out)
}

// fitsAdapters asks each kind of sink what it thinks of its routes. Names that stand in for
// the environment's are given to those that leave them to it.
func fitsAdapters(routes *schema.Routes) error {
	bt := bigtable.DefaultConfig()
	bt.Project, bt.Instance = "project", "instance"
	_, err := bigtable.New(bt, routes.List)
	sp := spanner.DefaultConfig()
	sp.Database = "projects/project/instances/instance/databases/database"
	_, err2 := spanner.New(sp, routes.List)
	return errors.Join(err, err2)
}

// dryRun prints a line for every line of the sample that is not blank.
func dryRun(ctx context.Context, route *schema.Route, name string, sample io.Reader, out io.Writer) error {
	limits := handlers.DefaultLimits()
	api := handlers.New(handlers.Config{
		Routes: []*handlers.Route{{Route: route, Sink: &sink.Route{Name: route.Name}}},
		Limits: limits, Auth: handlers.NoAuth, Expose: handlers.Expose{Dryrun: true},
		Logger: slog.New(slog.DiscardHandler),
	})
	path := "/v1/routes/" + url.PathEscape(route.Name) + "/dryrun"

	lines := bufio.NewReader(sample)
	failed, total := 0, 0
	for number := 1; ; number++ {
		line, readErr := lines.ReadBytes('\n')
		if readErr != nil && readErr != io.EOF {
			return fmt.Errorf("%s: %w", name, readErr)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			total++
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(line))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			answer := &dryAnswer{header: http.Header{}}
			api.ServeHTTP(answer, request)
			text := answer.body.Bytes()
			if answer.status != http.StatusOK {
				failed++
				text = failure(name, number, text)
			}
			if _, err := fmt.Fprintf(out, "%s\n", bytes.TrimSpace(text)); err != nil {
				return err
			}
		}
		if readErr == io.EOF {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if total == 0 {
		return fmt.Errorf("-sample %s: there is no record in it", name)
	}
	if failed > 0 {
		return fmt.Errorf("%s: %d of %s failed", name, failed, plural(total, "record"))
	}
	return nil
}

// dryAnswer keeps what a handler answers.
type dryAnswer struct {
	header http.Header
	status int // 0 = none yet
	body   bytes.Buffer
}

func (a *dryAnswer) Header() http.Header { return a.header }

func (a *dryAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *dryAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// failure is a refused line as JSON: where it stands, and what the dry run answered.
func failure(name string, number int, answer []byte) []byte {
	var reason struct {
		Code    string `json:"code,omitempty"`
		Detail  string `json:"detail,omitempty"`
		Pointer string `json:"pointer,omitempty"`
	}
	if err := json.Unmarshal(answer, &reason); err != nil {
		reason.Detail = err.Error()
	}
	text, err := json.Marshal(map[string]any{"sample": name, "line": number, "error": reason})
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

func find(routes *schema.Routes, name string) *schema.Route {
	for _, r := range routes.List {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func names(routes *schema.Routes) (list []string) {
	for _, r := range routes.List {
		list = append(list, r.Name)
	}
	return list
}

func plural(n int, noun string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
