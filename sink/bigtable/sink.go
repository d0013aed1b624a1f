package bigtable

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// Sink is the Bigtable backend of one process. Its methods may be called from many
// goroutines.
type Sink struct {
	cfg     Config
	metrics *metrics
	targets map[*schema.Route]*target // fixed by New
	// maxRequest is maxRequestBytes but in tests, which would need as much memory.
	maxRequest int

	// mu guards what follows; never held across I/O.
	mu     sync.Mutex
	tables map[sink.Dest]*table
	// clients holds one per instance: the writer's (held), and those that a start-up
	// check warmed and the writer has not asked for yet. closing counts clients on
	// their way out: len(clients)+closing stays within MaxActiveInstances.
	clients map[string]*client
	closing int
	closed  bool
}

var _ sink.Backend = (*Sink)(nil)

// target is a route's configuration with the process's defaults filled in. It is fixed.
type target struct {
	name       string
	spec       *schema.BigtableTarget
	appProfile string
	instances  map[string]string // id -> projects/P/instances/I
	instance   string            // the id used when the mutation names none; "" = none
	static     bool              // the table is not templated
}

// New checks cfg and the Bigtable routes among routes against each other. It opens
// nothing. The error joins every problem.
func New(cfg Config, routes []*schema.Route) (*Sink, error) {
	s := &Sink{
		cfg:        cfg,
		maxRequest: maxRequestBytes,
		targets:    make(map[*schema.Route]*target),
		tables:     make(map[sink.Dest]*table),
		clients:    make(map[string]*client),
	}
	var errs []error
	if err := cfg.Validate(); err != nil {
		errs = append(errs, err)
	}
	for _, r := range routes {
		if r.Bigtable == nil {
			continue
		}
		t, err := cfg.target(r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.targets[r] = t
		if t.static {
			for _, path := range t.instances {
				s.share(sink.Dest{Instance: path, Table: t.spec.Table}, t)
			}
		}
	}
	m, err := newMetrics(cfg)
	if err != nil {
		errs = append(errs, err)
	}
	s.metrics = m
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

func (c *Config) target(r *schema.Route) (*target, error) {
	spec := r.Bigtable
	t := &target{name: r.Name, spec: spec, appProfile: spec.AppProfile, static: spec.Table != ""}
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("route %s: bigtable.%s", r.Name, fmt.Sprintf(format, args...)))
	}
	if t.appProfile == "" {
		t.appProfile = c.AppProfile
	} else if !appProfileID.MatchString(t.appProfile) {
		bad("appProfile: %q is no app profile id: 1 to 50 letters, digits, dots, hyphens, underscores", t.appProfile)
	}
	project := spec.Project
	if project == "" {
		project = c.Project
	}
	if project == "" || !plainName(project) {
		bad("project: %q: name it here or as PUSHSINK_BIGTABLE_PROJECT, without a slash", project)
	}
	ids := spec.Allow
	if len(ids) == 0 {
		t.instance = spec.Instance
		if t.instance == "" {
			t.instance = c.Instance
		}
		ids = []string{t.instance}
	}
	t.instances = make(map[string]string, len(ids))
	for _, id := range ids {
		switch {
		case id == "":
			bad("instance: name it here or as PUSHSINK_BIGTABLE_INSTANCE")
		case !instanceID.MatchString(id):
			bad("instance: %q is no instance id: 1 to 33 lower-case letters, digits and hyphens, a letter first", id)
		}
		t.instances[id] = "projects/" + project + "/instances/" + id
	}
	if t.static && !tableID.MatchString(spec.Table) {
		bad("table: %q is no table id: 1 to 50 letters, digits, dots, hyphens, underscores, not starting with a dot or hyphen", spec.Table)
	}
	if !t.static && spec.MaxTables < 1 {
		bad("maxTables=%d: at least 1", spec.MaxTables)
	}
	if spec.Create != (len(spec.Families) > 0) {
		bad("create: ifNeeded and families go together")
	}
	for f, rule := range spec.Families {
		if !familyID.MatchString(f) {
			bad("families: %q is no family name: 1 to 64 letters, digits, dots, hyphens, underscores", f)
		}
		if err := checkRule(rule); err != nil {
			bad("families.%s.gc: %v", f, err)
		}
	}
	return t, errors.Join(errs...)
}

// paths lists the route's instances in a stable order.
func (t *target) paths() []string {
	var ps []string
	for _, p := range t.instances {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}

// InstanceID is the last component of an instance's resource name, for labels and texts.
func InstanceID(instance string) string {
	return instance[strings.LastIndexByte(instance, '/')+1:]
}

// tablesInfix stands between an instance's resource name and a table's id.
const tablesInfix = "/tables/"

// tableName is the resource name of d.
func tableName(d sink.Dest) string { return d.Instance + tablesInfix + d.Table }
