package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/scripted"
)

const streamRoutes = `
routes:
  stream:
    bigtable:
      table: stream
      rowKey: "{data.id}"
      set:
        - {family: f, column: seq, value: data.seq, as: int64}
        - {family: f, column: temp, value: data.temp, as: float64}
        - {family: f, column: note, value: data.note, as: string}
`

// TestStreamOfAGigabyte: a stream of lines that is far larger than the server's memory is
// read and written to its end, and pushes beside it go on being answered.
func TestStreamOfAGigabyte(t *testing.T) {
	const bound = 300 << 20 // peak RSS
	total := int64(size(1<<30, 64<<20))
	bt := scripted.New(t, scripted.Options{KeysOnly: true})
	bt.AddTable(tableName("stream"), "f")
	s := startServer(t, plainBinary(t), bt.Addr(), streamRoutes, map[string]string{
		"PUSHSINK_BATCH_MAX_BODY_BYTES": strconv.FormatInt(total+1<<20, 10),
		"PUSHSINK_BATCH_TIMEOUT":        "1h",
	})
	idle := memory(t, s, "VmRSS")

	done := make(chan struct{})
	var pushes sync.WaitGroup
	var mu sync.Mutex // guards answers
	var answers []answer
	client := newClient(t)
	for worker := range 4 {
		pushes.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
				}
				id := fmt.Sprintf("push-%d-%d", worker, i%1000)
				a := push(t.Context(), client, s.URL, "stream", message{ID: id, Data: fmt.Appendf(nil, `{"id":%q,"seq":1}`, id)}.body(t))
				mu.Lock()
				answers = append(answers, a)
				mu.Unlock()
			}
		})
	}
	start := time.Now()
	body := &numberedLines{left: total}
	a := postRecords(t.Context(), &http.Client{}, s.URL, "stream", body)
	b := a.batch(t)
	took := time.Since(start)
	again := resend(t, client, s.URL, "stream", b, func(i int) []byte { return appendLine(nil, i) })
	close(done)
	pushes.Wait()
	if b.Received != body.lines || b.Written+b.Failed != body.lines || b.Truncated {
		t.Errorf("%d, received %d, written %d, failed %d, truncated %v, want %d written", a.Status, b.Received, b.Written, b.Failed, b.Truncated, body.lines)
	}
	if again > body.lines/20 {
		t.Errorf("%d of %d lines had to be sent again", again, body.lines)
	}
	peak := memory(t, s, "VmHWM")
	if peak >= bound {
		t.Errorf("peak RSS %d MiB, bound %d MiB", peak>>20, bound>>20)
	}

	var times []time.Duration
	statuses := map[int]int{}
	for _, a := range answers {
		statuses[a.Status]++
		times = append(times, a.Took)
		if a.Status == 0 {
			t.Errorf("a push was not answered: %v", a)
		}
	}
	if len(answers) < 20 {
		t.Fatalf("only %d pushes were answered beside the stream", len(answers))
	}
	slices.Sort(times)
	t.Logf("%d MiB in %d lines written in %v (%.1f MiB/s, %.0f lines/s), %d of them sent again; RSS %d MiB idle, peak %d MiB (bound %d); %d pushes beside it: p50 %v, p99 %v, max %v, by status %v",
		total>>20, body.lines, took.Round(time.Millisecond), float64(total>>20)/took.Seconds(), float64(body.lines)/took.Seconds(), again,
		idle>>20, peak>>20, bound>>20, len(times), times[len(times)/2].Round(10*time.Microsecond), times[len(times)*99/100].Round(10*time.Microsecond),
		times[len(times)-1].Round(10*time.Microsecond), statuses)
}

// numberedLines gives records of about 1 KiB, of 20,000 rows in turn, until so many bytes
// are read.
type numberedLines struct {
	left  int64
	lines int
	line  []byte
	rest  []byte
}

var note = bytes.Repeat([]byte("telemetry "), 95)

func appendLine(b []byte, i int) []byte {
	return fmt.Appendf(b, `{"id":"row-%05d","seq":%d,"temp":%d.25,"note":"%s"}`+"\n", i%20_000, i, i%100, note)
}

func (r *numberedLines) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.rest) == 0 {
			if r.left <= 0 {
				return n, io.EOF
			}
			r.line = appendLine(r.line[:0], r.lines)
			r.rest = r.line
			r.lines++
			r.left -= int64(len(r.line))
		}
		c := copy(p[n:], r.rest)
		n, r.rest = n+c, r.rest[c:]
	}
	return n, nil
}
