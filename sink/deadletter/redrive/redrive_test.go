package redrive

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"

	"github.com/pushsink/pushsink/internal/emulator"
	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink/deadletter"
)

func TestMain(m *testing.M) {
	emulator.LoopbackOnly()
	os.Exit(m.Run())
}

const (
	topic        = "projects/p/topics/dead"
	subscription = "projects/p/subscriptions/dead"
)

// world is a dead-letter topic with a subscription, a publisher of letters, and a server
// that takes pushes.
type world struct {
	srv       *pstest.Server
	publisher *deadletter.Publisher
	cfg       Config
	out       *bytes.Buffer

	mu       sync.Mutex
	requests []*http.Request
	bodies   [][]byte
	// answer decides about one request.
	answer func(n int, req *http.Request, body []byte, w http.ResponseWriter)
}

// inBubble runs f in a bubble, so that a run's idle time passes when nothing else is to be
// done and takes none.
func inBubble(t *testing.T, f func(t *testing.T, w *world), opts ...pstest.ServerReactorOption) {
	t.Helper()
	// Its own server waits for the network, and so stays outside: nobody calls it.
	srv := pstest.NewServerWithAddress("127.0.0.1:0", opts...)
	defer srv.Close()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, srv)) })
}

func newWorld(t *testing.T, srv *pstest.Server) *world {
	t.Helper()
	w := &world{srv: srv, out: &bytes.Buffer{}}
	if _, err := srv.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic}); err != nil {
		t.Fatal(err)
	}
	if _, err := srv.GServer.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: subscription, Topic: topic, AckDeadlineSeconds: 10,
	}); err != nil {
		t.Fatal(err)
	}
	pubSub, posts := bufconn.Listen(1<<20), bufconn.Listen(1<<20)
	// A call takes a little, or in a bubble no time would pass between two.
	s := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		time.Sleep(time.Millisecond)
		return handle(ctx, req)
	}))
	pubsubpb.RegisterPublisherServer(s, &srv.GServer)
	pubsubpb.RegisterSubscriberServer(s, &srv.GServer)
	go func() { _ = s.Serve(pubSub) }()
	t.Cleanup(func() {
		s.Stop()
		_, _ = srv.GServer.DeleteSubscription(context.Background(), &pubsubpb.DeleteSubscriptionRequest{Subscription: subscription})
	})
	dial := func(ctx context.Context, _ string) (net.Conn, error) { return pubSub.DialContext(ctx) }
	w.connect(t, append(deadletter.EmulatorOptions("passthrough:///memory"), option.WithGRPCDialOption(grpc.WithContextDialer(dial))), posts)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return posts.DialContext(ctx) }}
	t.Cleanup(transport.CloseIdleConnections)
	w.cfg.URL, w.cfg.HTTP = &url.URL{Scheme: "http", Host: "127.0.0.1"}, transport
	return w
}

// connect makes the clients of w for a Pub/Sub, and serves HTTP on l.
func (w *world) connect(t *testing.T, to []option.ClientOption, l net.Listener) {
	t.Helper()
	pcfg := deadletter.DefaultConfig()
	pcfg.ClientOptions, pcfg.Timeout = to, time.Minute
	p, err := deadletter.New(t.Context(), pcfg)
	if err != nil {
		t.Fatal(err)
	}
	w.publisher = p
	client, err := pubsub.NewClient(t.Context(), "p", to...)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = client.Close()
		_ = p.Close(context.Background())
	})
	w.cfg = Default()
	w.cfg.Client, w.cfg.Subscription = client, subscription
	w.cfg.Route, w.cfg.From = "telemetry", "telemetry"
	w.cfg.Progress = w.out
}

func (w *world) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	w.mu.Lock()
	w.requests = append(w.requests, req)
	w.bodies = append(w.bodies, body)
	n, answer := len(w.requests), w.answer
	w.mu.Unlock()
	if answer == nil {
		rw.WriteHeader(http.StatusNoContent)
		return
	}
	answer(n, req, body, rw)
}

