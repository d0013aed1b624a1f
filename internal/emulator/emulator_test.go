package emulator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/spanner"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestMain(m *testing.M) {
	if port := os.Getenv("PUSHSINK_TEST_LEAVE"); port != "" {
		leaveAnEmulator(port)
	}
	LoopbackOnly()
	os.Exit(m.Run())
}

// patience is how long a test waits for something that takes a second at most.
const patience = 3 * time.Minute

// gone fails the test unless nobody listens on port within the deadline.
func gone(t *testing.T, port int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := unbound(port)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestBigtableServesAndEndsWithItsTest(t *testing.T) {
	var port int
	t.Run("serves", func(t *testing.T) {
		addr := Bigtable(t)
		port = portOf(t, addr)
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", option.WithGRPCConn(conn))
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.CreateTable(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		tables, err := admin.Tables(t.Context())
		if err != nil || len(tables) != 1 || tables[0] != "t" {
			t.Fatalf("Tables() = %v, %v; want [t]", tables, err)
		}
		if unbound(port) == nil {
			t.Fatal("unbound() sees nobody on the port of a running emulator")
		}
	})
	if port != 0 {
		gone(t, port)
	}
}

func TestSpannerBothDialects(t *testing.T) {
	s := Spanner(t)
	t.Setenv("SPANNER_EMULATOR_HOST", s.Addr)
	for dialect, path := range map[string]string{
		"GOOGLE_STANDARD_SQL": s.Database(t, "CREATE TABLE T (Id STRING(36) NOT NULL) PRIMARY KEY (Id)"),
		"POSTGRESQL":          s.PostgreSQL(t, "CREATE TABLE t (id varchar(36) PRIMARY KEY)"),
	} {
		client, err := spanner.NewClientWithConfig(t.Context(), path, spanner.ClientConfig{DisableNativeMetrics: true})
		if err != nil {
			t.Fatal(err)
		}
		rows := client.Single().Query(t.Context(), spanner.NewStatement(
			"SELECT option_value FROM information_schema.database_options WHERE option_name = 'database_dialect'"))
		var got string
		if err := rows.Do(func(r *spanner.Row) error { return r.Columns(&got) }); err != nil {
			t.Fatal(err)
		}
		if got != dialect {
			t.Errorf("dialect of %s = %s, want %s", path, got, dialect)
		}
		client.Close()
	}
}

func TestEMU07TwoSpannerEmulatorsOnOnePort(t *testing.T) {
	binary, err := sdkFile("bin/cloud_spanner_emulator/emulator_main")
	if err != nil {
		absent(t, "Spanner", err)
	}
	k := spannerKind(binary)
	port := FreePort(t)
	first, err := startOn(port, k)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.conn.Close(); first.proc.Kill() })

	t.Run("a start on a bound port fails", func(t *testing.T) {
		second, err := startOn(port, k)
		if err == nil {
			second.proc.Kill()
			t.Fatal("started a second emulator on a bound port")
		}
		if !strings.Contains(err.Error(), "bound by somebody else") {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("a listener that came between check and bind is found", func(t *testing.T) {
		if err := alone(port, first.proc.PID()); err != nil {
			t.Fatalf("before the intruder: %v", err)
		}
		shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			var opt error
			err := c.Control(func(fd uintptr) {
				const soReusePort = 15 // include/uapi/asm-generic/socket.h
				opt = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soReusePort, 1)
			})
			if err != nil {
				return err
			}
			return opt
		}}
		intruder, err := shared.Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Skipf("this emulator does not share its port: %v", err)
		}
		if err := alone(port, first.proc.PID()); err == nil || !strings.Contains(err.Error(), "shared") {
			t.Errorf("with an intruder: alone() = %v, want an error that says shared", err)
		}
		if err := intruder.Close(); err != nil {
			t.Fatal(err)
		}
		if err := alone(port, first.proc.PID()); err != nil {
			t.Errorf("after the intruder: %v", err)
		}
	})
	t.Run("a process that does not listen is found", func(t *testing.T) {
		if err := alone(port, os.Getpid()); err == nil {
			t.Error("alone() says that this test listens on the emulator's port")
		}
	})
}

func TestFreePortIsReservedAmongTests(t *testing.T) {
	port := FreePort(t)
	if release, err := reserve(port); err == nil {
		release()
		t.Fatal("the same port was reserved twice")
	}
}

func TestStartReportsAnEmulatorThatEnds(t *testing.T) {
	_, err := startOn(FreePort(t), kind{
		name:    "broken",
		command: func(int) *exec.Cmd { return exec.Command("sh", "-c", "echo out of luck; exit 3") },
		probe: func(ctx context.Context, _ *grpc.ClientConn) error {
			<-ctx.Done()
			return ctx.Err()
		},
	})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of luck") {
		t.Fatalf("err = %v, want the exit status and the output", err)
	}
}

