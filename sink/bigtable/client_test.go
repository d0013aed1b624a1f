package bigtable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/api/option"
	gtransport "google.golang.org/api/transport/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

func path(id string) string { return "projects/p/instances/" + id }

// tcp serves s on a loopback port, for what concerns real connections.
func tcp(t *testing.T, s *service) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.MaxRecvMsgSize(300 << 20))
	btpb.RegisterBigtableServer(srv, s)
	adminpb.RegisterBigtableTableAdminServer(srv, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	return l.Addr().String()
}

// usage counts goroutines and open files once they stand still at or below want, or after
// a while: what ends, ends in the background.
func usage(want [2]int) [2]int {
	var got [2]int
	for range 3000 {
		fds, _ := os.ReadDir("/proc/self/fd")
		got = [2]int{runtime.NumGoroutine(), len(fds)}
		if got[0] <= want[0] && got[1] <= want[1] {
			break
		}
		runtime.Gosched()
		time.Sleep(10 * time.Millisecond)
	}
	return got
}

// Opening warms every connection, and releasing gives back every goroutine and file.
func TestOpenReleaseLeavesNothing(t *testing.T) {
	s := &service{}
	cfg := testConfig(nil)
	cfg.Endpoint, cfg.PoolSize, cfg.MaxActiveInstances = tcp(t, s), 3, 4
	b := newBench(t, cfg, routeOf("r", creating("f")))
	before := usage([2]int{1 << 30, 1 << 30})
	for round := range 3 {
		for i := range 4 {
			if err := b.Open(t.Context(), path(fmt.Sprintf("i%d", i))); err != nil {
				t.Fatal(err)
			}
		}
		if want := 4 * 3 * (round + 1); s.pings != want {
			t.Errorf("%d connections warmed, want %d", s.pings, want)
		}
		// The administrative connection goes with the client.
		if e := b.Ensure(t.Context(), sink.Dest{Instance: testPath, Table: "t"}); e.Kind == sink.Applied {
			t.Error("an Ensure without a client")
		}
		a, err := b.open(path("i0")).admin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := getTable(t.Context(), a, sink.Dest{Instance: path("i0"), Table: "t"}); status.Code(err) != codes.NotFound {
			t.Fatal(err)
		}
		for i := range 4 {
			b.Release(path(fmt.Sprintf("i%d", i)))
		}
		if got := usage(before); got[0] > before[0] || got[1] > before[1] {
			t.Errorf("goroutines and files %v, before %v", got, before)
		}
	}
}

func TestOpenTwice(t *testing.T) {
	b := newBench(t, testConfig(serve(t, &service{})), routeOf("r", nil))
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	if err := b.Open(t.Context(), testPath); err == nil {
		t.Error("opened twice")
	}
	b.Close()
	if err := b.Open(t.Context(), testPath); err == nil {
		t.Error("opened after Close")
	}
}

// CONN-03: the first call of a connection is slow; Check takes it before the server is
// ready, the writer's Open finds the same client, and the first record waits for nothing.
func TestCONN03WarmedBeforeReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{
			ping: func(context.Context, *btpb.PingAndWarmRequest) error { time.Sleep(2 * time.Second); return nil },
			get:  func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return tableWith("f"), nil },
		}
		cfg := testConfig(serve(t, s))
		cfg.PoolSize = 4
		b := newBench(t, cfg, routeOf("r", nil))
		if p := b.Check(t.Context()); len(p) != 0 {
			t.Fatal(p)
		}
		if s.pings < 4 {
			t.Errorf("%d connections warmed", s.pings)
		}
		start := time.Now()
		if err := b.Open(t.Context(), testPath); err != nil {
			t.Fatal(err)
		}
		if got := kinds(b.write(b.entry(0, row("a")))); got != "applied" {
			t.Fatal(got)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("the first record waited %v", d)
		}
		b.Close()
	})
}

// A service that never answers does not hold up an Open for longer than an attempt, nor
// one whose caller ends it.
func TestOpenIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{ping: func(ctx context.Context, _ *btpb.PingAndWarmRequest) error { <-ctx.Done(); return ctx.Err() }}
		b := newBench(t, testConfig(serve(t, s)), routeOf("r", nil))
		start := time.Now()
		if err := b.Open(t.Context(), testPath); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != openWarm {
			t.Errorf("Open took %v", d)
		}
		b.Release(testPath)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_ = b.Open(ctx, testPath)
		if d := time.Since(start); d != time.Second {
			t.Errorf("Open took %v of its caller's second", d)
		}
		b.Close()
	})
}

