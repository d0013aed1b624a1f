package schema

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// PayloadEncoding is how a payload of format avro or protobuf is encoded.
type PayloadEncoding string

const (
	BinaryEncoding PayloadEncoding = "binary"
	JSONEncoding   PayloadEncoding = "json"
)

// encodingAttribute is the attribute by which Pub/Sub says how a message of a topic with a
// schema is encoded: JSON or BINARY
// (https://cloud.google.com/pubsub/docs/subscribe-to-schema-messages).
const encodingAttribute = "googclient_schemaencoding"

// Open opens a file that the routes file names; the compiler closes it. Where a relative
// name begins is the caller's: beside the routes file.
type Open func(name string) (io.ReadCloser, error)

// MaxSchemaFile is how large a file with a payload's schema may be, in bytes.
const MaxSchemaFile = 16 << 20

// Kept is rec as it is kept for a later delivery in another envelope: what its own said of
// the encoding becomes the attribute that says it there.
func (r *Route) Kept(rec *Record) *Record {
	if r.Format != "avro" && r.Format != "protobuf" || rec.Encoding == "" {
		return rec
	}
	kept := *rec
	kept.Attributes = make(map[string]string, len(rec.Attributes)+1)
	for name, v := range rec.Attributes {
		if !strings.EqualFold(name, encodingAttribute) {
			kept.Attributes[name] = v
		}
	}
	kept.Attributes[encodingAttribute] = strings.ToUpper(string(rec.Encoding))
	return &kept
}

// payload decodes the payloads of a format other than json and bytes into a state's tree.
type payload interface {
	// decode reads binary, or the format's own JSON, which s.input holds already.
	decodeBinary(s *state, data []byte) *Error
	decodeJSON(s *state, data []byte) *Error
	// emptyIsValue: no bytes at all are a payload like any other.
	emptyIsValue() bool
}

// typed is a payload with the encoding that the route names; empty = none.
type typed struct {
	payload
	encoding PayloadEncoding
}

// encodingOf decides how r is encoded: what its envelope says, then what the topic's schema
// says, then what the route says. Only the last is not known of this very message.
func (t *typed) encodingOf(r *Record) PayloadEncoding {
	if r.Encoding != "" {
		return r.Encoding
	}
	said, _ := attributes{r}.lookup(encodingAttribute)
	switch {
	case strings.EqualFold(said, "JSON"):
		return JSONEncoding
	case strings.EqualFold(said, "BINARY"):
		return BinaryEncoding
	case t.encoding != "":
		return t.encoding
	}
	return BinaryEncoding
}

// decode makes s.tree of the record's payload; false = the record has none.
func (t *typed) decode(s *state) (bool, *Error) {
	data := s.rec.Data
	encoding := t.encodingOf(s.rec)
	if len(data) == 0 && (encoding == JSONEncoding || !t.emptyIsValue()) {
		return false, nil
	}
	if uint64(len(data)) > maxPayload {
		return false, &Error{Code: TooLarge, Detail: "payload is larger than 512 MiB"}
	}
	if err := s.builder.reset(len(data)); err != nil {
		return false, err
	}
	var err *Error
	if encoding == BinaryEncoding {
		err = t.decodeBinary(s, data)
	} else if err = s.input.decode(data); err == nil {
		err = t.decodeJSON(s, data)
	}
	if err != nil {
		return false, err
	}
	s.builder.finish(&s.tree)
	return true, nil
}

// document is the JSON of a payload that is decoded by a schema; false = there is none.
func (m *Mapping) document(rec *Record) (string, bool) {
	if m == nil || m.typed == nil { // a Mapper of another kind, or JSON
		return "", false
	}
	s := newState(rec)
	defer s.release()
	if err := m.decode(s); err != nil || !s.decoded {
		return "", false
	}
	return strings.Clone(s.tree.raw(s.tree.root())), true
}

// maxPayload keeps the JSON of a payload within the positions of a node.
const maxPayload = 512 << 20

// input reads what input says about the payload's format.
func (c *compiler) payload(r *Route, f *inputFile, path string) *typed {
	switch {
	case r.Format == "avro" && f.Avro == nil:
		c.add(f.Format.at(0), path, "format: avro needs avro: {schemaFile: FILE}")
	case r.Format == "protobuf" && f.Protobuf == nil:
		c.add(f.Format.at(0), path, "format: protobuf needs protobuf: {descriptorSet: FILE, message: NAME}")
	case r.Format == "avro":
		if p := c.avro(f.Avro); p != nil {
			return &typed{p, PayloadEncoding(f.Avro.Encoding.text)}
		}
	case r.Format == "protobuf":
		if p := c.protobuf(f.Protobuf); p != nil {
			return &typed{p, PayloadEncoding(f.Protobuf.Encoding.text)}
		}
	}
	return nil
}

// schemaText reads a file that the routes file names; nil after a problem.
func (c *compiler) schemaText(w *word) []byte {
	switch {
	case !w.given:
		return nil // its absence is a problem already
	case w.text == "":
		c.add(w.at(0), w.path, "a file's name is wanted")
		return nil
	case c.open == nil:
		c.add(w.at(0), w.path, "there are no files here to read it from")
		return nil
	}
	file, err := c.open(w.text)
	if err != nil {
		c.add(w.at(0), w.path, "%s", oneLine(err.Error()))
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxSchemaFile+1))
	switch {
	case err != nil:
		c.add(w.at(0), w.path, "%s", oneLine(err.Error()))
		return nil
	case len(text) > MaxSchemaFile:
		c.add(w.at(0), w.path, "%s is larger than %d bytes", w.text, MaxSchemaFile)
		return nil
	}
	return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
}

// shortReason is a library's reason in one line that is not too long for a message.
func shortReason(err error) string {
	const limit = 300 // characters
	text := oneLine(err.Error())
	if utf8.RuneCountInString(text) > limit {
		text = string([]rune(text)[:limit]) + "…"
	}
	return text
}

// undecodable is a payload that is none of its format.
func undecodable(pointer, format string, args ...any) *Error {
	return &Error{Code: BadJSON, Pointer: pointer, Detail: "payload is not " + fmt.Sprintf(format, args...)}
}
