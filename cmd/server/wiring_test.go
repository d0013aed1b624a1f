package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pushsink/pushsink/auth"
	"github.com/pushsink/pushsink/handlers"
	"github.com/pushsink/pushsink/sink"
	"github.com/pushsink/pushsink/sink/bigtable"
	"github.com/pushsink/pushsink/sink/spanner"
)

// obeyed is everything that the parts of the server are told.
type obeyed struct {
	Limits   handlers.Limits
	Expose   handlers.Expose
	Auth     auth.Config
	Bigtable bigtable.Config
	Writer   sink.Options
	Spanner  spanner.Config
	// SpannerWriter bounds the writer of Spanner.
	SpannerWriter sink.Options
	Port          int
}

func told(s *settings) obeyed {
	return obeyed{s.limits(), s.expose(), s.authConfig(nil, nil), s.bigtableConfig(), s.bigtableWriter(), s.spannerConfig(), s.spannerWriter(1), s.Port}
}

// Each option set to something else than its default arrives where it is obeyed, and
// nowhere else. An option that is forced to its default fails here.
func TestEveryOptionArrives(t *testing.T) {
	arrives := map[string]bool{}
	for short, c := range map[string]struct {
		value string
		field string // what changes, and nothing but; several are joined by spaces
	}{
		"WRITER_MAX_BATCH_SIZE":                         {"7", "Writer.MaxBatchEntries SpannerWriter.MaxBatchEntries"},
		"WRITER_MAX_BATCH_SIZE_BYTES":                   {"7", "Writer.MaxBatchBytes SpannerWriter.MaxBatchBytes"},
		"WRITER_MAX_IN_FLIGHT_REQUESTS":                 {"7", "Writer.MaxInFlightRequests SpannerWriter.MaxInFlightRequests"},
		"WRITER_MAX_IN_FLIGHT_REQUESTS_PER_DESTINATION": {"7", "Writer.MaxInFlightRequestsDest SpannerWriter.MaxInFlightRequestsDest"},
		"WRITER_MAX_BUFFERED_REQUESTS":                  {"7", "Writer.MaxBuffered SpannerWriter.MaxBuffered"},
		"WRITER_MAX_TIME_IN_BUFFER":                     {"7ms", "Writer.MaxTimeInBuffer SpannerWriter.MaxTimeInBuffer"},
		"WRITER_MAX_RECORD_SIZE_BYTES":                  {"7", "Limits.MaxRecordBytes Writer.MaxRecordBytes SpannerWriter.MaxRecordBytes"},
		"WRITER_ADMISSION_TIMEOUT":                      {"7ms", "Limits.AdmissionTimeout Writer.AdmissionTimeout SpannerWriter.AdmissionTimeout"},
		"WRITER_MAX_CONSECUTIVE_REJECTIONS":             {"-1", "Writer.MaxConsecutiveRejections SpannerWriter.MaxConsecutiveRejections"},

		"BIGTABLE_PROJECT":                       {"p", "Bigtable.Project"},
		"BIGTABLE_INSTANCE":                      {"i", "Bigtable.Instance"},
		"BIGTABLE_APP_PROFILE":                   {"a", "Bigtable.AppProfile"},
		"BIGTABLE_BATCH_ELEMENT_COUNT_THRESHOLD": {"7", "Writer.MaxBatchEntries"},
		"BIGTABLE_BATCH_REQUEST_BYTE_THRESHOLD":  {"7", "Writer.MaxBatchBytes"},
		"BIGTABLE_MAX_IN_FLIGHT_ENTRIES":         {"7", "Writer.MaxInFlightEntries Writer.MaxBuffered"},
		"BIGTABLE_MAX_IN_FLIGHT_BYTES":           {"7", "Writer.MaxInFlightBytes"},
		"BIGTABLE_ATTEMPT_TIMEOUT":               {"7s", "Writer.AttemptTimeout"},
		"BIGTABLE_RECOVERY_INITIAL_BACKOFF":      {"7s", "Writer.Recovery"},
		"BIGTABLE_RECOVERY_MAX_BACKOFF":          {"7s", "Writer.Recovery"},
		"BIGTABLE_RECOVERY_MAX_ATTEMPTS":         {"7", "Writer.Recovery"},
		"BIGTABLE_DESTINATION_IDLE_TIMEOUT":      {"7s", "Bigtable.DestinationIdleTimeout Writer.IdleTimeout"},
		"BIGTABLE_MAX_ACTIVE_INSTANCES":          {"7", "Bigtable.MaxActiveInstances Writer.MaxActiveInstances"},
		"BIGTABLE_POOL_SIZE":                     {"7", "Bigtable.PoolSize"},
		"BIGTABLE_PER_DESTINATION_METRICS":       {"true", "Bigtable.PerDestinationMetrics"},

		"SPANNER_DATABASE":                 {"projects/p/instances/i/databases/d", "Spanner.Database"},
		"SPANNER_MAX_BATCH_CELLS":          {"1000", "Spanner.MaxBatchCells SpannerWriter.MaxBatchCost"},
		"SPANNER_MAX_BATCH_MUTATIONS":      {"1000", "Spanner.MaxBatchMutations SpannerWriter.MaxBatchEntries SpannerWriter.MaxBatchMutations"},
		"SPANNER_MAX_BATCH_BYTES":          {"7", "SpannerWriter.MaxBatchBytes"},
		"SPANNER_WRITE_METHOD":             {"commit", "Spanner.WriteMethod"},
		"SPANNER_MAX_COMMIT_DELAY":         {"7ms PUSHSINK_SPANNER_WRITE_METHOD=commit", "Spanner.WriteMethod Spanner.MaxCommitDelay"},
		"SPANNER_RPC_PRIORITY":             {"LOW", "Spanner.Priority"},
		"SPANNER_BATCH_WRITE_TIMEOUT":      {"7s", "SpannerWriter.AttemptTimeout"},
		"SPANNER_RECOVERY_INITIAL_BACKOFF": {"7s", "SpannerWriter.Retry SpannerWriter.Recovery"},
		"SPANNER_RECOVERY_MAX_BACKOFF":     {"7s", "SpannerWriter.Retry SpannerWriter.Recovery"},
		"SPANNER_RECOVERY_MAX_ATTEMPTS":    {"7", "SpannerWriter.Retry SpannerWriter.Recovery"},
		"SPANNER_MAX_IN_FLIGHT_ENTRIES":    {"7", "SpannerWriter.MaxInFlightEntries SpannerWriter.MaxBuffered"},
		"SPANNER_MAX_IN_FLIGHT_BYTES":      {"7", "SpannerWriter.MaxInFlightBytes"},

		"AUTH_AUDIENCES": {"a,b", "Auth.Audiences"},
		"AUTH_EMAILS":    {"a@b,c@d", "Auth.Emails"},
		"AUTH_JWKS_URL":  {"https://issuer.test/keys", "Auth.JWKSURL"},
		"AUTH_ISSUERS":   {"https://issuer.test", "Auth.Issuers"},

		"EXPOSE":               {"rows,dryrun,console", "Expose.Rows Expose.Dryrun Expose.Console"},
		"MAX_BODY_BYTES":       {"7777", "Limits.MaxBodyBytes"},
		"BATCH_MAX_BODY_BYTES": {"7777", "Limits.BatchMaxBodyBytes"},
		"MAX_BATCH_RECORDS":    {"7", "Limits.MaxBatchRecords"},
		"BODY_BYTES_IN_FLIGHT": {"77777777", "Limits.BodyBytesInFlight"},
		"REQUEST_TIMEOUT":      {"7s", "Limits.RequestTimeout Auth.MaxWait"},
		"BATCH_TIMEOUT":        {"7s", "Limits.BatchTimeout"},
		"READ_HEADER_TIMEOUT":  {"7s", "Limits.ReadHeaderTimeout"},
		"READ_BODY_TIMEOUT":    {"7s", "Limits.ReadBodyTimeout"},
		"IDLE_TIMEOUT":         {"7s", "Limits.IdleTimeout"},

		"HEALTH_TRIAL_INTERVAL": {"7s", "Limits.TrialInterval Writer.TrialInterval SpannerWriter.TrialInterval"},
		"HEALTH_LIVENESS_GRACE": {"7s", "Limits.LivenessGrace"},
	} {
		before, err := load(outside)
		if err != nil {
			t.Fatal(err)
		}
		after, err := load(with(outside, strings.Fields("PUSHSINK_"+short+"="+c.value)...))
		if err != nil {
			t.Errorf("%s: %v", short, err)
			continue
		}
		if got := strings.Join(changes(told(before), told(after)), " "); got != c.field {
			t.Errorf("%s=%s changes %q, want %q", short, c.value, got, c.field)
		}
		arrives[short] = true
	}
	for _, o := range optionsOf(&config{}) {
		if !arrives[o.short()] && elsewhere[o.short()] == "" {
			t.Errorf("%s: no test that it is obeyed", o.short())
		}
	}
}

