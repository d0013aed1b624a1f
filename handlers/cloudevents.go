package handlers

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/schema"
)

const (
	// cloudEventType is the media type of the structured mode.
	cloudEventType = "application/cloudevents+json"
	// pubsubEvent is the type of an event that carries a Pub/Sub message; its data is
	// the wrapped envelope.
	pubsubEvent = "google.cloud.pubsub.topic.v1.messagePublished"
)

// required are the context attributes that every event has (CloudEvents 1.0).
var required = [...]string{"specversion", "id", "source", "type"}

// isCloudEvent reports an event in either mode: by the media type, or by a header of one of
// the required attributes.
func isCloudEvent(h http.Header) bool {
	if h["Ce-Specversion"] != nil || h["Ce-Type"] != nil || h["Ce-Id"] != nil || h["Ce-Source"] != nil {
		return true
	}
	return isStructured(h)
}

func isStructured(h http.Header) bool {
	v := h["Content-Type"]
	if len(v) != 1 || len(v[0]) < len(cloudEventType) {
		return false
	}
	t, _, err := mime.ParseMediaType(v[0])
	return err == nil && t == cloudEventType
}

// event is a CloudEvent before it is a record.
type event struct {
	// attributes are the context attributes, without prefix.
	attributes map[string]string
	// data stands in the body; text says that it is a JSON string whose text is the
	// payload, encoded that it is base64, inline that it is JSON within JSON.
	data                  []byte
	text, encoded, inline bool
}

// cloudEvent fills rec from an event. body is taken over; the buffer returned is what
// rec.Data stands in. refused is a payload of a type that the route does not take, which
// is the route's policy's.
func (d *delivery) cloudEvent(h http.Header, body *buffer, pool *buffers, format string, rec *schema.Record) (buf *buffer, refused, bad *schema.Error) {
	var ev event
	if isStructured(h) {
		ev, bad = d.envelope.event(body.b)
	} else {
		ev, bad = binaryEvent(h, body.b)
	}
	if bad == nil {
		bad = ev.valid()
	}
	if bad != nil {
		pool.put(body)
		return nil, nil, bad
	}
	if ev.attributes["type"] == pubsubEvent && !ev.encoded && !ev.text {
		buf, bad = d.envelope.decode(ev.data, pool, rec)
		pool.put(body)
		return buf, nil, bad
	}
	rec.Attributes = ev.attributes
	rec.ID = ev.attributes["id"]
	rec.Published = publishTime([]byte(`"` + ev.attributes["time"] + `"`))
	switch {
	case ev.encoded || ev.text:
		buf = pool.get(len(ev.data))
		// The event was validated, and text is never longer than its quoted form.
		buf.b, _ = jsontext.AppendUnquote(buf.b, ev.data)
		if ev.encoded {
			text := buf
			buf = body
			n, err := base64Encoding(text.b).Decode(buf.b[:cap(buf.b)], text.b)
			pool.put(text)
			if err != nil {
				pool.put(buf)
				return nil, nil, badEnvelope("data_base64 is not base64")
			}
			buf.b = buf.b[:n]
		} else {
			pool.put(body)
		}
		rec.Data = buf.b
	default:
		buf, rec.Data = body, ev.data
	}
	rec.Encoding = ev.encoding()
	if !takes(format, ev.attributes["datacontenttype"]) {
		refused = &schema.Error{Code: schema.UnsupportedContentType, Detail: "unsupported datacontenttype for input.format " + format}
	}
	return buf, refused, nil
}

// valid checks the attributes that every event must have.
func (e *event) valid() *schema.Error {
	for _, name := range required {
		if e.attributes[name] == "" {
			return badEnvelope("the event has no " + name)
		}
	}
	if e.attributes["specversion"] != "1.0" {
		return badEnvelope("specversion is not 1.0")
	}
	return nil
}

