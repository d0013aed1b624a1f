package handlers

import (
	"bytes"
	"encoding/base64"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

// envelope decodes the wrapped push envelope:
//
//	{"message":{"data":b64,"attributes":{},"messageId","publishTime","orderingKey"},"subscription","deliveryAttempt"}
//
// Names are matched byte for byte: a sender must not replace a member by another spelling of
// its name. messageId and publishTime may also be spelled message_id and publish_time;
// real deliveries carry both, and then the first spelling counts. A name that comes twice, and
// anything that is not strict JSON, is refused; unknown members are ignored.
//
// The members of interest stay where they are in the body until all is read, and then all
// text is copied into one string. An envelope is reused by one request at a time.
type envelope struct {
	src  bytes.Buffer
	dec  jsontext.Decoder
	body []byte
	// decoding: dec has the body, or what is left of it.
	decoding bool

	hasMessage, hasAttributes bool
	// Members as they stand in the body, quotes included; nil = absent or null.
	data, id, idAlt, published, publishedAlt, orderingKey, subscription []byte
	attempt                                                             int

	text  []byte // unquoted text of what is kept
	pairs []pair // attributes, as positions in text
	name  []byte // a member's name without its escapes

	kept map[string]string // the record's attributes, until the envelope decodes the next
}

type span struct{ from, to int }

type pair struct{ name, value span }

// badEnvelope is a refused envelope; what names the member and the rule.
func badEnvelope(what string) *schema.Error {
	return &schema.Error{Code: schema.BadEnvelope, Detail: what}
}

// decode fills rec from body. The payload is decoded into a buffer lent by pool, which the
// caller owns (nil = no payload); its attributes are the envelope's, and good until the next
// decode or forget. rec points into nothing else that is reused.
func (e *envelope) decode(body []byte, pool *buffers, rec *schema.Record) (*buffer, *schema.Error) {
	defer e.reset(nil)
	e.reset(body)
	if !e.readPlain() {
		e.reset(body)
		if err := e.read(); err != nil {
			return nil, err
		}
	}
	return e.fill(pool, rec)
}

// reset forgets the previous body and takes the next; nil lets go of it.
func (e *envelope) reset(body []byte) {
	e.body = body
	if e.decoding {
		e.src, e.decoding = bytes.Buffer{}, false
		e.dec.Reset(&e.src)
	}
	e.hasMessage, e.hasAttributes = false, false
	e.data, e.id, e.idAlt, e.published, e.publishedAlt = nil, nil, nil, nil, nil
	e.orderingKey, e.subscription, e.attempt = nil, nil, 0
	e.text, e.pairs = e.text[:0], e.pairs[:0]
}

// strict makes dec read the body.
func (e *envelope) strict() {
	e.src, e.decoding = *bytes.NewBuffer(e.body), true
	e.dec.Reset(&e.src)
}

// keptText is how much text an envelope that is kept for the next record has room for.
const keptText = 64 << 10

// forget lets go of the record's attributes, and of memory for unusually many or long ones: a
// payload with escapes is as long as the body.
func (e *envelope) forget() {
	if len(e.kept) > 16 {
		e.kept, e.pairs = nil, nil
	}
	if cap(e.text) > keptText {
		e.text = nil
	}
	clear(e.kept)
}

func (e *envelope) read() *schema.Error {
	e.strict()
	if err := e.enter("the body"); err != nil {
		return err
	}
	for {
		name, more, err := e.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch string(name) {
		case "message":
			if e.dec.PeekKind() == 'n' {
				err = e.skip()
			} else {
				e.hasMessage = true
				err = e.message()
			}
		case "subscription":
			e.subscription, err = e.str("subscription")
		case "deliveryAttempt":
			e.attempt, err = e.count("deliveryAttempt")
		default:
			err = e.skip()
		}
		if err != nil {
			return err
		}
	}
	switch _, err := e.dec.ReadToken(); {
	case err == nil:
		return badEnvelope("data after the JSON object, before byte " + strconv.FormatInt(e.dec.InputOffset(), 10))
	case err != io.EOF:
		return e.syntax(err)
	case !e.hasMessage:
		return badEnvelope("message is missing")
	case e.data == nil && !e.hasAttributes && e.id == nil && e.idAlt == nil:
		return badEnvelope("message has no data, no attributes and no messageId")
	}
	return nil
}

func (e *envelope) message() *schema.Error {
	if err := e.enter("message"); err != nil {
		return err
	}
	for {
		name, more, err := e.next()
		if err != nil || !more {
			return err
		}
		switch string(name) {
		case "data":
			e.data, err = e.str("message.data")
		case "attributes":
			err = e.attributes()
		case "messageId":
			e.id, err = e.str("message.messageId")
		case "message_id":
			e.idAlt, err = e.str("message.message_id")
		case "publishTime":
			e.published, err = e.str("message.publishTime")
		case "publish_time":
			e.publishedAlt, err = e.str("message.publish_time")
		case "orderingKey":
			e.orderingKey, err = e.str("message.orderingKey")
		default:
			err = e.skip()
		}
		if err != nil {
			return err
		}
	}
}

func (e *envelope) attributes() *schema.Error {
	if e.dec.PeekKind() == 'n' {
		return e.skip()
	}
	if err := e.enter("message.attributes"); err != nil {
		return err
	}
	e.hasAttributes = true
	for {
		name, more, err := e.next()
		if err != nil || !more {
			return err
		}
		var p pair
		p.name = e.keep(name)
		if e.dec.PeekKind() != '"' {
			if err := e.skip(); err != nil {
				return err
			}
			return badEnvelope("the value of an attribute is not a string")
		}
		v, err := e.value()
		if err != nil {
			return err
		}
		p.value = e.unquote(v)
		e.pairs = append(e.pairs, p)
	}
}

// enter reads the start of an object.
func (e *envelope) enter(what string) *schema.Error {
	if e.dec.PeekKind() != '{' {
		if err := e.skip(); err != nil {
			return err
		}
		return badEnvelope(what + " is not an object")
	}
	if _, err := e.dec.ReadToken(); err != nil {
		return e.syntax(err)
	}
	return nil
}

// next reads the next member's name, or the end of the object.
func (e *envelope) next() (name []byte, more bool, _ *schema.Error) {
	if e.dec.PeekKind() == '}' {
		_, err := e.dec.ReadToken()
		if err != nil {
			return nil, false, e.syntax(err)
		}
		return nil, false, nil
	}
	v, err := e.value()
	if err != nil {
		return nil, false, err
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1], true, nil
	}
	e.name, _ = jsontext.AppendUnquote(e.name[:0], v)
	return e.name, true, nil
}

