package handlers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/sink"
)

// piped is a connection of Listener over a pipe, and its client.
func piped(t *testing.T) (*conn, net.Conn) {
	p := &pipes{t: t, conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	client, err := p.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Listener(p).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); client.Close() })
	return c.(*conn), client
}

// A read or a write ends at the deadline that was set last, whatever was set before and when.
func TestConnDeadlines(t *testing.T) {
	type set struct{ when, to time.Duration } // to 0 = never
	const second = time.Second
	for _, c := range []struct {
		name string
		sets []set
		ends time.Duration // 0 = when the client closes, after an hour
	}{
		{"none", nil, 0},
		{"one", []set{{0, 5 * second}}, 5 * second},
		{"in the past", []set{{0, -second}}, 0},
		{"put off before", []set{{0, 5 * second}, {0, 9 * second}}, 9 * second},
		{"brought forward before", []set{{0, 9 * second}, {0, 5 * second}}, 5 * second},
		{"taken away before", []set{{0, 9 * second}, {0, 0}}, 0},
		{"set during", []set{{second, 5 * second}}, 5 * second},
		{"put off during", []set{{0, 5 * second}, {second, 9 * second}}, 9 * second},
		{"put off during, twice", []set{{0, 5 * second}, {second, 9 * second}, {7 * second, 30 * second}}, 30 * second},
		{"brought forward during", []set{{0, 9 * second}, {second, 5 * second}}, 5 * second},
		{"brought forward after it was put off", []set{{0, 5 * second}, {second, 20 * second}, {8 * second, 12 * second}}, 12 * second},
		{"taken away during", []set{{0, 5 * second}, {second, 0}}, 0},
		{"ended during", []set{{0, 9 * second}, {2 * second, second}}, 2 * second},
		{"ended when none was set", []set{{2 * second, second}}, 2 * second},
	} {
		for _, call := range []string{"read", "write"} {
			t.Run(c.name+", "+call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, client := piped(t)
					start := time.Now()
					at := func(d time.Duration) time.Time {
						if d == 0 {
							return time.Time{}
						}
						return start.Add(d)
					}
					setDeadline := s.SetReadDeadline
					if call == "write" {
						setDeadline = s.SetWriteDeadline
					}
					go func() {
						time.Sleep(time.Hour)
						client.Close()
					}()
					for _, x := range c.sets {
						if x.when == 0 {
							if err := setDeadline(at(x.to)); err != nil {
								t.Error(err)
							}
							continue
						}
						go func() {
							time.Sleep(x.when)
							if err := setDeadline(at(x.to)); err != nil {
								t.Error(err)
							}
						}()
					}
					var err error
					if call == "read" {
						_, err = s.Read(make([]byte, 10))
					} else {
						_, err = s.Write(make([]byte, 10))
					}
					past := len(c.sets) == 1 && c.sets[0].to < 0
					if c.ends == 0 && !past {
						if errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Hour {
							t.Errorf("after %v: %v", time.Since(start), err)
						}
						return
					}
					if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != c.ends {
						t.Errorf("after %v: %v, want %v", time.Since(start), err, c.ends)
					}
					time.Sleep(time.Hour)
				})
			})
		}
	}
}

// What was written before a deadline that was put off is not written again.
func TestConnWriteGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := piped(t)
		const text = "0123456789"
		got := make(chan string)
		go func() {
			var b []byte
			one := make([]byte, 1)
			for len(b) < len(text) {
				time.Sleep(time.Second)
				n, err := client.Read(one)
				if err != nil {
					t.Error(err)
					break
				}
				b = append(b, one[:n]...)
			}
			got <- string(b)
		}()
		_ = s.SetWriteDeadline(time.Now().Add(3500 * time.Millisecond))
		go func() {
			time.Sleep(2 * time.Second)
			_ = s.SetWriteDeadline(time.Now().Add(time.Minute))
		}()
		if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d %v", n, err)
		}
		if b := <-got; b != text {
			t.Errorf("got %q", b)
		}
	})
}

// waiting serves pushes that wait for gate in the writer.
func waiting(t *testing.T, change ...func(*fixture)) (*fixture, net.Conn) {
	f := newFixture(t, append([]func(*fixture){offline, func(f *fixture) { f.writer.gate = make(chan struct{}) }}, change...)...)
	client, err := servePipes(t, f).dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return f, client
}

