package spanner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/api/option"
	gtransport "google.golang.org/api/transport/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/pushsink/pushsink/internal/encoded"
)

const (
	endpoint  = "spanner.googleapis.com:443"
	scope     = "https://www.googleapis.com/auth/spanner.data"
	userAgent = "pushsink"

	// maxSend is the largest message that gRPC sends here; what a request may weigh is
	// checked before (Config.maxRequest).
	maxSend = 2 * maxCommitBytes
)

// client is one database's connections and its session. It is fixed once made.
type client struct {
	database string
	cfg      *Config
	cancel   context.CancelFunc // of the context that credentials refresh in
	pool     gtransport.ConnPool
	stub     sppb.SpannerClient
	sessions sessions

	// perGroup: the endpoint has no BatchWrite, so each group is a commit of its own.
	// Such an endpoint is an emulator, which runs one transaction at a time: turn holds
	// the one token of who may.
	perGroup atomic.Bool
	turn     chan struct{}
}

// dial makes a client. It opens no connection yet.
func dial(cfg *Config, database string) (*client, error) {
	opts := []option.ClientOption{
		option.WithUserAgent(userAgent),
		option.WithTelemetryDisabled(), // the writer counts requests and times them
		option.WithGRPCConnectionPool(cfg.PoolSize),
		// The writer owns retries: nothing may send a request a second time.
		option.WithGRPCDialOption(grpc.WithDisableRetry()),
		option.WithGRPCDialOption(grpc.WithDisableServiceConfig()),
		option.WithGRPCDialOption(grpc.WithDefaultCallOptions(
			grpc.MaxCallSendMsgSize(maxSend), grpc.MaxCallRecvMsgSize(math.MaxInt32))),
	}
	if cfg.Endpoint == "" {
		opts = append(opts, option.WithEndpoint(endpoint), option.WithScopes(scope))
	} else {
		opts = append(opts, option.WithEndpoint(plainTarget(cfg.Endpoint)), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	for _, o := range append(encoded.DialOptions(), cfg.DialOptions...) {
		opts = append(opts, option.WithGRPCDialOption(o))
	}
	ctx, cancel := context.WithCancel(context.Background())
	pool, err := gtransport.DialPool(ctx, opts...)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("spanner client of %s: %w", database, err)
	}
	c := &client{
		database: database, cfg: cfg, cancel: cancel,
		pool: pool, stub: sppb.NewSpannerClient(pool), turn: make(chan struct{}, 1),
	}
	c.sessions.create, c.sessions.now = c.createSession, time.Now
	return c, nil
}

// plainTarget skips name resolution, and with it any proxy of the environment.
func plainTarget(address string) string {
	for _, scheme := range []string{"http://", "https://"} {
		address = strings.TrimPrefix(address, scheme)
	}
	if strings.Contains(address, ":///") || strings.HasPrefix(address, "unix:") {
		return address
	}
	return "passthrough:///" + address
}

func (c *client) close() {
	c.cancel()
	_ = c.pool.Close()
}

// outgoing adds the headers that route a call; session is empty where there is none yet.
func (c *client) outgoing(ctx context.Context, session string) context.Context {
	param := "database=" + url.QueryEscape(c.database)
	if session != "" {
		param = "session=" + url.QueryEscape(session)
	}
	return metadata.NewOutgoingContext(ctx, metadata.MD{
		"google-cloud-resource-prefix":   {c.database},
		"x-goog-request-params":          {param},
		"x-goog-api-client":              {apiClient},
		"x-goog-spanner-route-to-leader": {"true"},
	})
}

var apiClient = "gl-go/" + strings.TrimPrefix(runtime.Version(), "go") + " grpc/" + grpc.Version

var (
	errClosed  = errors.New("spanner sink closed")
	errNotOpen = errors.New("spanner client not open")
)

// database is the state of one database of the routes: its client, which is there while
// somebody holds it, and its schema, which outlives the client.
type database struct {
	path string
	cfg  *Config

	// mu guards what follows; never held across I/O.
	mu     sync.Mutex
	client *client
	users  int // the writer, whoever reads the schema, and the start-up check's hold
	// warm: the start-up check left a hold behind, for the writer to take over.
	warm   bool
	closed bool

	schema schemaCache
}

// hold returns the database's client, dialling it when nobody holds one. drop gives it
// back.
func (d *database) hold() (*client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	if d.client == nil {
		c, err := dial(d.cfg, d.path)
		if err != nil {
			return nil, err
		}
		d.client = c
	}
	d.users++
	return d.client, nil
}

// drop gives a held client back. With the last user it closes; the call returns then.
func (d *database) drop() {
	d.mu.Lock()
	d.users--
	var last *client
	if d.users == 0 {
		last, d.client = d.client, nil
	}
	d.mu.Unlock()
	if last != nil {
		last.close()
	}
}

// current returns the client that the writer holds open; nil = it holds none.
func (d *database) current() *client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.client
}

// Open makes the database's client, or takes over the one a start-up check has warmed, and
// its session. That a session can't be had is for the first request to say, which tells
// what is wrong.
func (s *Sink) Open(ctx context.Context, path string) error {
	d := s.databases[path]
	if d == nil {
		return fmt.Errorf("%s: no database of this sink's routes", path)
	}
	c, err := d.open()
	if err != nil {
		return err
	}
	_, _ = c.sessions.get(ctx)
	return nil
}

// open is hold for the writer.
func (d *database) open() (*client, error) {
	d.mu.Lock()
	if d.warm && !d.closed {
		d.warm = false
		c := d.client
		d.mu.Unlock()
		return c, nil
	}
	d.mu.Unlock()
	return d.hold()
}

// keepWarm leaves a hold for the writer, unless somebody has the client open anyway.
func (d *database) keepWarm() {
	d.mu.Lock()
	alone := d.users == 1 && !d.warm && !d.closed
	if alone {
		d.warm = true
		d.users++
	}
	d.mu.Unlock()
}

// Release closes the client of the database, at once or when the last reading of its
// schema ends.
func (s *Sink) Release(path string) {
	if d := s.databases[path]; d != nil {
		d.drop()
	}
}

// Close refuses new use and closes what the writer has not released. The writer must
// have ended.
func (s *Sink) Close() {
	for _, d := range s.databases {
		d.mu.Lock()
		d.closed = true
		c := d.client
		d.client = nil
		d.mu.Unlock()
		if c != nil {
			c.close()
		}
	}
}
