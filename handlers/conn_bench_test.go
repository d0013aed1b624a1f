package handlers

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// slowWriter acknowledges after a time, as a sink does.
type slowWriter struct{ discardWriter }

type slowTicket struct{ Ticket }

func (t slowTicket) Wait() []sink.Outcome {
	time.Sleep(5 * time.Millisecond)
	return t.Ticket.Wait()
}

func (w slowWriter) Submit(ctx context.Context, es []sink.Entry) Ticket {
	return slowTicket{w.discardWriter.Submit(ctx, es)}
}

// BenchmarkConnections is the CPU of a push, client and server together, with net/http's own
// connections and with those of Listener.
func BenchmarkConnections(b *testing.B) {
	rt := &Route{Route: &schema.Route{Name: "r", Format: "json"}, Sink: &sink.Route{}, Target: fakeTarget{}, Writer: slowWriter{}, Mapper: discardMapper{}}
	body := wrap(`{"id":"a"}`, "m")
	request := []byte("POST /v1/routes/r/push HTTP/1.1\r\nHost: h\r\nUser-Agent: APIs-Google\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	for _, c := range []struct {
		name string
		of   func(net.Listener) net.Listener
	}{
		{"plain", func(l net.Listener) net.Listener { return l }},
		{"listener", Listener},
	} {
		b.Run(c.name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			srv := NewServer(New(Config{Routes: []*Route{rt}, Limits: DefaultLimits(), Auth: NoAuth}), DefaultLimits())
			go srv.Serve(c.of(l))
			defer srv.Close()
			const conns = 256
			var left atomic.Int64
			left.Store(int64(b.N))
			var clients sync.WaitGroup
			var before, after syscall.Rusage
			ready := make(chan struct{})
			for range conns {
				client, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				defer client.Close()
				clients.Go(func() {
					answer := make([]byte, 1024)
					<-ready
					for left.Add(-1) >= 0 {
						if _, err := client.Write(request); err != nil {
							b.Error(err)
							return
						}
						if n, err := io.ReadAtLeast(client, answer, 12); err != nil || string(answer[9:12]) != "204" {
							b.Errorf("%v %s", err, answer[:n])
							return
						}
					}
				})
			}
			syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			b.ReportAllocs()
			b.ResetTimer()
			close(ready)
			clients.Wait()
			syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
		})
	}
}
