//go:build !linux

package null

import "time"

func exactTimers() {}

func sleep(d time.Duration) { time.Sleep(d) }
