package scripted

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
)

// Options are how a Server behaves as long as no Script says otherwise. The zero value
// is a correct service without latency.
type Options struct {
	// Addr to listen on; empty = a free loopback port.
	Addr string
	// Listener takes the place of Addr where it is set: one in memory lets the service run
	// in a synctest bubble. The server closes it.
	Listener net.Listener
	// Latency is waited before a MutateRows call is applied, EntryLatency once more for
	// each of its entries.
	Latency, EntryLatency time.Duration
	// FirstCall is how long after its first call a connection takes to answer anything.
	FirstCall time.Duration
	// Strict: one bad entry fails its whole call with that entry's status, and nothing
	// of the call is written.
	Strict bool
	// UnknownFamily is the code of an entry that names a family its table lacks; 0 =
	// NOT_FOUND with the service's text. INTERNAL comes with the emulator's text.
	UnknownFamily codes.Code
	// AnyTable: a write finds every table, with every family. The admin API knows only
	// those that were made (CreateTable, AddTable) or written to.
	AnyTable bool
	// KeysOnly keeps row keys and no cells. It implies AnyTable.
	KeysOnly bool
	// VisibleAfter is how long a created table stays NOT_FOUND for MutateRows.
	VisibleAfter time.Duration
	// ResetEvery closes all connections with a TCP reset this often; 0 = never.
	ResetEvery time.Duration
	// MaxConnectionAge sends GOAWAY to a connection of that age; 0 = never.
	MaxConnectionAge time.Duration
	// Record keeps every call for Calls.
	Record bool
	// Script plans each MutateRows and MutateRow call; see also SetScript.
	Script Script
	// Admin may fail an admin call: it is given the method's name (CreateTable, GetTable,
	// ListTables, ModifyColumnFamilies, DeleteTable) and how often it was called, from 1.
	Admin func(method string, n int) error
	// Ping may fail a PingAndWarm call, which names an app profile or none.
	Ping func(appProfile string) error
}

// Server is a running service. Close ends it.
type Server struct {
	bigtablepb.UnimplementedBigtableServer
	adminpb.UnimplementedBigtableTableAdminServer

	options Options // immutable
	script  atomic.Pointer[Script]
	warm    sync.Map // connection -> time of the connection's first call

	listener *listener
	grpc     *grpc.Server
	life     context.Context // ends with Close
	end      context.CancelFunc
	running  sync.WaitGroup

	store    store
	counters counters

	// mu guards what is counted or kept per call beside the counters.
	mu     sync.Mutex
	admins map[string]int
	calls  []Record
}

// Start runs a server.
func Start(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	o.AnyTable = o.AnyTable || o.KeysOnly
	if o.Listener == nil {
		tcp, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return nil, fmt.Errorf("scripted bigtable: %w", err)
		}
		o.Listener = tcp
	}
	s := &Server{
		options:  o,
		listener: &listener{Listener: o.Listener, open: map[*conn]struct{}{}},
		admins:   map[string]int{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.store.tables = map[string]*table{}
	s.SetScript(o.Script)
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(256 << 20), // the service's own bound of a request
		grpc.MaxSendMsgSize(256 << 20),
		grpc.MaxConcurrentStreams(1 << 16),
		grpc.WaitForHandlers(true), // Stop leaves no goroutine behind
	}
	if o.MaxConnectionAge > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: o.MaxConnectionAge}))
	}
	s.grpc = grpc.NewServer(options...)
	bigtablepb.RegisterBigtableServer(s.grpc, s)
	adminpb.RegisterBigtableTableAdminServer(s.grpc, s)
	s.running.Go(func() { _ = s.grpc.Serve(s.listener) })
	if o.ResetEvery > 0 {
		s.running.Go(s.resetLoop)
	}
	return s, nil
}

// New is Start for a test; the server ends with t.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Addr is host:port, as BIGTABLE_EMULATOR_HOST wants it.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close breaks every connection and returns when nothing runs any more.
func (s *Server) Close() {
	s.end()
	s.grpc.Stop()
	s.running.Wait()
}

// SetScript replaces the script for the calls that come from now on; nil = none.
func (s *Server) SetScript(f Script) { s.script.Store(&f) }

// Reset closes all connections with a TCP reset.
func (s *Server) Reset() { s.listener.reset() }

// Connections is how many are open.
func (s *Server) Connections() int { return len(s.listener.all()) }

func (s *Server) resetLoop() {
	ticks := time.NewTicker(s.options.ResetEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			s.counters.resets.Add(1)
			s.Reset()
		case <-s.life.Done():
			return
		}
	}
}

// listener remembers the connections it accepted.
type listener struct {
	net.Listener

	mu       sync.Mutex // guards what follows
	open     map[*conn]struct{}
	accepted int
}

type conn struct {
	net.Conn
	from   *listener
	number int // from 1
}

// RemoteAddr tells connections apart also where all have one address, in memory.
func (c *conn) RemoteAddr() net.Addr { return numbered{c.Conn.RemoteAddr(), c.number} }

type numbered struct {
	net.Addr
	number int
}

func (n numbered) String() string { return fmt.Sprintf("%s#%d", n.Addr, n.number) }

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	c := &conn{Conn: accepted, from: l, number: l.accepted}
	l.open[c] = struct{}{}
	return c, nil
}

func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

func (l *listener) all() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := make([]*conn, 0, len(l.open))
	for c := range l.open {
		open = append(open, c)
	}
	return open
}

func (l *listener) reset() {
	for _, c := range l.all() {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // RST instead of FIN
		}
		_ = c.Close()
	}
}
