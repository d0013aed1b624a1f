package acceptance

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pushsink/pushsink/internal/fullduplex"
	"github.com/pushsink/pushsink/internal/issuer"
)

// attack is one way to be hostile.
type attack struct {
	name string
	// conns is how many tries there are at a time at most, rate how many begin in a second.
	conns int
	rate  float64
	// try is one try, with the outcome: a status, closed, or stillOpen when ctx ended first.
	try func(ctx context.Context, v *victim) string
	// allowed are the outcomes that a server may give, besides stillOpen.
	allowed []string
}

const (
	closed    = "closed"     // without an answer
	stillOpen = "still open" // at the attack's end
)

// late are the outcomes of what the server's or the attacker's machine was too busy for.
var late = []string{"408", "503", "504"}

// attacks are all of them. Each rate is what one attacker's thread can keep up beside the
// others; what it costs the server is what the test is about.
var attacks = []attack{
	{"connections that say nothing", 200, 100, slowly("", ""), []string{closed}},
	{"slow headers", 300, 150, slowly("", "POST /v1/routes/json/push HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n"), []string{closed, "400", "408"}},
	{"slow bodies", 300, 150, slowly("POST /v1/routes/json/push HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000)), []string{"408", "503"}},
	{"slow streams", 100, 50, slowly("POST /v1/routes/json/records HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n", strings.Repeat("\n", 1000)), []string{"408", "503"}},
	{"answers that nobody reads", 50, 25, unread, []string{closed}},
	{"gzip bombs", 4, 4, posting("records", "application/json", "gzip", gzipBomb(1, 64<<20)), []string{"413", "429", closed}},
	{"gzip members", 4, 4, posting("records", "application/x-ndjson", "gzip", gzipBomb(100, 1<<20)), []string{"413", "429", closed}},
	{"zstd bombs", 4, 4, posting("push", "application/json", "zstd", zstdBomb(1, 256<<20, 8<<20)), []string{"413", "429", closed}},
	{"zstd windows", 16, 20, posting("records", "application/x-ndjson", "zstd", zstdBomb(20, 8, 8<<20)), []string{"422", "400", "429", closed}},
	{"junk behind a small value", 4, 4, junk, []string{"400", "413", "429", closed}},
	{"deep JSON", 8, 20, posting("records", "application/json", "", func() []byte { return deep(100_001) }), []string{"400", "429"}},
	{"deep payloads", 8, 20, posting("push", "application/json", "", func() []byte {
		return fmt.Appendf(nil, `{"message":{"messageId":"1","data":"%s"}}`, base64.StdEncoding.EncodeToString(deep(100_001)))
	}), []string{"422", "429"}},
	{"dense payloads", 16, 8, posting("records", "application/x-ndjson", "gzip", func() []byte {
		return gzipped(append(densePayload(), '\n'))
	}), []string{"422", "429", "503", closed}},
	{"bad lines", 8, 4, posting("records?results=all", "application/x-ndjson", "gzip", func() []byte {
		return gzipped(bytes.Repeat([]byte("x\n"), 50_000))
	}), []string{"422", "429", "503", closed}},
	{"large headers", 8, 20, largeHeaders(64, 32<<10), []string{"431", closed}},
	{"many headers", 8, 20, largeHeaders(100_000, 1), []string{"431", closed}},
	{"random paths and methods", 8, 250, randomPath, []string{"404", "405", "400"}},
	{"chunk extensions", 8, 20, chunks("1;x=" + strings.Repeat("y", 4000) + "\r\nz\r\n"), []string{"400", closed}},
	{"chunks of one byte", 4, 4, chunks("1\r\n \r\n"), []string{"400", closed}},
	{"smuggling shapes", 8, 100, smuggledShape, []string{"400", "501", "422", closed}},
	// Over HTTP/2 a try waits a second after what it sends, so that at most four begin in one:
	// 2,000 requests taken back, 20,000 pings or settings, 40,000 other frames in a second.
	{"rapid resets", 4, 6, overH2(resets), []string{closed}},
	{"provoked resets", 4, 6, overH2(provokedResets), []string{closed}},
	{"pings", 4, 4, overH2(pings), []string{closed}},
	{"settings", 4, 4, overH2(settings), []string{closed}},
	{"window updates", 4, 5, overH2(windowUpdates), []string{closed}},
	{"empty data", 4, 5, overH2(emptyData), []string{closed}},
	{"endless header blocks", 4, 5, overH2(continuations), []string{closed}},
	{"streams that are never ended", 4, 1, overH2(openStreams), []string{closed}},
}

// tokenAttacks are for a server that wants tokens.
var tokenAttacks = []attack{
	{"no token", 8, 100, withToken(func() string { return "" }), []string{"401"}},
	{"no token at all", 8, 50, withToken(func() string { return "Bearer " + strings.Repeat("x", 1+rand.IntN(20_000)) }), []string{"401"}},
	{"keys that nobody knows", 8, 250, withToken(func() string { return "Bearer " + issuer.NewStray(fmt.Sprint(rand.Uint64())) }), []string{"401"}},
	{"forged signatures", 8, 250, withToken(func() string { return "Bearer " + issuer.NewStray("a") }), []string{"401"}},
}

// withToken pushes with a header Authorization, and a body that must not be read.
func withToken(header func() string) func(context.Context, *victim) string {
	return func(ctx context.Context, v *victim) string {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/v1/routes/json/push", strings.NewReader("{}"))
		if err != nil {
			return err.Error()
		}
		if h := header(); h != "" {
			r.Header.Set("Authorization", h)
		}
		return v.outcome(ctx, r)
	}
}

// victim is the server as attackers see it.
type victim struct {
	url, host string
	client    *http.Client
}

// runAttack attacks as attackEnv says, and prints the outcomes.
func runAttack(what string) {
	args := strings.Split(what, attackSep)
	lasts, err := time.ParseDuration(args[1])
	if err != nil {
		panic(err)
	}
	part, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		panic(err)
	}
	v := &victim{url: args[0], host: strings.TrimPrefix(args[0], "http://"),
		client: &http.Client{Transport: &http.Transport{DialContext: fullduplex.Dial, MaxIdleConnsPerHost: 64, DisableCompression: true}}}
	ctx, cancel := context.WithCancel(context.Background())
	counts := map[string]map[string]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	start := make(chan struct{})
	var began time.Time
	for _, a := range slices.Concat(attacks, tokenAttacks) {
		if !slices.Contains(args[3:], a.name) {
			continue
		}
		counts[a.name] = map[string]int{}
		a.try(canceled(), v) // makes what it sends
		turns := make(chan struct{}, max(1, int(part*float64(a.conns))))
		all.Go(func() {
			<-start
			ticks := time.NewTicker(2 * time.Millisecond)
			defer ticks.Stop()
			for tries := 0; ; {
				select {
				case <-ctx.Done():
					return
				case <-ticks.C:
				}
				since := time.Since(began)
				if !attackersTurn(since) || float64(tries) > part*a.rate*attacked(since).Seconds() {
					continue
				}
				select {
				case turns <- struct{}{}:
				default:
					continue // all are under way
				}
				tries++
				all.Go(func() {
					outcome := a.try(ctx, v)
					<-turns
					mu.Lock()
					defer mu.Unlock()
					counts[a.name][outcome]++
				})
			}
		})
	}
	fmt.Println("started")
	began = time.Now()
	close(start)
	<-time.After(lasts)
	cancel()
	all.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(counts); err != nil {
		panic(err)
	}
}

// attacked is how much of the time since the first round's begin was the attackers' turn.
func attacked(since time.Duration) time.Duration {
	return since/round()*(round()/2) + min(max(0, since%round()-round()/4), round()/2)
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// dial opens a connection that ends with ctx.
func (v *victim) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", v.host)
	if err == nil {
		context.AfterFunc(ctx, func() { c.Close() })
	}
	return c, err
}

// answerOn reads the status of the answer on a connection.
func answerOn(ctx context.Context, c net.Conn) string {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	switch {
	case ctx.Err() != nil:
		return stillOpen
	case err != nil:
		return closed
	}
	return fmt.Sprint(resp.StatusCode)
}

// slowly sends at once what comes first, and then a byte each half second.
func slowly(first, then string) func(context.Context, *victim) string {
	return func(ctx context.Context, v *victim) string {
		rest := then
		c, err := v.dial(ctx)
		if err != nil {
			return stillOpenOr(ctx, err)
		}
		defer c.Close()
		answered := make(chan string, 1)
		go func() { answered <- answerOn(ctx, c) }()
		_, _ = io.WriteString(c, first)
		ticks := time.NewTicker(500 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case outcome := <-answered:
				return outcome
			case <-ticks.C:
				if len(rest) > 0 {
					_, _ = io.WriteString(c, rest[:1])
					rest = rest[1:]
				}
			}
		}
	}
}

