package process

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 5 0 100\n")
	if err != nil || got != 1750*time.Millisecond {
		t.Errorf("%v, %v; want 1.75s", got, err)
	}
	for _, bad := range []string{"", "1 (x) S 1 2", "1 (x) S 1 2 3 4 5 6 7 8 9 10 x 25 0"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestParseStatus(t *testing.T) {
	got, err := parseStatus("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
	if want := (Memory{1 << 20, 2 << 20}); err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got, err := parseStatus("Name:\tx\n"); err == nil {
		t.Errorf("%v without VmRSS", got)
	}
}

func TestOwnUsage(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	began, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		used, err := CPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if used > began {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a busy minute has used nothing")
		}
	}
	m, err := MemoryOf(os.Getpid())
	if err != nil || m.Now <= 0 || m.Most < m.Now {
		t.Errorf("memory %+v, %v", m, err)
	}
	if n, err := Switches(os.Getpid()); err != nil || n <= 0 {
		t.Errorf("%d context switches, %v", n, err)
	}
}