func (w *world) publish(t *testing.T, letters ...deadletter.Letter) {
	t.Helper()
	for _, l := range letters {
		l.Topic = topic
		if l.Route == "" {
			l.Route = "telemetry"
		}
		if err := w.publisher.Publish(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) run(t *testing.T) (Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	return Run(ctx, w.cfg)
}

// acked counts the letters that are gone from the subscription.
func (w *world) acked() (n int) {
	for _, m := range w.srv.Messages() {
		n += m.Acks
	}
	return n
}

func letters(n int) []deadletter.Letter {
	ls := make([]deadletter.Letter, n)
	for i := range ls {
		ls[i].Record = &schema.Record{ID: fmt.Sprint(i), Data: fmt.Appendf(nil, "data %d", i)}
	}
	return ls
}

// decode reads a wrapped push without the code under test.
func decode(t *testing.T, body []byte) *schema.Record {
	t.Helper()
	var p struct {
		Message struct {
			Data                   string
			Attributes             map[string]string
			MessageID, OrderingKey string
			PublishTime            string
		}
		Subscription    string
		DeliveryAttempt int
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%v in %.200s", err, body)
	}
	data, err := base64.StdEncoding.DecodeString(p.Message.Data)
	if err != nil {
		t.Fatal(err)
	}
	r := &schema.Record{
		Data: data, Attributes: p.Message.Attributes, ID: p.Message.MessageID, OrderingKey: p.Message.OrderingKey,
		Subscription: p.Subscription, Attempt: p.DeliveryAttempt,
	}
	if p.Message.PublishTime != "" {
		if r.Published, err = time.Parse(time.RFC3339Nano, p.Message.PublishTime); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// records are shapes that have to come back as they were.
func records() map[string]*schema.Record {
	many := make(map[string]string)
	for i := range 101 {
		many[fmt.Sprintf("attribute-%d", i)] = strings.Repeat("é", i*5)
	}
	return map[string]*schema.Record{
		"1": {ID: "1", Data: []byte(`{"a":1}`), Published: time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.UTC),
			OrderingKey: "key", Subscription: "projects/p/subscriptions/s", Attempt: 4, Attributes: map[string]string{"device": "d"}},
		"2": {ID: "2", Data: []byte("\x00\xff\xfe bytes")},
		"3": {ID: "3", Data: []byte{}, Attributes: map[string]string{"only": "attributes"}},
		"4": {ID: "4", Data: []byte("many"), Attributes: many},
		"5": {ID: "5", Data: []byte("ours"), Attributes: map[string]string{"pushsink-route": "x", "googclient_traceparent": "t", "<&>": "\u2028"}},
	}
}

func TestRoundTrip(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want := records()
		for _, r := range want {
			w.publish(t, deadletter.Letter{Record: r, Code: schema.TypeMismatch, Err: errors.New("why")})
		}
		got, err := w.run(t)
		if err != nil || got != (Result{Redriven: len(want)}) {
			t.Fatalf("%+v, %v\n%s", got, err, w.out)
		}
		checkRecords(t, w, want)
		if n := w.acked(); n != len(want) {
			t.Errorf("%d acknowledged", n)
		}
		if !strings.Contains(w.out.String(), "redriven 5, failed 0") {
			t.Errorf("no result line in %q", w.out)
		}
	})
}

func checkRecords(t *testing.T, w *world, want map[string]*schema.Record) {
	t.Helper()
	seen := make(map[string]bool)
	for i, body := range w.bodies {
		if p := w.requests[i].URL.Path; p != "/v1/routes/telemetry/push" {
			t.Errorf("posted to %s", p)
		}
		if strings.Contains(w.requests[i].Header.Get("Authorization"), "Bearer") {
			t.Error("a token was sent")
		}
		r := decode(t, body)
		if !reflect.DeepEqual(r, want[r.ID]) {
			t.Errorf("got  %+v\nwant %+v", r, want[r.ID])
		}
		seen[r.ID] = true
	}
	if len(seen) != len(want) {
		t.Errorf("%d records came, want %d", len(seen), len(want))
	}
}

// The same through the real emulator: 101 attributes, the start-up check, a missing topic.
func TestRoundTripThroughTheEmulator(t *testing.T) {
	t.Parallel()
	em := emulator.PubSub(t)
	posts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{out: &bytes.Buffer{}}
	w.connect(t, deadletter.EmulatorOptions(em.Addr), posts)
	w.cfg.URL = &url.URL{Scheme: "http", Host: posts.Addr().String()}
	if err := w.publisher.Check(t.Context(), topic); !errors.Is(err, deadletter.ErrPermanent) {
		t.Errorf("check of a missing topic: %v", err)
	}
	l := letters(1)[0]
	l.Topic, l.Route = topic, "telemetry"
	if err := w.publisher.Publish(t.Context(), l); !errors.Is(err, deadletter.ErrPermanent) {
		t.Errorf("publish to a missing topic: %v", err)
	}
	em.Topic(t, "p", "dead")
	em.PullFrom(t, "p", "dead", topic)
	if err := w.publisher.Check(t.Context(), topic); err != nil {
		t.Errorf("check: %v", err)
	}
	want := records()
	for i := range 200 {
		id := fmt.Sprintf("n%d", i)
		want[id] = &schema.Record{ID: id, Data: []byte(id)}
	}
	var wg sync.WaitGroup
	for _, r := range want {
		wg.Go(func() { w.publish(t, deadletter.Letter{Record: r, Err: errors.New(strings.Repeat("€", 1000))}) })
	}
	wg.Wait()
	w.cfg.Idle, w.cfg.Max = 5*time.Minute, len(want) // ends with the last, and not early
	got, err := w.run(t)
	if err != nil || got != (Result{Redriven: len(want)}) {
		t.Fatalf("%+v, %v\n%s", got, err, w.out)
	}
	checkRecords(t, w, want)
	w.cfg.Idle, w.cfg.Max = time.Second, -1
	if got, err := w.run(t); err != nil || got != (Result{}) {
		t.Errorf("letters are left: %+v, %v", got, err)
	}
}

// Anything but 204 leaves the letter where it is, released for the next run.
func TestOnly204Acknowledges(t *testing.T) {
	for _, code := range []int{200, 201, 202, 206, 207, 301, 302, 307, 400, 409, 413, 422, 429, 500, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.answer = func(_ int, _ *http.Request, _ []byte, rw http.ResponseWriter) {
					rw.Header().Set("Location", "/v1/elsewhere")
					rw.WriteHeader(code)
					_, _ = io.WriteString(rw, `{"code":"some_code","detail":"a detail"}`)
				}
				w.publish(t, letters(2)...)
				got, err := w.run(t)
				if err != nil || got != (Result{Failed: 2}) {
					t.Errorf("%+v, %v", got, err)
				}
				if n := w.acked(); n != 0 {
					t.Errorf("%d acknowledged", n)
				}
				for _, m := range w.srv.Messages() {
					if last := m.Modacks[len(m.Modacks)-1]; last.AckDeadline != 0 {
						t.Errorf("not released: %+v", last)
					}
				}
				want := 2
				if code == 429 || code == 503 {
					want *= tries
				}
				if len(w.requests) != want {
					t.Errorf("%d requests, want %d", len(w.requests), want)
				}
				if !strings.Contains(w.out.String(), fmt.Sprintf("answered %d some_code: a detail", code)) {
					t.Errorf("the reason is missing in %s", w.out)
				}
			})
		})
	}
}

func TestPassingFailureIsTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.answer = func(n int, _ *http.Request, _ []byte, rw http.ResponseWriter) {
			switch n {
			case 1:
				rw.WriteHeader(http.StatusServiceUnavailable)
			case 2:
				panic(http.ErrAbortHandler)
			default:
				rw.WriteHeader(http.StatusNoContent)
			}
		}
		w.publish(t, letters(1)...)
		if got, err := w.run(t); err != nil || got != (Result{Redriven: 1}) {
			t.Errorf("%+v, %v\n%s", got, err, w.out)
		}
		for _, body := range w.bodies {
			if r := decode(t, body); string(r.Data) != "data 0" {
				t.Errorf("a later try sent %q", r.Data)
			}
		}
	})
}

// What every letter would get stops the run at once.
func TestRefusalOfTheRunStopsIt(t *testing.T) {
	for _, code := range []int{401, 403, 404, 405} {
		inBubble(t, func(t *testing.T, w *world) {
			w.cfg.Concurrency = 2
			w.answer = func(_ int, _ *http.Request, _ []byte, rw http.ResponseWriter) { rw.WriteHeader(code) }
			w.publish(t, letters(10)...)
			got, err := w.run(t)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("answered ", code)) || got.Redriven != 0 || w.acked() != 0 {
				t.Errorf("%d: %+v, %v, %d acknowledged", code, got, err, w.acked())
			}
			if len(w.requests) > 2 {
				t.Errorf("%d: %d requests", code, len(w.requests))
			}
		})
	}
}

