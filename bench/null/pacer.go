package null

import (
	"runtime"
	"time"
)

// pacer releases each caller of wait a fixed latency after it came. The latency being the
// same for all, they leave in the order in which they came, and one thread that sleeps
// exactly serves them all: timers of the runtime may fire a millisecond late when the
// process is idle otherwise.
type pacer struct {
	latency time.Duration
	queue   chan paced
	end     chan struct{}
}

type paced struct {
	due  time.Time
	done chan<- struct{}
}

// newPacer starts the thread; close ends it. Without latency there is none.
func newPacer(latency time.Duration) *pacer {
	p := &pacer{latency: latency, queue: make(chan paced, 1<<16), end: make(chan struct{})}
	if latency > 0 {
		go p.run()
	}
	return p
}

func (p *pacer) run() {
	runtime.LockOSThread() // it has a timer slack of its own; the thread ends with this
	exactTimers()
	for {
		select {
		case next := <-p.queue:
			if left := time.Until(next.due); left > 0 {
				sleep(left)
			}
			next.done <- struct{}{}
		case <-p.end:
			return
		}
	}
}

// wait returns the latency after arrived.
func (p *pacer) wait(arrived time.Time) {
	if p.latency <= 0 {
		return
	}
	done := make(chan struct{}, 1)
	p.queue <- paced{arrived.Add(p.latency), done}
	<-done
}

func (p *pacer) close() { close(p.end) }
