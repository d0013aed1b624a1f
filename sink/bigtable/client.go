package bigtable

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	gtransport "google.golang.org/api/transport/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pushsink/pushsink/internal/encoded"
)

const (
	dataEndpoint  = "bigtable.googleapis.com:443"
	adminEndpoint = "bigtableadmin.googleapis.com:443"
	dataScope     = "https://www.googleapis.com/auth/bigtable.data"
	adminScope    = "https://www.googleapis.com/auth/bigtable.admin.table"
	userAgent     = "pushsink"

	// openWarm bounds the warm-up of a client that entries wait for: no longer than one
	// attempt of theirs would take.
	openWarm = 3 * time.Second
	// startWarm bounds the warm-up before anything is ready.
	startWarm = 10 * time.Second
)

// client is one instance's connections: a pool for data and, from its first use, one for
// administration. Its state but admin is fixed once ready is closed.
type client struct {
	instance string
	cfg      *Config
	held     bool // the writer's; guarded by Sink.mu

	// ctx ends when the client closes. Credentials keep it for their refreshes.
	ctx    context.Context
	cancel context.CancelFunc

	ready chan struct{} // closed when dialled and warmed, well or badly
	err   error         // why it could not be dialled
	pool  gtransport.ConnPool
	data  btpb.BigtableClient

	// mu guards the administrative connection, dialled at its first use; dialling waits for
	// no connection.
	mu        sync.Mutex
	adminConn *grpc.ClientConn
	closed    bool
}

