package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/schema"
)

func TestMain(m *testing.M) {
	emulator.LoopbackOnly()
	os.Exit(m.Run())
}

const testTopic = "projects/p/topics/dead"

// fakeTopic is a publisher service whose answers are scripted.
type fakeTopic struct {
	pubsubpb.UnimplementedPublisherServer
	// answer decides about one request; nil error = all confirmed.
	answer func(ctx context.Context, n int, req *pubsubpb.PublishRequest) error
	short  bool // confirm one message fewer than asked

	calls      atomic.Int64
	open, most atomic.Int64 // messages in open requests, now and at most
	mu         sync.Mutex
	got        []*pubsubpb.PubsubMessage
}

func (f *fakeTopic) Publish(ctx context.Context, req *pubsubpb.PublishRequest) (*pubsubpb.PublishResponse, error) {
	n := int64(len(req.GetMessages()))
	for open := f.open.Add(n); ; {
		most := f.most.Load()
		if open <= most || f.most.CompareAndSwap(most, open) {
			break
		}
	}
	defer f.open.Add(-n)
	call := int(f.calls.Add(1))
	if f.answer != nil {
		if err := f.answer(ctx, call, req); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, req.GetMessages()...)
	ids := make([]string, len(req.GetMessages()))
	if f.short {
		ids = ids[1:]
	}
	return &pubsubpb.PublishResponse{MessageIds: ids}, nil
}

func (f *fakeTopic) messages() []*pubsubpb.PubsubMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got
}

// serve starts a gRPC server in memory for t, so that it may be in a bubble, and returns
// what connects to it.
func serve(t *testing.T, register func(*grpc.Server)) []option.ClientOption {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	s := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	register(s)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(lis) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })
	return append(EmulatorOptions("passthrough:///memory"), option.WithGRPCDialOption(dial))
}

func (f *fakeTopic) start(t *testing.T) []option.ClientOption {
	return serve(t, func(s *grpc.Server) { pubsubpb.RegisterPublisherServer(s, f) })
}

// newPublisher outside a bubble gives the service a minute.
func newPublisher(t *testing.T, to []option.ClientOption, change ...func(*Config)) *Publisher {
	t.Helper()
	cfg := DefaultConfig()
	cfg.ClientOptions, cfg.Timeout = to, time.Minute
	for _, c := range change {
		c(&cfg)
	}
	p, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func testLetter(id string) Letter {
	return Letter{
		Topic:  testTopic,
		Record: &schema.Record{Data: []byte("data of " + id), ID: id},
		Route:  "telemetry",
		Code:   schema.TypeMismatch,
		Err:    errors.New("no number"),
	}
}

func TestPublishedLetterIsTheRecord(t *testing.T) {
	srv := pstest.NewServerWithAddress("127.0.0.1:0")
	defer srv.Close()
	_, err := srv.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: testTopic})
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, EmulatorOptions(srv.Addr))
	data := make([]byte, 256)
	for i := range data {
		data[i] = byte(i)
	}
	l := testLetter("42")
	l.Destination = "projects/p/instances/i/tables/t"
	l.Record = &schema.Record{
		Data: data, Attributes: map[string]string{"device": "d", "Weird Key": "ü"}, ID: "42", OrderingKey: "o",
		Subscription: "projects/p/subscriptions/s", Published: time.Date(2026, 1, 2, 4, 4, 5, 6000, time.FixedZone("", 3600)), Attempt: 3,
	}
	if err := p.Publish(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	got := srv.Messages()
	if len(got) != 1 {
		t.Fatalf("%d messages", len(got))
	}
	if !bytes.Equal(got[0].Data, data) {
		t.Error("data changed")
	}
	if got[0].OrderingKey != "" {
		t.Error("the letter has an ordering key")
	}
	want := map[string]string{
		"device": "d", "Weird Key": "ü",
		"pushsink-error": "no number", "pushsink-code": "type_mismatch", "pushsink-route": "telemetry",
		"pushsink-destination": "projects/p/instances/i/tables/t", "pushsink-message-id": "42",
		"pushsink-publish-time": "2026-01-02T03:04:05.000006Z", "pushsink-ordering-key": "o",
		"pushsink-subscription": "projects/p/subscriptions/s", "pushsink-attempt": "3",
	}
	if !maps.Equal(got[0].Attributes, want) {
		t.Errorf("attributes\ngot  %v\nwant %v", got[0].Attributes, want)
	}
}

