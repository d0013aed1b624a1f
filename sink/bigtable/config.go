package bigtable

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/pushsink/pushsink/sink"
)

// Config is the process's part of the configuration; a route may override the first
// three. The names in the comments are the environment variables, without PUSHSINK_.
type Config struct {
	Project    string // BIGTABLE_PROJECT; used where a route names none
	Instance   string // BIGTABLE_INSTANCE, an id; used where a route names none
	AppProfile string // BIGTABLE_APP_PROFILE; empty = the instance's default profile

	PoolSize               int           // BIGTABLE_POOL_SIZE: connections per instance
	MaxActiveInstances     int           // BIGTABLE_MAX_ACTIVE_INSTANCES
	DestinationIdleTimeout time.Duration // BIGTABLE_DESTINATION_IDLE_TIMEOUT

	// Endpoint is an emulator's host:port, spoken to in plain text and without
	// credentials, for data and administration both. Empty = the service.
	Endpoint string
	// DialOptions are added to every connection (an in-process listener's dialer).
	DialOptions []grpc.DialOption

	// Meter gets the counters of tables created and clients open, and with
	// PerDestinationMetrics (BIGTABLE_PER_DESTINATION_METRICS) those per table. May be nil.
	Meter                 metric.Meter
	PerDestinationMetrics bool
}

// DefaultConfig names no instance: those have no default.
func DefaultConfig() Config {
	return Config{PoolSize: 4, MaxActiveInstances: 16, DestinationIdleTimeout: time.Hour}
}

// DefaultOptions are the writer's bounds for this sink.
func DefaultOptions() sink.Options { return sink.DefaultBigtableOptions() }

// Name rules of the service, from its reference of the admin API.
var (
	tableID      = regexp.MustCompile(`^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`)
	familyID     = regexp.MustCompile(`^[-_.a-zA-Z0-9]{1,64}$`)
	instanceID   = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,31}[a-z0-9])?$`)
	appProfileID = regexp.MustCompile(`^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`)
)

// Validate joins every problem.
func (c *Config) Validate() error {
	var errs []error
	for _, v := range []struct{ name, value string }{
		{"PUSHSINK_BIGTABLE_PROJECT", c.Project},
		{"PUSHSINK_BIGTABLE_INSTANCE", c.Instance},
	} {
		if !plainName(v.value) {
			errs = append(errs, fmt.Errorf("%s=%q: not blank, no slash, no space at its edges", v.name, v.value))
		}
	}
	if c.AppProfile != "" && !appProfileID.MatchString(c.AppProfile) {
		errs = append(errs, fmt.Errorf("PUSHSINK_BIGTABLE_APP_PROFILE=%q: an app profile id, 1 to 50 letters, digits, dots, hyphens, underscores", c.AppProfile))
	}
	if c.PoolSize < 1 || c.PoolSize > 200 {
		errs = append(errs, fmt.Errorf("PUSHSINK_BIGTABLE_POOL_SIZE=%d: 1 to 200", c.PoolSize))
	}
	if c.MaxActiveInstances < 1 {
		errs = append(errs, fmt.Errorf("PUSHSINK_BIGTABLE_MAX_ACTIVE_INSTANCES=%d: at least 1", c.MaxActiveInstances))
	}
	if c.DestinationIdleTimeout <= 0 {
		errs = append(errs, fmt.Errorf("PUSHSINK_BIGTABLE_DESTINATION_IDLE_TIMEOUT=%s: above 0", c.DestinationIdleTimeout))
	}
	return errors.Join(errs...)
}

// plainName accepts "" (unset) and one component of a resource name.
func plainName(s string) bool {
	return !strings.Contains(s, "/") && strings.TrimSpace(s) == s
}
