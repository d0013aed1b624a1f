package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink/bigtable"
	"github.com/pushsink/pushsink/sink/spanner"
)

// settings is what the environment says, read and checked.
type settings struct {
	config
	// given holds the names of the options that were set.
	given map[string]bool
	// Dev: nothing was configured, so the server runs on a Bigtable of its own memory.
	Dev bool
	// Port is PORT; 0 = a free one.
	Port int
	// Service is K_SERVICE: set by Cloud Run, and nowhere else.
	Service string
	// Revision is K_REVISION, Cloud Run's too.
	Revision string
	// Project is GOOGLE_CLOUD_PROJECT.
	Project string
	// BigtableEmulator is BIGTABLE_EMULATOR_HOST; never set together with Service.
	BigtableEmulator string
	// SpannerEmulator is SPANNER_EMULATOR_HOST; likewise.
	SpannerEmulator string
	// PubSubEmulator is PUBSUB_EMULATOR_HOST, for dead letters; likewise.
	PubSubEmulator string
	// OTel are the OTEL_ variables.
	OTel otelOptions
	// MemoryLimit is GOMEMLIMIT, which the runtime obeys by itself.
	MemoryLimit string
	// Warnings name settings that are harmless and useless, or allowed and risky.
	Warnings []string
	// compiled are the routes, once configure has them.
	compiled *schema.Routes
}

// problem is one thing that stops the start.
type problem struct{ name, value, bound string }

func (p problem) String() string {
	if p.name == "" {
		return p.bound // of the routes file
	}
	if p.value == "" {
		return p.name + ": " + p.bound
	}
	return p.name + "=" + shown(p.value) + ": " + p.bound
}

// configError is every problem of an environment.
type configError []problem

func (e configError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration has %d problem", len(e))
	if len(e) > 1 {
		b.WriteByte('s')
	}
	for _, p := range e {
		b.WriteString("\n  ")
		b.WriteString(p.String())
	}
	return b.String()
}

// shown quotes a value that would be hard to read as it is, and cuts a long one.
func shown(value string) string {
	const most = 120
	if len(value) > most {
		return strconv.Quote(value[:most]) + "…"
	}
	if quoted := strconv.Quote(value); quoted != `"`+value+`"` || strings.TrimSpace(value) != value {
		return quoted
	}
	return value
}

// load reads environ, whose items are NAME=value. An empty value is as good as none, for
// every variable. The error is a configError.
func load(environ []string) (*settings, error) {
	s, problems := read(environ)
	if len(problems) > 0 {
		return nil, problems
	}
	s.warn()
	return s, nil
}

// configure is load with the routes file, and with what the two say only together: the
// error holds all that stops the start.
func configure(environ []string) (*settings, error) {
	s, problems := read(environ)
	var broken error
	if s.Dev || s.RoutesFile != "" {
		if s.compiled, broken = s.routes(); broken == nil && !s.Dev {
			told := problems
			for _, text := range s.misfits(s.compiled) {
				if !slices.ContainsFunc(told, func(p problem) bool { return p.name != "" && strings.Contains(text, p.name) }) {
					problems = append(problems, problem{bound: text})
				}
			}
		}
	}
	switch {
	case len(problems) > 0 && broken != nil:
		return nil, errors.Join(problems, broken)
	case len(problems) > 0:
		return nil, problems
	case broken != nil:
		return nil, broken
	}
	s.warn()
	return s, nil
}

// misfits are what the sinks lack for the routes that write to them, such as a project.
func (s *settings) misfits(routes *schema.Routes) (list []string) {
	_, bt := bigtable.New(s.bigtableConfig(), routes.List)
	_, sp := spanner.New(s.spannerConfig(), routes.List)
	if err := errors.Join(bt, sp); err != nil {
		list = strings.Split(err.Error(), "\n")
	}
	return list
}