// binaryEvent reads an event whose attributes are ce-* headers and whose data is the body.
func binaryEvent(h http.Header, body []byte) (event, *schema.Error) {
	ev := event{attributes: make(map[string]string), data: body}
	for name, values := range h {
		rest, ok := strings.CutPrefix(name, "Ce-")
		if !ok {
			continue
		}
		v := strings.Join(values, ",")
		// Characters outside ASCII travel percent-encoded; a stray % stands for itself.
		if strings.Contains(v, "%") {
			if decoded, err := url.PathUnescape(v); err == nil {
				v = decoded
			}
		}
		if !utf8.ValidString(v) {
			return ev, badEnvelope("an attribute's header is not UTF-8")
		}
		ev.attributes[strings.ToLower(rest)] = v
	}
	if v := h.Get("Content-Type"); v != "" {
		if !utf8.ValidString(v) {
			return ev, badEnvelope("Content-Type is not UTF-8")
		}
		ev.attributes["datacontenttype"] = v
	}
	return ev, nil
}

// event reads the structured mode: one JSON object with the attributes and data or
// data_base64.
func (e *envelope) event(body []byte) (ev event, bad *schema.Error) {
	defer e.reset(nil)
	e.reset(body)
	e.strict()
	if bad = e.enter("the event"); bad != nil {
		return ev, bad
	}
	ev.attributes = make(map[string]string)
	var data, encoded []byte
	for {
		name, more, bad := e.next()
		if bad != nil {
			return ev, bad
		}
		if !more {
			break
		}
		key := string(name)
		k := e.dec.PeekKind()
		v, bad := e.value()
		switch {
		case bad != nil:
			return ev, bad
		case key == "data":
			data = v
		case k == 'n':
		case key == "data_base64":
			if k != '"' {
				return ev, badEnvelope("data_base64 is not a string")
			}
			encoded = v
		case k == '"':
			text, _ := jsontext.AppendUnquote(nil, v)
			ev.attributes[key] = string(text)
		case k == 't', k == 'f', k == '0':
			ev.attributes[key] = string(v)
		default:
			return ev, badEnvelope("a context attribute is not a string, a number or a bool")
		}
	}
	switch _, err := e.dec.ReadToken(); {
	case err == nil:
		return ev, badEnvelope("data after the JSON object")
	case err != io.EOF:
		return ev, e.syntax(err)
	case encoded != nil && data != nil:
		return ev, badEnvelope("the event has both data and data_base64")
	case encoded != nil:
		ev.data, ev.encoded = encoded, true
	default:
		ev.data = data
		ev.text = len(data) > 0 && data[0] == '"' && !isJSON(ev.attributes["datacontenttype"])
		ev.inline = len(data) > 0 && !ev.text
	}
	return ev, nil
}

// encoding is how the data is encoded, where the event says so: JSON that stands in the event
// itself, or the type of the data.
func (e *event) encoding() schema.PayloadEncoding {
	contentType := e.attributes["datacontenttype"]
	t, _, err := mime.ParseMediaType(contentType)
	switch {
	case contentType == "" && e.inline, err == nil && strings.HasSuffix(t, "json"): // avro/json too
		return schema.JSONEncoding
	case err == nil && (t == "application/octet-stream" || strings.Contains(t, "avro") || strings.Contains(t, "protobuf")):
		return schema.BinaryEncoding
	}
	return ""
}

// isJSON reports whether a datacontenttype says JSON; an absent one does.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || t == "text/json" || strings.HasSuffix(t, "+json"))
}

// takes reports whether a route's format can be of that type. Only a plain contradiction is
// refused: a type that says nothing is left to the decoder.
func takes(format, contentType string) bool {
	t, _, _ := mime.ParseMediaType(contentType)
	switch {
	case format == "bytes", contentType == "":
		return true
	case format == "json":
		return isJSON(contentType)
	default: // avro, protobuf: either encoding
		return isJSON(contentType) || t == "application/octet-stream" || strings.Contains(t, format)
	}
}
