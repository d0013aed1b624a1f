package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hamba/avro/v2"
	"github.com/hamba/avro/v2/pkg/crc64"
)

// avroType is a type of an Avro schema in the form that the decoders walk. Types may refer
// to themselves.
type avroType struct {
	kind    avro.Type
	logical avro.LogicalType // what the type means; empty = no more than it says
	scale   int              // of a decimal
	digits  int              // of a decimal: its precision
	name    string           // full name, or the kind's: how a union's JSON calls it
	fields  []avroField      // record
	items   *avroType        // array, map
	size    int              // fixed
	symbols []string         // enum
	// A union. With one branch beside null the value stands there itself; with more, an
	// object of one member says which branch it is.
	branches []*avroType
	tagged   bool
}

type avroField struct {
	name string
	typ  *avroType
}

// Logical types that the schema library leaves alone.
const (
	timestampNanos      avro.LogicalType = "timestamp-nanos"
	localTimestampNanos avro.LogicalType = "local-timestamp-nanos"
)

// avroPayload decodes Avro by one schema, the writer's.
type avroPayload struct {
	root *avroType
	// header begins a payload in the single-object encoding: two bytes and the
	// fingerprint of the schema.
	header [10]byte
}

func (*avroPayload) emptyIsValue() bool { return false }

// avro reads the schema that a route names; nil after a problem.
func (c *compiler) avro(f *avroFile) payload {
	text := c.schemaText(&f.SchemaFile)
	if text == nil {
		return nil
	}
	p, err := newAvro(text)
	if err != nil {
		c.add(f.SchemaFile.at(0), f.SchemaFile.path, "%s: %s", f.SchemaFile.text, shortReason(err))
		return nil
	}
	return p
}

func newAvro(text []byte) (*avroPayload, error) {
	// The library takes text that is no JSON for the name of a type.
	if err := strictJSON(text); err != nil {
		return nil, err
	}
	s, err := avro.ParseBytesWithCache(text, "", &avro.SchemaCache{})
	if err != nil {
		return nil, err
	}
	made := map[string]*avroType{}
	p := &avroPayload{}
	if p.root, err = avroTypeOf(s, made); err != nil {
		return nil, err
	}
	canonical := p.root.canonical(nil, map[string]bool{})
	sum := crc64.SumWithByteOrder(canonical, crc64.LittleEndian)
	p.header = [10]byte{0xC3, 0x01}
	copy(p.header[2:], sum[:])
	return p, nil
}

// strictJSON says where text is no JSON.
func strictJSON(text []byte) error {
	var t tree
	if err := t.decode(text); err != nil {
		return errors.New(strings.Replace(err.Detail, "payload", "the file", 1))
	}
	return nil
}

// avroTypeOf makes a type of s; made holds those that have a name.
func avroTypeOf(s avro.Schema, made map[string]*avroType) (*avroType, error) {
	if ref, ok := s.(*avro.RefSchema); ok {
		s = ref.Schema()
	}
	t := &avroType{kind: s.Type(), name: string(s.Type())}
	if named, ok := s.(avro.NamedSchema); ok {
		t.name = named.FullName()
		if known := made[t.name]; known != nil {
			return known, nil
		}
		made[t.name] = t
	}
	var err error
	switch s := s.(type) {
	case *avro.RecordSchema:
		t.kind = avro.Record // an error is a record
		for _, f := range s.Fields() {
			typ, err := avroTypeOf(f.Type(), made)
			if err != nil {
				return nil, err
			}
			t.fields = append(t.fields, avroField{f.Name(), typ})
		}
	case *avro.ArraySchema:
		t.items, err = avroTypeOf(s.Items(), made)
	case *avro.MapSchema:
		t.items, err = avroTypeOf(s.Values(), made)
	case *avro.EnumSchema:
		t.symbols = s.Symbols()
	case *avro.FixedSchema:
		t.size = s.Size()
		t.meaning(s.Logical(), s.Prop("logicalType"))
	case *avro.PrimitiveSchema:
		t.meaning(s.Logical(), s.Prop("logicalType"))
	case *avro.UnionSchema:
		values := 0
		for _, branch := range s.Types() {
			typ, err := avroTypeOf(branch, made)
			if err != nil {
				return nil, err
			}
			if typ.kind != avro.Null {
				values++
			}
			t.branches = append(t.branches, typ)
		}
		if len(t.branches) == 0 {
			return nil, errors.New("a union has no branch")
		}
		t.tagged = values > 1
	case *avro.NullSchema:
	default:
		err = fmt.Errorf("type %s is not known", s.Type())
	}
	if err == nil && t.logical == avro.Decimal && t.digits > MaxNumberText-4 {
		err = fmt.Errorf("a decimal has a precision of %d, at most %d can be read", t.digits, MaxNumberText-4)
	}
	return t, err
}