func stillOpenOr(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return stillOpen
	}
	return err.Error()
}

// unread asks for the same document many times and takes no answer.
func unread(ctx context.Context, v *victim) string {
	c, err := v.dial(ctx)
	if err != nil {
		return stillOpenOr(ctx, err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	ask := strings.Repeat("GET /openapi.yaml HTTP/1.1\r\nHost: h\r\n\r\n", 200)
	if _, err := io.WriteString(c, ask); err != nil && ctx.Err() == nil {
		return closed
	}
	<-ctx.Done()
	return stillOpen
}

// posting sends a body that is made once.
func posting(path, media, encoding string, body func() []byte) func(context.Context, *victim) string {
	made := sync.OnceValue(body)
	return func(ctx context.Context, v *victim) string {
		return v.post(ctx, path, media, encoding, bytes.NewReader(made()))
	}
}

// post sends a request and gives its outcome.
func (v *victim) post(ctx context.Context, path, media, encoding string, body io.Reader) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url+"/v1/routes/json/"+path, body)
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", media)
	if encoding != "" {
		r.Header.Set("Content-Encoding", encoding)
	}
	return v.outcome(ctx, r)
}

func (v *victim) outcome(ctx context.Context, r *http.Request) string {
	resp, err := v.client.Do(r)
	switch {
	case ctx.Err() != nil:
		return stillOpen
	case err != nil:
		return closed // while the body was still being sent: the answer may be lost with the connection
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return fmt.Sprint(resp.StatusCode)
}

// gzipBomb is a gzip body of so many members, each of size zeros.
func gzipBomb(members, size int) func() []byte {
	return func() []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		part := make([]byte, min(size, 1<<20))
		for range size / len(part) {
			_, _ = w.Write(part)
		}
		_ = w.Close()
		return bytes.Repeat(b.Bytes(), members)
	}
}