func TestMissingTopicIsPermanentAndNotCreated(t *testing.T) {
	srv := pstest.NewServerWithAddress("127.0.0.1:0")
	defer srv.Close()
	p := newPublisher(t, EmulatorOptions(srv.Addr))
	err := p.Publish(t.Context(), testLetter("1"))
	if !errors.Is(err, ErrPermanent) || !strings.Contains(err.Error(), testTopic) || !strings.Contains(err.Error(), "create it") {
		t.Errorf("got %v", err)
	}
	topics, err := srv.GServer.ListTopics(t.Context(), &pubsubpb.ListTopicsRequest{Project: "projects/p"})
	if err != nil || len(topics.GetTopics()) != 0 {
		t.Errorf("topics %v, %v", topics.GetTopics(), err)
	}
}

func TestUnavailableIsPassingAndEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTopic{answer: func(context.Context, int, *pubsubpb.PublishRequest) error {
			return status.Error(codes.Unavailable, "zone is down")
		}}
		const caller, client = 500 * time.Millisecond, 2 * time.Second
		p := newPublisher(t, f.start(t), func(c *Config) { c.Timeout = client })
		ctx, cancel := context.WithTimeout(t.Context(), caller)
		defer cancel()
		start := time.Now()
		err := p.Publish(ctx, testLetter("1"))
		if err == nil || errors.Is(err, ErrPermanent) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "zone is down") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != caller {
			t.Errorf("the caller waited %v", took)
		}
		// The client's own attempts end too: Close waits for them.
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > client+p.cfg.Linger {
			t.Errorf("the client went on for %v", took)
		}
		calls := f.calls.Load()
		if calls < 2 || calls > 20 {
			t.Errorf("%d attempts", calls)
		}
		if n := len(f.messages()); n != 0 {
			t.Errorf("%d messages", n)
		}
	})
}

func TestUnavailableForAWhileIsPublished(t *testing.T) {
	f := &fakeTopic{answer: func(_ context.Context, n int, _ *pubsubpb.PublishRequest) error {
		if n <= 2 {
			return status.Error(codes.Unavailable, "not yet")
		}
		return nil
	}}
	p := newPublisher(t, f.start(t))
	if err := p.Publish(t.Context(), testLetter("1")); err != nil {
		t.Fatal(err)
	}
	if n := len(f.messages()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// Every answer but OK is an error, and only what cannot pass is permanent.
func TestEveryCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permanent := map[codes.Code]bool{codes.NotFound: true, codes.InvalidArgument: true}
		var code atomic.Uint32
		f := &fakeTopic{answer: func(context.Context, int, *pubsubpb.PublishRequest) error {
			return status.Error(codes.Code(code.Load()), "scripted")
		}}
		p := newPublisher(t, f.start(t), func(c *Config) { c.Timeout = 50 * time.Millisecond })
		for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
			code.Store(uint32(c))
			err := p.Publish(t.Context(), testLetter("1"))
			if err == nil || errors.Is(err, ErrPermanent) != permanent[c] {
				t.Errorf("%v: permanent %t, want %t: %v", c, errors.Is(err, ErrPermanent), permanent[c], err)
			}
			if c == codes.PermissionDenied && !strings.Contains(err.Error(), "roles/pubsub.publisher") {
				t.Errorf("%v does not say what to grant: %v", c, err)
			}
		}
	})
}

// One bad message fails a whole request and must not take good ones with it.
func TestBadLetterFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTopic{answer: func(_ context.Context, _ int, req *pubsubpb.PublishRequest) error {
			for _, m := range req.GetMessages() {
				if m.GetAttributes()["bad"] != "" {
					return status.Error(codes.InvalidArgument, "a message is bad")
				}
			}
			return nil
		}}
		p := newPublisher(t, f.start(t), func(c *Config) { c.Linger = 50 * time.Millisecond })
		const n = 60
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				l := testLetter(fmt.Sprint(i))
				if i == 20 {
					l.Record.Attributes = map[string]string{"bad": "yes"}
				}
				errs[i] = p.Publish(t.Context(), l)
			})
		}
		wg.Wait()
		for i, err := range errs {
			if i == 20 != errors.Is(err, ErrPermanent) || i != 20 && err != nil {
				t.Errorf("letter %d: %v", i, err)
			}
		}
		if got := len(f.messages()); got != n-1 {
			t.Errorf("%d messages, want %d", got, n-1)
		}
	})
}

func TestPoisonRedeliveredIsBoundedAndBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deliveries, most = 500, 40
		f := &fakeTopic{}
		p := newPublisher(t, f.start(t), func(c *Config) { c.MaxOutstanding = most })
		var wg sync.WaitGroup
		for range deliveries {
			wg.Go(func() {
				if err := p.Publish(t.Context(), testLetter("poison")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := len(f.messages()); got != deliveries {
			t.Errorf("%d messages of %d deliveries", got, deliveries)
		}
		if got := f.most.Load(); got > most {
			t.Errorf("%d letters were out at once, bound %d", got, most)
		}
		if got := f.calls.Load(); got > deliveries/4 {
			t.Errorf("%d requests for %d letters", got, deliveries)
		}
	})
}

// A caller that cannot be admitted is not acknowledged and leaves nothing behind; a
// letter whose caller left keeps its share until the client is done with it.
func TestBoundsHoldPastTheCaller(t *testing.T) {
	tests := map[string]func(*Config){
		"letters": func(c *Config) { c.MaxOutstanding = 2 },
		"bytes":   func(c *Config) { c.MaxOutstandingBytes = 2 * 400 },
	}
	for name, bound := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open := make(chan struct{})
				f := &fakeTopic{answer: func(context.Context, int, *pubsubpb.PublishRequest) error {
					<-open
					return nil
				}}
				p := newPublisher(t, f.start(t), bound)
				publish := func(id string) error {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					l := testLetter(id)
					l.Record.Data = bytes.Repeat([]byte("x"), 250)
					return p.Publish(ctx, l)
				}
				for i := range 5 {
					if err := publish(fmt.Sprint(i)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrPermanent) {
						t.Errorf("letter %d: %v", i, err)
					}
				}
				close(open)
				if err := p.Publish(t.Context(), testLetter("late")); err != nil {
					t.Error(err)
				}
				// The first two were with the client already; the other three were withdrawn.
				if got := len(f.messages()); got != 3 {
					t.Errorf("%d messages, want 3", got)
				}
			})
		})
	}
}

