package deadletter

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2"
	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/semaphore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Publisher publishes letters. It is safe for many goroutines.
type Publisher struct {
	cfg    Config
	client *pubsub.Client

	// Held from admission until the client is done with the letter, which may be after
	// its caller left: that is what bounds the client's memory.
	letters *semaphore.Weighted
	bytes   *semaphore.Weighted

	last atomic.Pointer[attempt] // latest failed attempt of any topic

	// mu guards topics and closed, and is never held across I/O. topics grows to the
	// topics of the routes file and no further.
	mu     sync.Mutex
	topics map[string]*pubsub.Publisher
	closed bool
}

// attempt is a failed try of the client, which it keeps to itself while it goes on.
type attempt struct {
	at  time.Time
	err error
}

// topicName is the full name: https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names
var topicName = regexp.MustCompile(`^projects/[^/\s]+/topics/[A-Za-z][-A-Za-z0-9._~+%]{2,254}$`)

// New makes a publisher. It dials nothing yet, so it succeeds while Pub/Sub is down;
// missing credentials are an error.
func New(ctx context.Context, cfg Config) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Publisher{
		cfg:     cfg,
		letters: semaphore.NewWeighted(int64(cfg.MaxOutstanding)),
		bytes:   semaphore.NewWeighted(cfg.MaxOutstandingBytes),
		topics:  make(map[string]*pubsub.Publisher),
	}
	settings := &pubsub.ClientConfig{TopicAdminCallOptions: &vkit.TopicAdminCallOptions{
		Publish: []gax.CallOption{gax.WithRetry(p.retryer)},
	}}
	// The project completes short topic names; ours are full.
	opts := slices.Concat(cfg.ClientOptions, []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(wholeAnswers)),
	})
	client, err := pubsub.NewClientWithConfig(ctx, "unused", settings, opts...)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	p.client = client
	return p, nil
}

// wholeAnswers refuses a publish answer that does not name every message: the client
// takes the ids by index and would panic.
func wholeAnswers(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if err != nil {
		return err
	}
	asked, ok := req.(*pubsubpb.PublishRequest)
	if !ok {
		return nil
	}
	answer, ok := reply.(*pubsubpb.PublishResponse)
	if !ok || len(answer.GetMessageIds()) != len(asked.GetMessages()) {
		return status.Error(codes.DataLoss, "the answer does not confirm every message")
	}
	return nil
}

// retryer is the client's own retry policy for Publish, with a shorter longest pause,
// and remembers what it retries: the error of a publish that ran out of time says only that.
func (p *Publisher) retryer() gax.Retryer {
	return &rememberingRetryer{p: p, policy: gax.OnCodes([]codes.Code{
		codes.Aborted, codes.Canceled, codes.Internal, codes.ResourceExhausted,
		codes.Unknown, codes.Unavailable, codes.DeadlineExceeded,
	}, gax.Backoff{Initial: 100 * time.Millisecond, Max: 2 * time.Second, Multiplier: 2})}
}

type rememberingRetryer struct {
	p      *Publisher
	policy gax.Retryer
}

func (r *rememberingRetryer) Retry(err error) (time.Duration, bool) {
	r.p.last.Store(&attempt{time.Now(), err})
	return r.policy.Retry(err)
}

// Publish returns nil once the service confirmed the letter, and an *Error otherwise.
// When ctx ends first the letter may still arrive.
func (p *Publisher) Publish(ctx context.Context, l Letter) error {
	start := time.Now()
	if l.Record == nil || l.Route == "" || !topicName.MatchString(l.Topic) {
		return &Error{Topic: l.Topic, Permanent: true, Detail: "a letter needs a record, a route and a topic projects/P/topics/T"}
	}
	data, attributes, err := l.pack()
	if err != nil {
		return &Error{Topic: l.Topic, Permanent: true, Err: err}
	}
	size := proto.Size(&pubsubpb.PubsubMessage{Data: data, Attributes: attributes})
	if size > maxMessage {
		return &Error{Topic: l.Topic, Permanent: true, Detail: tooLarge}
	}
	topic, err := p.topic(l.Topic)
	if err != nil {
		return &Error{Topic: l.Topic, Err: err}
	}
	release, err := p.admit(ctx, int64(size))
	if err != nil {
		return ended(ctx, l.Topic, p.lastSince(start))
	}
	msg := &pubsub.Message{Data: data, Attributes: attributes}
	res := topic.Publish(ctx, msg)
	select {
	case <-res.Ready():
	case <-ctx.Done():
		go func() {
			<-res.Ready()
			release()
		}()
		return ended(ctx, l.Topic, p.lastSince(start))
	}
	defer release()
	_, err = res.Get(context.WithoutCancel(ctx)) // it is ready
	if status.Code(err) == codes.InvalidArgument {
		// One bad message fails its whole request, and this one may be a good one.
		return p.publishAlone(ctx, l.Topic, msg)
	}
	if errors.Is(err, pubsub.ErrPublisherStopped) {
		err = ErrClosed
	}
	if err != nil {
		return classify(l.Topic, err, false)
	}
	return nil
}

func (p *Publisher) publishAlone(ctx context.Context, topic string, msg *pubsub.Message) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	_, err := p.client.TopicAdminClient.Publish(ctx, &pubsubpb.PublishRequest{
		Topic:    topic,
		Messages: []*pubsubpb.PubsubMessage{{Data: msg.Data, Attributes: msg.Attributes}},
	})
	if err != nil {
		return classify(topic, err, true)
	}
	return nil
}

// admit waits until a letter of size bytes may be out; release gives its share back.
func (p *Publisher) admit(ctx context.Context, size int64) (release func(), err error) {
	size = min(size, p.cfg.MaxOutstandingBytes)
	if err := p.letters.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	if err := p.bytes.Acquire(ctx, size); err != nil {
		p.letters.Release(1)
		return nil, err
	}
	return func() {
		p.bytes.Release(size)
		p.letters.Release(1)
	}, nil
}

func (p *Publisher) lastSince(start time.Time) error {
	if a := p.last.Load(); a != nil && a.at.After(start) {
		return a.err
	}
	return nil
}

func (p *Publisher) topic(name string) (*pubsub.Publisher, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	t := p.topics[name]
	if t == nil {
		t = p.client.Publisher(name)
		t.PublishSettings.DelayThreshold = p.cfg.Linger
		t.PublishSettings.Timeout = p.cfg.Timeout
		// Admission is ours: theirs would be per topic.
		t.PublishSettings.FlowControlSettings.LimitExceededBehavior = pubsub.FlowControlIgnore
		p.topics[name] = t
	}
	return t, nil
}

// Close refuses new letters, sends what is waiting, and returns when all letters have
// their answer or ctx ended, which is then its error.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	wasClosed := p.closed
	p.closed = true
	topics := p.topics
	p.mu.Unlock()
	if wasClosed {
		return nil
	}
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		var wg sync.WaitGroup
		for _, t := range topics {
			wg.Go(t.Stop)
		}
		wg.Wait()
		// Letters that are being sent alone hold their share until they are done.
		if all := int64(p.cfg.MaxOutstanding); p.letters.Acquire(ctx, all) == nil {
			p.letters.Release(all)
		}
	}()
	var err error
	select {
	case <-flushed:
		err = ctx.Err()
	case <-ctx.Done():
		err = ctx.Err()
	}
	return errors.Join(err, p.client.Close())
}
