package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/pushsink/pushsink/bench/process"
	"github.com/pushsink/pushsink/bench/report"
)

const (
	decode  = "decode"
	ceiling = "client-ceiling"
)

// runner runs scenarios.
type runner struct {
	binaries      *binaries
	rounds        int
	warm, measure time.Duration
	profiles      string // folder; "" = none
	log           io.Writer
	seq           int64 // the next sequence number
}

// scenario runs all rounds of s.
func (r *runner) scenario(ctx context.Context, s *scenario) (out report.Scenario, err error) {
	out = report.Scenario{ID: s.id, Title: s.title, Loop: s.loop(), Targets: s.targets}
	backend, err := r.binaries.backend(ctx, s.latency)
	if err != nil {
		return out, err
	}
	defer backend.Stop()
	running := map[string]*server{}
	defer func() {
		for _, x := range running {
			x.Stop()
		}
	}()
	for _, name := range s.contenders {
		out.Rows = append(out.Rows, report.Row{Contender: name})
		if name == ceiling {
			continue // it works as long as it runs
		}
		if running[name], err = r.binaries.start(ctx, name, s, backend.addr); err != nil {
			delete(running, name)
			return out, err
		}
	}
	for round := range r.rounds {
		for i, name := range s.contenders {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			x := running[name]
			if name == ceiling {
				if x, err = r.binaries.start(ctx, name, s, backend.addr); err != nil {
					return out, err
				}
			}
			profiled := r.profile(s, x, round)
			t, err := r.turn(s, x, backend)
			if name == ceiling {
				x.Stop()
			}
			if err := <-profiled; err != nil {
				return out, err
			}
			if err != nil {
				return out, err
			}
			out.Rows[i].Turns = append(out.Rows[i].Turns, t)
			fmt.Fprintf(r.log, "%-14s round %d  %-14s %7.0f records/s  %6.1f us CPU  %5.1f allocations  batch %5.1f  p50 %6.2f ms  p99 %6.2f ms  RSS %4.0f MB  generator %4.1f us  backend %4.1f us\n",
				s.id, round+1, name, t.Rate, t.CPU, t.Allocs, t.Batch, float64(t.P50)/1e6, float64(t.P99)/1e6, float64(t.Memory)/1e6, t.Generator, t.Backend)
		}
	}
	if err := traced(running, backend, &out); err != nil {
		return out, err
	}
	for _, j := range out.Judge() {
		if j.Known {
			fmt.Fprintf(r.log, "%-14s %s of %s to %s: %.2f (%.2f..%.2f), target %.2f: met %t\n", s.id, j.Measure, j.Of, j.To, j.Median, j.Min, j.Max, j.Bound, j.Met)
		}
	}
	return out, nil
}

// traced ends pushsink, which sends what it has left, and wants spans of it: of 2,000
// requests 1 % are sampled, and the comparison is with that.
func traced(running map[string]*server, backend *store, out *report.Scenario) error {
	var requests int64
	for _, row := range out.Rows {
		if !isOurs(row.Contender) {
			continue
		}
		running[row.Contender].Stop()
		for _, t := range row.Turns {
			requests += t.Requests
		}
	}
	c, err := backend.count()
	if err != nil {
		return err
	}
	if requests >= 2000 && c.Exports == 0 {
		return fmt.Errorf("%s: %d requests of %s and no trace", out.ID, requests, ours)
	}
	return nil
}

// profile takes a CPU profile of the first round's window.
func (r *runner) profile(s *scenario, x *server, round int) <-chan error {
	done := make(chan error, 1)
	if r.profiles == "" || round > 0 {
		done <- nil
		return done
	}
	go func() {
		time.Sleep(r.warm)
		file, err := os.Create(filepath.Join(r.profiles, s.id+"-"+x.name+"-generator.pprof"))
		if err != nil {
			done <- err
			return
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			done <- err
			return
		}
		defer pprof.StopCPUProfile()
		done <- r.fetch(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", x.probe, max(1, int(r.measure.Seconds()))),
			filepath.Join(r.profiles, s.id+"-"+x.name+".pprof"))
	}()
	return done
}

func (r *runner) fetch(url, file string) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, response.Body); err != nil {
		return err
	}
	return f.Close()
}

// backend starts the null services.
func (b *binaries) backend(ctx context.Context, latency time.Duration) (*store, error) {
	binary, err := b.path(ctx, "backend")
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	control, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	t := &store{addr: fmt.Sprintf("127.0.0.1:%d", port), counters: fmt.Sprintf("http://127.0.0.1:%d/counters", control)}
	t.Process, err = process.Start("backend", binary, nil,
		"-listen", t.addr, "-control", fmt.Sprintf("127.0.0.1:%d", control), "-latency", latency.String())
	if err != nil {
		return nil, err
	}
	if _, err := t.AwaitReady(t.counters, time.Minute, time.Millisecond); err != nil {
		t.Stop()
		return nil, err
	}
	return t, nil
}