// value reads one value and gives its place in the body, which stays valid.
func (e *envelope) value() ([]byte, *schema.Error) {
	v, err := e.dec.ReadValue()
	if err != nil {
		return nil, e.syntax(err)
	}
	end := e.dec.InputOffset()
	return e.body[end-int64(len(v)) : end], nil
}

// str reads a string or null, which counts as absent.
func (e *envelope) str(what string) ([]byte, *schema.Error) {
	k := e.dec.PeekKind()
	v, err := e.value()
	switch {
	case err != nil:
		return nil, err
	case k == 'n':
		return nil, nil
	case k != '"':
		return nil, badEnvelope(what + " is not a string")
	}
	return v, nil
}

// count reads a whole number from 0, or null.
func (e *envelope) count(what string) (int, *schema.Error) {
	k := e.dec.PeekKind()
	v, err := e.value()
	if err != nil || k == 'n' {
		return 0, err
	}
	if n, err := strconv.ParseUint(string(v), 10, 31); err == nil {
		return int(n), nil
	}
	return 0, badEnvelope(what + " is not a whole number from 0 to 2147483647")
}

func (e *envelope) skip() *schema.Error {
	if err := e.dec.SkipValue(); err != nil {
		return e.syntax(err)
	}
	return nil
}

// keep copies text that has no escapes.
func (e *envelope) keep(s []byte) span {
	from := len(e.text)
	e.text = append(e.text, s...)
	return span{from, len(e.text)}
}

// unquote keeps a JSON string of the body without its quotes and escapes. It was validated.
func (e *envelope) unquote(v []byte) span {
	if v == nil {
		return span{}
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return e.keep(v[1 : len(v)-1])
	}
	from := len(e.text)
	e.text, _ = jsontext.AppendUnquote(e.text, v)
	return span{from, len(e.text)}
}

