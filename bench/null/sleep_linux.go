package null

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// exactTimers takes the 50 us of slack off this thread's sleeps.
func exactTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// sleep blocks the thread.
func sleep(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
