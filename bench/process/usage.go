package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick of /proc: 100 a second on every Linux that Go runs on (proc(5), USER_HZ).
const tick = 10 * time.Millisecond

// CPU is what the process pid has used so far, user and system, to 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("cpu time: %w", err)
	}
	return parseStat(string(text))
}

// parseStat reads utime and stime, fields 14 and 15; the state, after the name in
// parentheses, is field 3.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("cpu time: %d fields", len(fields))
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cpu time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// Memory is resident memory in bytes, now and at most so far.
type Memory struct{ Now, Most int64 }

// MemoryOf reads it for the process pid.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, fmt.Errorf("memory: %w", err)
	}
	return parseStatus(string(text))
}

func parseStatus(text string) (m Memory, err error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		to := map[string]*int64{"VmRSS": &m.Now, "VmHWM": &m.Most}[name]
		if to == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("memory: %w", err)
		}
		*to = kib << 10
	}
	if m.Now == 0 {
		return Memory{}, fmt.Errorf("memory: no VmRSS")
	}
	return m, nil
}

// Switches is how often the threads of the process pid have given up a processor so far.
// In an idle process each is something that woke up.
func Switches(pid int) (n int64, err error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, fmt.Errorf("context switches: %w", err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, thread.Name()))
		if err != nil {
			continue // it ended
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
				count, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				if err != nil {
					return 0, fmt.Errorf("context switches: %w", err)
				}
				n += count
			}
		}
	}
	return n, nil
}