// fill makes the record of the members read.
func (e *envelope) fill(pool *buffers, rec *schema.Record) (*buffer, *schema.Error) {
	id := e.unquote(e.id)
	if id.from == id.to {
		id = e.unquote(e.idAlt)
	}
	key, sub := e.unquote(e.orderingKey), e.unquote(e.subscription)

	text := string(e.text)
	at := func(s span) string { return text[s.from:s.to] }
	rec.ID, rec.OrderingKey, rec.Subscription, rec.Attempt = at(id), at(key), at(sub), e.attempt
	if len(text) > keptText { // which outlive the attributes
		rec.ID, rec.OrderingKey, rec.Subscription = strings.Clone(rec.ID), strings.Clone(rec.OrderingKey), strings.Clone(rec.Subscription)
	}
	if len(e.pairs) > 0 {
		if e.kept == nil {
			e.kept = make(map[string]string, len(e.pairs))
		}
		clear(e.kept)
		rec.Attributes = e.kept
		for _, p := range e.pairs {
			rec.Attributes[at(p.name)] = at(p.value)
		}
	}
	if e.published == nil {
		e.published = e.publishedAlt
	}
	if bytes.IndexByte(e.published, '\\') >= 0 { // some writers spell + so
		at := e.unquote(e.published)
		e.published = append(append([]byte{'"'}, e.text[at.from:at.to]...), '"')
	}
	rec.Published = publishTime(e.published)

	if e.data == nil {
		return nil, nil
	}
	data := e.data[1 : len(e.data)-1]
	if bytes.IndexByte(data, '\\') >= 0 {
		e.text, _ = jsontext.AppendUnquote(e.text[:0], e.data)
		data = e.text
	}
	to := pool.get(base64.StdEncoding.DecodedLen(len(data)))
	n, err := base64Encoding(data).Decode(to.b[:cap(to.b)], data)
	if err != nil {
		pool.put(to)
		return nil, badEnvelope("message.data is not base64")
	}
	to.b = to.b[:n]
	rec.Data = to.b
	return to, nil
}

// base64Encoding picks the alphabet and the padding that data uses.
func base64Encoding(data []byte) *base64.Encoding {
	padded := bytes.IndexByte(data, '=') >= 0
	url := bytes.IndexByte(data, '-') >= 0 || bytes.IndexByte(data, '_') >= 0
	switch {
	case padded && url:
		return base64.URLEncoding
	case padded:
		return base64.StdEncoding
	case url:
		return base64.RawURLEncoding
	default:
		return base64.RawStdEncoding
	}
}

// publishTime reads a quoted RFC 3339 time exactly. What it cannot read is the zero time: the
// mapping rejects the record if, and only if, it uses it.
func publishTime(v []byte) time.Time {
	if len(v) < 2 {
		return time.Time{}
	}
	v = v[1 : len(v)-1]
	// The library also takes an hour of one digit, a comma for the point, and offsets of a day.
	const seconds = len("2006-01-02T15:04:05")
	if len(v) <= seconds || v[len("2006-01-02T15")] != ':' || v[seconds] == ',' {
		return time.Time{}
	}
	if last := v[len(v)-len("07:00"):]; v[len(v)-1] != 'Z' && (string(last[:2]) > "23" || last[3] > '5') {
		return time.Time{}
	}
	// More digits than nanoseconds would be cut off silently.
	if _, fraction, ok := bytes.Cut(v, []byte{'.'}); ok {
		digits := 0
		for digits < len(fraction) && '0' <= fraction[digits] && fraction[digits] <= '9' {
			digits++
		}
		if digits > 9 {
			return time.Time{}
		}
	}
	var t time.Time
	if err := t.UnmarshalText(v); err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// wrapped reports whether body looks like a push envelope: a JSON object whose message is an
// object with data, attributes or an id. It is no check; what follows may be broken.
func wrapped(body []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	find := func(names ...string) bool {
		if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
			return false
		}
		for dec.PeekKind() == '"' {
			name, err := dec.ReadToken()
			if err != nil {
				return false
			}
			if slices.Contains(names, name.String()) {
				return true
			}
			if dec.SkipValue() != nil {
				return false
			}
		}
		return false
	}
	return find("message") && find("data", "attributes", "messageId", "message_id")
}

// syntax tells where body stops being strict JSON.
func (e *envelope) syntax(err error) *schema.Error {
	s := syntaxError(e.body, err)
	if s.Code == schema.BadJSON {
		s.Code = schema.BadEnvelope
	}
	return s
}
