package schema

import (
	"fmt"
	"strings"

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
	// anys is how many bytes were in Anys so far, once for each that they are in; mostAnys
	// bounds it: the library copies an Any's bytes, and keeps them while what is in it is read.
	anys, mostAnys int
}

const (
	// anysPerByte is how deep an Any of any size may be in others.
	anysPerByte = 8
	// freeAnys are bytes for which the depth does not matter.
	freeAnys = 1 << 20
)

func (p *protobufPayload) decoder(s *state, size int) protobufDecoder {
	return protobufDecoder{p: p, b: &s.builder, mostAnys: freeAnys + anysPerByte*size}
}

// fit makes room for the messages that were counted, for size bytes that they copy, and for
// what is built of them.
func (d *protobufDecoder) fit(size int) *Error {
	if d.values+d.messages <= unaskedValues/8 && size <= unaskedText {
		return nil
	}
	if d.b.room != nil {
		if err := d.b.room.grow(forMessages, int64(d.messages)*messageBytes+int64(d.values)*fieldBytes+int64(size+d.anys)); err != nil {
			return err
		}
	}
	// A guess at the names and the lists that are empty.
	return d.b.fit(min(d.b.maxNodes, d.values+4*d.messages), min(d.b.maxText, size+size/2+4*d.values+32*d.messages))
}

// countAny takes in n bytes of an Any.
func (d *protobufDecoder) countAny(n int) *Error {
	if d.anys += n; d.anys > d.mostAnys {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload holds more than %d bytes in google.protobuf.Any within one another", d.mostAnys)}
	}
	return nil
}

func (p *protobufPayload) decodeBinary(s *state, data []byte) *Error {
	d := p.decoder(s, len(data))
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
	if err := d.fit(len(data)); err != nil {
		return err
	}
	// No extensions: like every field that the descriptor set does not have, they are
	// passed over.
	options := proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true, Resolver: new(protoregistry.Types)}
	if err := guarding(func() error { return options.Unmarshal(data, m.Interface()) }); err != nil {
		return undecodable(d.b.pointer(), "the message %s: a field is not UTF-8, or its length or type is wrong", name)
	}
	return nil
}

// guarding turns a panic of the library into an error. It panics where a map's entry has its
// key twice, the second time with another wire type (v1.36.12).
func guarding(unmarshal func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder panicked with a %T", p)
		}
	}()
	return unmarshal()
}

// measure walks the wire form of a message and bounds what it holds.
func (d *protobufDecoder) measure(data []byte, md protoreflect.MessageDescriptor, depth int) *Error {
	_, err := d.measureTo(0, data, md, depth)
	return err
}

// measureTo is measure for the fields up to the end of a group, or of data for group 0. It
// gives what comes after them.
func (d *protobufDecoder) measureTo(group protowire.Number, data []byte, md protoreflect.MessageDescriptor, depth int) ([]byte, *Error) {
	if depth > MaxDepth {
		return nil, &Error{Code: TooDeep, Detail: fmt.Sprintf("payload nests deeper than %d levels", MaxDepth)}
	}
	if d.messages++; d.messages > MaxMessages {
		return nil, tooManyMessages()
	}
	broken := func() *Error {
		return undecodable("", "the message %s: its bytes are no protobuf message", md.FullName())
	}
	for len(data) > 0 {
		number, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, broken()
		}
		data = data[n:]
		if typ == protowire.EndGroupType && number == group {
			return data, nil
		}
		fd := md.Fields().ByNumber(number)
		if err := d.count(1); err != nil {
			return nil, err
		}
		if typ == protowire.StartGroupType && fd != nil && fd.Kind() == protoreflect.GroupKind {
			var err *Error
			if data, err = d.measureTo(number, data, fd.Message(), depth+1); err != nil {
				return nil, err
			}
			continue
		}
		if n = protowire.ConsumeFieldValue(number, typ, data); n < 0 {
			return nil, broken()
		}
		if fd != nil && typ != wireType(fd.Kind()) && !(typ == protowire.BytesType && fd.IsList()) {
			return nil, undecodable("", "the message %s: field %s is of another type", md.FullName(), fd.Name())
		}
		field := data[:n]
		data = data[n:]
		if fd == nil || typ != protowire.BytesType {
			continue
		}
		inner, _ := protowire.ConsumeBytes(field)
		switch {
		case fd.Kind() == protoreflect.MessageKind:
			if err := d.measure(inner, fd.Message(), depth+1); err != nil {
				return nil, err
			}
		case fd.IsList():
			if err := d.count(packedValues(fd.Kind(), inner)); err != nil {
				return nil, err
			}
		}
	}
	if group != 0 {
		return nil, broken()
	}
	return nil, nil
}

