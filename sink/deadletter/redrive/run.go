package redrive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/cespare/xxhash/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink/deadletter"
)

// maxHeld bounds the letters a run leaves alone and remembers, by ids of some 200 bytes.
const maxHeld = 10_000

// Result counts letters.
type Result struct {
	Redriven int // answered 204 and acknowledged
	Failed   int // refused, damaged, or rejected once more
	Foreign  int // refused by another route than From
	Newer    int // published after the run started
}

func (r Result) String() string {
	return fmt.Sprintf("redriven %d, failed %d, of other routes %d, newer than this run %d",
		r.Redriven, r.Failed, r.Foreign, r.Newer)
}

// run is one pass over the subscription. One goroutine owns it; only posts run beside.
type run struct {
	cfg    Config
	poster *poster
	start  time.Time
	posted int
	result Result

	held     map[string]string   // message id -> latest ack id of what stays
	redriven map[uint64]struct{} // records answered 204; tells a rejection once more from other new letters

	lines   int // failures printed
	printed time.Time
}

// Run posts letters until the subscription is idle, a bound is reached or ctx ends. The
// error says why a run could not go on; failed letters are no error of the run.
func Run(ctx context.Context, c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	r := &run{
		cfg:      c,
		poster:   newPoster(c),
		start:    time.Now(),
		held:     make(map[string]string),
		redriven: make(map[uint64]struct{}),
	}
	err := r.loop(ctx)
	r.release(context.WithoutCancel(ctx))
	fmt.Fprintln(c.Progress, r.result)
	return r.result, err
}

func (r *run) loop(ctx context.Context) error {
	last := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := r.cfg.Concurrency
		if r.cfg.Max != -1 {
			n = min(n, r.cfg.Max-r.posted)
		}
		wait := r.cfg.Idle - time.Since(last)
		switch {
		case n < 1 || wait <= 0:
			return nil
		case r.result.Failed >= r.cfg.MaxFailed:
			return fmt.Errorf("%w: -max-failed=%d letters failed", errStop, r.cfg.MaxFailed)
		case len(r.held) >= maxHeld:
			return fmt.Errorf("%w: %d letters were left alone; a subscription with the filter attributes.pushsink-route=%q holds this route's only",
				errStop, len(r.held), r.cfg.From)
		}
		got, err := r.pull(ctx, n, wait)
		if err != nil {
			return err
		}
		todo := r.sort(got, &last)
		if err := r.post(ctx, todo); err != nil {
			return err
		}
		if len(todo) > 0 {
			last = time.Now()
		}
		if time.Since(r.printed) >= time.Second {
			r.printed = time.Now()
			fmt.Fprintln(r.cfg.Progress, r.result)
		}
	}
}

// pull returns up to n messages, leased for the longest time, or none after wait.
func (r *run) pull(ctx context.Context, n int, wait time.Duration) ([]*pubsubpb.ReceivedMessage, error) {
	pctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	resp, err := r.cfg.Client.SubscriptionAdminClient.Pull(pctx, &pubsubpb.PullRequest{
		Subscription: r.cfg.Subscription,
		MaxMessages:  int32(n),
	})
	if err != nil {
		if ctx.Err() == nil && (pctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded) {
			return nil, nil
		}
		return nil, fmt.Errorf("pulling from %s: %w", r.cfg.Subscription, err)
	}
	got := resp.GetReceivedMessages()
	ids := make([]string, len(got))
	for i, m := range got {
		ids[i] = m.GetAckId()
	}
	if err := r.extend(ctx, ids, lease); err != nil {
		return nil, fmt.Errorf("leasing messages of %s: %w", r.cfg.Subscription, err)
	}
	return got, nil
}

// letter is one message on its way.
type letter struct {
	*deadletter.Letter
	id, ackID string
	err       error // of the post
}

// sort picks what is to be posted; the rest is held. last moves when a letter is seen
// for the first time, unless it is newer than the run: those could come for ever.
func (r *run) sort(got []*pubsubpb.ReceivedMessage, last *time.Time) []*letter {
	var todo []*letter
	for _, m := range got {
		id := m.GetMessage().GetMessageId()
		_, again := r.held[id]
		r.held[id] = m.GetAckId() // taken out when it is acknowledged
		if again {
			continue
		}
		l, err := deadletter.Restore(m.GetMessage().GetData(), m.GetMessage().GetAttributes())
		newer := m.GetMessage().GetPublishTime().AsTime().After(r.start)
		if !newer {
			*last = time.Now()
		}
		switch {
		case err != nil:
			r.fail(id, err)
		case newer:
			if _, mine := r.redriven[identity(l.Record)]; mine {
				r.fail(id, errors.New("rejected once more"))
			} else {
				r.result.Newer++
			}
		case l.Route != r.cfg.From:
			r.result.Foreign++
		default:
			todo = append(todo, &letter{Letter: l, id: id, ackID: m.GetAckId()})
		}
	}
	return todo
}

// post posts todo at once and acknowledges what got through.
func (r *run) post(ctx context.Context, todo []*letter) error {
	r.posted += len(todo)
	var wg sync.WaitGroup
	for _, l := range todo {
		wg.Go(func() { l.err = r.poster.post(ctx, l.Letter) })
	}
	wg.Wait()
	var stop error
	var acks []string
	for _, l := range todo {
		switch {
		case l.err == nil:
			acks = append(acks, l.ackID)
			delete(r.held, l.id)
			r.redriven[identity(l.Record)] = struct{}{}
		case ctx.Err() != nil:
			stop = ctx.Err() // it stays, and nothing is said of it
		case errors.Is(l.err, errStop):
			stop = l.err
		default:
			r.fail(l.id, l.err)
		}
	}
	if err := r.acknowledge(context.WithoutCancel(ctx), acks); err != nil {
		return errors.Join(stop, fmt.Errorf("%d letters were written and not acknowledged (the next run writes them again): %w", len(acks), err))
	}
	r.result.Redriven += len(acks)
	return stop
}

func (r *run) fail(id string, err error) {
	r.result.Failed++
	const shown = 20
	switch r.lines++; {
	case r.lines <= shown:
		fmt.Fprintf(r.cfg.Progress, "letter %s: %v\n", id, err)
	case r.lines == shown+1:
		fmt.Fprintln(r.cfg.Progress, "further failures are only counted")
	}
}

// identity tells records apart well enough to name a rejection; nothing depends on it
// but a count.
func identity(rec *schema.Record) uint64 {
	d := xxhash.New()
	_, _ = d.WriteString(rec.ID)
	_, _ = d.Write([]byte{0})
	_, _ = d.Write(rec.Data)
	return d.Sum64()
}