// A route that publishes what it refuses puts it back into the subscription and answers
// 204: such a letter is seen once more and not posted again.
func TestRejectedOnceMoreDoesNotLoop(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.answer = func(_ int, _ *http.Request, body []byte, rw http.ResponseWriter) {
			w.publish(t, deadletter.Letter{Record: decode(t, body), Err: errors.New("still bad")})
			rw.WriteHeader(http.StatusNoContent)
		}
		const n = 5
		// One record was refused at each of its redeliveries: all its letters are taken.
		w.publish(t, append(letters(n), letters(1)...)...)
		got, err := w.run(t)
		if err != nil || got != (Result{Redriven: n + 1, Failed: n + 1}) {
			t.Errorf("%+v, %v\n%s", got, err, w.out)
		}
		if len(w.requests) != n+1 {
			t.Errorf("%d requests", len(w.requests))
		}
		if !strings.Contains(w.out.String(), "rejected once more") {
			t.Errorf("not said in %s", w.out)
		}
		// The next run takes them.
		w.answer = nil
		if got, err := w.run(t); err != nil || got != (Result{Redriven: n + 1}) {
			t.Errorf("next run: %+v, %v", got, err)
		}
	})
}

func TestLettersYoungerThanTheRunAreLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.answer = func(n int, _ *http.Request, _ []byte, rw http.ResponseWriter) {
			w.publish(t, deadletter.Letter{Record: &schema.Record{ID: fmt.Sprint("fresh", n)}})
			rw.WriteHeader(http.StatusNoContent)
		}
		w.publish(t, letters(1)...)
		if got, err := w.run(t); err != nil || got != (Result{Redriven: 1, Newer: 1}) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestAStreamOfNewLettersDoesNotKeepARunGoing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ended := make(chan struct{})
		var stream sync.WaitGroup
		stream.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ended:
					return
				case <-tick.C:
					w.srv.Publish(topic, []byte("x"), map[string]string{"pushsink-route": "telemetry"})
				}
			}
		})
		got, err := w.run(t)
		close(ended)
		stream.Wait()
		if err != nil || got.Redriven != 0 || got.Newer == 0 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// nackAll turns every lease into a nack, so that what is not acknowledged comes again
// with the next pull.
type nackAll struct{}

func (nackAll) React(req any) (bool, any, error) {
	req.(*pubsubpb.ModifyAckDeadlineRequest).AckDeadlineSeconds = 0
	return false, nil, nil
}

func TestRedeliveredFailureIsPostedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.answer = func(_ int, _ *http.Request, _ []byte, rw http.ResponseWriter) { rw.WriteHeader(422) }
		w.publish(t, letters(3)...)
		if got, err := w.run(t); err != nil || got != (Result{Failed: 3}) {
			t.Errorf("%+v, %v", got, err)
		}
		if len(w.requests) != 3 {
			t.Errorf("%d requests", len(w.requests))
		}
		deliveries := 0
		for _, m := range w.srv.Messages() {
			deliveries += m.Deliveries
		}
		if deliveries <= 3 {
			t.Fatal("nothing was redelivered: the test shows nothing")
		}
	}, pstest.ServerReactorOption{FuncName: "ModifyAckDeadline", Reactor: nackAll{}})
}

func TestOtherRoutesLettersAreLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ls := letters(4)
		ls[0].Route, ls[1].Route = "orders", "orders"
		w.publish(t, ls...)
		if got, err := w.run(t); err != nil || got != (Result{Redriven: 2, Foreign: 2}) {
			t.Errorf("%+v, %v", got, err)
		}
		w.cfg.From = "orders" // the route was renamed
		if got, err := w.run(t); err != nil || got != (Result{Redriven: 2}) {
			t.Errorf("renamed: %+v, %v", got, err)
		}
	})
}

func TestWhatIsNoLetterFails(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.srv.Publish(topic, []byte("x"), map[string]string{"a": "b"})
		w.srv.Publish(topic, []byte("x"), map[string]string{"pushsink-route": "telemetry", "pushsink-data-size": "7"})
		if got, err := w.run(t); err != nil || got != (Result{Failed: 2}) || len(w.requests) != 0 {
			t.Errorf("%+v, %v, %d requests", got, err, len(w.requests))
		}
	})
}

func TestBounds(t *testing.T) {
	t.Run("max", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.cfg.Max, w.cfg.Concurrency = 7, 3
			w.publish(t, letters(20)...)
			if got, err := w.run(t); err != nil || got != (Result{Redriven: 7}) || w.acked() != 7 || len(w.requests) != 7 {
				t.Errorf("%+v, %v, %d acknowledged, %d requests", got, err, w.acked(), len(w.requests))
			}
		})
	})
	t.Run("max-failed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.cfg.MaxFailed, w.cfg.Concurrency = 4, 2
			w.answer = func(_ int, _ *http.Request, _ []byte, rw http.ResponseWriter) { rw.WriteHeader(422) }
			w.publish(t, letters(20)...)
			if got, err := w.run(t); err == nil || !strings.Contains(err.Error(), "-max-failed=4") || got != (Result{Failed: 4}) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	})
	t.Run("concurrency", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.cfg.Concurrency = 3
			var mu sync.Mutex
			open, most := 0, 0
			w.answer = func(_ int, _ *http.Request, _ []byte, rw http.ResponseWriter) {
				mu.Lock()
				open++
				most = max(most, open)
				mu.Unlock()
				defer func() { mu.Lock(); open--; mu.Unlock() }()
				rw.WriteHeader(http.StatusNoContent)
			}
			w.publish(t, letters(20)...)
			if got, err := w.run(t); err != nil || got != (Result{Redriven: 20}) || most > 3 {
				t.Errorf("%+v, %v, %d at once", got, err, most)
			}
		})
	})
}

func TestInterruptedRunAcknowledgesNothingUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		w.answer = func(n int, req *http.Request, _ []byte, rw http.ResponseWriter) {
			if n == 2 {
				cancel()
			}
			<-req.Context().Done()
		}
		w.publish(t, letters(2)...)
		got, err := Run(ctx, w.cfg)
		if !errors.Is(err, context.Canceled) || got.Redriven != 0 || w.acked() != 0 {
			t.Errorf("%+v, %v, %d acknowledged", got, err, w.acked())
		}
	})
}

func TestFailedAcknowledgementIsNoSuccess(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.publish(t, letters(1)...)
		if got, err := w.run(t); err == nil || !strings.Contains(err.Error(), "not acknowledged") || got.Redriven != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}, pstest.WithErrorInjection("Acknowledge", codes.PermissionDenied, "no"))
}

func TestMissingSubscriptionIsNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.cfg.Subscription = "projects/p/subscriptions/none"
		if _, err := w.run(t); err == nil || !strings.Contains(err.Error(), "projects/p/subscriptions/none") {
			t.Errorf("got %v", err)
		}
	})
}

