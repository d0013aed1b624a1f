package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pushsink/pushsink/bench/load"
	"github.com/pushsink/pushsink/bench/null"
	"github.com/pushsink/pushsink/bench/process"
	"github.com/pushsink/pushsink/bench/report"
)

// store is the running backend.
type store struct {
	*process.Process
	addr, counters string
}

// sample is what has been used and done up to a moment.
type sample struct {
	at                         time.Time
	server, generator, backend time.Duration // CPU
	mallocs                    float64
	counters                   null.Counters
	answered                   int64
}

// take samples the server x, run being the load or nil.
func (t *store) take(x *server, run *load.Run) (s sample, err error) {
	var errs [5]error
	s.mallocs, errs[0] = mallocs(x.metrics)
	s.counters, errs[1] = t.count()
	s.server, errs[2] = process.CPU(x.PID())
	s.backend, errs[3] = process.CPU(t.PID())
	s.generator, errs[4] = process.CPU(os.Getpid())
	s.at = time.Now()
	if run != nil {
		s.answered = run.Answered()
	}
	return s, errors.Join(errs[:]...)
}

func (t *store) count() (c null.Counters, err error) {
	response, err := http.Get(t.counters)
	if err != nil {
		return c, err
	}
	defer response.Body.Close()
	return c, json.NewDecoder(response.Body).Decode(&c)
}

// mallocs reads the count of allocations from a Prometheus page.
func mallocs(url string) (float64, error) {
	response, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "go_memstats_mallocs_total "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("%s has no go_memstats_mallocs_total", url), lines.Err())
}

// turn is one contender in one round.
func (r *runner) turn(s *scenario, x *server, backend *store) (t report.Turn, err error) {
	if x.name == ceiling {
		return r.watch(x, backend)
	}
	before, err := backend.count()
	if err != nil {
		return t, err
	}
	rate := s.rate
	most := &load.Result{}
	if s.share > 0 {
		if most, err = r.most(s, x); err != nil {
			return t, err
		}
		rate = s.share * most.Rate()
	}
	if t, err = r.window(s, x, backend, rate); err != nil {
		return t, err
	}
	after, err := backend.count()
	if err != nil {
		return t, err
	}
	t.Requests += most.OK
	t.Answered += most.Records
	t.Failed += most.Failures()
	t.Written = after.Entries - before.Entries
	return t, check(s, x, t)
}

// check holds what was answered against what the backend had. A few requests may fail where
// something else stalls the machine, and are shown; of more, the figures say nothing.
func check(s *scenario, x *server, t report.Turn) error {
	switch {
	case t.Requests == 0 || t.Failed > t.Requests/100:
		return fmt.Errorf("%s, %s: %d requests were answered 2xx and %d were not\n%s", s.id, x.name, t.Requests, t.Failed, x.Output())
	case t.Written < t.Answered && x.name != decode:
		return fmt.Errorf("%s, %s: %d records were answered 2xx, the backend had %d entries", s.id, x.name, t.Answered, t.Written)
	}
	return nil
}

// options of a run of load on x.
func (r *runner) options(s *scenario, x *server, rate float64, window time.Duration) load.Options {
	return load.Options{
		Addr:        x.addr,
		Request:     load.Request{Path: x.path(s.shape), Shape: s.shape, Records: s.records},
		Connections: s.connections, Rate: rate,
		Warm: r.warm, Measure: window, Seq: r.seq,
	}
}

// most finds out what x does at most.
func (r *runner) most(s *scenario, x *server) (*load.Result, error) {
	run, err := load.Start(r.options(s, x, 0, r.measure/2))
	if err != nil {
		return nil, err
	}
	result, err := run.Wait()
	r.seq = result.NextSeq
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w\n%s", s.id, x.name, err, x.Output())
	}
	return result, nil
}

// window makes load and measures.
func (r *runner) window(s *scenario, x *server, backend *store, rate float64) (t report.Turn, err error) {
	length := r.measure
	if s.longer > 0 {
		length = time.Duration(float64(length) * s.longer)
	}
	run, err := load.Start(r.options(s, x, rate, length))
	if err != nil {
		return t, err
	}
	var first, last sample
	var memory process.Memory
	err = errors.Join(
		at(run, run.Began(), func() (err error) { first, err = backend.take(x, run); return err }),
		at(run, run.Ended(), func() (err error) { last, err = backend.take(x, run); return err }),
		at(run, run.Ended(), func() (err error) { memory, err = process.MemoryOf(x.PID()); return err }),
	)
	result, failed := run.Wait()
	if err := errors.Join(err, failed); err != nil {
		return t, fmt.Errorf("%s, %s: %w\n%s", s.id, x.name, err, x.Output())
	}
	r.seq = result.NextSeq
	t = between(first, last, last.answered-first.answered)
	t.Rate = result.Rate()
	t.P50, t.P99 = result.Quantile(.5), result.Quantile(.99)
	t.Memory, t.Peak = memory.Now, memory.Most
	if result.Failures() > 0 {
		fmt.Fprintf(r.log, "%s, %s: failed requests by status: %v\n", s.id, x.name, result.Failed)
	}
	t.Requests, t.Answered, t.Failed = result.OK, result.Records, result.Failures()
	return t, nil
}

// at does f at a moment of the run, if that comes.
func at(run *load.Run, moment <-chan struct{}, f func() error) error {
	select {
	case <-moment:
	case <-run.Done():
		select {
		case <-moment: // both have come
		default:
			return errors.New("the load ended early")
		}
	}
	return f()
}

// between is what was used per record between two samples.
func between(first, last sample, records int64) (t report.Turn) {
	if records <= 0 {
		return t
	}
	each := func(from, to time.Duration) float64 { return float64((to - from).Microseconds()) / float64(records) }
	t.CPU = each(first.server, last.server)
	t.Generator = each(first.generator, last.generator)
	t.Backend = each(first.backend, last.backend)
	t.Allocs = (last.mallocs - first.mallocs) / float64(records)
	if n := last.counters.Requests - first.counters.Requests; n > 0 {
		t.Batch = float64(last.counters.Entries-first.counters.Entries) / float64(n)
	}
	return t
}

// watch measures a contender that makes its own work.
func (r *runner) watch(x *server, backend *store) (t report.Turn, err error) {
	time.Sleep(r.warm)
	first, err := backend.take(x, nil)
	if err != nil {
		return t, err
	}
	time.Sleep(r.measure)
	last, err := backend.take(x, nil)
	if err != nil {
		return t, err
	}
	memory, err := process.MemoryOf(x.PID())
	if err != nil {
		return t, err
	}
	written := last.counters.Answered - first.counters.Answered
	t = between(first, last, written)
	t.Rate = float64(written) / last.at.Sub(first.at).Seconds()
	t.Memory, t.Peak = memory.Now, memory.Most
	t.Generator = 0
	return t, nil
}
