package handlers

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pushsink/pushsink/schema"
)

// messageIDHeader tells an unwrapped delivery that was sent with its metadata.
const messageIDHeader = "X-Goog-Pubsub-Message-Id"

// unwrapped fills rec from an unwrapped delivery: the body is the payload, the metadata
// stands in x-goog-pubsub-* headers where the subscription writes it, and every attribute is
// a header of its own. HTTP forgets the case of header names, so attributes are looked up
// without regard to it; they are kept in lower case.
func unwrapped(h http.Header, body []byte, rec *schema.Record) *schema.Error {
	rec.Data = body
	rec.FoldAttributes = true
	rec.ID = h.Get(messageIDHeader)
	rec.Subscription = h.Get("X-Goog-Pubsub-Subscription-Name")
	rec.OrderingKey = h.Get("X-Goog-Pubsub-Ordering-Key")
	if rec.OrderingKey == "" {
		rec.OrderingKey = h.Get("X-Goog-Ordering-Key") // as the emulator spells it
	}
	rec.Published = publishTime([]byte(`"` + h.Get("X-Goog-Pubsub-Publish-Time") + `"`))
	if n, err := strconv.ParseUint(h.Get("X-Goog-Pubsub-Delivery-Attempt"), 10, 31); err == nil {
		rec.Attempt = int(n)
	}
	for _, v := range [...]string{rec.ID, rec.Subscription, rec.OrderingKey} {
		if !utf8.ValidString(v) {
			return badEnvelope("a metadata header is not UTF-8")
		}
	}
	for name, values := range h {
		if transportHeader(name) {
			continue
		}
		v := strings.Join(values, ",")
		if !utf8.ValidString(v) {
			return badEnvelope("an attribute's header is not UTF-8")
		}
		if rec.Attributes == nil {
			rec.Attributes = make(map[string]string)
		}
		rec.Attributes[strings.ToLower(name)] = v
	}
	return nil
}

// transportHeader reports a header that belongs to the delivery and not to the message. Above
// all credentials: attributes go into cells and dead letters. name is in canonical form.
func transportHeader(name string) bool {
	switch name {
	case "Authorization", "Proxy-Authorization", "Cookie", "X-Serverless-Authorization",
		"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Connection",
		"Content-Encoding", "Content-Length", "Date", "Expect", "Forwarded", "From", "Host", "Keep-Alive", "Pragma",
		"Proxy-Connection", "Referer", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via",
		"Traceparent", "Tracestate", "X-Cloud-Trace-Context":
		return true
	}
	return strings.HasPrefix(name, "X-Goog-") || strings.HasPrefix(name, "X-Forwarded-")
}
