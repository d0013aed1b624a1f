package load

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pushsink/pushsink/bench/reading"
)

// Options describe a run.
type Options struct {
	// Addr of the server, host:port.
	Addr    string
	Request Request
	// Connections are opened before the first request and kept. In the closed loop each
	// sends its next request when it has its answer.
	Connections int
	// Rate makes the loop an open one: requests a second, whose gaps are exponential and
	// the same in every run of that rate. A request that finds no connection free waits, and
	// its latency is counted from when it was to be sent. 0 = closed loop.
	Rate float64
	// Warm comes before Measure, which is the window that counts.
	Warm, Measure time.Duration
	// Seq is the first sequence number, counted from reading.FirstSeq.
	Seq int64
	// Patience is how long after the window an answer is waited for; 0 = 15 s.
	Patience time.Duration

	connected func() // called between the connections and the first request; nil = nothing
}

// Run is load that is being made.
type Run struct {
	o        Options
	template *template

	began, ended chan struct{} // the window
	done         chan struct{}
	okRecords    atomic.Int64

	// result and err belong to the loop until done is closed.
	result Result
	err    error
}

// Result is what came of a run.
type Result struct {
	// OK are requests that were answered 2xx, Records what they held, over the whole run.
	OK, Records int64
	// Failed are all others, by status; 0 = no answer in time.
	Failed map[int]int64
	// InWindow are the records answered 2xx within the window, Window its length.
	InWindow int64
	Window   time.Duration
	// Latencies of requests that were to be sent within the window and answered 2xx,
	// sorted. In an open loop they count from when they were to be sent.
	Latencies []time.Duration
	// NextSeq is the first sequence number that was not used, counted as Options.Seq.
	NextSeq int64
}

// Rate is the records a second answered 2xx within the window.
func (r *Result) Rate() float64 { return float64(r.InWindow) / r.Window.Seconds() }

// Failures is how many requests were not answered 2xx.
func (r *Result) Failures() (n int64) {
	for _, count := range r.Failed {
		n += count
	}
	return n
}

// Quantile is the latency that the share q of requests did not exceed (0 without requests).
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	return r.Latencies[min(int(q*float64(len(r.Latencies))), len(r.Latencies)-1)]
}

// Start opens the connections and begins.
func Start(o Options) (*Run, error) {
	if o.Patience == 0 {
		o.Patience = 15 * time.Second
	}
	if o.Connections < 1 || o.Measure <= 0 {
		return nil, fmt.Errorf("load: %d connections, %v", o.Connections, o.Measure)
	}
	r := &Run{
		o: o, template: o.Request.template(o.Addr),
		began: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{}),
	}
	r.result.Failed = map[int]int64{}
	l, err := newLoop(r)
	if err != nil {
		return nil, err
	}
	if o.connected != nil {
		o.connected()
	}
	go func() {
		defer close(r.done)
		defer l.close()
		r.err = l.run()
		r.result.NextSeq = l.seq - reading.FirstSeq
		slices.Sort(r.result.Latencies)
	}()
	return r, nil
}

// Began is closed when the window begins, Ended when it ends, Done when the run is over,
// which on an error may come first.
func (r *Run) Began() <-chan struct{} { return r.began }

// Ended is closed when the window ends.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Done is closed when the run is over.
func (r *Run) Done() <-chan struct{} { return r.done }

// Answered is the number of records answered 2xx so far.
func (r *Run) Answered() int64 { return r.okRecords.Load() }

// Wait returns the result when all is answered.
func (r *Run) Wait() (*Result, error) {
	<-r.done
	return &r.result, r.err
}