// read is load without its verdict.
func read(environ []string) (*settings, configError) {
	env := environment(environ)
	s := &settings{given: map[string]bool{}}
	var problems configError

	known := map[string]bool{}
	for _, o := range optionsOf(&s.config) {
		known[o.Name] = true
		if text, ok := o.Tags.Lookup("default"); ok {
			if err := o.set(text); err != nil {
				panic("cmd/server: default of " + o.Name + ": " + err.Error()) // a mistake in config.go, found by any test
			}
		}
		if text := env[o.Name]; text != "" {
			s.given[o.Name] = true
			if err := o.set(text); err != nil {
				problems = append(problems, problem{o.Name, text, err.Error()})
			}
		}
	}
	problems = append(problems, unknown(env, known)...)

	if s.Bigtable.Project == "" {
		// It says nothing of dev mode: the platform and gcloud set it by themselves.
		s.Bigtable.Project = env["GOOGLE_CLOUD_PROJECT"]
	}
	s.Service, s.Revision, s.Project = env["K_SERVICE"], env["K_REVISION"], env["GOOGLE_CLOUD_PROJECT"]
	s.OTel, s.Warnings = readOTel(env)
	s.BigtableEmulator = env["BIGTABLE_EMULATOR_HOST"]
	s.SpannerEmulator = env["SPANNER_EMULATOR_HOST"]
	s.PubSubEmulator = env["PUBSUB_EMULATOR_HOST"]
	s.MemoryLimit = env["GOMEMLIMIT"]
	s.Dev = s.Service == "" && !s.has("ROUTES_FILE") && !s.has("BIGTABLE_PROJECT") && !s.has("BIGTABLE_INSTANCE") && !s.has("SPANNER_DATABASE")
	s.Port = 8080
	if text := env["PORT"]; text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			problems = append(problems, problem{"PORT", text, "0 .. 65,535"})
		}
		s.Port = int(port)
	}

	bad := map[string]bool{}
	for _, p := range problems {
		bad[p.name] = true
	}
	for _, p := range slices.Concat(s.refusals(env), s.crossChecks()) {
		if !bad[p.name] { // its own bound was told already
			problems = append(problems, p)
		}
	}
	return s, problems
}

// environment makes a map of NAME=value items; of two with one name the first holds, as
// it does for a process.
func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, item := range environ {
		name, value, _ := strings.Cut(item, "=")
		if _, twice := env[name]; !twice {
			env[name] = value
		}
	}
	return env
}

// has reports whether the option of that short name was set.
func (s *settings) has(short string) bool { return s.given[prefix+"_"+short] }

// refusals are the starts that would lose data or leave a door open.
func (s *settings) refusals(env map[string]string) (list []problem) {
	refuse := func(name, value, bound string) { list = append(list, problem{name, value, bound}) }
	if s.Service != "" {
		for _, name := range sortedKeys(env) {
			if strings.HasSuffix(name, "_EMULATOR_HOST") && env[name] != "" {
				refuse(name, env[name], "not allowed with K_SERVICE: production data would go to an emulator")
			}
		}
	}
	if !s.Dev && !s.has("ROUTES_FILE") {
		why := "must be set outside dev mode"
		if s.Service != "" {
			why = "must be set where K_SERVICE is: there is no dev mode there, it would acknowledge into memory"
		}
		refuse("PUSHSINK_ROUTES_FILE", "", why)
	}
	switch s.Auth {
	case "":
		if !s.Dev && !s.has("AUTH") {
			refuse("PUSHSINK_AUTH", "", "must be set outside dev mode: oidc | cloudrun | none")
		}
	case "oidc":
		if len(s.AuthAudiences) == 0 {
			refuse("PUSHSINK_AUTH_AUDIENCES", "", "must be set with AUTH=oidc: without it a token that was made for any other service would do")
		}
		if len(s.AuthEmails) == 0 {
			refuse("PUSHSINK_AUTH_EMAILS", "", "must be set with AUTH=oidc: without it anybody's token would do")
		}
	case "cloudrun":
		if s.Service == "" {
			refuse("PUSHSINK_AUTH", s.Auth, "needs K_SERVICE, which Cloud Run sets: anywhere else nobody has checked the token")
		}
	}
	return list
}

// crossChecks are the bounds that involve two options.
func (s *settings) crossChecks() (list []problem) {
	refuse := func(short, value, format string, args ...any) {
		list = append(list, problem{prefix + "_" + short, value, fmt.Sprintf(format, args...)})
	}
	if s.RequestTimeout >= s.AckDeadline {
		refuse("REQUEST_TIMEOUT", s.RequestTimeout.String(), "must be below ACK_DEADLINE (%s): a later answer acknowledges nothing", s.AckDeadline)
	}
	if s.Writer.MaxTimeInBuffer >= s.RequestTimeout {
		refuse("WRITER_MAX_TIME_IN_BUFFER", s.Writer.MaxTimeInBuffer.String(), "must be below REQUEST_TIMEOUT (%s)", s.RequestTimeout)
	}
	if s.BodyBytesInFlight < s.MaxBodyBytes {
		refuse("BODY_BYTES_IN_FLIGHT", number(s.BodyBytesInFlight), "must be at least MAX_BODY_BYTES (%d)", s.MaxBodyBytes)
	}
	if r := s.Bigtable.Recovery; r.MaxBackoff < r.InitialBackoff {
		refuse("BIGTABLE_RECOVERY_MAX_BACKOFF", r.MaxBackoff.String(), "must be at least BIGTABLE_RECOVERY_INITIAL_BACKOFF (%s)", r.InitialBackoff)
	}
	if r := s.Spanner.Recovery; r.MaxBackoff < r.InitialBackoff {
		refuse("SPANNER_RECOVERY_MAX_BACKOFF", r.MaxBackoff.String(), "must be at least SPANNER_RECOVERY_INITIAL_BACKOFF (%s)", r.InitialBackoff)
	}
	if delay := s.Spanner.MaxCommitDelay; delay != nil && s.Spanner.WriteMethod == "batchWrite" {
		refuse("SPANNER_MAX_COMMIT_DELAY", delay.String(), "needs SPANNER_WRITE_METHOD=commit: a batch write has no commit delay")
	}
	return list
}

