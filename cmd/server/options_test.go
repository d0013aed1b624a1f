package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// outside is the least environment that starts outside dev mode.
var outside = []string{"PUSHSINK_ROUTES_FILE=routes.yaml", "PUSHSINK_AUTH=none"}

func with(environ []string, more ...string) []string {
	return append(append([]string{}, environ...), more...)
}

// neighbours are the settings that make the others' extremes consistent, by short name.
var neighbours = map[string][]string{
	"ACK_DEADLINE=10s":                  {"PUSHSINK_REQUEST_TIMEOUT=9s"},
	"REQUEST_TIMEOUT=1ns":               {"PUSHSINK_WRITER_MAX_TIME_IN_BUFFER=0"},
	"BODY_BYTES_IN_FLIGHT=1024":         {"PUSHSINK_MAX_BODY_BYTES=1024"},
	"BIGTABLE_RECOVERY_MAX_BACKOFF=1ms": {"PUSHSINK_BIGTABLE_RECOVERY_INITIAL_BACKOFF=1ms"},
	"SPANNER_RECOVERY_MAX_BACKOFF=1ms":  {"PUSHSINK_SPANNER_RECOVERY_INITIAL_BACKOFF=1ms"},
	"AUTH=oidc":                         {"PUSHSINK_AUTH_AUDIENCES=a", "PUSHSINK_AUTH_EMAILS=a@b"},
	"AUTH=cloudrun":                     {"K_SERVICE=s"},
	"SPANNER_MAX_COMMIT_DELAY=0s":       {"PUSHSINK_SPANNER_WRITE_METHOD=commit"},
	"SPANNER_MAX_COMMIT_DELAY=500ms":    {"PUSHSINK_SPANNER_WRITE_METHOD=commit"},
	"SPANNER_MAX_COMMIT_DELAY=1ns":      {"PUSHSINK_SPANNER_WRITE_METHOD=commit"},
}

