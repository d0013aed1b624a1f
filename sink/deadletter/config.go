package deadletter

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Config bounds a Publisher. Every field but ClientOptions is set: zero never means
// "default". The bounds hold over all topics together.
type Config struct {
	// MaxOutstanding letters and MaxOutstandingBytes of them (as they are on the wire)
	// are published at once; further callers wait until their context ends. A letter
	// above the bytes goes when nothing else is out.
	MaxOutstanding      int
	MaxOutstandingBytes int64
	// Timeout ends the client's own attempts for one batch of letters, so that a letter
	// nobody waits for any more is not tried for ever. The request timeout of the server
	// is a good value: no caller waits longer.
	Timeout time.Duration
	// Linger is how long a letter waits for others to share its request.
	Linger time.Duration

	ClientOptions []option.ClientOption
}

// DefaultConfig is for a server of 8 s request timeout and 128 MiB of bodies in flight.
func DefaultConfig() Config {
	return Config{
		MaxOutstanding:      1000,
		MaxOutstandingBytes: 32 << 20,
		Timeout:             8 * time.Second,
		Linger:              5 * time.Millisecond,
	}
}

// Validate joins every problem.
func (c Config) Validate() error {
	var errs []error
	if c.MaxOutstanding < 1 {
		errs = append(errs, fmt.Errorf("dead letters: MaxOutstanding=%d: must be at least 1", c.MaxOutstanding))
	}
	if c.MaxOutstandingBytes < 1 {
		errs = append(errs, fmt.Errorf("dead letters: MaxOutstandingBytes=%d: must be at least 1", c.MaxOutstandingBytes))
	}
	if c.Timeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("dead letters: Timeout=%v: must be at least 1ms", c.Timeout))
	}
	if c.Linger <= 0 || c.Linger >= c.Timeout {
		errs = append(errs, fmt.Errorf("dead letters: Linger=%v: must be above 0 and below Timeout=%v", c.Linger, c.Timeout))
	}
	return errors.Join(errs...)
}

// EmulatorOptions connect a client to the Pub/Sub emulator at hostport, without
// credentials or encryption.
func EmulatorOptions(hostport string) []option.ClientOption {
	return []option.ClientOption{
		option.WithEndpoint(hostport),
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}