// warnAuth warns of what lets more in than it seems to, and of what checks nothing.
func (s *settings) warnAuth(warn func(format string, args ...any)) {
	if s.Auth == "none" && !s.Dev {
		exposed := ""
		if len(s.Expose) > 0 {
			exposed = " and use the endpoints of PUSHSINK_EXPOSE"
		}
		if s.Service != "" {
			warn("PUSHSINK_AUTH=none on Cloud Run: THE WHOLE INTERNET can write%s, unless the service's ingress or IAM keeps it out; PUSHSINK_AUTH=cloudrun relies on its IAM, oidc verifies tokens", exposed)
		} else {
			warn("PUSHSINK_AUTH=none: whoever reaches the port can write%s", exposed)
		}
	}
	if s.Auth == "oidc" && s.Dev {
		warn("PUSHSINK_AUTH=oidc has no effect in dev mode: tokens are not asked for, and only this machine can reach the port")
	}
	for _, short := range []string{"AUTH_AUDIENCES", "AUTH_EMAILS", "AUTH_JWKS_URL", "AUTH_ISSUERS"} {
		if s.has(short) && s.Auth != "oidc" {
			warn("PUSHSINK_%s has no effect without PUSHSINK_AUTH=oidc", short)
		}
	}
	if u, err := url.Parse(s.AuthJWKS.URL); s.Auth == "oidc" && err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		warn("PUSHSINK_AUTH_JWKS_URL is an http URL: whoever is on the way can exchange the keys, and let anybody in")
	}
}

// loopback reports a host that is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// platformBody is the largest HTTP/1 body that Cloud Run lets through.
const platformBody = 32 << 20

// warn collects the Warnings that the environment alone gives rise to.
func (s *settings) warn() {
	warn := func(format string, args ...any) { s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...)) }

	s.warnAuth(warn)
	if s.Dev {
		if s.has("EXPOSE") {
			warn("PUSHSINK_EXPOSE has no effect in dev mode: everything is exposed")
		}
		if s.has("BIGTABLE_APP_PROFILE") {
			warn("PUSHSINK_BIGTABLE_APP_PROFILE has no effect in dev mode")
		}
	}
	if w := s.Writer; w.MaxInFlightRequestsPerDestination > w.MaxInFlightRequests {
		warn("PUSHSINK_WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION=%d never binds: WRITER_MAX_IN_FLIGHT_REQUESTS is %d", w.MaxInFlightRequestsPerDestination, w.MaxInFlightRequests)
	}
	if longest := max(s.RequestTimeout, s.BatchTimeout); s.Writer.AdmissionTimeout >= longest {
		warn("PUSHSINK_WRITER_ADMISSION_TIMEOUT=%s never binds: no request waits longer than %s", s.Writer.AdmissionTimeout, longest)
	}
	for short, bytes := range map[string]size{"MAX_BODY_BYTES": s.MaxBodyBytes, "BATCH_MAX_BODY_BYTES": s.BatchMaxBodyBytes} {
		if bytes > platformBody {
			warn("PUSHSINK_%s=%d is above 32 MiB, the most that Cloud Run lets through over HTTP/1", short, bytes)
		}
	}
	if s.ShutdownTimeout >= 10*time.Second && s.Service != "" {
		warn("PUSHSINK_SHUTDOWN_TIMEOUT=%s is not below 10s, when the platform kills the process", s.ShutdownTimeout)
	}
	slices.Sort(s.Warnings)
}

// unprefixed are the platform's variables, which are read as they are.
var unprefixed = []string{"PORT", "K_SERVICE", "K_REVISION", "GOOGLE_CLOUD_PROJECT", "GOMEMLIMIT",
	"BIGTABLE_EMULATOR_HOST", "SPANNER_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST"}

// unknown refuses names that start with the prefix and are no option. Their values are
// not printed: nobody knows what they are.
func unknown(env map[string]string, known map[string]bool) (list []problem) {
	for _, name := range sortedKeys(env) {
		if !strings.HasPrefix(name, prefix+"_") || known[name] || env[name] == "" {
			continue
		}
		bound := "no such option"
		if bare := strings.TrimPrefix(name, prefix+"_"); slices.Contains(unprefixed, bare) {
			bound += "; " + bare + " has no prefix"
		} else if near := nearest(strings.ToUpper(name), known); near != "" {
			bound += "; did you mean " + near + "?"
		}
		list = append(list, problem{name, "", bound})
	}
	return list
}

func number[T ~int | ~int64](n T) string { return strconv.FormatInt(int64(n), 10) }