// bounds are the extremes that are accepted and the values one past them that are not.
// An option without a row fails the test.
var bounds = map[string]struct{ accepted, refused []string }{
	"WRITER_MAX_BATCH_SIZE":                         {[]string{"1", "9223372036854775807"}, []string{"0", "-1", "9223372036854775808"}},
	"WRITER_MAX_BATCH_SIZE_BYTES":                   {[]string{"1"}, []string{"0"}},
	"WRITER_MAX_IN_FLIGHT_REQUESTS":                 {[]string{"1"}, []string{"0"}},
	"WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION": {[]string{"1"}, []string{"0"}},
	"WRITER_MAX_BUFFERED_REQUESTS":                  {[]string{"1"}, []string{"0"}},
	"WRITER_MAX_TIME_IN_BUFFER":                     {[]string{"0", "0s", "7.999999999s"}, []string{"-1ns", "8s"}},
	"WRITER_MAX_RECORD_SIZE_BYTES":                  {[]string{"1"}, []string{"0"}},
	"WRITER_ADMISSION_TIMEOUT":                      {[]string{"0", "0s"}, []string{"-1ns"}},
	"WRITER_MAX_CONSECUTIVE_REJECTIONS":             {[]string{"1", "-1"}, []string{"0", "-2"}},

	"BIGTABLE_PROJECT":                       {[]string{"p"}, []string{" ", " p", "p ", "p/q"}},
	"BIGTABLE_INSTANCE":                      {[]string{"i"}, []string{" ", " i", "i ", "i/j"}},
	"BIGTABLE_APP_PROFILE":                   {[]string{"a"}, []string{" ", "a "}},
	"BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD": {[]string{"1", "19999"}, []string{"0", "20000"}},
	"BIGTABLE_BATCH_REQUEST_BYTE_THRESHOLD":  {[]string{"1", "104857599"}, []string{"0", "104857600"}},
	"BIGTABLE_MAX_IN_FLIGHT_ENTRIES":         {[]string{"1"}, []string{"0"}},
	"BIGTABLE_MAX_IN_FLIGHT_BYTES":           {[]string{"1"}, []string{"0"}},
	"BIGTABLE_ATTEMPT_TIMEOUT":               {[]string{"1ms"}, []string{"999.999us", "0"}},
	"BIGTABLE_RECOVERY_INITIAL_BACKOFF":      {[]string{"1ms", "10s"}, []string{"999.999us", "0"}},
	"BIGTABLE_RECOVERY_MAX_BACKOFF":          {[]string{"1ms", "500ms"}, []string{"999.999us", "499ms"}},
	"BIGTABLE_RECOVERY_MAX_ATTEMPTS":         {[]string{"1"}, []string{"0"}},
	"BIGTABLE_DESTINATION_IDLE_TIMEOUT":      {[]string{"1ns", "2562047h47m16.854775807s"}, []string{"0", "2562047h47m16.854775808s"}},
	"BIGTABLE_MAX_ACTIVE_INSTANCES":          {[]string{"1"}, []string{"0"}},
	"BIGTABLE_POOL_SIZE":                     {[]string{"1", "200"}, []string{"0", "201"}},
	"BIGTABLE_PER_DESTINATION_METRICS":       {[]string{"true", "false"}, []string{"yes"}},

	"SPANNER_DATABASE":                 {[]string{"projects/p/instances/i/databases/d"}, []string{"d", "projects/p/instances/i/databases/", "projects/p/instances/i/databases/d/x", "projects//instances/i/databases/d"}},
	"SPANNER_MAX_BATCH_CELLS":          {[]string{"1", "80000"}, []string{"0", "80001"}},
	"SPANNER_MAX_BATCH_MUTATIONS":      {[]string{"1", "80000"}, []string{"0", "80001"}},
	"SPANNER_MAX_BATCH_BYTES":          {[]string{"1", "104857600"}, []string{"0", "104857601"}},
	"SPANNER_WRITE_METHOD":             {[]string{"batchWrite", "commit"}, []string{"BatchWrite", "commits"}},
	"SPANNER_MAX_COMMIT_DELAY":         {[]string{"0s", "1ns", "500ms"}, []string{"-1ns", "500.000001ms"}},
	"SPANNER_RPC_PRIORITY":             {[]string{"LOW", "MEDIUM", "HIGH"}, []string{"low", "HIGHER"}},
	"SPANNER_BATCH_WRITE_TIMEOUT":      {[]string{"1ms"}, []string{"999.999us"}},
	"SPANNER_RECOVERY_INITIAL_BACKOFF": {[]string{"1ms", "10s"}, []string{"999.999us"}},
	"SPANNER_RECOVERY_MAX_BACKOFF":     {[]string{"1ms", "500ms"}, []string{"999.999us", "499ms"}},
	"SPANNER_RECOVERY_MAX_ATTEMPTS":    {[]string{"1"}, []string{"0"}},
	"SPANNER_MAX_IN_FLIGHT_ENTRIES":    {[]string{"1"}, []string{"0"}},
	"SPANNER_MAX_IN_FLIGHT_BYTES":      {[]string{"1"}, []string{"0"}},

	"ROUTES_FILE":           {[]string{"a b.yaml"}, []string{" a", "a ", "  "}},
	"AUTH":                  {[]string{"none", "oidc", "cloudrun"}, []string{"off", "None", "OIDC", "oidc,none"}},
	"AUTH_AUDIENCES":        {[]string{"a", "a, b"}, []string{"a,,b", ",", " "}},
	"AUTH_EMAILS":           {[]string{"a@b"}, []string{"a@b,"}},
	"AUTH_JWKS_URL":         {[]string{"http://127.0.0.1:1/k", "https://k.example"}, []string{"ftp://k", "k", "https://"}},
	"AUTH_ISSUERS":          {[]string{"https://i.example"}, []string{","}},
	"EXPOSE":                {[]string{"rows", "console", "rows, dryrun ,console"}, []string{"row", "rows,", "all", "metrics"}},
	"METRICS_PORT":          {[]string{"0", "65535"}, []string{"-1", "65536"}},
	"MAX_BODY_BYTES":        {[]string{"1024"}, []string{"1023"}},
	"BATCH_MAX_BODY_BYTES":  {[]string{"1024"}, []string{"1023"}},
	"MAX_BATCH_RECORDS":     {[]string{"1"}, []string{"0"}},
	"BODY_BYTES_IN_FLIGHT":  {[]string{"1024", "16777216"}, []string{"1023", "16777215"}},
	"ACK_DEADLINE":          {[]string{"10s", "600s"}, []string{"9.999s", "600.001s"}},
	"REQUEST_TIMEOUT":       {[]string{"1ns", "9.999999999s"}, []string{"0", "10s"}},
	"BATCH_TIMEOUT":         {[]string{"1ns"}, []string{"0s"}},
	"READ_HEADER_TIMEOUT":   {[]string{"1ns"}, []string{"0s"}},
	"READ_BODY_TIMEOUT":     {[]string{"1ns"}, []string{"0s"}},
	"IDLE_TIMEOUT":          {[]string{"1ns"}, []string{"0s"}},
	"SHUTDOWN_TIMEOUT":      {[]string{"1ns"}, []string{"0s"}},
	"HEALTH_TRIAL_INTERVAL": {[]string{"1ns"}, []string{"0s"}},
	"HEALTH_LIVENESS_GRACE": {[]string{"0", "1ns"}, []string{"-1ns"}},
	"LOG_LEVEL":             {[]string{"debug", "info", "warn", "error"}, []string{"trace", "INFO"}},
}

