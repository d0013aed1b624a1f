package schema

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// protobufDecoder decodes one payload.
type protobufDecoder struct {
	p *protobufPayload
	b *builder
	// What the payload's wire form holds, those of an Any included.
	values, messages int
}

func (p *protobufPayload) decodeBinary(s *state, data []byte) *Error {
	d := protobufDecoder{p: p, b: &s.builder}
	m := p.message.New()
	if err := d.unmarshal(data, m); err != nil {
		return err
	}
	return d.message(m)
}

// unmarshal reads the wire form of m. It is measured before the library makes messages of it.
func (d *protobufDecoder) unmarshal(data []byte, m protoreflect.Message) *Error {
	name := m.Descriptor().FullName()
	if err := d.measure(data, m.Descriptor(), len(d.b.open)+1); err != nil {
		return err
	}
	// No extensions: like every field that the descriptor set does not have, they are
	// passed over.
	options := proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true, Resolver: new(protoregistry.Types)}
	if err := options.Unmarshal(data, m.Interface()); err != nil {
		return undecodable(d.b.pointer(), "a %s: a field is not UTF-8, or its length or type is wrong", name)
	}
	return nil
}

// measure walks the wire form of a message and bounds what it holds.
func (d *protobufDecoder) measure(data []byte, md protoreflect.MessageDescriptor, depth int) *Error {
	if depth > MaxDepth {
		return &Error{Code: TooDeep, Detail: fmt.Sprintf("payload nests deeper than %d levels", MaxDepth)}
	}
	if d.messages++; d.messages > MaxMessages {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload holds more than %d messages", MaxMessages)}
	}
	broken := func() *Error { return undecodable("", "a %s: its bytes are no protobuf message", md.FullName()) }
	fields := md.Fields()
	for len(data) > 0 {
		number, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return broken()
		}
		data = data[n:]
		if n = protowire.ConsumeFieldValue(number, typ, data); n < 0 {
			return broken()
		}
		field := data[:n]
		data = data[n:]
		fd := fields.ByNumber(number)
		if fd == nil {
			continue
		}
		d.values++
		switch {
		case typ == protowire.BytesType && fd.Kind() == protoreflect.MessageKind:
			inner, _ := protowire.ConsumeBytes(field)
			if err := d.measure(inner, fd.Message(), depth+1); err != nil {
				return err
			}
		case typ == protowire.StartGroupType && fd.Kind() == protoreflect.GroupKind:
			inner, _ := protowire.ConsumeGroup(number, field)
			if err := d.measure(inner, fd.Message(), depth+1); err != nil {
				return err
			}
		case typ == protowire.BytesType && fd.IsList():
			packed, _ := protowire.ConsumeBytes(field)
			d.values += packedValues(fd.Kind(), packed)
		}
		if d.values > MaxValues {
			return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload holds more than %d values", MaxValues)}
		}
	}
	return nil
}

// packedValues is how many values of a packable kind p holds.
func packedValues(k protoreflect.Kind, p []byte) int {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return 0
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return len(p) / 4
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return len(p) / 8
	}
	n := 0
	for _, c := range p {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// decodeJSON reads ProtoJSON (https://protobuf.dev/programming-guides/json/). That the text
// is strict JSON within all bounds is known from s.input.
func (p *protobufPayload) decodeJSON(s *state, data []byte) *Error {
	d := protobufDecoder{p: p, b: &s.builder}
	for i := range s.input.nodes {
		if s.input.nodes[i].kind == object {
			d.messages++
		}
	}
	if d.messages > MaxMessages {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload holds more than %d messages", MaxMessages)}
	}
	m := p.message.New()
	// Unknown members are passed over like unknown fields of the binary form: a sender
	// may have a newer schema.
	options := protojson.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true, Resolver: p.types}
	if err := options.Unmarshal(data, m.Interface()); err != nil {
		return undecodable("", "the JSON of a %s%s", m.Descriptor().FullName(), placeOf(err, data))
	}
	return d.message(m)
}

// placeOf finds where the library says that data is wrong, whose own words may show values.
// It is for the message alone: where the text has no place of the known form there is none.
func placeOf(err error, data []byte) string {
	var line, column int
	for text := err.Error(); text != ""; text = text[1:] {
		if n, _ := fmt.Sscanf(text, "(line %d:%d)", &line, &column); n == 2 {
			break
		}
	}
	if line < 1 || column < 1 {
		return ""
	}
	at := 0
	for ; line > 1 && at < len(data); at++ {
		if data[at] == '\n' {
			line--
		}
	}
	return fmt.Sprintf(": a name or a value does not fit at byte %d", min(at+column-1, len(data)))
}