func newClient(cfg *Config, instance string) *client {
	c := &client{instance: instance, cfg: cfg, ready: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// dialOptions are those of every connection. The writer owns retries, so neither gRPC's
// own nor those of a service config may send anything a second time.
func (c *Config) dialOptions(endpoint, scope string) []option.ClientOption {
	opts := []option.ClientOption{
		option.WithUserAgent(userAgent),
		option.WithTelemetryDisabled(), // the writer counts requests and times them
		option.WithGRPCDialOption(grpc.WithDisableRetry()),
		option.WithGRPCDialOption(grpc.WithDisableServiceConfig()),
		option.WithGRPCDialOption(grpc.WithDefaultCallOptions(
			// Above what Write sends, which checks the size itself, and what a row can be.
			grpc.MaxCallSendMsgSize(maxRequestBytes+1),
			grpc.MaxCallRecvMsgSize(2*maxRequestBytes),
		)),
	}
	if c.Endpoint == "" {
		opts = append(opts, option.WithEndpoint(endpoint), option.WithScopes(scope))
	} else {
		target := c.Endpoint
		if _, rest, ok := strings.Cut(target, "://"); ok && !strings.Contains(target, ":///") {
			target = rest
		}
		if !strings.Contains(target, ":///") && !strings.HasPrefix(target, "unix:") {
			// Skip name resolution, and with it any proxy of the environment.
			target = "passthrough:///" + target
		}
		opts = append(opts, option.WithEndpoint(target), option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	for _, o := range append(encoded.DialOptions(), c.DialOptions...) {
		opts = append(opts, option.WithGRPCDialOption(o))
	}
	return opts
}

// dial makes the pool. It does not wait for any connection.
func (c *client) dial(size int) error {
	opts := append(c.cfg.dialOptions(dataEndpoint, dataScope), option.WithGRPCConnectionPool(size))
	pool, err := gtransport.DialPool(c.ctx, opts...)
	if err != nil {
		return fmt.Errorf("bigtable client of instance %s: %w", InstanceID(c.instance), err)
	}
	c.pool = pool
	c.data = btpb.NewBigtableClient(pool)
	return nil
}

// warm opens every connection of the pool and lets the service prepare it, so that no
// record pays for it. It returns what went wrong; an endpoint without the call is fine.
func (c *client) warm(ctx context.Context, appProfile string) error {
	errs := make([]error, c.pool.Num())
	var wg sync.WaitGroup
	for i := range errs {
		conn := c.pool.Conn() // goes round: each call another
		wg.Go(func() { errs[i] = c.ping(ctx, conn, appProfile) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *client) ping(ctx context.Context, conn grpc.ClientConnInterface, appProfile string) error {
	ctx = metadata.NewOutgoingContext(ctx, headers(c.instance, dataParams("name", c.instance, appProfile)))
	_, err := btpb.NewBigtableClient(conn).PingAndWarm(ctx, &btpb.PingAndWarmRequest{Name: c.instance, AppProfileId: appProfile})
	if status.Code(err) == codes.Unimplemented {
		return nil
	}
	return err
}

// admin returns the stub for tables. The raw stub repeats nothing by itself.
func (c *client) admin() (adminpb.BigtableTableAdminClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, status.Error(codes.Canceled, "client closed")
	}
	if c.adminConn == nil {
		conn, err := gtransport.Dial(c.ctx, c.cfg.dialOptions(adminEndpoint, adminScope)...)
		if err != nil {
			return nil, fmt.Errorf("bigtable administration of instance %s: %w", InstanceID(c.instance), err)
		}
		c.adminConn = conn
	}
	return adminpb.NewBigtableTableAdminClient(c.adminConn), nil
}

// close ends everything open on the client and returns when its connections are closed.
func (c *client) close() {
	c.cancel()
	<-c.ready
	c.mu.Lock()
	c.closed = true
	conn := c.adminConn
	c.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
	if c.pool != nil {
		c.pool.Close()
	}
}

// Open makes instance's client, or takes over the one a start-up check has warmed. Its
// connections are warmed for at most as long as an attempt takes; that this failed is for
// the first request to say.
func (s *Sink) Open(ctx context.Context, instance string) error {
	c, made, err := s.take(instance)
	if err != nil {
		return err
	}
	if made {
		err = c.start(ctx, s.cfg.PoolSize, openWarm, s.cfg.AppProfile)
	} else {
		select {
		case <-c.ready:
			err = c.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		s.drop(c)
		return err
	}
	return nil
}

// start dials and warms the client and closes ready.
func (c *client) start(ctx context.Context, size int, bound time.Duration, appProfile string) error {
	defer close(c.ready)
	if c.err = c.dial(size); c.err != nil {
		return c.err
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()
	_ = c.warm(ctx, appProfile)
	return nil
}

// take marks the client of instance as the writer's, entering a new one when there is
// none: then made says that the caller starts it. Where clients that only a start-up
// check uses stand in the way of the bound, they go first.
func (s *Sink) take(instance string) (c *client, made bool, err error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, false, errClosed
		}
		if c := s.clients[instance]; c != nil {
			defer s.mu.Unlock()
			if c.held {
				return nil, false, fmt.Errorf("bigtable client of instance %s is open already", InstanceID(instance))
			}
			c.held = true
			return c, false, nil
		}
		var spare *client
		if len(s.clients)+s.closing >= s.cfg.MaxActiveInstances {
			for _, c := range s.clients {
				if !c.held {
					spare = c
					break
				}
			}
		}
		if spare == nil {
			c := newClient(&s.cfg, instance)
			c.held = true
			s.clients[instance] = c
			s.mu.Unlock()
			s.metrics.clients(1)
			return c, true, nil
		}
		s.mu.Unlock()
		s.drop(spare)
	}
}

// Release closes the client of instance and returns when it is closed.
func (s *Sink) Release(instance string) {
	s.mu.Lock()
	c := s.clients[instance]
	s.mu.Unlock()
	if c != nil {
		s.drop(c)
	}
}

// drop takes c out and closes it; until that is done it counts as closing.
func (s *Sink) drop(c *client) {
	s.mu.Lock()
	if s.clients[c.instance] != c {
		s.mu.Unlock()
		return
	}
	delete(s.clients, c.instance)
	s.closing++
	s.mu.Unlock()
	c.close()
	s.metrics.clients(-1)
	s.mu.Lock()
	s.closing--
	s.mu.Unlock()
}

// Close closes every client. The writer must have ended.
func (s *Sink) Close() {
	s.mu.Lock()
	s.closed = true
	var all []*client
	for _, c := range s.clients {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		s.drop(c)
	}
}

var (
	errClosed  = errors.New("bigtable sink closed")
	errNotOpen = errors.New("bigtable client not open")
)

// open returns the ready client of instance, nil when there is none.
func (s *Sink) open(instance string) *client {
	s.mu.Lock()
	c := s.clients[instance]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-c.ready:
		if c.err == nil {
			return c
		}
	default:
	}
	return nil
}

// borrow returns a client of instance for reading or looking, and what gives it back.
// There being none, keep asks for one that stays open, warmed, for the writer to take
// over, as long as the bound on clients leaves room; else a single connection is opened
// for this use alone.
func (s *Sink) borrow(ctx context.Context, instance string, keep bool) (*client, func(), error) {
	s.mu.Lock()
	c := s.clients[instance]
	made := false
	if s.closed {
		s.mu.Unlock()
		return nil, nil, errClosed
	}
	if c == nil && keep && len(s.clients)+s.closing < s.cfg.MaxActiveInstances {
		c, made = newClient(&s.cfg, instance), true
		s.clients[instance] = c
	}
	s.mu.Unlock()
	if made {
		s.metrics.clients(1)
		if err := c.start(ctx, s.cfg.PoolSize, startWarm, s.cfg.AppProfile); err != nil {
			s.drop(c)
			return nil, nil, err
		}
		return c, func() {}, nil
	}
	if c != nil {
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if c.err == nil {
			return c, func() {}, nil
		}
	}
	c = newClient(&s.cfg, instance)
	defer close(c.ready)
	if err := c.dial(1); err != nil {
		c.cancel()
		return nil, nil, err
	}
	return c, c.close, nil
}

// headers are what routes a call to its resource and says what this client understands.
func headers(resource, params string) metadata.MD {
	return metadata.MD{
		"google-cloud-resource-prefix": {resource},
		"x-goog-request-params":        {params},
		"x-goog-api-client":            {apiClient},
		"bigtable-features":            {features},
	}
}

// dataParams routes a data call: field is the request's field with the resource's name.
func dataParams(field, resource, appProfile string) string {
	return field + "=" + url.QueryEscape(resource) + "&app_profile_id=" + url.QueryEscape(appProfile)
}

var (
	apiClient = "gl-go/" + strings.TrimPrefix(runtime.Version(), "go") + " grpc/" + grpc.Version
	features  = encodeFeatures()
)

// encodeFeatures tells the service what this client understands: hints when to retry, and
// how far a scan without results came.
func encodeFeatures() string {
	b, err := proto.Marshal(&btpb.FeatureFlags{RetryInfo: true, LastScannedRowResponses: true})
	if err != nil {
		return ""
	}
	return base64.URLEncoding.EncodeToString(b)
}
