package schema

import (
	"strings"

	"github.com/hamba/avro/v2"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// docType is what is known beforehand of a part of data, from the payload's schema. A path
// that no payload can have is a mistake that the start finds.
type docType interface {
	// under is the type one step down, nil where nothing is known of it; ok = false: there
	// is no such step, and names are those that there are.
	under(st step) (t docType, ok bool, names []string)
}

// checkPath says what is wrong with a path into data; empty = nothing.
func checkPath(t docType, p *path) string {
	if p.root != rootData {
		return ""
	}
	for i, st := range p.steps {
		if t == nil {
			return ""
		}
		next, ok, names := t.under(st)
		switch {
		case ok:
			t = next
		case st.list:
			return p.prefix(i) + " is no list by the payload's schema"
		case names == nil:
			return p.prefix(i) + " has no members by the payload's schema"
		default:
			return p.prefix(i) + " has no " + quoteShort(st.name) + " by the payload's schema" + suggest(st.name, names)
		}
	}
	return ""
}

func (t *avroType) under(st step) (docType, bool, []string) {
	switch t.kind {
	case avro.Record:
		var names []string
		for _, f := range t.fields {
			if !st.list && f.name == st.name {
				return f.typ, true, nil
			}
			names = append(names, f.name)
		}
		return nil, false, names
	case avro.Map:
		return t.items, !st.list, nil
	case avro.Array:
		return t.items, st.list, nil
	case avro.Union:
		var names []string
		for _, b := range t.branches {
			if b.kind == avro.Null {
				continue
			}
			if !t.tagged {
				return b.under(st)
			}
			if !st.list && b.name == st.name {
				return b, true, nil
			}
			names = append(names, b.name)
		}
		return nil, false, names
	case avro.Fixed:
		if t.logical == avro.Duration {
			names := []string{"months", "days", "millis"}
			return nil, !st.list && contains(names, st.name), names
		}
	}
	return nil, false, nil
}

// protobufDoc is a message, an element of a list, or a value of a map.
type protobufDoc struct {
	md protoreflect.MessageDescriptor
}

func (t protobufDoc) under(st step) (docType, bool, []string) {
	if st.list {
		return nil, false, nil
	}
	fields := t.md.Fields()
	if fd := fields.ByName(protoreflect.Name(st.name)); fd != nil {
		switch {
		case fd.IsMap():
			return protobufItems{fd.MapValue(), false}, true, nil
		case fd.IsList():
			return protobufItems{fd, true}, true, nil
		}
		return protobufOne(fd), true, nil
	}
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return nil, false, names
}

// protobufItems are the items of a list or a map.
type protobufItems struct {
	fd   protoreflect.FieldDescriptor
	list bool
}

func (t protobufItems) under(st step) (docType, bool, []string) {
	return protobufOne(t.fd), st.list == t.list, nil
}

// protobufOne is the type of one value of a field.
func protobufOne(fd protoreflect.FieldDescriptor) docType {
	md := fd.Message()
	switch {
	case md == nil:
		return noMembers{}
	case !isWellKnown(md.FullName()):
		return protobufDoc{md}
	}
	switch short := strings.TrimPrefix(string(md.FullName()), wellKnownPackage); short {
	case "Any", "ListValue", "Struct", "Value":
		return nil
	default:
		return noMembers{}
	}
}

// noMembers is a scalar.
type noMembers struct{}

func (noMembers) under(step) (docType, bool, []string) { return nil, false, nil }

// docType is what is known of the payloads of a route; nil = nothing.
func (t *typed) docType() docType {
	if t == nil {
		return nil
	}
	switch p := t.payload.(type) {
	case *avroPayload:
		return p.root
	case *protobufPayload:
		if md := p.message.Descriptor(); !isWellKnown(md.FullName()) {
			return protobufDoc{md}
		}
	}
	return nil
}
