// Package embedded is an in-memory Bigtable inside the process, for the development mode
// and for tests. Its data is gone when it closes, and it takes memory for every row: about
// 1.7 kB for one of 500 bytes.
//
// It is a package of its own so that only what starts it links the fake server.
package embedded

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"sync"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// Endpoint is what bigtable.Config.Endpoint names for a Server's DialOptions.
const Endpoint = "embedded"

// maxMessage is the service's own bound of a request; gRPC's default would be 4 MiB.
const maxMessage = 256 << 20

// Server is a running in-memory Bigtable. It listens on no port.
type Server struct {
	listener *bufconn.Listener
	server   *bttest.Server
	unmute   func()
}

// Start starts a server. Its garbage collector's messages are kept out of the standard
// log for as long as it runs; set up logging before.
func Start() (*Server, error) {
	l := bufconn.Listen(1 << 20)
	srv, err := bttest.NewServerWithListener(l,
		grpc.MaxRecvMsgSize(maxMessage+1),
		grpc.MaxSendMsgSize(2*maxMessage),
		grpc.ChainUnaryInterceptor(recoverUnary),
		grpc.ChainStreamInterceptor(recoverStream),
	)
	if err != nil {
		l.Close()
		return nil, err
	}
	return &Server{listener: l, server: srv, unmute: mute()}, nil
}

// DialOptions connect to the server, whatever the target's name.
func (s *Server) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return s.listener.DialContext(ctx)
	})}
}

// Close ends the server, open calls included.
func (s *Server) Close() {
	s.listener.Close() // first: the server waits for its accept loop, and leaves a foreign listener open
	s.server.Close()
	s.unmute()
}

// The fake leaves calls it does not have as nil methods, which would end the process.

func recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer recovered(info.FullMethod, &err)
	return handler(ctx, req)
}

func recoverStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer recovered(info.FullMethod, &err)
	return handler(srv, ss)
}

func recovered(method string, err *error) {
	if p := recover(); p != nil {
		*err = status.Errorf(codes.Unimplemented, "the embedded Bigtable does not have %s", method)
	}
}

// mute drops the fake's own lines from the standard log and returns what undoes it. All
// other lines pass.
func mute() func() {
	f := &filter{next: log.Writer()}
	log.SetOutput(f)
	return func() {
		if log.Writer() == io.Writer(f) {
			log.SetOutput(f.next)
		}
	}
}

type filter struct {
	mu   sync.Mutex // keeps lines whole
	next io.Writer
}

func (f *filter) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("bttest: ")) {
		return len(line), nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next.Write(line)
}
