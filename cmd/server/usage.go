package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

const usageHead = `Usage: server              serve; with nothing configured, in dev mode
       server check -routes FILE [-sample FILE|-] [-route NAME]
                           compile a routes file and show what records become
       server ddl -routes FILE [-dialect googlesql|postgresql]
                           the statements that make the dedup tables of Spanner routes
       server redrive -h   post a route's dead letters to it again
       server -h           this text
       server -version     the version

Options are environment variables. Every name below has the prefix PUSHSINK_. An empty
value is as good as none, sizes are bytes, durations need a unit (10ms, 8s, 1h).

`

const usageTail = `
Without the prefix, as the platform sets them: PORT (8080; 0 = a free port), K_SERVICE,
GOOGLE_CLOUD_PROJECT (where BIGTABLE_PROJECT is unset; alone it configures nothing), and the
emulators' BIGTABLE_EMULATOR_HOST, SPANNER_EMULATOR_HOST and, for dead letters,
PUBSUB_EMULATOR_HOST (refused where K_SERVICE is set). OpenTelemetry's OTEL_ variables,
above all OTEL_EXPORTER_OTLP_ENDPOINT: traces and metrics go there.

Dev mode: none of ROUTES_FILE, BIGTABLE_PROJECT, BIGTABLE_INSTANCE, SPANNER_DATABASE and
K_SERVICE is set. The server then listens on loopback only, with a Bigtable of its own in
memory and the route "demo". All of it is gone when the server stops.
`

// usage prints what -h shows.
func usage(out io.Writer) error {
	if _, err := io.WriteString(out, usageHead); err != nil {
		return err
	}
	tabs := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tabs, "NAME\tDEFAULT\tBOUNDS\tMEANING")
	for _, o := range optionsOf(&config{}) {
		fmt.Fprintf(tabs, "%s\t%s\t%s\t%s\n", o.short(), o.defaultShown(), o.bounds(), o.Tags.Get("desc"))
	}
	if err := tabs.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, usageTail)
	return err
}

// markdown is the options table of README.md.
func markdown() string {
	var b strings.Builder
	b.WriteString("| `PUSHSINK_…` | default | bounds | meaning |\n|---|---|---|---|\n")
	for _, o := range optionsOf(&config{}) {
		cell := strings.NewReplacer("|", `\|`)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.short(), cell.Replace(o.defaultShown()), cell.Replace(o.bounds()), cell.Replace(o.Tags.Get("desc")))
	}
	return b.String()
}

// defaultShown is the default as the table shows it.
func (o declaration) defaultShown() string {
	if shown, ok := o.Tags.Lookup("shown"); ok {
		return shown
	}
	text, ok := o.Tags.Lookup("default")
	if !ok {
		return "unset"
	}
	if _, isSize := o.Field.Interface().(size); isSize {
		if n := mustInt(text); n%(1<<20) == 0 {
			return text + " (" + strconv.FormatInt(n>>20, 10) + " MiB)"
		}
	}
	return strings.ReplaceAll(text, ",", ", ")
}