// zstdBomb is a zstd body of so many frames, each of size zeros under a window.
func zstdBomb(frames, size, window int) func() []byte {
	return func() []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
		if err != nil {
			panic(err)
		}
		part := make([]byte, min(size, 1<<20))
		for range size / len(part) {
			_, _ = w.Write(part)
		}
		_ = w.Flush() // otherwise a short frame has its content's size as its window
		_ = w.Close()
		return bytes.Repeat(b.Bytes(), frames)
	}
}

func deep(n int) []byte {
	return append(bytes.Repeat([]byte("["), n), bytes.Repeat([]byte("]"), n)...)
}

// junk sends a number and then a gibibyte of letters.
func junk(ctx context.Context, v *victim) string {
	return v.post(ctx, "push", "application/json", "", io.MultiReader(strings.NewReader("1"), io.LimitReader(letters{}, 1<<30)))
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'z'
	}
	return len(p), nil
}

// largeHeaders sends n headers with values of so many bytes.
func largeHeaders(n, size int) func(context.Context, *victim) string {
	block := sync.OnceValue(func() []byte {
		b := []byte("POST /v1/routes/json/push HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n")
		value := strings.Repeat("v", size)
		for i := range n {
			b = fmt.Appendf(b, "h%d: %s\r\n", i, value)
		}
		return append(b, "\r\n"...)
	})
	return func(ctx context.Context, v *victim) string { return v.raw(ctx, block()) }
}

// raw sends bytes on a connection of their own, and gives the answer's status.
func (v *victim) raw(ctx context.Context, request []byte) string {
	c, err := v.dial(ctx)
	if err != nil {
		return stillOpenOr(ctx, err)
	}
	defer c.Close()
	answered := make(chan string, 1)
	go func() { answered <- answerOn(ctx, c) }()
	_, _ = c.Write(request)
	return <-answered
}

// chunks sends the same chunk until it is answered, for some megabytes.
func chunks(chunk string) func(context.Context, *victim) string {
	request := sync.OnceValue(func() []byte {
		return []byte("POST /v1/routes/json/push HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat(chunk, (4<<20)/len(chunk)) + "0\r\n\r\n")
	})
	return func(ctx context.Context, v *victim) string { return v.raw(ctx, request()) }
}

// randomPath asks for a path and with a method that nobody knows.
func randomPath(ctx context.Context, v *victim) string {
	word := func(n int) string {
		b := make([]byte, 1+rand.IntN(n))
		for i := range b {
			b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_."[rand.IntN(55)]
		}
		return string(b)
	}
	method := []string{"GET", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", strings.Trim(word(20), "-_.") + "X"}[rand.IntN(7)]
	path := []string{"/" + word(30), "/v1/routes/" + word(30) + "/push", "/v1/" + word(200) + "/%2e%2e/%00", "//" + word(5) + "/../" + word(5), "/v1/routes/json/push/" + word(9)}[rand.IntN(5)]
	r, err := http.NewRequestWithContext(ctx, method, v.url+path, nil)
	if err != nil {
		return err.Error()
	}
	return v.outcome(ctx, r)
}

func smuggledShape(ctx context.Context, v *victim) string {
	s := smuggling[rand.IntN(len(smuggling))]
	return v.raw(ctx, []byte(s.request("json", "attack")))
}