func TestEndedContextPublishesNothing(t *testing.T) {
	f := &fakeTopic{}
	p := newPublisher(t, f.start(t), func(c *Config) { c.MaxOutstanding = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if err := p.Publish(ctx, testLetter("1")); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(f.messages()); got != 0 {
		t.Errorf("%d messages", got)
	}
}

func TestLetterAboveTheByteBoundEntersAnIdlePublisher(t *testing.T) {
	f := &fakeTopic{}
	p := newPublisher(t, f.start(t), func(c *Config) { c.MaxOutstandingBytes = 1 })
	if err := p.Publish(t.Context(), testLetter("1")); err != nil {
		t.Error(err)
	}
}

func TestLetterAbovePubSubsSizeIsPermanent(t *testing.T) {
	f := &fakeTopic{}
	p := newPublisher(t, f.start(t))
	for size, fits := range map[int]bool{9_990_000: true, 9_999_900: false, 10_000_000: false, 20_000_000: false} {
		l := testLetter("1")
		l.Record.Data = make([]byte, size)
		calls := f.calls.Load()
		err := p.Publish(t.Context(), l)
		if fits != (err == nil) || !fits != errors.Is(err, ErrPermanent) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if !fits && f.calls.Load() != calls {
			t.Errorf("%d bytes were sent", size)
		}
	}
}

func TestLetterWithoutAWholeAddressIsPermanent(t *testing.T) {
	p := newPublisher(t, (&fakeTopic{}).start(t))
	for name, change := range map[string]func(*Letter){
		"zero":        func(l *Letter) { *l = Letter{} },
		"no record":   func(l *Letter) { l.Record = nil },
		"no route":    func(l *Letter) { l.Route = "" },
		"short topic": func(l *Letter) { l.Topic = "dead" },
		"two slashes": func(l *Letter) { l.Topic = "projects/p/topics/a/b" },
	} {
		l := testLetter("1")
		change(&l)
		if err := p.Publish(t.Context(), l); !errors.Is(err, ErrPermanent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShortAnswerConfirmsNothing(t *testing.T) {
	f := &fakeTopic{short: true}
	p := newPublisher(t, f.start(t))
	if err := p.Publish(t.Context(), testLetter("1")); err == nil || errors.Is(err, ErrPermanent) {
		t.Errorf("got %v", err)
	}
}

func TestCloseFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTopic{}
		before := runtime.NumGoroutine()
		// Nothing but Close sends within the hour.
		p := newPublisher(t, f.start(t), func(c *Config) { c.Linger, c.Timeout = time.Hour, 2*time.Hour })
		const n = 10
		errs := make(chan error, n)
		for i := range n {
			go func() { errs <- p.Publish(t.Context(), testLetter(fmt.Sprint(i))) }()
		}
		synctest.Wait() // all are with the client
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got := len(f.messages()); got != n {
			t.Errorf("%d messages, want %d", got, n)
		}
		if err := p.Publish(t.Context(), testLetter("late")); !errors.Is(err, ErrClosed) || errors.Is(err, ErrPermanent) {
			t.Errorf("after Close: %v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > before+5 { // the server's own
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
}

func TestCloseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		defer close(open)
		f := &fakeTopic{answer: func(context.Context, int, *pubsubpb.PublishRequest) error {
			<-open
			return nil
		}}
		p := newPublisher(t, f.start(t), func(c *Config) { c.Timeout = 500 * time.Millisecond })
		done := make(chan error)
		go func() { done <- p.Publish(t.Context(), testLetter("1")) }()
		for f.calls.Load() == 0 {
			time.Sleep(p.cfg.Linger)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if err := <-done; err == nil || errors.Is(err, ErrPermanent) {
			t.Errorf("Publish: %v", err)
		}
	})
}

func TestConfigBounds(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{}.Validate()
	for _, name := range []string{"MaxOutstanding=0", "MaxOutstandingBytes=0", "Timeout=0s", "Linger=0s"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	if _, err := New(t.Context(), Config{}); err == nil {
		t.Error("New takes a zero Config")
	}
}

// fakeIAM grants what it lists.
type fakeIAM struct {
	iampb.UnimplementedIAMPolicyServer
	grants []string
	err    error
}

func (f *fakeIAM) TestIamPermissions(context.Context, *iampb.TestIamPermissionsRequest) (*iampb.TestIamPermissionsResponse, error) {
	return &iampb.TestIamPermissionsResponse{Permissions: f.grants}, f.err
}

// lookup answers GetTopic.
type lookup struct {
	pubsubpb.UnimplementedPublisherServer
	err error
}

func (l *lookup) GetTopic(_ context.Context, req *pubsubpb.GetTopicRequest) (*pubsubpb.Topic, error) {
	return &pubsubpb.Topic{Name: req.GetTopic()}, l.err
}

func TestCheckSaysWhatToDo(t *testing.T) {
	denied, missing := status.Error(codes.PermissionDenied, "no"), status.Error(codes.NotFound, "no")
	tests := []struct {
		name      string
		iam       *fakeIAM // nil = not implemented
		get       error
		want      string // "" = fine
		permanent bool
	}{
		{name: "granted", iam: &fakeIAM{grants: []string{publishPermission}}, get: denied},
		{name: "not granted", iam: &fakeIAM{}, want: "grant roles/pubsub.publisher"},
		{name: "not granted and not visible", iam: &fakeIAM{}, get: denied, want: "or create it"},
		{name: "empty answer for a missing topic", iam: &fakeIAM{}, get: missing, want: "create it", permanent: true},
		{name: "missing", iam: &fakeIAM{err: missing}, want: "create it", permanent: true},
		{name: "denied", iam: &fakeIAM{err: denied}, want: "grant roles/pubsub.publisher"},
		{name: "down", iam: &fakeIAM{err: status.Error(codes.Unavailable, "no")}, want: "cannot be reached"},
		{name: "emulator"},
		{name: "emulator, missing", get: missing, want: "create it", permanent: true},
		{name: "emulator, down", get: status.Error(codes.Internal, "no"), want: "cannot be reached"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr := serve(t, func(s *grpc.Server) {
				pubsubpb.RegisterPublisherServer(s, &lookup{err: tt.get})
				if tt.iam != nil {
					iampb.RegisterIAMPolicyServer(s, tt.iam)
				}
			})
			p := newPublisher(t, addr)
			err := p.Check(t.Context(), testTopic)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), testTopic) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if errors.Is(err, ErrPermanent) != tt.permanent {
				t.Errorf("permanent %t: %v", !tt.permanent, err)
			}
		})
	}
	p := newPublisher(t, EmulatorOptions("127.0.0.1:1"), func(c *Config) { c.Timeout = 200 * time.Millisecond })
	if err := p.Check(t.Context(), testTopic); err == nil || errors.Is(err, ErrPermanent) {
		t.Errorf("nobody listens: %v", err)
	}
	if err := p.Check(t.Context(), "dead"); !errors.Is(err, ErrPermanent) {
		t.Errorf("short name: %v", err)
	}
}
