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
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return usage(out)
		}
		return err
	}
	dialect, known := dialects[*word]
	switch {
	case *file == "":
		return errors.New("ddl needs -routes FILE")
	case flags.NArg() > 0:
		return fmt.Errorf("ddl: unknown argument %q", flags.Arg(0))
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
