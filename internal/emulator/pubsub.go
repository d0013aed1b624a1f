package emulator

import (
	"context"
	"os/exec"
	"strconv"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
)

// PubSubEmulator is a running Pub/Sub emulator. What it does otherwise than the service:
// pushes carry no Authorization header and no ordering key, filters are not applied, 202
// counts as a failure, a failed push comes again after about a second for ever, and a
// push subscription has exactly two pushes in flight.
type PubSubEmulator struct {
	// Addr is host:port, as PUBSUB_EMULATOR_HOST wants it.
	Addr string

	publisher  pubsubpb.PublisherClient
	subscriber pubsubpb.SubscriberClient
}

// PubSub runs a Pub/Sub emulator for t. It takes a second or two to start.
func PubSub(t testing.TB) *PubSubEmulator {
	t.Helper()
	jar, err := sdkGlob("platform/pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar")
	if err != nil {
		absent(t, "Pub/Sub", err)
	}
	java, err := exec.LookPath("java")
	if err != nil {
		absent(t, "Pub/Sub", err)
	}
	e := launch(t, pubsubKind(java, jar))
	return &PubSubEmulator{
		Addr:       e.addr,
		publisher:  pubsubpb.NewPublisherClient(e.conn),
		subscriber: pubsubpb.NewSubscriberClient(e.conn),
	}
}

func pubsubKind(java, jar string) kind {
	return kind{
		name: "Pub/Sub",
		command: func(port int) *exec.Cmd {
			// Without a bound the heap grows to 1.7 GB over 30,000 messages.
			return exec.Command(java, "-Xmx512m", "-jar", jar, "--host=127.0.0.1", "--port="+strconv.Itoa(port))
		},
		probe: func(ctx context.Context, conn *grpc.ClientConn) error {
			_, err := pubsubpb.NewPublisherClient(conn).ListTopics(ctx,
				&pubsubpb.ListTopicsRequest{Project: "projects/probe"}, grpc.WaitForReady(true))
			return err
		},
	}
}

// Topic makes the topic projects/PROJECT/topics/ID and returns that name.
func (p *PubSubEmulator) Topic(t testing.TB, project, id string) string {
	t.Helper()
	name := "projects/" + project + "/topics/" + id
	if _, err := p.publisher.CreateTopic(t.Context(), &pubsubpb.Topic{Name: name}); err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return name
}

// Subscribe makes s. Use it where PushTo does not say enough.
func (p *PubSubEmulator) Subscribe(t testing.TB, s *pubsubpb.Subscription) {
	t.Helper()
	if _, err := p.subscriber.CreateSubscription(t.Context(), s); err != nil {
		t.Fatalf("create %s: %v", s.GetName(), err)
	}
}

// PushTo makes the subscription projects/PROJECT/subscriptions/ID with wrapped pushes of
// topic to endpoint, and returns its name.
func (p *PubSubEmulator) PushTo(t testing.TB, project, id, topic, endpoint string) string {
	t.Helper()
	name := "projects/" + project + "/subscriptions/" + id
	p.Subscribe(t, &pubsubpb.Subscription{
		Name: name, Topic: topic, AckDeadlineSeconds: 10,
		PushConfig: &pubsubpb.PushConfig{PushEndpoint: endpoint},
	})
	return name
}

// PullFrom makes a pull subscription and returns its name.
func (p *PubSubEmulator) PullFrom(t testing.TB, project, id, topic string) string {
	t.Helper()
	name := "projects/" + project + "/subscriptions/" + id
	p.Subscribe(t, &pubsubpb.Subscription{Name: name, Topic: topic, AckDeadlineSeconds: 10})
	return name
}

// Unsubscribe deletes a subscription.
func (p *PubSubEmulator) Unsubscribe(t testing.TB, name string) {
	t.Helper()
	if _, err := p.subscriber.DeleteSubscription(t.Context(), &pubsubpb.DeleteSubscriptionRequest{Subscription: name}); err != nil {
		t.Fatalf("delete %s: %v", name, err)
	}
}

// Pull takes and acknowledges at most max messages; it may return none although some
// are there.
func (p *PubSubEmulator) Pull(t testing.TB, subscription string, max int32) []*pubsubpb.PubsubMessage {
	t.Helper()
	got, err := p.subscriber.Pull(t.Context(), &pubsubpb.PullRequest{Subscription: subscription, MaxMessages: max})
	if err != nil {
		t.Fatalf("pull %s: %v", subscription, err)
	}
	if len(got.GetReceivedMessages()) == 0 {
		return nil
	}
	var messages []*pubsubpb.PubsubMessage
	ack := &pubsubpb.AcknowledgeRequest{Subscription: subscription}
	for _, m := range got.GetReceivedMessages() {
		messages = append(messages, m.GetMessage())
		ack.AckIds = append(ack.AckIds, m.GetAckId())
	}
	if _, err := p.subscriber.Acknowledge(t.Context(), ack); err != nil {
		t.Fatalf("acknowledge on %s: %v", subscription, err)
	}
	return messages
}

// publishBatch is the service's own bound of messages in one publish call.
// https://cloud.google.com/pubsub/quotas#resource_limits
const publishBatch = 1000

// Publish publishes messages in order and returns their ids.
func (p *PubSubEmulator) Publish(t testing.TB, topic string, messages ...*pubsubpb.PubsubMessage) []string {
	t.Helper()
	var ids []string
	for len(messages) > 0 {
		n := min(len(messages), publishBatch)
		answer, err := p.publisher.Publish(t.Context(), &pubsubpb.PublishRequest{Topic: topic, Messages: messages[:n]})
		if err != nil {
			t.Fatalf("publish to %s: %v", topic, err)
		}
		ids = append(ids, answer.GetMessageIds()...)
		messages = messages[n:]
	}
	return ids
}
