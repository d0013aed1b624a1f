//go:build unix && !linux

package emulator

// alone cannot be told outside Linux: the port was unbound before the start, and that is
// all that is known.
func alone(port, pid int) error { return nil }
