package emulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// readyTimeout is how long an emulator may take to answer its first call: thirty times what
// the slowest took on two busy cores, so that a machine that stands still fails no test.
const readyTimeout = 3 * time.Minute

// kind is one emulator: how it is started and which call shows that it works.
type kind struct {
	name    string
	command func(port int) *exec.Cmd
	probe   func(context.Context, *grpc.ClientConn) error
}

// instance is a running emulator with a connection to it.
type instance struct {
	addr string
	proc *Process
	conn *grpc.ClientConn
}

// launch starts k for t on a port of its own.
func launch(t testing.TB, k kind) *instance {
	t.Helper()
	var failures []error
	for range 3 { // a port that was taken between check and bind costs one try
		e, err := startOn(FreePort(t), k)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		t.Cleanup(func() {
			_ = e.conn.Close()
			e.proc.Kill()
			if t.Failed() {
				t.Logf("output of the %s emulator:\n%s", k.name, e.proc.Output())
			}
		})
		return e
	}
	t.Fatalf("the %s emulator did not start: %v", k.name, errors.Join(failures...))
	return nil
}

// startOn starts k on port and returns when it answers and is alone there. On an error
// nothing is left running.
func startOn(port int, k kind) (*instance, error) {
	if err := unbound(port); err != nil {
		return nil, err
	}
	proc, err := Start(k.command(port))
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	conn, err := dial(addr)
	if err == nil {
		err = ready(proc, conn, k)
	}
	if err == nil {
		err = alone(port, proc.PID())
	}
	if err != nil {
		if conn != nil {
			_ = conn.Close()
		}
		proc.Kill()
		return nil, fmt.Errorf("%w; output: %s", err, proc.Output())
	}
	return &instance{addr: addr, proc: proc, conn: conn}, nil
}

// dial connects with a short reconnect backoff: the default of a second and more would
// cost each start a second.
func dial(addr string) (*grpc.ClientConn, error) {
	quick := backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.3, Jitter: 0.2, MaxDelay: 200 * time.Millisecond}
	return grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20), grpc.MaxCallSendMsgSize(256<<20)))
}

// ready waits for the first good answer, for the process's end, or for readyTimeout.
func ready(proc *Process, conn *grpc.ClientConn, k kind) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	go func() {
		select {
		case <-proc.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		err := k.probe(ctx, conn)
		switch {
		case err == nil:
			return nil
		case proc.Exited():
			return fmt.Errorf("the %s emulator ended while starting: %v", k.name, proc.Err())
		case ctx.Err() != nil:
			return fmt.Errorf("the %s emulator did not answer within %v: %w", k.name, readyTimeout, err)
		}
		// The port answers before the service does: ask again, a little later.
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}
