package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// commands are the words that run takes as its first argument.
var commands = []string{"check", "ddl", "redrive", "help"}

// meant are flags and words that other servers have, and what stands for them here.
var meant = map[string]string{
	"ROUTES": "PUSHSINK_ROUTES_FILE", "ROUTE": "PUSHSINK_ROUTES_FILE", "CONFIG": "PUSHSINK_ROUTES_FILE", "CONFIG_FILE": "PUSHSINK_ROUTES_FILE",
	"C": "PUSHSINK_ROUTES_FILE", "F": "PUSHSINK_ROUTES_FILE", "FILE": "PUSHSINK_ROUTES_FILE",
	"P": "PORT", "ADDR": "PORT", "ADDRESS": "PORT", "LISTEN": "PORT", "HTTP": "PORT", "HTTP_PORT": "PORT",
	"DEBUG": "PUSHSINK_LOG_LEVEL", "VERBOSE": "PUSHSINK_LOG_LEVEL", "LOG": "PUSHSINK_LOG_LEVEL", "LEVEL": "PUSHSINK_LOG_LEVEL",
	"PROJECT": "PUSHSINK_BIGTABLE_PROJECT", "INSTANCE": "PUSHSINK_BIGTABLE_INSTANCE", "DATABASE": "PUSHSINK_SPANNER_DATABASE",
}

// unknownArgument is the error of a first argument that is no command: what was probably
// meant, and where everything is. A flag's value is not repeated.
func unknownArgument(arg string) error {
	flagName, _, _ := strings.Cut(arg, "=")
	text := fmt.Sprintf("unknown argument %q", flagName)
	switch {
	case strings.HasPrefix(arg, "-"):
		if name := optionMeant(flagName); name != "" {
			text += ": that is the environment variable " + name
		}
	case slices.Contains([]string{"serve", "start", "run", "server"}, arg):
		text += ": server without arguments serves"
	case strings.HasSuffix(arg, ".yaml"), strings.HasSuffix(arg, ".yml"):
		text += ": the routes file is named by the environment variable PUSHSINK_ROUTES_FILE"
	default:
		for _, c := range commands {
			if edits(arg, c) <= 2 {
				text += fmt.Sprintf(": did you mean server %s?", c)
				break
			}
		}
	}
	return fmt.Errorf("%s\nserver alone serves; its options are environment variables. The commands are %s; server -h lists it all",
		text, strings.Join(commands, ", "))
}

// optionMeant is the variable that a flag such as --routes-file names in other words; "" =
// none is near.
func optionMeant(flagName string) string {
	short := strings.ToUpper(strings.ReplaceAll(strings.TrimLeft(flagName, "-"), "-", "_"))
	short = strings.TrimPrefix(short, prefix+"_")
	if short == "" {
		return ""
	}
	if name := meant[short]; name != "" {
		return name
	}
	if slices.Contains(unprefixed, short) {
		return short
	}
	known := map[string]bool{}
	for _, o := range optionsOf(&config{}) {
		known[o.Name] = true
	}
	return nearest(prefix+"_"+short, known)
}

// parseFlags reads a command's flags. It reports true when help was asked for; the error
// of a flag that there is not says where the flags are listed.
func parseFlags(flags *flag.FlagSet, args []string) (help bool, err error) {
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("%w; %s -h lists what there is", err, flags.Name())
	case flags.NArg() > 0:
		return false, fmt.Errorf("unknown argument %q; %s -h lists what there is", flags.Arg(0), flags.Name())
	}
	return false, nil
}
