package acceptance

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
)

// TestCONN01ConnectionsCloseUnderLoad: a proxy in front of the emulator resets every
// connection each two seconds under 200 requests a second. No caller notices.
func TestCONN01ConnectionsCloseUnderLoad(t *testing.T) {
	resets := int64(size(40, 8)) // of four connections
	// What waits longer is what a machine that stands still makes wait: a lane that is down
	// would hold half of 1000 entries, and refuse the others.
	const most = 200
	bt := emulator.Bigtable(t)
	db := openStore(t, bt)
	db.create(t, "json", "f")
	proxy := startResetProxy(t, bt, 2*time.Second)
	s := startServer(t, serverBinary(t), proxy.addr, jsonRoutes, nil)
	client := newClient(t)

	var sent, failed atomic.Int64
	var all sync.WaitGroup
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	slots := make(chan struct{}, most)
	for deadline := time.Now().Add(patience); proxy.resets.Load() < resets && time.Now().Before(deadline); {
		<-ticks.C
		slots <- struct{}{}
		id := fmt.Sprintf("%06d", sent.Add(1))
		all.Go(func() {
			defer func() { <-slots }()
			a := push(t.Context(), client, s.URL, "json", numbered(id).body(t))
			if !a.acknowledged() {
				failed.Add(1)
				t.Errorf("%s after %v: %v", id, a.Took, a)
			}
		})
	}
	all.Wait()
	rows := db.rows(t, "json")
	if len(rows) != int(sent.Load()) {
		t.Errorf("%d rows, want %d", len(rows), sent.Load())
	}
	for key, row := range rows {
		if len(row["f:id"]) != 1 {
			t.Errorf("row %q has %d versions", key, len(row["f:id"]))
		}
	}
	if n := proxy.resets.Load(); n < resets {
		t.Errorf("the proxy closed %d connections, want %d", n, resets)
	}
	t.Logf("%d requests, %d not acknowledged, %d connections reset", sent.Load(), failed.Load(), proxy.resets.Load())
}

// resetProxy forwards TCP and resets every connection at an interval.
type resetProxy struct {
	addr   string
	resets atomic.Int64

	mu   sync.Mutex // guards open
	open map[net.Conn]net.Conn
}

func startResetProxy(t *testing.T, target string, every time.Duration) *resetProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &resetProxy{addr: listener.Addr().String(), open: map[net.Conn]net.Conn{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			front, err := listener.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", target)
			if err != nil {
				_ = front.Close()
				continue
			}
			p.mu.Lock()
			p.open[front] = back
			p.mu.Unlock()
			running.Go(func() { p.forward(front, back) })
			running.Go(func() { p.forward(back, front) })
		}
	})
	ended := make(chan struct{})
	running.Go(func() {
		ticks := time.NewTicker(every)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				p.reset()
			case <-ended:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(ended)
		_ = listener.Close()
		p.reset()
		running.Wait()
	})
	return p
}

// forward copies until one side ends, and then ends both.
func (p *resetProxy) forward(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
	_ = to.Close()
}

func (p *resetProxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for front, back := range p.open {
		_ = front.(*net.TCPConn).SetLinger(0) // RST instead of FIN
		if front.Close() == nil {
			p.resets.Add(1)
		}
		_ = back.Close()
		delete(p.open, front)
	}
}
