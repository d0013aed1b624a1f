package redrive

import (
	"context"
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
)

// chunk keeps a request of ack ids, of some 200 bytes each, below Pub/Sub's 512 KiB.
const chunk = 1000

// ackTimeout bounds an acknowledgement or nack, with the client's retries.
const ackTimeout = 20 * time.Second

func (r *run) extend(ctx context.Context, ids []string, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	for part := range slices.Chunk(ids, chunk) {
		err := r.cfg.Client.SubscriptionAdminClient.ModifyAckDeadline(ctx, &pubsubpb.ModifyAckDeadlineRequest{
			Subscription:       r.cfg.Subscription,
			AckIds:             part,
			AckDeadlineSeconds: int32(d / time.Second),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *run) acknowledge(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	for part := range slices.Chunk(ids, chunk) {
		err := r.cfg.Client.SubscriptionAdminClient.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{
			Subscription: r.cfg.Subscription,
			AckIds:       part,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// release nacks what is held. Without it the leases would run out in ten minutes.
func (r *run) release(ctx context.Context) {
	_ = r.extend(ctx, slices.Collect(maps.Values(r.held)), 0)
}
