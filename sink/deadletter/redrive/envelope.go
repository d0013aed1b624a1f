package redrive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/net/http/httpguts"

	"github.com/pushsink/pushsink/schema"
)

// push is a wrapped Pub/Sub delivery.
type push struct {
	Message         message `json:"message"`
	Subscription    string  `json:"subscription,omitzero"`
	DeliveryAttempt int     `json:"deliveryAttempt,omitzero"`
}

type message struct {
	Data        []byte            `json:"data"` // base64; present even when empty
	Attributes  map[string]string `json:"attributes,omitzero"`
	MessageID   string            `json:"messageId,omitzero"`
	PublishTime string            `json:"publishTime,omitzero"`
	OrderingKey string            `json:"orderingKey,omitzero"`
}

// event is a structured CloudEvent that carries a delivery, as Eventarc sends it.
type event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Time            string `json:"time,omitzero"`
	DataContentType string `json:"datacontenttype"`
	Data            push   `json:"data"`
}

func wrap(r *schema.Record) push {
	return push{
		Message: message{
			Data:        r.Data,
			Attributes:  r.Attributes,
			MessageID:   r.ID,
			PublishTime: published(r),
			OrderingKey: r.OrderingKey,
		},
		Subscription:    r.Subscription,
		DeliveryAttempt: r.Attempt,
	}
}

func published(r *schema.Record) string {
	if r.Published.IsZero() {
		return ""
	}
	return r.Published.UTC().Format(time.RFC3339Nano)
}

// encode gives the body and the header that carry r in envelope. Text that is not UTF-8
// has no place in JSON and is an error.
func encode(r *schema.Record, envelope schema.Envelope) (body []byte, h http.Header, err error) {
	h = http.Header{}
	switch envelope {
	case schema.UnwrappedEnvelope:
		return r.Data, h, unwrap(r, h)
	case schema.CloudEventsEnvelope:
		if r.ID == "" {
			return nil, nil, errors.New("a record without an id cannot be posted as a CloudEvent")
		}
		h.Set("Content-Type", "application/cloudevents+json")
		body, err = json.Marshal(event{
			SpecVersion:     "1.0",
			ID:              r.ID,
			Source:          "//pubsub.googleapis.com/" + r.Subscription,
			Type:            "google.cloud.pubsub.topic.v1.messagePublished",
			Time:            published(r),
			DataContentType: "application/json",
			Data:            wrap(r),
		})
	case schema.WrappedEnvelope, schema.AutoEnvelope, "":
		h.Set("Content-Type", "application/json")
		body, err = json.Marshal(wrap(r))
	default:
		return nil, nil, fmt.Errorf("unknown envelope %q", envelope)
	}
	if err != nil {
		// The encoder's own text could quote the record.
		return nil, nil, errors.New("an attribute, the id or the ordering key is not UTF-8")
	}
	return body, h, nil
}

// transport are headers that belong to the connection or to us, not to a record: a
// record that came unwrapped may list them among its attributes.
var transport = map[string]bool{
	"Authorization": true, "Connection": true, "Content-Encoding": true, "Content-Length": true,
	"Expect": true, "Forwarded": true, "Host": true, "Keep-Alive": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Proxy-Authorization": true,
	"Accept-Encoding": true,
}

func unwrap(r *schema.Record, h http.Header) error {
	for k, v := range r.Attributes {
		name := http.CanonicalHeaderKey(k)
		if transport[name] {
			continue
		}
		if _, twice := h[name]; twice {
			return errors.New("two attributes have one header name")
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(v) {
			return errors.New("an attribute cannot be a header")
		}
		h[name] = []string{v}
	}
	attempt := ""
	if r.Attempt != 0 {
		attempt = strconv.Itoa(r.Attempt)
	}
	for name, v := range map[string]string{
		"Message-Id":        r.ID,
		"Publish-Time":      published(r),
		"Ordering-Key":      r.OrderingKey,
		"Subscription-Name": r.Subscription,
		"Delivery-Attempt":  attempt,
	} {
		if v != "" {
			h["X-Goog-Pubsub-"+name] = []string{v}
		}
	}
	return nil
}

func request(ctx context.Context, url string, body []byte, h http.Header) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h
	return req, nil
}
