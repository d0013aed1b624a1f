package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// run is the whole program: environ holds NAME=value items, args what follows the
// program's name. It returns nil after a clean stop, by SIGTERM, by SIGINT or by the end
// of ctx.
func run(ctx context.Context, environ, args []string, out io.Writer) error {
	// The first thing, so that a signal from here on is a clean stop, however early.
	ctx, release := untilSignal(ctx)
	defer release()

	if len(args) == 0 {
		s, err := configure(environ)
		if err != nil {
			return err
		}
		return serve(ctx, s, out)
	}
	switch args[0] {
	case "check":
		return check(ctx, args[1:], out)
	case "ddl":
		return ddl(args[1:], out)
	case "redrive":
		return redrive(ctx, lookup(environ), args[1:], out)
	case "-h", "-help", "--help", "help":
		return usage(out)
	case "-version", "--version", "version":
		_, err := fmt.Fprintln(out, version())
		return err
	}
	return unknownArgument(args[0])
}

// lookup reads environ as os.Getenv reads the process's.
func lookup(environ []string) func(string) string {
	env := environment(environ)
	return func(name string) string { return env[name] }
}

// untilSignal ends the context at the first SIGTERM or SIGINT. A second SIGINT ends the
// process at once, for a person at a terminal; a second SIGTERM changes nothing, since a
// supervisor may repeat it.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		select {
		case <-signals:
			cancel()
			signal.Reset(os.Interrupt)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		signal.Stop(signals)
	}
}

// release is the version that a build without version control names: the image's, by
// -ldflags "-X main.release=v1.2.3". Nothing else sets it.
var release string

// version is the release, or else the module's version and commit as the build recorded
// them, and Go's version.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if release != "" {
		return release + " " + info.GoVersion
	}
	text := info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && text == "(devel)" {
			text += " " + setting.Value
		}
	}
	return text + " " + info.GoVersion
}