func TestTokenIsSentWithEachRecord(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.cfg.Token = func(context.Context) (string, error) { return "tok", nil }
		w.publish(t, letters(2)...)
		if got, err := w.run(t); err != nil || got != (Result{Redriven: 2}) {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, req := range w.requests {
			if got := req.Header.Get("Authorization"); got != "Bearer tok" {
				t.Errorf("Authorization %q", got)
			}
		}
		w.cfg.Token = func(context.Context) (string, error) { return "", errors.New("no key") }
		w.publish(t, letters(1)...)
		if got, err := w.run(t); err == nil || !strings.Contains(err.Error(), "no key") || got.Redriven != 0 || len(w.requests) != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestRecordIsPostedTheWayItsRouteReadsIt(t *testing.T) {
	record := func() *schema.Record {
		return &schema.Record{ID: "7", Data: []byte("\xffdata"), Published: time.Unix(1, 500).UTC(), OrderingKey: "o",
			Subscription: "projects/p/subscriptions/s", Attempt: 2, Attributes: map[string]string{"User-Id": "u", "Content-Type": "text/x", "Content-Length": "9", "Authorization": "x"}}
	}
	t.Run("unwrapped", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			r := record()
			r.FoldAttributes = true
			w.publish(t, deadletter.Letter{Record: r})
			if got, err := w.run(t); err != nil || got != (Result{Redriven: 1}) {
				t.Fatalf("%+v, %v\n%s", got, err, w.out)
			}
			if !bytes.Equal(w.bodies[0], r.Data) {
				t.Errorf("body %q", w.bodies[0])
			}
			for name, want := range map[string]string{
				"User-Id": "u", "Content-Type": "text/x", "Authorization": "", "X-Goog-Pubsub-Message-Id": "7",
				"X-Goog-Pubsub-Publish-Time": "1970-01-01T00:00:01.0000005Z", "X-Goog-Pubsub-Ordering-Key": "o",
				"X-Goog-Pubsub-Subscription-Name": "projects/p/subscriptions/s", "X-Goog-Pubsub-Delivery-Attempt": "2",
			} {
				if got := w.requests[0].Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	})
	t.Run("unwrapped and no header", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.cfg.Envelope = schema.UnwrappedEnvelope
			w.publish(t, deadletter.Letter{Record: &schema.Record{Attributes: map[string]string{"a b": "c"}}},
				deadletter.Letter{Record: &schema.Record{Attributes: map[string]string{"a": "1", "A": "2"}}})
			if got, err := w.run(t); err != nil || got.Redriven != 0 || got.Failed != 2 || len(w.requests) != 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	})
	t.Run("cloudevents", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			r := record()
			w.publish(t, deadletter.Letter{Record: r, Envelope: schema.CloudEventsEnvelope})
			if got, err := w.run(t); err != nil || got != (Result{Redriven: 1}) {
				t.Fatalf("%+v, %v\n%s", got, err, w.out)
			}
			if got := w.requests[0].Header.Get("Content-Type"); got != "application/cloudevents+json" {
				t.Errorf("Content-Type %q", got)
			}
			var e map[string]json.RawMessage
			if err := json.Unmarshal(w.bodies[0], &e); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{
				"specversion": `"1.0"`, "id": `"7"`, "source": `"//pubsub.googleapis.com/projects/p/subscriptions/s"`,
				"type": `"google.cloud.pubsub.topic.v1.messagePublished"`, "time": `"1970-01-01T00:00:01.0000005Z"`, "datacontenttype": `"application/json"`,
			}
			got := make(map[string]string)
			for k, v := range e {
				if k != "data" {
					got[k] = string(v)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			if got := decode(t, e["data"]); !reflect.DeepEqual(got, r) {
				t.Errorf("got %+v", got)
			}
		})
	})
	t.Run("not UTF-8", func(t *testing.T) {
		inBubble(t, func(t *testing.T, w *world) {
			w.publish(t, deadletter.Letter{Record: &schema.Record{ID: "\xff", Data: []byte("x")}})
			if got, err := w.run(t); err != nil || got != (Result{Failed: 1}) || len(w.requests) != 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	})
}

func TestValidateNamesEveryFlag(t *testing.T) {
	u, _ := url.Parse("http://example.test/?q=1")
	bad := Config{URL: u, Token: func(context.Context) (string, error) { return "", nil }, Envelope: "auto", Max: 0, Concurrency: 1001, Timeout: maxTimeout + 1}
	err := bad.Validate()
	for _, flag := range []string{"-subscription", "-route", "-url: must be https", "-url: must have no query", "-envelope", "-max=0", "-max-failed=0", "-concurrency=1001", "-idle=0s", "-timeout=2m30"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is missing in %v", flag, err)
		}
	}
	if _, err := Run(t.Context(), bad); err == nil {
		t.Error("Run takes it")
	}
}
