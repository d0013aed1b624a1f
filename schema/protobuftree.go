package schema

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// message appends a message: its fields in the order of the descriptor, by their names in
// the .proto file. A field without presence is there whatever its value, because a zero may
// be what the sender says; one with presence is there when it was set.
func (d *protobufDecoder) message(m protoreflect.Message) *Error {
	if known, err := d.wellKnown(m); known {
		return err
	}
	if err := d.b.begin(object); err != nil {
		return err
	}
	if err := d.fields(m); err != nil {
		return err
	}
	return d.b.end()
}

func (d *protobufDecoder) fields(m protoreflect.Message) *Error {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.HasPresence() && !m.Has(fd) {
			if fd.Cardinality() == protoreflect.Required {
				return undecodable(d.b.parent(), "the message %s: required field %s is missing", m.Descriptor().FullName(), fd.Name())
			}
			continue
		}
		d.b.name(string(fd.Name()))
		if err := d.field(fd, m.Get(fd)); err != nil {
			return err
		}
	}
	return nil
}

func (d *protobufDecoder) field(fd protoreflect.FieldDescriptor, v protoreflect.Value) *Error {
	switch {
	case fd.IsMap():
		return d.entries(fd, v.Map())
	case fd.IsList():
		if err := d.b.begin(list); err != nil {
			return err
		}
		l := v.List()
		for i := range l.Len() {
			if err := d.value(fd, l.Get(i)); err != nil {
				return err
			}
		}
		return d.b.end()
	default:
		return d.value(fd, v)
	}
}

// entries appends a map as an object, sorted by its keys: the wire has no order that lasts.
func (d *protobufDecoder) entries(fd protoreflect.FieldDescriptor, m protoreflect.Map) *Error {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int {
		switch a.Interface().(type) {
		case int32, int64:
			return cmp.Compare(a.Int(), b.Int())
		case uint32, uint64:
			return cmp.Compare(a.Uint(), b.Uint())
		default: // string, bool
			return strings.Compare(a.String(), b.String())
		}
	})
	if err := d.b.begin(object); err != nil {
		return err
	}
	for _, k := range keys {
		if err := d.b.key(k.String()); err != nil {
			return err
		}
		if err := d.value(fd.MapValue(), m.Get(k)); err != nil {
			return err
		}
	}
	return d.b.end()
}

func (d *protobufDecoder) value(fd protoreflect.FieldDescriptor, v protoreflect.Value) *Error {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return d.b.boolean(v.Bool())
	case protoreflect.EnumKind:
		return d.enum(fd.Enum(), v.Enum())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return d.b.integer(v.Int())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return d.b.unsigned(v.Uint())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return d.b.double(v.Float())
	case protoreflect.StringKind:
		return d.b.string(v.String())
	case protoreflect.BytesKind:
		return d.b.octets(v.Bytes())
	default: // message, group
		return d.message(v.Message())
	}
}

// enum appends the value's name, or the number that the descriptor set has no name for.
func (d *protobufDecoder) enum(ed protoreflect.EnumDescriptor, n protoreflect.EnumNumber) *Error {
	if ed.FullName() == "google.protobuf.NullValue" {
		return d.b.null()
	}
	if v := ed.Values().ByNumber(n); v != nil {
		return d.b.plain(string(v.Name()))
	}
	return d.b.integer(int64(n))
}