// leaveAnEmulator is this test binary's second life: it starts an emulator and dies of a
// panic in another goroutine, as a test that times out does.
func leaveAnEmulator(port string) {
	n, err := strconv.Atoi(port)
	if err != nil {
		panic(err)
	}
	binary, err := sdkFile("platform/bigtable-emulator/cbtemulator")
	if err != nil {
		panic(err)
	}
	if _, err := startOn(n, bigtableKind(binary)); err != nil {
		panic(err)
	}
	fmt.Println("emulator is up")
	go panic("test timed out")
	select {}
}

func TestNoLeftoverAfterAPanic(t *testing.T) {
	if _, err := sdkFile("platform/bigtable-emulator/cbtemulator"); err != nil {
		absent(t, "Bigtable", err)
	}
	port := FreePort(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PUSHSINK_TEST_LEAVE="+strconv.Itoa(port))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "emulator is up") || !strings.Contains(string(out), "test timed out") {
		t.Fatalf("the process that should panic: %v\n%s", err, out)
	}
	gone(t, port)
}

// push is what arrived at a push endpoint.
type push struct {
	header http.Header
	body   []byte
}

func TestEMU06PushesCarryNoTokenAndNoOrderingKey(t *testing.T) {
	p := PubSub(t)
	pushes := make(chan push, 16)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		pushes <- push{r.Header.Clone(), body}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer endpoint.Close()
	next := func() push {
		t.Helper()
		select {
		case got := <-pushes:
			return got
		case <-time.After(patience):
			t.Fatal("no push came")
			return push{}
		}
	}

	topic := p.Topic(t, "p", "wrapped")
	name := "projects/p/subscriptions/wrapped"
	p.Subscribe(t, &pubsubpb.Subscription{
		Name: name, Topic: topic, EnableMessageOrdering: true,
		PushConfig: &pubsubpb.PushConfig{
			PushEndpoint: endpoint.URL,
			AuthenticationMethod: &pubsubpb.PushConfig_OidcToken_{
				OidcToken: &pubsubpb.PushConfig_OidcToken{ServiceAccountEmail: "push@p.iam.gserviceaccount.com", Audience: "a"},
			},
		},
	})
	ids := p.Publish(t, topic, &pubsubpb.PubsubMessage{Attributes: map[string]string{"only": "attributes"}, OrderingKey: "k1"})
	got := next()
	if token := got.header.Get("Authorization"); token != "" {
		t.Errorf("Authorization header present: JWT tests need not sign their own tokens any more")
	}
	var envelope struct {
		Subscription string                     `json:"subscription"`
		Message      map[string]json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal(got.body, &envelope); err != nil {
		t.Fatalf("%v in %s", err, got.body)
	}
	if envelope.Subscription != name {
		t.Errorf("subscription = %q, want %q", envelope.Subscription, name)
	}
	if _, ok := envelope.Message["orderingKey"]; ok {
		t.Error("orderingKey present: ordering tests need not craft bodies any more")
	}
	for key, want := range map[string]string{
		"data": `""`, "messageId": `"` + ids[0] + `"`, "message_id": `"` + ids[0] + `"`, "attributes": `{"only":"attributes"}`,
	} {
		if string(envelope.Message[key]) != want {
			t.Errorf("message.%s = %s, want %s", key, envelope.Message[key], want)
		}
	}
	p.Unsubscribe(t, name)

	t.Run("the key is stored", func(t *testing.T) {
		pull := p.PullFrom(t, "p", "pull", topic)
		p.Publish(t, topic, &pubsubpb.PubsubMessage{Data: []byte("x"), OrderingKey: "k1"})
		var messages []*pubsubpb.PubsubMessage
		for deadline := time.Now().Add(patience); len(messages) == 0 && time.Now().Before(deadline); {
			messages = p.Pull(t, pull, 10)
		}
		if len(messages) != 1 || messages[0].GetOrderingKey() != "k1" {
			t.Errorf("pulled %v, want one message with ordering key k1", messages)
		}
	})
}

// fakeTB records how a test would have ended.
type fakeTB struct {
	testing.TB
	skipped, failed string
}

func (f *fakeTB) Helper()                        {}
func (f *fakeTB) Skipf(format string, a ...any)  { f.skipped = fmt.Sprintf(format, a...); panic(f) }
func (f *fakeTB) Fatalf(format string, a ...any) { f.failed = fmt.Sprintf(format, a...); panic(f) }

func TestAbsentEmulatorsSkipOrFail(t *testing.T) {
	start := map[string]func(testing.TB){
		"Bigtable": func(t testing.TB) { Bigtable(t) },
		"Pub/Sub":  func(t testing.TB) { PubSub(t) },
		"Spanner":  func(t testing.TB) { Spanner(t) },
	}
	for name, start := range start {
		for _, required := range []string{"", "1"} {
			t.Run(name+" required="+required, func(t *testing.T) {
				t.Setenv("PATH", t.TempDir())
				t.Setenv(RequireEnv, required)
				f := &fakeTB{}
				func() {
					defer func() { _ = recover() }()
					start(f)
				}()
				got, other := f.skipped, f.failed
				if required == "1" {
					got, other = other, got
				}
				if !strings.Contains(got, name) || other != "" {
					t.Errorf("skipped %q, failed %q", f.skipped, f.failed)
				}
			})
		}
	}
}
