package main

import (
	"context"
	"os"
	"time"

	"github.com/pushsink/pushsink/bench/process"
	"github.com/pushsink/pushsink/bench/report"
)

// starts of a contender that are measured.
const starts = 10

// coldStart measures what it costs to start a contender.
func (r *runner) coldStart(ctx context.Context, name string) (out report.Start, err error) {
	out.Contender = name
	s := &scenario{id: "start"}
	binary, err := r.binaries.path(ctx, name)
	if err != nil {
		return out, err
	}
	file, err := os.Stat(binary)
	if err != nil {
		return out, err
	}
	out.Binary = file.Size()
	backend, err := r.binaries.backend(ctx, 0)
	if err != nil {
		return out, err
	}
	defer backend.Stop()
	for range starts {
		if err := r.oneStart(ctx, name, s, backend, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (r *runner) oneStart(ctx context.Context, name string, s *scenario, backend *store, out *report.Start) error {
	x, err := r.binaries.start(ctx, name, s, backend.addr)
	if err != nil {
		return err
	}
	defer x.Stop()
	out.Ready = append(out.Ready, x.ready)
	time.Sleep(time.Second / 2) // what the start left to do is done
	used, err := process.CPU(x.PID())
	if err != nil {
		return err
	}
	switches, err := process.Switches(x.PID())
	if err != nil {
		return err
	}
	const idle = time.Second
	time.Sleep(idle)
	usedAfter, err := process.CPU(x.PID())
	if err != nil {
		return err
	}
	after, err := process.Switches(x.PID())
	if err != nil {
		return err
	}
	memory, err := process.MemoryOf(x.PID())
	if err != nil {
		return err
	}
	out.CPU = append(out.CPU, usedAfter-used)
	out.Switches = append(out.Switches, float64(after-switches)/idle.Seconds())
	out.Idle = append(out.Idle, memory.Now)
	return nil
}