func TestBoundsOfEveryOption(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range optionsOf(&config{}) {
		seen[o.short()] = true
		row, ok := bounds[o.short()]
		if !ok {
			t.Errorf("%s: no bounds in the test", o.short())
			continue
		}
		environ := func(value string) []string {
			return with(outside, append([]string{o.Name + "=" + value}, neighbours[o.short()+"="+value]...)...)
		}
		for _, value := range row.accepted {
			env := environ(value)
			if o.short() == "ROUTES_FILE" || o.short() == "AUTH" {
				env = append(append([]string{o.Name + "=" + value}, neighbours[o.short()+"="+value]...), outside...)
			}
			if _, err := load(env); err != nil {
				t.Errorf("%s=%s: %v, want accepted", o.short(), value, err)
			}
		}
		for _, value := range row.refused {
			env := append([]string{o.Name + "=" + value}, outside...)
			_, err := load(env)
			if err == nil {
				t.Errorf("%s=%q: accepted, want refused", o.short(), value)
				continue
			}
			if got := err.Error(); !strings.Contains(got, o.Name+"=") {
				t.Errorf("%s=%q: refused without its name: %s", o.short(), value, got)
			}
		}
	}
	for short := range bounds {
		if !seen[short] {
			t.Errorf("%s: bounds of an option that does not exist", short)
		}
	}
}

// The default of every option is what the design's table says.
func TestDefaults(t *testing.T) {
	s, err := load(outside)
	if err != nil {
		t.Fatal(err)
	}
	recovery := recoveryConfig{500 * time.Millisecond, 10 * time.Second, 10}
	want := config{
		Writer: writerConfig{
			MaxInFlightRequests: 64, MaxInFlightRequestsPerDestination: 8, MaxTimeInBuffer: 10 * time.Millisecond,
			MaxRecordSizeBytes: 16 << 20, AdmissionTimeout: 500 * time.Millisecond, MaxConsecutiveRejections: 100,
		},
		Bigtable: bigtableConfig{
			BatchElementCountThreshold: 100, BatchRequestByteThreshold: 20 << 20, MaxInFlightEntries: 1000,
			MaxInFlightBytes: 64 << 20, AttemptTimeout: 3 * time.Second, Recovery: recovery,
			DestinationIdleTimeout: time.Hour, MaxActiveInstances: 16, PoolSize: 4,
		},
		Spanner: spannerConfig{
			MaxBatchCells: 5000, MaxBatchMutations: 500, MaxBatchBytes: 1 << 20, WriteMethod: "batchWrite",
			BatchWriteTimeout: 30 * time.Second, Recovery: recovery, MaxInFlightEntries: 1000, MaxInFlightBytes: 64 << 20,
		},
		RoutesFile: "routes.yaml", Auth: "none",
		AuthJWKS:     jwks{URL: "https://www.googleapis.com/oauth2/v3/certs"},
		AuthIssuers:  []string{"accounts.google.com", "https://accounts.google.com"},
		MaxBodyBytes: 16 << 20, BatchMaxBodyBytes: 32 << 20, MaxBatchRecords: 10000, BodyBytesInFlight: 128 << 20,
		AckDeadline: 10 * time.Second, RequestTimeout: 8 * time.Second, BatchTimeout: time.Minute,
		ReadHeaderTimeout: 5 * time.Second, ReadBodyTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ShutdownTimeout: 8 * time.Second, HealthTrialInterval: 10 * time.Second, LogLevel: "info",
	}
	if !reflect.DeepEqual(s.config, want) {
		t.Errorf("defaults\n got %+v\nwant %+v", s.config, want)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "PUSHSINK_AUTH=none") {
		t.Errorf("warnings of the defaults: %q, want the one of AUTH=none", s.Warnings)
	}
}

func TestCFG01EmptyIsUnset(t *testing.T) {
	want, err := load(outside)
	if err != nil {
		t.Fatal(err)
	}
	environ := with(outside, "PORT=", "K_SERVICE=", "BIGTABLE_EMULATOR_HOST=", "PUSHSINK_NO_SUCH=")
	for _, o := range optionsOf(&config{}) {
		if o.short() != "ROUTES_FILE" && o.short() != "AUTH" {
			environ = append(environ, o.Name+"=")
		}
	}
	got, err := load(environ)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("with everything set but empty\n got %+v\nwant %+v", got, want)
	}
	s, err := load([]string{"PUSHSINK_ROUTES_FILE=", "PUSHSINK_AUTH="})
	if err != nil || !s.Dev {
		t.Errorf("empty ROUTES_FILE and AUTH: Dev %v, error %v; want dev mode", s != nil && s.Dev, err)
	}
}