// Clients that a check warmed make way for those the writer wants, and never are there
// more than the bound.
func TestCheckClientsMakeWay(t *testing.T) {
	s := &service{get: func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return tableWith("f"), nil }}
	cfg := testConfig(serve(t, s))
	cfg.MaxActiveInstances = 2
	var routes []*schema.Route
	for i := range 4 {
		routes = append(routes, routeOf(fmt.Sprint("r", i), func(b *schema.BigtableTarget) { b.Instance = fmt.Sprint("i", i) }))
	}
	b := newBench(t, cfg, routes...)
	if p := b.Check(t.Context()); len(p) != 0 {
		t.Fatal(p)
	}
	count := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.clients) + b.closing
	}
	if n := count(); n != 2 {
		t.Fatalf("%d clients after the check, want 2", n)
	}
	for i := range 2 {
		if err := b.Open(t.Context(), path(fmt.Sprint("x", i))); err != nil {
			t.Fatal(err)
		}
		if n := count(); n > 2 {
			t.Fatalf("%d clients", n)
		}
	}
	if p := b.Check(t.Context()); len(p) != 0 || count() != 2 {
		t.Fatalf("a check with no room: %v, %d clients", p, count())
	}
	b.Release(path("x0"))
	b.Release(path("x1"))
	if n := count(); n != 0 {
		t.Errorf("%d clients at the end", n)
	}
}

// CONN-01, short form: a proxy cuts every connection over and over while 8 writers go on.
// No cut becomes a rejection or a fatal state, nothing is acknowledged that is not there,
// and the event's time keeps each cell at one version however often it was sent.
func TestCONN01ConnectionsCut(t *testing.T) {
	srv, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	direct := testConfig(nil)
	direct.Endpoint = srv.Addr
	fake := newBench(t, direct, routeOf("r", nil))
	if err := fake.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	fake.makeTable("t", map[string]*adminpb.GcRule{"f": nil})
	// The sink under test speaks to the same server through sockets that break.
	var d net.Dialer
	proxy := newProxy(t, func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", srv.Addr) })
	cfg := testConfig(nil)
	cfg.Endpoint, cfg.PoolSize = proxy.addr, 4
	b := newBench(t, cfg, routeOf("r", nil))
	if err := b.Open(t.Context(), testPath); err != nil {
		t.Fatal(err)
	}
	// Each writer writes so many rows, and goes on until enough connections broke.
	const rows, enough = 80, 3
	var written atomic.Int32
	var acked sync.Map
	var done atomic.Int32
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			defer done.Add(1)
			for i := 0; i < rows || proxy.broken.Load() < enough; i++ {
				key := fmt.Sprintf("%d-%03d", w, i)
				e := b.entry(0, row(key))
				written.Add(1)
				for try := 0; ; try++ {
					o := b.write(e)[0]
					if o.Kind == sink.Applied {
						acked.Store(key, true)
						break
					}
					if o.Kind != sink.Transient && o.Kind != sink.Undecided {
						t.Errorf("a cut became %v: %v", o.Kind, o.Err)
						return
					}
					if try == 1000 {
						t.Errorf("given up: %v", o.Err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	cuts := 0
	for done.Load() < 8 && (cuts < 200 || proxy.broken.Load() < enough) {
		time.Sleep(5 * time.Millisecond)
		proxy.cut()
		cuts++
	}
	wg.Wait()
	have := make(map[string]int)
	for _, c := range fake.cells("t") {
		have[strings.SplitN(c, "/", 2)[0]]++
	}
	n := 0
	acked.Range(func(k, _ any) bool {
		n++
		if have[k.(string)] != 1 {
			t.Errorf("%s: acknowledged, %d versions in the table", k, have[k.(string)])
		}
		return true
	})
	if n != int(written.Load()) || proxy.broken.Load() < enough {
		t.Errorf("%d of %d acknowledged, %d cuts, %d connections broken", n, written.Load(), cuts, proxy.broken.Load())
	}
}

// proxy passes bytes between a loopback port and what dial connects to.
type proxy struct {
	addr   string
	broken atomic.Int32 // connections cut while open

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, dial func(context.Context) (net.Conn, error)) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), conns: make(map[net.Conn]bool)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := dial(t.Context())
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			p.conns[c] = true
			p.mu.Unlock()
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				to.Close()
				from.Close()
				p.mu.Lock()
				delete(p.conns, c)
				p.mu.Unlock()
			}
			wg.Go(func() { pass(up, c) })
			wg.Go(func() { pass(c, up) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		wg.Wait()
	})
	return p
}

// cut resets every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
		p.broken.Add(1)
	}
}

// Errors of a closing client are no verdict on records.
func TestReleaseDuringRead(t *testing.T) {
	started := make(chan struct{})
	s := &service{read: func(_ int, _ *btpb.ReadRowsRequest, st btpb.Bigtable_ReadRowsServer) error {
		close(started)
		<-st.Context().Done()
		return st.Context().Err()
	}}
	b := opened(t, s, routeOf("r", nil))
	got := make(chan error)
	go func() {
		got <- b.ReadRows(context.Background(), Query{Dest: tableT}, func(Row) error { return nil })
	}()
	<-started
	b.Release(testPath)
	if err := <-got; err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reading through a released client: %v", err)
	}
}

// The options for the service itself fit together; nothing is dialled before it is used.
func TestServiceDialOptions(t *testing.T) {
	cfg := testConfig(nil)
	cfg.Endpoint = ""
	opts := append(cfg.dialOptions(dataEndpoint, dataScope), option.WithGRPCConnectionPool(3), option.WithAPIKey("none"))
	pool, err := gtransport.DialPool(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if pool.Num() != 3 || !strings.Contains(pool.Conn().Target(), dataEndpoint) {
		t.Errorf("%d connections to %s", pool.Num(), pool.Conn().Target())
	}
}
