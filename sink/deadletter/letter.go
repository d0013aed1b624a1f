package deadletter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pushsink/pushsink/schema"
)

// Letter is a rejected record with what became of it.
type Letter struct {
	Topic       string // projects/P/topics/T; Restore leaves it empty
	Record      *schema.Record
	Route       string
	Destination string
	// Envelope is the route's input.envelope, kept so that a redrive posts the record
	// the way the route reads it. Empty is the same as auto.
	Envelope schema.Envelope
	Err      error
	Code     schema.Code
}

// ErrNotLetter: the message was not published by this package, or is damaged.
var ErrNotLetter = errors.New("not a pushsink dead letter")

const (
	prefix = "pushsink-"

	errorName       = "error"
	codeName        = "code"
	routeName       = "route"
	destinationName = "destination"
	idName          = "message-id"
	publishedName   = "publish-time"
	orderingName    = "ordering-key"
	subName         = "subscription"
	attemptName     = "attempt"
	envelopeName    = "envelope"
	packedName      = "attributes"
	sizeName        = "data-size"
)

// own lists the letter's own attributes, names without the prefix, in a fixed order.
func (l *Letter) own() [][2]string {
	r := l.Record
	text := ""
	if l.Err != nil {
		text = cut(l.Err.Error(), maxValue)
	}
	published := ""
	if !r.Published.IsZero() {
		published = r.Published.UTC().Format(time.RFC3339Nano)
	}
	attempt := ""
	if r.Attempt != 0 {
		attempt = strconv.Itoa(r.Attempt)
	}
	envelope := ""
	switch {
	case l.Envelope == schema.UnwrappedEnvelope, r.FoldAttributes:
		envelope = string(schema.UnwrappedEnvelope)
	case l.Envelope == schema.CloudEventsEnvelope:
		envelope = string(l.Envelope)
	}
	all := [][2]string{
		{routeName, l.Route},
		{codeName, string(l.Code)},
		{errorName, text},
		{destinationName, l.Destination},
		{idName, r.ID},
		{publishedName, published},
		{orderingName, r.OrderingKey},
		{subName, r.Subscription},
		{attemptName, attempt},
		{envelopeName, envelope},
	}
	set := all[:0]
	for _, a := range all {
		if a[1] != "" {
			set = append(set, a)
		}
	}
	return set
}

// cut shortens s to at most n bytes, whole characters, valid UTF-8.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Restore reads a message back into the letter it was made from. The record shares data
// with the message. A message that is not a letter is ErrNotLetter.
func Restore(data []byte, attributes map[string]string) (*Letter, error) {
	data, own, attrs, err := unpack(data, attributes)
	if err != nil {
		return nil, err
	}
	if own[routeName] == "" {
		return nil, fmt.Errorf("%w: it has no attribute %s%s", ErrNotLetter, prefix, routeName)
	}
	r := &schema.Record{
		Data:         data,
		Attributes:   attrs,
		ID:           own[idName],
		OrderingKey:  own[orderingName],
		Subscription: own[subName],
	}
	if s := own[publishedName]; s != "" {
		if r.Published, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return nil, fmt.Errorf("%w: %s%s is not a time", ErrNotLetter, prefix, publishedName)
		}
	}
	if s := own[attemptName]; s != "" {
		if r.Attempt, err = strconv.Atoi(s); err != nil {
			return nil, fmt.Errorf("%w: %s%s is not a number", ErrNotLetter, prefix, attemptName)
		}
	}
	l := &Letter{
		Record:      r,
		Route:       own[routeName],
		Destination: own[destinationName],
		Envelope:    schema.Envelope(own[envelopeName]),
		Code:        schema.Code(own[codeName]),
	}
	r.FoldAttributes = l.Envelope == schema.UnwrappedEnvelope
	if s := own[errorName]; s != "" {
		l.Err = errors.New(s)
	}
	return l, nil
}
