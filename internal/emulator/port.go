package emulator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Ports come from below the range that Linux gives to outgoing connections (32768 and
// up), so that no connection takes one between the check and the emulator's bind.
const (
	firstPort = 20000
	lastPort  = 32000
)

// FreePort reserves a loopback port for the test: nobody listens on it, and no other
// test process that asks here gets it until t ends.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		release, err := reserve(port)
		if err != nil {
			continue
		}
		t.Cleanup(release)
		return port
	}
	t.Fatal("no free port found in 200 tries")
	return 0
}

// reserve locks port among the test processes of this machine and checks that nobody
// listens on it. The lock is the kernel's: it ends with the process.
func reserve(port int) (release func(), err error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("pushsink-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("port %d is reserved by another test: %w", port, err), lock.Close())
	}
	if err := unbound(port); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return func() { _ = lock.Close() }, nil
}

// unbound fails when somebody listens on port, on loopback or on every address. It does
// not share ports, so a listener that does is found too.
func unbound(port int) error {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("port %d is bound by somebody else: %w", port, err)
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}
