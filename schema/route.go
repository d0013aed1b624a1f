package schema

import "time"

// Routes is a compiled routes file: immutable, ok to use from many goroutines.
type Routes struct {
	List    []*Route // in the order of the file
	Default *Route   // `default: true`, or the only route; nil when there is none
	// Warnings are things that work and are seldom meant, each with file, line and column.
	Warnings []string
}

// Policy says what becomes of a record that is rejected for good.
type Policy string

const (
	Fail       Policy = "fail"       // answered 4xx: Pub/Sub delivers it again
	Drop       Policy = "drop"       // acknowledged and counted
	DeadLetter Policy = "deadLetter" // acknowledged once its dead letter is published
)

// Envelope says how a push wraps its record.
type Envelope string

const (
	AutoEnvelope        Envelope = "auto"
	WrappedEnvelope     Envelope = "wrapped"
	UnwrappedEnvelope   Envelope = "unwrapped"
	CloudEventsEnvelope Envelope = "cloudevents"
)

// Route is one compiled entry of the routes file.
type Route struct {
	Name            string
	Format          string // json | avro | protobuf | bytes
	Envelope        Envelope
	OnReject        Policy
	DeadLetterTopic string // projects/P/topics/T; set exactly when OnReject is DeadLetter
	Bigtable        *BigtableTarget
	Spanner         *SpannerTarget
	Mapping         *Mapping
	// Source is the route's entry as the file has it, to be shown.
	Source string
}

// BigtableTarget is what the adapter has to know of a route before any record.
type BigtableTarget struct {
	Project    string   // empty = the process's
	Instance   string   // static instance; empty = the process's, or Allow is set
	Allow      []string // the instances a templated one may become
	AppProfile string   // empty = the process's
	Table      string   // static table; empty when templated
	Create     bool     // create: ifNeeded
	MaxTables  int      // distinct tables this route may hold or create; 1 for a static table
	Families   map[string]*GCRule
	// Used are the families named by set, all and delete, sorted; families that a
	// template names are not among them.
	Used []string
}

// GCRule is a family's garbage collection rule; nil = keep everything. Exactly one
// member is set.
type GCRule struct {
	MaxVersions  int
	MaxAge       time.Duration
	Union        []*GCRule
	Intersection []*GCRule
}

// Encoding is how a Bigtable cell's value is made from a mapped value (`as`).
type Encoding string

const (
	AsString  Encoding = "string"  // UTF-8
	AsText    Encoding = "text"    // a number in plain decimal, or true and false
	AsBytes   Encoding = "bytes"   // from base64
	AsJSON    Encoding = "json"    // the input's own text
	AsInt64   Encoding = "int64"   // 8 bytes, big-endian
	AsInt32   Encoding = "int32"   // 4 bytes, big-endian
	AsFloat64 Encoding = "float64" // IEEE 754, big-endian
	AsFloat32 Encoding = "float32" // IEEE 754, big-endian
	AsBool    Encoding = "bool"    // 0xFF or 0x00
)