// elsewhere names the tests of the options that are obeyed in the process, not by a part.
var elsewhere = map[string]string{
	"ROUTES_FILE":      "TestServesTheRoutesFile",
	"AUTH":             "TestAUTH07NoAuthIsNotOpen",
	"METRICS_PORT":     "TestMetricsPort",
	"ACK_DEADLINE":     "TestACK03RequestTimeoutBelowAckDeadline",
	"SHUTDOWN_TIMEOUT": "TestShutdownTimeoutBoundsTheStop",
	"LOG_LEVEL":        "TestLogLevel",
}

// changes lists the fields, one level down, that differ.
func changes(a, b obeyed) (list []string) {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		part := va.Type().Field(i).Name
		fa, fb := va.Field(i), vb.Field(i)
		if fa.Kind() != reflect.Struct {
			if !fa.Equal(fb) {
				list = append(list, part)
			}
			continue
		}
		for j := range fa.NumField() {
			if fa.Type().Field(j).IsExported() && !reflect.DeepEqual(fa.Field(j).Interface(), fb.Field(j).Interface()) {
				list = append(list, part+"."+fa.Type().Field(j).Name)
			}
		}
	}
	return list
}

// The defaults of the environment are the ones that the parts document.
func TestDefaultsAgreeWithTheParts(t *testing.T) {
	s, err := load(outside)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.limits(), handlers.DefaultLimits(); got != want {
		t.Errorf("limits\n got %+v\nwant %+v", got, want)
	}
	if got, want := s.bigtableWriter(), sink.DefaultBigtableOptions(); got != want {
		t.Errorf("writer\n got %+v\nwant %+v", got, want)
	}
	if got, want := s.bigtableConfig(), bigtable.DefaultConfig(); !reflect.DeepEqual(got, want) {
		t.Errorf("bigtable\n got %+v\nwant %+v", got, want)
	}
	sp := spanner.DefaultConfig()
	if got, want := s.spannerWriter(1), sp.Options(spanner.DefaultOptions()); got != want {
		t.Errorf("writer of Spanner\n got %+v\nwant %+v", got, want)
	}
	if got := s.spannerConfig(); !reflect.DeepEqual(got, sp) {
		t.Errorf("spanner\n got %+v\nwant %+v", got, sp)
	}
}

// Every database of the routes may be open at once.
func TestSpannerDatabasesAreAllOpen(t *testing.T) {
	s, err := load(outside)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.spannerWriter(40).MaxActiveInstances; got != 40 {
		t.Errorf("%d of 40 databases may be open", got)
	}
}