func rawPush(id string) string {
	body := wrap(`{"id":"`+id+`"}`, "m")
	return fmt.Sprintf("POST /v1/routes/r/push HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// leaver tells when the context of a submitted call ended.
type leaver struct {
	*fakeWriter
	left chan time.Time
}

func (l leaver) Submit(ctx context.Context, es []sink.Entry) Ticket {
	context.AfterFunc(ctx, func() { l.left <- time.Now() })
	return l.fakeWriter.Submit(ctx, es)
}

// A client that leaves ends what waits for its record, soon after it left and not before.
func TestConnNoticesAClientThatLeaves(t *testing.T) {
	for _, c := range []struct{ leaves, noticed time.Duration }{
		{time.Millisecond, watchAfter},
		{watchAfter - 1, watchAfter},
		{watchAfter + 1, watchAfter + 1},
		{time.Second, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			left := make(chan time.Time, 1)
			f, client := waiting(t, func(f *fixture) { f.route.Writer = leaver{f.writer, left} })
			start := time.Now()
			if _, err := io.WriteString(client, rawPush("a")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(c.leaves)
			client.Close()
			if took := (<-left).Sub(start); took != c.noticed {
				t.Errorf("left after %v, noticed after %v", c.leaves, took)
			}
			close(f.writer.gate)
		})
	}
}

// Requests that come before the answer to the one before them are answered in order, whether
// the watch read their first byte or not.
func TestConnPipelinedRequests(t *testing.T) {
	for _, c := range []struct {
		name string
		gaps []time.Duration // before each request
	}{
		{"at once", []time.Duration{0, 0, 0, 0}},
		{"before the watch", []time.Duration{0, watchAfter / 2, 0, 0}},
		{"during the watch", []time.Duration{0, 2 * watchAfter, 0, 0}},
		{"slowly", []time.Duration{0, 2 * watchAfter, 2 * watchAfter, 2 * watchAfter}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := waiting(t)
				go func() {
					for i, gap := range c.gaps {
						time.Sleep(gap)
						if _, err := io.WriteString(client, rawPush(fmt.Sprint("id", i))); err != nil {
							t.Error(err)
						}
					}
				}()
				in := bufio.NewReader(client)
				for range c.gaps {
					time.Sleep(5 * watchAfter)
					f.writer.gate <- struct{}{}
					resp, err := http.ReadResponse(in, nil)
					if err != nil || resp.StatusCode != 204 {
						t.Fatalf("%v %v", resp, err)
					}
				}
				f.writer.mu.Lock()
				defer f.writer.mu.Unlock()
				for i, call := range f.writer.calls {
					if call[0].Key != fmt.Sprint("id", i) {
						t.Errorf("call %d: %q", i, call[0].Key)
					}
				}
			})
		})
	}
}

// A request that came together with the one before it may wait for longer than its body has to
// arrive, as for the keys of its token: the watch of the one before is not what reads it.
func TestConnWatchOutlivesTheNextRequestsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, client := waiting(t, func(f *fixture) {
			f.config.Limits.ReadBodyTimeout = time.Second
			requests := 0
			f.config.Auth = func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if requests++; requests == 2 {
						time.Sleep(3 * time.Second)
					}
					if err := r.Context().Err(); err != nil {
						t.Errorf("request %d: %v", requests, err)
					}
					next.ServeHTTP(w, r)
				})
			}
		})
		if _, err := io.WriteString(client, rawPush("a")+rawPush("b")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * watchAfter)
		in := bufio.NewReader(client)
		answered := func() {
			select {
			case f.writer.gate <- struct{}{}:
			case <-time.After(time.Minute):
			}
			if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 204 {
				t.Fatalf("%v %v", resp, err)
			}
		}
		answered()
		answered()
		if _, err := io.WriteString(client, rawPush("c")); err != nil {
			t.Fatal(err)
		}
		answered()
	})
}

// countingConn counts the reads of a connection.
type countingConn struct {
	net.Conn
	reads *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) { c.reads.Add(1); return c.Conn.Read(p) }

// net/http's watch ends when it reads nothing: it neither reads again nor takes that for the
// end of the connection.
func TestConnWatchOfNetHTTPEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Time, 1)
		f := newFixture(t, offline, func(f *fixture) {
			f.writer.gate = make(chan struct{})
			f.route.Writer = leaver{f.writer, left}
		})
		var reads atomic.Int64
		p := servePipes(t, f)
		client, server := net.Pipe()
		defer client.Close()
		p.conns <- countingConn{server, &reads}
		if _, err := io.WriteString(client, rawPush("a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := reads.Load()
		time.Sleep(watchAfter - 1)
		synctest.Wait()
		if n := reads.Load() - before; n != 0 {
			t.Errorf("%d reads beside the request", n)
		}
		time.Sleep(time.Second)
		if n := reads.Load() - before; n != 1 {
			t.Errorf("%d reads of the watch", n)
		}
		select {
		case <-left:
			t.Error("the request ended while its client waited")
		default:
		}
		close(f.writer.gate)
		if resp, err := http.ReadResponse(bufio.NewReader(client), nil); err != nil || resp.StatusCode != 204 {
			t.Errorf("%v %v", resp, err)
		}
	})
}

// Over TCP, with waits around watchAfter: every answer comes, on the connection it is for, and
// connections are closed in the middle of everything.
func TestConnKeepsItsRequests(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.route.Writer = lateWriter{f.writer} })
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 4 {
				client, err := net.Dial("tcp", f.server.Listener.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				in := bufio.NewReader(client)
				for range 4 {
					text := rawPush("a")
					if random.IntN(3) == 0 {
						text += text
					}
					cut := random.IntN(len(text))
					_, err1 := io.WriteString(client, text[:cut])
					_, err2 := io.WriteString(client, text[cut:])
					if err := errors.Join(err1, err2); err != nil {
						t.Error(err)
						return
					}
					for range strings.Count(text, "POST") {
						resp, err := http.ReadResponse(in, nil)
						if err != nil || resp.StatusCode != 204 {
							t.Errorf("%v %v", resp, err)
							return
						}
					}
				}
				if random.IntN(2) == 0 { // with a request that is not answered
					_, _ = io.WriteString(client, rawPush("a"))
				}
				client.Close()
			}
		})
	}
	clients.Wait()
	f.server.Close() // waits for the requests whose clients left
}

// lateWriter acknowledges about when the watch begins.
type lateWriter struct{ *fakeWriter }

type lateTicket struct{ Ticket }

func (t lateTicket) Wait() []sink.Outcome {
	time.Sleep(watchAfter - time.Millisecond + rand.N(2*time.Millisecond))
	return t.Ticket.Wait()
}

func (w lateWriter) Submit(ctx context.Context, es []sink.Entry) Ticket {
	return lateTicket{w.fakeWriter.Submit(ctx, es)}
}