// Every type has the same traps: each option of each type is tried.
func TestCFG03NumbersAndDurations(t *testing.T) {
	for _, o := range optionsOf(&config{}) {
		var traps []string
		kind := o.Field.Type()
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch reflect.New(kind).Elem().Interface().(type) {
		case int, size:
			traps = []string{" 5000", "5000 ", "0x10", "1e3", "1_000", "5.0", "five", "16MiB", "\t7000"}
		case time.Duration:
			traps = []string{"30", "010", "30 s", " 30s", "30s ", "-5s", "-0s", "1e3", "soon", "1d"}
		case bool:
			traps = []string{" true", "yes", "2"}
		case []string:
			traps = []string{"a, b,,c", ",a", "a,"}
		case string:
			traps = []string{" x", "x ", " "}
		default:
			t.Fatalf("%s: type %s has no traps in the test", o.Name, kind)
		}
		for _, trap := range traps {
			_, err := load(append([]string{o.Name + "=" + trap}, outside...))
			if err == nil || !strings.Contains(err.Error(), o.Name+"=") {
				t.Errorf("%s=%q: error %v, want a refusal with its name", o.Name, trap, err)
			}
		}
	}

	s, err := load(with(outside, "PUSHSINK_BIGTABLE_POOL_SIZE=010", "PUSHSINK_MAX_BODY_BYTES=0002048", "PUSHSINK_BATCH_TIMEOUT=010s", "PUSHSINK_EXPOSE= rows ,dryrun"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Bigtable.PoolSize != 10 || s.MaxBodyBytes != 2048 || s.BatchTimeout != 10*time.Second {
		t.Errorf("leading zeros: %d, %d, %s; want 10, 2048, 10s", s.Bigtable.PoolSize, s.MaxBodyBytes, s.BatchTimeout)
	}
	if want := []string{"rows", "dryrun"}; !reflect.DeepEqual(s.Expose, want) {
		t.Errorf("EXPOSE: %q, want %q", s.Expose, want)
	}
}

func TestCFG03EveryProblemInOneMessage(t *testing.T) {
	_, err := load([]string{
		"PUSHSINK_ROUTES_FILE=r.yaml",
		"PUSHSINK_BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD=20000",
		"PUSHSINK_SPANNER_MAX_BATCH_CELLS=80001",
		"PUSHSINK_BIGTABLE_RECOVERY_INITIAL_BACKOFF=20s",
		"PUSHSINK_REQUEST_TIMEOUT=30",
		"PUSHSINK_BIGTABEL_PROJECT=secret",
		"PUSHSINK_QQQ=secret",
		"PORT=http",
	})
	if err == nil {
		t.Fatal("accepted")
	}
	got := err.Error()
	want := `the configuration has 8 problems
  PUSHSINK_BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD=20000: 1 .. 19,999
  PUSHSINK_SPANNER_MAX_BATCH_CELLS=80001: 1 .. 80,000
  PUSHSINK_REQUEST_TIMEOUT=30: a duration needs a unit, such as 500ms, 8s or 1h; > 0, below ACK_DEADLINE
  PUSHSINK_BIGTABEL_PROJECT: no such option; did you mean PUSHSINK_BIGTABLE_PROJECT?
  PUSHSINK_QQQ: no such option
  PORT=http: 0 .. 65,535
  PUSHSINK_AUTH: must be set outside dev mode: oidc | cloudrun | none
  PUSHSINK_BIGTABLE_RECOVERY_MAX_BACKOFF=10s: must be at least BIGTABLE_RECOVERY_INITIAL_BACKOFF (20s)`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(got, "secret") {
		t.Error("the value of an unknown name is printed")
	}
}

func TestACK03RequestTimeoutBelowAckDeadline(t *testing.T) {
	_, err := load(with(outside, "PUSHSINK_REQUEST_TIMEOUT=10s", "PUSHSINK_WRITER_MAX_TIME_IN_BUFFER=5s",
		"PUSHSINK_SPANNER_BATCH_WRITE_TIMEOUT=30s", "PUSHSINK_BIGTABLE_RECOVERY_MAX_ATTEMPTS=10"))
	if err == nil || !strings.Contains(err.Error(), "PUSHSINK_REQUEST_TIMEOUT=10s: must be below ACK_DEADLINE (10s)") {
		t.Errorf("error %v, want a refusal that names both numbers", err)
	}
	s, err := load(with(outside, "PUSHSINK_BIGTABLE_ATTEMPT_TIMEOUT=30s"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.sinkWarnings(sinks{bigtable: true}), "\n"); !strings.Contains(got, "PUSHSINK_BIGTABLE_ATTEMPT_TIMEOUT=30s") || !strings.Contains(got, "8s") {
		t.Errorf("warnings %q, want one that names both numbers", got)
	}
}

func TestAUTH07NoAuthIsNotOpen(t *testing.T) {
	file := "PUSHSINK_ROUTES_FILE=r.yaml"
	for _, c := range []struct {
		name    string
		environ []string
		want    []string
	}{
		{"unset", []string{file}, []string{"PUSHSINK_AUTH: must be set"}},
		{"empty", []string{file, "PUSHSINK_AUTH="}, []string{"PUSHSINK_AUTH: must be set"}},
		{"half typed", []string{file, "PUSHSINK_AUTH=no"}, []string{"PUSHSINK_AUTH=no: oidc | cloudrun | none"}},
		{"oidc alone", []string{file, "PUSHSINK_AUTH=oidc"}, []string{"has 2 problems\n", "PUSHSINK_AUTH_AUDIENCES: must be set with AUTH=oidc", "PUSHSINK_AUTH_EMAILS: must be set with AUTH=oidc"}},
		{"oidc with empty audience", []string{file, "PUSHSINK_AUTH=oidc", "PUSHSINK_AUTH_AUDIENCES=", "PUSHSINK_AUTH_EMAILS=a@b"}, []string{"has 1 problem\n", "PUSHSINK_AUTH_AUDIENCES: must be set with AUTH=oidc"}},
		{"oidc with a blank audience", []string{file, "PUSHSINK_AUTH=oidc", "PUSHSINK_AUTH_AUDIENCES= ", "PUSHSINK_AUTH_EMAILS=a@b"}, []string{"has 1 problem\n", "PUSHSINK_AUTH_AUDIENCES=\" \": a comma-separated list, item 1 is empty"}},
		{"oidc without accounts", []string{file, "PUSHSINK_AUTH=oidc", "PUSHSINK_AUTH_AUDIENCES=a"}, []string{"has 1 problem\n", "PUSHSINK_AUTH_EMAILS: must be set with AUTH=oidc"}},
		{"oidc alone in dev mode", []string{"PUSHSINK_AUTH=oidc"}, []string{"PUSHSINK_AUTH_AUDIENCES: must be set", "PUSHSINK_AUTH_EMAILS: must be set"}},
		{"cloudrun elsewhere", []string{file, "PUSHSINK_AUTH=cloudrun"}, []string{"has 1 problem\n", "PUSHSINK_AUTH=cloudrun: needs K_SERVICE"}},
		{"cloudrun in dev mode", []string{"PUSHSINK_AUTH=cloudrun"}, []string{"has 1 problem\n", "PUSHSINK_AUTH=cloudrun: needs K_SERVICE"}},
		{"two modes", []string{file, "PUSHSINK_AUTH=oidc,none"}, []string{"PUSHSINK_AUTH=oidc,none: oidc | cloudrun | none"}},
		{"only a project", []string{"PUSHSINK_BIGTABLE_PROJECT=p"}, []string{"PUSHSINK_AUTH: must be set", "PUSHSINK_ROUTES_FILE: must be set"}},
		{"only an instance", []string{"PUSHSINK_BIGTABLE_INSTANCE=i"}, []string{"PUSHSINK_AUTH: must be set", "PUSHSINK_ROUTES_FILE: must be set"}},
		{"only a database", []string{"PUSHSINK_SPANNER_DATABASE=projects/p/instances/i/databases/d"}, []string{"PUSHSINK_AUTH: must be set", "PUSHSINK_ROUTES_FILE: must be set"}},
		{"only K_SERVICE", []string{"K_SERVICE=s"}, []string{"PUSHSINK_AUTH: must be set", "PUSHSINK_ROUTES_FILE: must be set where K_SERVICE is"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(c.environ)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %s\nwant in it: %s", err, want)
				}
			}
		})
	}
}

// What starts says what it leaves open, and which settings check nothing.
func TestAuthWarnings(t *testing.T) {
	file := "PUSHSINK_ROUTES_FILE=r.yaml"
	lists := []string{"PUSHSINK_AUTH_AUDIENCES=a", "PUSHSINK_AUTH_EMAILS=a@b"}
	oidc := append([]string{file, "PUSHSINK_AUTH=oidc"}, lists...)
	for _, c := range []struct {
		name    string
		environ []string
		want    []string // each in a warning of its own, and there are no others
	}{
		{"none", []string{file, "PUSHSINK_AUTH=none"}, []string{"PUSHSINK_AUTH=none: whoever reaches the port can write"}},
		{"none with EXPOSE", []string{file, "PUSHSINK_AUTH=none", "PUSHSINK_EXPOSE=rows"}, []string{"can write and use the endpoints of PUSHSINK_EXPOSE"}},
		{"none on the platform", []string{file, "PUSHSINK_AUTH=none", "K_SERVICE=s"}, []string{"PUSHSINK_AUTH=none on Cloud Run: THE WHOLE INTERNET can write,"}},
		{"none on the platform with EXPOSE", []string{file, "PUSHSINK_AUTH=none", "K_SERVICE=s", "PUSHSINK_EXPOSE=rows"}, []string{"THE WHOLE INTERNET can write and use the endpoints of PUSHSINK_EXPOSE,"}},
		{"oidc", oidc, nil},
		{"oidc on the platform", with(oidc, "K_SERVICE=s", "PUSHSINK_EXPOSE=rows"), nil},
		{"cloudrun", []string{file, "PUSHSINK_AUTH=cloudrun", "K_SERVICE=s"}, nil},
		{"cloudrun with lists", append([]string{file, "PUSHSINK_AUTH=cloudrun", "K_SERVICE=s"}, lists...),
			[]string{"PUSHSINK_AUTH_AUDIENCES has no effect", "PUSHSINK_AUTH_EMAILS has no effect"}},
		{"none with an issuer", []string{file, "PUSHSINK_AUTH=none", "PUSHSINK_AUTH_ISSUERS=i", "PUSHSINK_AUTH_JWKS_URL=https://i/k"},
			[]string{"PUSHSINK_AUTH=none:", "PUSHSINK_AUTH_ISSUERS has no effect", "PUSHSINK_AUTH_JWKS_URL has no effect"}},
		{"keys in plain text", with(oidc, "PUSHSINK_AUTH_JWKS_URL=http://issuer.test/keys"), []string{"PUSHSINK_AUTH_JWKS_URL is an http URL"}},
		{"keys of this machine", with(oidc, "PUSHSINK_AUTH_JWKS_URL=http://127.0.0.1:1/keys"), nil},
		{"keys of this machine by name", with(oidc, "PUSHSINK_AUTH_JWKS_URL=http://localhost:1/keys"), nil},
		{"dev mode", []string{"PORT=0"}, nil},
		{"none in dev mode", []string{"PUSHSINK_AUTH=none"}, nil},
		{"oidc in dev mode", append([]string{"PUSHSINK_AUTH=oidc"}, lists...), []string{"PUSHSINK_AUTH=oidc has no effect in dev mode"}},
	} {
		s, err := load(c.environ)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		ok := len(s.Warnings) == len(c.want)
		for _, text := range c.want {
			ok = ok && strings.Count(strings.Join(s.Warnings, "\n"), text) == 1
		}
		if !ok {
			t.Errorf("%s: warnings %q, want %q", c.name, s.Warnings, c.want)
		}
	}
}

func TestEmulatorHostWithKServiceIsRefused(t *testing.T) {
	for _, name := range []string{"BIGTABLE_EMULATOR_HOST", "SPANNER_EMULATOR_HOST", "PUBSUB_EMULATOR_HOST", "FIRESTORE_EMULATOR_HOST"} {
		_, err := load(with(outside, "K_SERVICE=s", name+"=127.0.0.1:1"))
		if err == nil || !strings.Contains(err.Error(), name+"=127.0.0.1:1: not allowed with K_SERVICE") {
			t.Errorf("%s: error %v, want a refusal", name, err)
		}
		if _, err := load(with(outside, "K_SERVICE=s", name+"=")); err != nil {
			t.Errorf("%s empty: %v", name, err)
		}
		if _, err := load(with(outside, name+"=127.0.0.1:1")); err != nil {
			t.Errorf("%s without K_SERVICE: %v", name, err)
		}
	}
}

// A pair of settings that is harmless but useless, or risky, warns; one step back it is quiet.
func TestWarnings(t *testing.T) {
	bt, sp, both := sinks{bigtable: true}, sinks{spanner: true}, sinks{true, true}
	for _, c := range []struct {
		kinds             sinks
		loud, quiet, want string
	}{
		{bt, "WRITER_MAX_BATCH_SIZE=101", "WRITER_MAX_BATCH_SIZE=100", "BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD is 100"},
		{sp, "WRITER_MAX_BATCH_SIZE=501", "WRITER_MAX_BATCH_SIZE=500", "WRITER_MAX_BATCH_SIZE=501 never binds: SPANNER_MAX_BATCH_MUTATIONS is 500"},
		{both, "WRITER_MAX_BATCH_SIZE=501", "WRITER_MAX_BATCH_SIZE=500", "BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD is 100, SPANNER_MAX_BATCH_MUTATIONS is 500"},
		{bt, "WRITER_MAX_BATCH_SIZE_BYTES=20971521", "WRITER_MAX_BATCH_SIZE_BYTES=20971520", "BIGTABLE_BATCH_REQUEST_BYTE_THRESHOLD is 20971520"},
		{sp, "WRITER_MAX_BATCH_SIZE_BYTES=1048577", "WRITER_MAX_BATCH_SIZE_BYTES=1048576", "SPANNER_MAX_BATCH_BYTES is 1048576"},
		{bt, "WRITER_MAX_BUFFERED_REQUESTS=1001", "WRITER_MAX_BUFFERED_REQUESTS=1000", "BIGTABLE_MAX_IN_FLIGHT_ENTRIES is 1000"},
		{sp, "WRITER_MAX_BUFFERED_REQUESTS=1001", "WRITER_MAX_BUFFERED_REQUESTS=1000", "SPANNER_MAX_IN_FLIGHT_ENTRIES is 1000"},
		{bt, "WRITER_MAX_IN_FLIGHT_REQUESTS=7", "WRITER_MAX_IN_FLIGHT_REQUESTS=8", "WRITER_MAX_IN_FLIGHT_REQUESTS is 7"},
		{bt, "WRITER_ADMISSION_TIMEOUT=60s", "WRITER_ADMISSION_TIMEOUT=59s", "no request waits longer than 1m0s"},
		{bt, "BIGTABLE_ATTEMPT_TIMEOUT=8s", "BIGTABLE_ATTEMPT_TIMEOUT=7s", "not below REQUEST_TIMEOUT (8s)"},
		{bt, "BIGTABLE_MAX_IN_FLIGHT_ENTRIES=20001", "BIGTABLE_MAX_IN_FLIGHT_ENTRIES=20000", "above 20000"},
		{bt, "BIGTABLE_MAX_IN_FLIGHT_BYTES=104857601", "BIGTABLE_MAX_IN_FLIGHT_BYTES=104857600", "above 100 MiB"},
		{sp, "SPANNER_MAX_IN_FLIGHT_ENTRIES=20001", "SPANNER_MAX_IN_FLIGHT_ENTRIES=20000", "above 20000"},
		{sp, "SPANNER_MAX_IN_FLIGHT_BYTES=104857601", "SPANNER_MAX_IN_FLIGHT_BYTES=104857600", "above 100 MiB"},
		{bt, "MAX_BODY_BYTES=33554433", "MAX_BODY_BYTES=33554432", "above 32 MiB"},
		{bt, "BATCH_MAX_BODY_BYTES=67108864", "BATCH_MAX_BODY_BYTES=33554432", "above 32 MiB"},
		{bt, "AUTH_AUDIENCES=a", "LOG_LEVEL=info", "PUSHSINK_AUTH_AUDIENCES has no effect"},
		{bt, "SPANNER_MAX_BATCH_CELLS=10", "LOG_LEVEL=info", "PUSHSINK_SPANNER_MAX_BATCH_CELLS has no effect: no route writes to Spanner"},
		{sp, "BIGTABLE_POOL_SIZE=10", "SPANNER_RPC_PRIORITY=LOW", "PUSHSINK_BIGTABLE_POOL_SIZE has no effect: no route writes to Bigtable"},
		{both, "SPANNER_MAX_BATCH_CELLS=499", "SPANNER_MAX_BATCH_CELLS=500", "a mutation is at least one cell"},
	} {
		for set, want := range map[string]bool{c.loud: true, c.quiet: false} {
			s, err := load(with(outside, "PUSHSINK_"+set))
			if err != nil {
				t.Errorf("%s: %v", set, err)
				continue
			}
			all := append(s.Warnings, s.sinkWarnings(c.kinds)...)
			if got := strings.Contains(strings.Join(all, "\n"), c.want); got != want {
				t.Errorf("%s: warned %v (%q), want %v", set, got, all, want)
			}
		}
	}
	// The defaults make no sink complain.
	if s, err := load(outside); err != nil || len(s.sinkWarnings(both)) > 0 {
		t.Errorf("defaults: %v, %v", s.sinkWarnings(both), err)
	}
	for timeout, want := range map[string]bool{"10s": true, "9s": false} {
		s, err := load(with(outside, "K_SERVICE=s", "PUSHSINK_SHUTDOWN_TIMEOUT="+timeout))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(s.Warnings, "\n"), "PUSHSINK_SHUTDOWN_TIMEOUT"); got != want {
			t.Errorf("SHUTDOWN_TIMEOUT=%s on the platform: warned %v, want %v", timeout, got, want)
		}
	}
}

