package main

import "time"

// prefix stands before every option's name.
const prefix = "PUSHSINK"

// size is a number of bytes.
type size int64

// config is every option of the process. A field is the one declaration of its option:
// its name makes the variable's name, and its tags give
//
//	default   what holds when the variable is unset or empty; no tag = nothing
//	shown     how the table shows a default that the tag cannot say
//	min, max  the bounds, both included
//	or        one more value that is allowed
//	oneof     the allowed words
//	form      the check that a text must pass (see forms)
//	also      a bound that involves another option, for the table; crossChecks holds it
//	desc      what it does
//
// A pointer is nil when the option is unset, where unset is no value of the type.
type config struct {
	Writer   writerConfig   `split_words:"true"`
	Bigtable bigtableConfig `split_words:"true"`
	Spanner  spannerConfig  `split_words:"true"`

	RoutesFile string `split_words:"true" form:"plain" desc:"path of the routes file"`

	Auth          string   `split_words:"true" oneof:"oidc,cloudrun,none" shown:"none in dev mode, else must be set" desc:"who may send: oidc verifies ID tokens, cloudrun relies on the platform's IAM and needs K_SERVICE, none lets in whoever reaches the port"`
	AuthAudiences []string `split_words:"true" also:"at least one with AUTH=oidc" desc:"accepted audiences (aud) of ID tokens, comma-separated"`
	AuthEmails    []string `split_words:"true" also:"at least one with AUTH=oidc" desc:"accepted accounts (email) of ID tokens, comma-separated"`
	AuthJWKS      jwks     `split_words:"true"`
	AuthIssuers   []string `split_words:"true" default:"accounts.google.com,https://accounts.google.com" desc:"accepted issuers (iss) of ID tokens, comma-separated"`

	Expose      []string `split_words:"true" oneof:"rows,dryrun,console" shown:"all in dev mode, else none" desc:"endpoints that are off outside dev mode, comma-separated"`
	MetricsPort *int     `split_words:"true" min:"0" max:"65535" shown:"unset: no listener" desc:"own listener for /metrics (0 = a free port); in dev mode the main port has it too"`

	MaxBodyBytes      size `split_words:"true" default:"16777216" min:"1024" desc:"largest push or JSON body, before and after decompression"`
	BatchMaxBodyBytes size `split_words:"true" default:"33554432" min:"1024" desc:"largest NDJSON body, before and after decompression"`
	MaxBatchRecords   int  `split_words:"true" default:"10000" min:"1" desc:"most records in one JSON array"`
	BodyBytesInFlight size `split_words:"true" default:"134217728" min:"1024" also:"at least MAX_BODY_BYTES" desc:"bytes of request bodies held at a time; past it 429"`

	AckDeadline       time.Duration `split_words:"true" default:"10s" min:"10s" max:"600s" desc:"the push subscription's --ack-deadline, told to the server: the two must match"`
	RequestTimeout    time.Duration `split_words:"true" default:"8s" min:"1ns" also:"below ACK_DEADLINE" desc:"a push is answered within this"`
	BatchTimeout      time.Duration `split_words:"true" default:"60s" min:"1ns" desc:"a batch of records is answered within this"`
	ReadHeaderTimeout time.Duration `split_words:"true" default:"5s" min:"1ns" desc:"longest wait for a request's headers"`
	ReadBodyTimeout   time.Duration `split_words:"true" default:"10s" min:"1ns" desc:"longest wait between two bytes of a body"`
	IdleTimeout       time.Duration `split_words:"true" default:"120s" min:"1ns" desc:"an idle connection is closed after this"`
	ShutdownTimeout   time.Duration `split_words:"true" default:"8s" min:"1ns" desc:"SIGTERM to exit, all of it; records in the writer get five eighths, bodies that still arrive six"`

	HealthTrialInterval time.Duration `split_words:"true" default:"10s" min:"1ns" desc:"a tripped route tries one write after this"`
	HealthLivenessGrace time.Duration `split_words:"true" default:"0s" min:"0s" desc:"live fails once ready failed by a trip for this long; 0 = never"`

	LogLevel string `split_words:"true" default:"info" oneof:"debug,info,warn,error" desc:"least severity that is logged"`
}

type jwks struct {
	URL string `split_words:"true" default:"https://www.googleapis.com/oauth2/v3/certs" form:"url" desc:"where the issuer publishes the keys of ID tokens"`
}

