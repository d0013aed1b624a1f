package main

import (
	"fmt"
	"io"
	"net/url"
	"reflect"
	"time"
)

// announce logs what runs, in one line, and in dev mode shows how to use it.
func (srv *server) announce(out io.Writer) {
	s := srv.settings
	auth := s.Auth
	if s.Dev {
		auth = "none"
	}
	fields := []any{
		"address", srv.listener.Addr().String(), "version", version(), "dev", s.Dev,
		"routes", names(srv.routes), "auth", auth,
	}
	if srv.outlets.bigtable != nil {
		where := serviceOr(s.BigtableEmulator)
		if s.Dev {
			where = "in memory"
		}
		fields = append(fields, "bigtable", where)
	}
	if srv.outlets.spanner != nil {
		fields = append(fields, "spanner", serviceOr(s.SpannerEmulator))
	}
	if srv.telemetry.addr != nil {
		fields = append(fields, "metrics", srv.telemetry.addr.String())
	}
	if s.OTel.Traces != "" {
		fields = append(fields, "traces", "OTLP, "+s.OTel.Sampler.String())
	}
	if s.OTel.Metrics != "" {
		fields = append(fields, "metricsExport", "OTLP")
	}
	if options := s.differing(); len(options) > 0 {
		fields = append(fields, "options", options)
	}
	if len(srv.warnings) > 0 {
		fields = append(fields, "warnings", srv.warnings)
	}
	srv.logger.Info("listening", fields...)
	if s.Dev {
		fmt.Fprint(out, banner(srv.listener.Addr().String(), s.BigtableEmulator))
	}
}

// warn logs a warning about the configuration, and keeps it for the summary.
func (srv *server) warn(text string) {
	srv.warnings = append(srv.warnings, text)
	srv.logger.Warn("configuration", "warning", text)
}

// differing are the options that differ from their defaults, with their values. None of them
// is a secret but for what a URL may hold.
func (s *settings) differing() map[string]any {
	different := map[string]any{}
	standard := optionsOf(&config{})
	for i, o := range optionsOf(&s.config) {
		if text, ok := o.Tags.Lookup("default"); ok {
			if err := standard[i].set(text); err != nil {
				panic("cmd/server: default of " + o.Name + ": " + err.Error()) // as in read
			}
		}
		if reflect.DeepEqual(o.Field.Interface(), standard[i].Field.Interface()) {
			continue
		}
		value := o.Field
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		switch v := value.Interface().(type) {
		case time.Duration:
			different[o.Name] = v.String()
		case string:
			if u, err := url.Parse(v); err == nil {
				v = u.Redacted()
			}
			different[o.Name] = v
		default:
			different[o.Name] = v
		}
	}
	return different
}

// serviceOr says what answers for a sink.
func serviceOr(emulator string) string {
	if emulator == "" {
		return "the service"
	}
	return "emulator at " + emulator
}

// demoPush is the push of the banner. Its data says {"device":"pump-1","temp":21.5}.
const demoPush = `{"message":{"data":"eyJkZXZpY2UiOiJwdW1wLTEiLCJ0ZW1wIjoyMS41fQ==","messageId":"1","publishTime":"2026-11-30T08:00:00Z"},"subscription":"projects/p/subscriptions/s"}`

// banner shows dev mode's three lines to try, for the address that the server has.
func banner(address, emulator string) string {
	ignored := ""
	if emulator != "" {
		ignored = fmt.Sprintf("BIGTABLE_EMULATOR_HOST=%s is ignored: dev mode has a Bigtable of its own.\n", emulator)
	}
	return fmt.Sprintf(`
Dev mode: nothing is configured. Records go to a Bigtable in the memory of this process,
which grows with every row. EVERYTHING IN IT IS LOST AT EXIT (Ctrl-C).
Only this machine can reach the server.
%[3]sTry it:

  # a Pub/Sub push; its data is {"device":"pump-1","temp":21.5}
  curl -i http://%[1]s/v1/routes/demo/push -H 'Content-Type: application/json' -d '%[2]s'

  # records without Pub/Sub: one object or an array
  curl -i http://%[1]s/v1/routes/demo/records -H 'Content-Type: application/json' -d '[{"device":"pump-1","temp":22},{"device":"pump-2","temp":19.5,"note":"new"}]'

  # the rows they became
  curl 'http://%[1]s/v1/routes/demo/rows?prefix=pump&decode=1'

Watch it, with charts and a playground, in a browser:  http://%[1]s/

`, address, demoPush, ignored)
}