// meaning sets the logical type. Unknown ones, and those on the wrong type, are to be
// ignored (Avro 1.12, Logical Types).
func (t *avroType) meaning(known avro.LogicalSchema, prop any) {
	switch {
	case known != nil:
		t.logical = known.Type()
		if d, ok := known.(*avro.DecimalLogicalSchema); ok {
			t.digits, t.scale = d.Precision(), d.Scale()
		}
	case t.kind == avro.Long && prop == string(timestampNanos):
		t.logical = timestampNanos
	case t.kind == avro.Long && prop == string(localTimestampNanos):
		t.logical = localTimestampNanos
	case t.kind == avro.Fixed && t.size == 16 && prop == string(avro.UUID):
		t.logical = avro.UUID
	}
}

// canonical appends the schema's Parsing Canonical Form, of which the fingerprint is taken
// (Avro 1.12, Parsing Canonical Form for Schemas). The library's own form keeps logical
// types, which the specification strips.
func (t *avroType) canonical(dst []byte, defined map[string]bool) []byte {
	quoted := func(s string) { dst, _ = jsontext.AppendQuote(dst, s) }
	named := func() bool {
		if defined[t.name] {
			quoted(t.name)
			return false
		}
		defined[t.name] = true
		dst = append(dst, `{"name":`...)
		quoted(t.name)
		dst = append(dst, `,"type":`...)
		quoted(string(t.kind))
		return true
	}
	switch t.kind {
	case avro.Record:
		if named() {
			dst = append(dst, `,"fields":[`...)
			for i, f := range t.fields {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = append(dst, `{"name":`...)
				quoted(f.name)
				dst = append(f.typ.canonical(append(dst, `,"type":`...), defined), '}')
			}
			dst = append(dst, "]}"...)
		}
	case avro.Enum:
		if named() {
			dst = append(dst, `,"symbols":[`...)
			for i, s := range t.symbols {
				if i > 0 {
					dst = append(dst, ',')
				}
				quoted(s)
			}
			dst = append(dst, "]}"...)
		}
	case avro.Fixed:
		if named() {
			dst = fmt.Appendf(dst, `,"size":%d}`, t.size)
		}
	case avro.Array:
		dst = append(t.items.canonical(append(dst, `{"type":"array","items":`...), defined), '}')
	case avro.Map:
		dst = append(t.items.canonical(append(dst, `{"type":"map","values":`...), defined), '}')
	case avro.Union:
		dst = append(dst, '[')
		for i, b := range t.branches {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = b.canonical(dst, defined)
		}
		dst = append(dst, ']')
	default:
		quoted(string(t.kind))
	}
	return dst
}

// decodeBinary reads the binary encoding, with or without the header of the single-object
// encoding. A header with the fingerprint of another schema is none: such bytes may begin a
// payload of this one.
func (p *avroPayload) decodeBinary(s *state, data []byte) *Error {
	d := avroBinary{data: data, b: &s.builder}
	if bytes.HasPrefix(data, p.header[:]) {
		d.at = len(p.header)
	}
	err := d.value(p.root)
	if err == nil && d.at < len(data) {
		err = &Error{Code: BadJSON, Detail: fmt.Sprintf("payload has %d bytes after the Avro value", len(data)-d.at)}
	}
	if err != nil && err.Code == BadJSON && bytes.HasPrefix(data, p.header[:2]) && !bytes.HasPrefix(data, p.header[:]) {
		err.Detail += " (a single-object header of another schema?)"
	}
	return err
}

func (p *avroPayload) decodeJSON(s *state, _ []byte) *Error {
	d := avroJSON{src: &s.input, b: &s.builder}
	return d.value(p.root, s.input.root())
}
