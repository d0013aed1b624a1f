package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/pushsink/pushsink/sink/spanner"
)

// dialects are the words of -dialect.
var dialects = map[string]spanner.Dialect{"googlesql": spanner.GoogleSQL, "postgresql": spanner.PostgreSQL}

// ddl is `server ddl`: it prints the statements that make the dedup tables of a routes
// file's Spanner routes, and nothing else.
func ddl(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("server ddl", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // its error is returned
	file := flags.String("routes", "", "the routes file")
	word := flags.String("dialect", "googlesql", "the database's dialect: googlesql or postgresql")
	help, err := parseFlags(flags, args)
	dialect, known := dialects[*word]
	switch {
	case err != nil:
		return err
	case help:
		return usage(out)
	case *file == "":
		return errors.New("ddl needs -routes FILE")
	case !known:
		return fmt.Errorf("-dialect %q: googlesql or postgresql", *word)
	}
	routes, err := compile("-routes", *file)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, spanner.DDL(routes.List, dialect))
	return err
}
