package handlers

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushsink/pushsink/schema"
)

// While others have all turns, a long compressed body waits, and nothing else does.
func TestLongBodiesAreDecompressedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline)
		most := cap(f.api.turns)
		for range most {
			f.api.turns <- struct{}{}
		}
		long := sized(4 * withoutTurn)
		for name, body := range map[string][2]string{"gzip": {gz(long), "gzip"}, "zstd": {zst(t, long), "zstd"}} {
			answered := make(chan answer, 1)
			go func() { answered <- f.push(body[0], "Content-Encoding", body[1]) }()
			synctest.Wait()
			f.want("not compressed", f.push(long), 204, "")
			f.want("short, gzip", f.push(gz(sized(withoutTurn/2)), "Content-Encoding", "gzip"), 204, "")
			f.want("short, zstd", f.push(zst(t, sized(withoutTurn/2)), "Content-Encoding", "zstd"), 204, "")
			select {
			case a := <-answered:
				t.Fatalf("%s: answered without a turn: %d", name, a.status)
			default:
			}
			<-f.api.turns
			f.want(name, <-answered, 204, "")
			if n := len(f.api.turns); n != most-1 {
				t.Fatalf("%s: %d turns are taken after it, want %d", name, n, most-1)
			}
			f.api.turns <- struct{}{}
		}

		start := time.Now()
		f.want("no turn before the deadline", f.push(gz(long), "Content-Encoding", "gzip"), 503, schema.Deadline)
		if took := time.Since(start); took != f.config.Limits.RequestTimeout {
			t.Errorf("answered after %v, want %v", took, f.config.Limits.RequestTimeout)
		}
		if n := len(f.api.turns); n != most || f.api.budget.used.Load() != 0 {
			t.Errorf("after it %d turns are taken, want %d, and %d bytes held", n, most, f.api.budget.used.Load())
		}
	})
}

// However many clients stop in the middle of a compressed body, they have no turn.
func TestNoTurnWhileAClientIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, offline)
		var b strings.Builder
		for i := range 200_000 {
			fmt.Fprintf(&b, "{\"id\":\"%x\"}\n", i*i*7919)
		}
		body := gz(b.String())
		half := len(body) / 2
		answered := make(chan answer)
		var rest []func()
		for range cap(f.api.turns) + 3 {
			pr, pw := io.Pipe()
			r := f.request("POST", "/v1/routes/r/records", "", "Content-Type", "application/x-ndjson", "Content-Encoding", "gzip")
			r.Body, r.ContentLength = pr, -1
			go func() { answered <- f.do(r) }()
			_, _ = io.WriteString(pw, body[:half])
			rest = append(rest, func() { _, _ = io.WriteString(pw, body[half:]); _ = pw.Close() })
		}
		synctest.Wait()
		if n := len(f.api.turns); n != 0 {
			t.Errorf("%d turns are taken by those that wait for their clients", n)
		}
		f.want("a long push beside them", f.push(gz(sized(4*withoutTurn)), "Content-Encoding", "gzip"), 204, "")
		for _, send := range rest {
			send()
			if a := <-answered; a.status != 200 || a.Written != 200_000 {
				t.Errorf("%d, %d records", a.status, a.Written)
			}
		}
	})
}

// Bodies and lines that are longer than a piece, to the byte, and what comes behind them.
func TestLongBodiesAndLinesInPieces(t *testing.T) {
	f := newFixture(t, func(f *fixture) { f.config.Limits.MaxRecordBytes = 3*pieceBytes + 7 })
	limit := int(f.config.Limits.MaxRecordBytes)
	for _, n := range []int{pieceBytes - 1, pieceBytes, pieceBytes + 1, 2*pieceBytes - 1, 2 * pieceBytes, 2*pieceBytes + 1, limit - 1, limit, limit + 1, limit + 2, limit + 3, 2 * limit} {
		line := `{"id":"` + strings.Repeat("a", n-9) + `"}`
		for _, end := range []string{"\n", "\r\n"} {
			body := padded(50) + end + line + end + end + padded(60) + end + line
			for encoding, sent := range map[string]string{"": body, "gzip": gz(body), "zstd": zst(t, body)} {
				written, failed := 4, 0
				if n > limit {
					written, failed = 2, 2
				}
				r := f.request("POST", "/v1/routes/r/records", sent, "Content-Type", "application/x-ndjson")
				if encoding != "" {
					r.Header.Set("Content-Encoding", encoding)
				}
				a := f.do(r)
				if a.Received != 4 || a.Written != written || a.Failed != failed || a.Truncated {
					t.Errorf("lines of %d bytes %q %s: %d %.300s", n, end, encoding, a.status, a.body)
				}
			}
		}
		for encoding, sent := range map[string]string{"": line, "gzip": gz(line), "zstd": zst(t, line)} {
			status := 200
			if n > limit {
				status = 422
			}
			r, err := http.NewRequest("POST", f.server.URL+"/v1/routes/r/records", io.MultiReader(strings.NewReader(sent))) // no length
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if encoding != "" {
				r.Header.Set("Content-Encoding", encoding)
			}
			if a := f.do(r); a.status != status {
				t.Errorf("a document of %d bytes %s: %d %.300s", n, encoding, a.status, a.body)
			}
		}
		if used := f.api.budget.used.Load(); used != 0 {
			t.Fatalf("%d bytes are held after lines of %d", used, n)
		}
	}
}