type writerConfig struct {
	MaxBatchSize                      *int          `split_words:"true" min:"1" shown:"unset: the sink's own" desc:"most entries in a batch; the lower of this and the sink's own binds"`
	MaxBatchSizeBytes                 *size         `split_words:"true" min:"1" shown:"unset: the sink's own" desc:"most bytes in a batch; the lower of this and the sink's own binds"`
	MaxInFlightRequests               int           `split_words:"true" default:"64" min:"1" desc:"concurrent requests to the service"`
	MaxInFlightRequestsPerDestination int           `split_words:"true" default:"8" min:"1" desc:"concurrent requests for one table or database"`
	MaxBufferedRequests               *int          `split_words:"true" min:"1" shown:"unset: the sink's in-flight entries" desc:"entries admitted and not yet sent; full: callers wait"`
	MaxTimeInBuffer                   time.Duration `split_words:"true" default:"10ms" min:"0s" also:"below REQUEST_TIMEOUT" desc:"longest an entry waits for its batch to fill while its table is busy; an idle table sends at once"`
	MaxRecordSizeBytes                size          `split_words:"true" default:"16777216" min:"1" desc:"largest record, as payload and as encoded entry; larger is rejected"`
	AdmissionTimeout                  time.Duration `split_words:"true" default:"500ms" min:"0s" desc:"longest wait to be admitted; past it 429"`
	MaxConsecutiveRejections          int           `split_words:"true" default:"100" min:"1" or:"-1" desc:"rejections in a row that stop a route whose policy is drop or deadLetter; -1 = never"`
}

type bigtableConfig struct {
	Project                    string         `split_words:"true" form:"id" shown:"unset: GOOGLE_CLOUD_PROJECT" desc:"project of routes that name only a table"`
	Instance                   string         `split_words:"true" form:"id" desc:"instance of routes that name only a table"`
	AppProfile                 string         `split_words:"true" form:"id" desc:"app profile id"`
	BatchElementCountThreshold int            `split_words:"true" default:"100" min:"1" max:"19999" desc:"entries in a batch, one per record"`
	BatchRequestByteThreshold  size           `split_words:"true" default:"20971520" min:"1" max:"104857599" desc:"bytes in a batch"`
	MaxInFlightEntries         int            `split_words:"true" default:"1000" min:"1" desc:"entries without an answer, process-wide"`
	MaxInFlightBytes           size           `split_words:"true" default:"67108864" min:"1" desc:"their serialized bytes: the bound that bounds memory"`
	AttemptTimeout             time.Duration  `split_words:"true" default:"3s" min:"1ms" desc:"one MutateRows attempt"`
	Recovery                   recoveryConfig `split_words:"true"`
	DestinationIdleTimeout     time.Duration  `split_words:"true" default:"1h" min:"1ns" desc:"a table without entries for longer is forgotten; the next entry brings it back"`
	MaxActiveInstances         int            `split_words:"true" default:"16" min:"1" desc:"instance clients open or closing"`
	PoolSize                   int            `split_words:"true" default:"4" min:"1" max:"200" desc:"connections per instance client"`
	PerDestinationMetrics      bool           `split_words:"true" default:"false" desc:"counters per table, with an overflow label"`
}

// recoveryConfig is the budget of one incident: for Bigtable a missing table (ensure and
// apply again), for Spanner a passing error.
type recoveryConfig struct {
	InitialBackoff time.Duration `split_words:"true" default:"500ms" min:"1ms" desc:"first delay of a recovery, doubling, with jitter"`
	MaxBackoff     time.Duration `split_words:"true" default:"10s" min:"1ms" also:"at least the initial backoff" desc:"longest delay of a recovery"`
	MaxAttempts    int           `split_words:"true" default:"10" min:"1" desc:"attempts of a recovery; past it 503"`
}

type spannerConfig struct {
	Database           string         `split_words:"true" form:"database" desc:"database of routes that name only a table"`
	MaxBatchCells      int            `split_words:"true" default:"5000" min:"1" max:"80000" desc:"cells in a request, secondary indexes counted"`
	MaxBatchMutations  int            `split_words:"true" default:"500" min:"1" max:"80000" desc:"mutations in a request"`
	MaxBatchBytes      size           `split_words:"true" default:"1048576" min:"1" max:"104857600" desc:"bytes in a request"`
	WriteMethod        string         `split_words:"true" default:"batchWrite" oneof:"batchWrite,commit" desc:"commit = one atomic commit per batch"`
	MaxCommitDelay     *time.Duration `split_words:"true" min:"0s" max:"500ms" shown:"unset" also:"needs WRITE_METHOD=commit" desc:"latency that a commit may trade for throughput"`
	RPCPriority        string         `split_words:"true" oneof:"LOW,MEDIUM,HIGH" shown:"unset (= HIGH)" desc:"priority of requests"`
	BatchWriteTimeout  time.Duration  `split_words:"true" default:"30s" min:"1ms" desc:"one attempt, streaming included"`
	Recovery           recoveryConfig `split_words:"true"`
	MaxInFlightEntries int            `split_words:"true" default:"1000" min:"1" desc:"entries without an answer, process-wide"`
	MaxInFlightBytes   size           `split_words:"true" default:"67108864" min:"1" desc:"their serialized bytes"`
}
