package bigtable

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	adminpb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
)

func TestCheck(t *testing.T) {
	has := func(families ...string) func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) {
		return func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return tableWith(families...), nil }
	}
	says := func(code codes.Code) func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) {
		return func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return nil, status.Error(code, "x") }
	}
	pings := func(code codes.Code) func(context.Context, *btpb.PingAndWarmRequest) error {
		return func(context.Context, *btpb.PingAndWarmRequest) error { return status.Error(code, "x") }
	}
	for _, c := range []struct {
		name string
		edit func(*schema.BigtableTarget)
		s    *service
		want []string // parts of the one problem's text; nil = no problem
	}{
		{"table and family there", nil, &service{get: has("f")}, nil},
		{"no table", nil, &service{}, []string{"table t is not in instance inst", "create it", "bigtable.create: ifNeeded"}},
		{"no table, to be made", creating("f"), &service{}, nil},
		{"no family", nil, &service{get: has("g")}, []string{"column family f is not in table t", "bigtable.families"}},
		{"no family, to be added", creating("f"), &service{get: has()}, nil},
		{"a used family that is not declared", func(b *schema.BigtableTarget) { creating("f")(b); b.Used = []string{"f", "z"} },
			&service{get: has("f")}, []string{"column family z"}},
		{"templated: nothing to look at", func(b *schema.BigtableTarget) { b.Table = "" }, &service{}, nil},
		{"no right to read schemas", nil, &service{get: says(codes.PermissionDenied)}, nil},
		{"no warm-up call", nil, &service{get: has("f"), ping: pings(codes.Unimplemented)}, nil},
		{"no such profile", func(b *schema.BigtableTarget) { b.AppProfile = "batch" }, &service{ping: pings(codes.NotFound)},
			[]string{"app profile batch", "PUSHSINK_BIGTABLE_APP_PROFILE"}},
		{"not allowed", nil, &service{ping: pings(codes.PermissionDenied)}, []string{"PermissionDenied", "roles/bigtable.user"}},
		{"unavailable", nil, &service{ping: pings(codes.Unavailable)}, []string{"does not answer", "Unavailable"}},
		{"schema unavailable", nil, &service{get: says(codes.Unavailable)}, []string{"schema cannot be read", "Unavailable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, testConfig(serve(t, c.s)), routeOf("r", c.edit))
			got := b.Check(t.Context())
			if c.want == nil {
				if len(got) != 0 {
					t.Errorf("problems %v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Route != "r" {
				t.Fatalf("problems %v", got)
			}
			for _, part := range c.want {
				if !strings.Contains(got[0].Text, part) {
					t.Errorf("%q does not say %q", got[0].Text, part)
				}
			}
		})
	}
}

// Every route of every instance is looked at, and problems stand in a fixed order.
func TestCheckAllRoutes(t *testing.T) {
	s := &service{}
	b := newBench(t, testConfig(serve(t, s)),
		routeOf("b", func(b *schema.BigtableTarget) { b.Allow = []string{"eu", "us"} }),
		routeOf("a", nil), routeOf("ok", func(b *schema.BigtableTarget) { creating("f")(b); b.Table = "made" }))
	got := b.Check(t.Context())
	if len(got) != 3 || got[0].Route != "a" || !strings.Contains(got[1].Text, "eu") || !strings.Contains(got[2].Text, "us") {
		t.Errorf("problems %v", got)
	}
}

// A backend that is down, or takes a connection and says nothing, is a problem in bounded
// time; one that comes up is none at the next check.
func TestCheckBackendDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	cfg := testConfig(nil)
	cfg.Endpoint = addr
	cfg.DialOptions = []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: time.Millisecond, MaxDelay: time.Millisecond}, MinConnectTimeout: time.Second})}
	b := newBench(t, cfg, routeOf("r", nil))
	got := b.Check(t.Context())
	if len(got) != 1 || !strings.Contains(got[0].Text, "does not answer (Unavailable)") {
		t.Fatalf("problems %v", got)
	}
	s := &service{get: func(int, *adminpb.GetTableRequest) (*adminpb.Table, error) { return tableWith("f"), nil }}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Skip("the port is taken")
	}
	srv := grpc.NewServer()
	btpb.RegisterBigtableServer(srv, s)
	adminpb.RegisterBigtableTableAdminServer(srv, s)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	deadline := time.Now().Add(3 * time.Minute)
	for len(got) > 0 && time.Now().Before(deadline) {
		got = b.Check(t.Context())
	}
	if len(got) != 0 {
		t.Errorf("still %v", got)
	}
}

func TestCheckSilentBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{ping: func(ctx context.Context, _ *btpb.PingAndWarmRequest) error { <-ctx.Done(); return ctx.Err() }}
		b := newBench(t, testConfig(serve(t, s)), routeOf("r", nil))
		start := time.Now()
		got := b.Check(t.Context())
		if d := time.Since(start); d != checkTimeout || len(got) != 1 || !strings.Contains(got[0].Text, "DeadlineExceeded") {
			t.Errorf("after %v: %v", d, got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if got = b.Check(ctx); time.Since(start) != time.Second || len(got) != 1 {
			t.Errorf("with its caller's second, after %v: %v", time.Since(start), got)
		}
		b.Close()
	})
}