// wireType is how a value of kind k is on the wire. A field in another form, which only a sender
// with a contradicting schema writes, is refused: the library takes it for an unknown one, and a
// zero would be written in its place.
func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	default:
		return protowire.VarintType
	}
}

func (d *protobufDecoder) count(values int) *Error {
	if d.values += values; d.values > MaxValues {
		return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload holds more than %d values", MaxValues)}
	}
	return nil
}

func tooManyMessages() *Error {
	return &Error{Code: TooLarge, Detail: fmt.Sprintf("payload holds more than %d messages", MaxMessages)}
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
	d := p.decoder(s, len(data))
	for i := range s.input.nodes {
		n := &s.input.nodes[i]
		if n.kind != object {
			continue
		}
		if d.messages++; d.messages > MaxMessages {
			return tooManyMessages()
		}
		// What has a type is taken for an Any: the library reads its text once for each that
		// it is in, to find the type.
		first, count := n.children()
		for j := first; j < first+count; j++ {
			if s.input.nameOf(j) != "@type" {
				continue
			}
			if err := d.countAny(int(n.end - n.start)); err != nil {
				return err
			}
		}
	}
	if d.values = len(s.input.nodes); d.values > unaskedValues/8 {
		if err := d.fit(len(data)); err != nil {
			return err
		}
	}
	d.anys = 0
	m := p.message.New()
	if err := p.enumNames(&s.input, s.input.root(), m.Descriptor()); err != nil {
		return err
	}
	// Unknown members are passed over like unknown fields of the binary form: a sender
	// may have a newer schema.
	options := protojson.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true, Resolver: p.types}
	if err := guarding(func() error { return options.Unmarshal(data, m.Interface()) }); err != nil {
		return undecodable("", "the JSON of %s%s", m.Descriptor().FullName(), placeOf(err, data))
	}
	return d.message(m)
}

// enumNames refuses a name that an enum does not have. The library passes it over together
// with unknown members, and a zero would be written in its place.
func (p *protobufPayload) enumNames(t *tree, i int, md protoreflect.MessageDescriptor) *Error {
	if t.nodes[i].kind != object {
		return nil // the library looks at it
	}
	if isWellKnown(md.FullName()) {
		if md.FullName() != wellKnownPackage+"Any" {
			return nil
		}
		j := t.member(i, "@type")
		if j < 0 || t.nodes[j].kind != text {
			return nil
		}
		mt, err := p.types.FindMessageByURL(t.str(j))
		if err != nil || isWellKnown(mt.Descriptor().FullName()) {
			return nil
		}
		md = mt.Descriptor()
	}
	first, count := t.nodes[i].children()
	for j := first; j < first+count; j++ {
		name := t.nameOf(j)
		fd := md.Fields().ByJSONName(name)
		if fd == nil {
			fd = md.Fields().ByTextName(name)
		}
		if fd == nil {
			continue
		}
		under, n := j, 1
		if fd.IsMap() || fd.IsList() {
			under, n = t.nodes[j].children()
			if k := t.nodes[j].kind; k != list && k != object {
				continue
			}
		}
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		for k := under; k < under+n; k++ {
			switch {
			case fd.Message() != nil:
				if err := p.enumNames(t, k, fd.Message()); err != nil {
					return err
				}
			case fd.Enum() != nil && t.nodes[k].kind == text && fd.Enum().Values().ByName(protoreflect.Name(t.str(k))) == nil:
				return undecodable(t.pointer(k), "the JSON of %s: an enum has no such name", p.message.Descriptor().FullName())
			}
		}
	}
	return nil
}

// placeOf finds where the library says that data is wrong, whose own words may show values.
// It is for the message alone: where the text has no place of the known form there is none.
func placeOf(err error, data []byte) string {
	var line, column int
	text := err.Error()
	if at := strings.Index(text[:min(len(text), 64)], "(line "); at >= 0 {
		_, _ = fmt.Sscanf(text[at:min(len(text), at+64)], "(line %d:%d)", &line, &column)
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