// RUN-04: a cap above what the platform lets through can't be reached over HTTP/1.
func TestRUN04CapAboveThePlatformsWarns(t *testing.T) {
	for _, option := range []string{"MAX_BODY_BYTES", "BATCH_MAX_BODY_BYTES"} {
		s, err := load(with(outside, "PUSHSINK_"+option+"=67108864", "PUSHSINK_BODY_BYTES_IN_FLIGHT=134217728"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Warnings, "\n"); !strings.Contains(got, "PUSHSINK_"+option+"=67108864 is above 32 MiB") {
			t.Errorf("RUN-04 %s: warnings %q", option, s.Warnings)
		}
	}
}

// SPBW-12: the client has no session pool any more, so there is nothing of one to set, in
// the environment or in the routes file.
func TestSPBW12NothingOfASessionPool(t *testing.T) {
	var names []string
	for _, o := range optionsOf(&config{}) {
		names = append(names, o.Name)
	}
	schema, err := os.ReadFile(filepath.Join("..", "..", "schema", "routes.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"(\w+)": *\{`).FindAllStringSubmatch(string(schema), -1) {
		names = append(names, m[1])
	}
	if len(names) < 100 {
		t.Fatalf("%d names, want all options", len(names))
	}
	knob := regexp.MustCompile(`(?i)session|min_?open|max_?open|max_?idle|max_?burst|write_?sessions|health_?check_?(workers|interval)`)
	for _, name := range names {
		if knob.MatchString(name) {
			t.Errorf("SPBW-12 %s is of a session pool", name)
		}
	}
}

func TestDevModeIsNothingConfigured(t *testing.T) {
	s, err := load([]string{"PATH=/bin", "PORT=0", "BIGTABLE_EMULATOR_HOST=127.0.0.1:1", "PUSHSINK_LOG_LEVEL=debug"})
	if err != nil || !s.Dev || s.Port != 0 {
		t.Fatalf("settings %+v, error %v; want dev mode on port 0", s, err)
	}
	for _, item := range []string{"PUSHSINK_ROUTES_FILE=r", "PUSHSINK_BIGTABLE_PROJECT=p", "PUSHSINK_BIGTABLE_INSTANCE=i",
		"PUSHSINK_SPANNER_DATABASE=projects/p/instances/i/databases/d", "K_SERVICE=s"} {
		if s, err := load([]string{item}); err == nil {
			t.Errorf("%s alone starts (dev mode %v), want a refusal", item, s.Dev)
		}
	}
}

// The platform's project stands in for the option's, and alone it configures nothing.
func TestProjectOfThePlatform(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{with(outside, "GOOGLE_CLOUD_PROJECT=platform"), "platform"},
		{with(outside, "GOOGLE_CLOUD_PROJECT=platform", "PUSHSINK_BIGTABLE_PROJECT="), "platform"},
		{with(outside, "GOOGLE_CLOUD_PROJECT=platform", "PUSHSINK_BIGTABLE_PROJECT=own"), "own"},
		{with(outside, "GOOGLE_CLOUD_PROJECT="), ""},
	} {
		s, err := load(c.environ)
		if err != nil || s.bigtableConfig().Project != c.want {
			t.Errorf("%q: error %v, want project %q", c.environ, err, c.want)
		}
	}
	if s, err := load([]string{"GOOGLE_CLOUD_PROJECT=platform"}); err != nil || !s.Dev {
		t.Errorf("GOOGLE_CLOUD_PROJECT alone: error %v, want dev mode", err)
	}
}

// A name is refused with the nearest option, if one is near enough to be meant.
func TestUnknownNames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"PUSHSINK_ROUTE_FILE", "PUSHSINK_ROUTES_FILE"},
		{"PUSHSINK_WRITER_MAX_INFLIGHT_REQUESTS", "PUSHSINK_WRITER_MAX_IN_FLIGHT_REQUESTS"},
		{"PUSHSINK_JWKS_URL", "PUSHSINK_AUTH_JWKS_URL"},
		{"PUSHSINK_log_level", "PUSHSINK_LOG_LEVEL"},
		{"PUSHSINK_SOURCE_MAX_ROWS_PER_FETCH", ""},
		{"PUSHSINK_X", ""},
		{"PUSHSINK_POOL_SIZE", "PUSHSINK_BIGTABLE_POOL_SIZE"},
		{"PUSHSINK_BIGTABLE_POOL", "PUSHSINK_BIGTABLE_POOL_SIZE"},
		{"PUSHSINK_ROUTES", "PUSHSINK_ROUTES_FILE"},
		{"PUSHSINK_BIGTABLE_RECOVERY", ""}, // three of them
	} {
		_, err := load(with(outside, c.name+"=1"))
		want := fmt.Sprintf("%s: no such option", c.name)
		if c.want != "" {
			want += "; did you mean " + c.want + "?"
		}
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", c.name, err, want)
		}
	}
	for _, name := range []string{"PORT", "K_SERVICE", "BIGTABLE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"} {
		_, err := load(with(outside, "PUSHSINK_"+name+"=1"))
		if want := "PUSHSINK_" + name + ": no such option; " + name + " has no prefix"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("PUSHSINK_%s: error %v, want %q", name, err, want)
		}
	}
	// The bare name of an option is somebody else's variable.
	s, err := load(with(outside, "BIGTABLE_POOL_SIZE=200", "LOG_LEVEL=nonsense"))
	if err != nil || s.Bigtable.PoolSize != 4 {
		t.Errorf("unprefixed names: error %v; want them left alone", err)
	}
}

func TestPort(t *testing.T) {
	for value, want := range map[string]int{"": 8080, "0": 0, "65535": 65535, "010": 10} {
		s, err := load(with(outside, "PORT="+value))
		if err != nil || s.Port != want {
			t.Errorf("PORT=%s: error %v, want %d", value, err, want)
		}
	}
	for _, value := range []string{"65536", "-1", " 80", strconv.Itoa(1 << 40)} {
		if _, err := load(with(outside, "PORT="+value)); err == nil || !strings.Contains(err.Error(), "PORT=") {
			t.Errorf("PORT=%q: error %v, want a refusal", value, err)
		}
	}
}
