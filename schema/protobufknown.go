package schema

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// wellKnownTypes are the messages of google.protobuf that mean more than their fields.
var wellKnownTypes = [...]string{"Any", "BoolValue", "BytesValue", "DoubleValue", "Duration", "FloatValue", "Int32Value",
	"Int64Value", "ListValue", "StringValue", "Struct", "Timestamp", "UInt32Value", "UInt64Value", "Value"}

const wellKnownPackage = "google.protobuf."

func isWellKnown(name protoreflect.FullName) bool {
	short, ok := strings.CutPrefix(string(name), wellKnownPackage)
	return ok && slices.Contains(wellKnownTypes[:], short)
}

// checkWellKnown refuses a set whose google.protobuf types have other fields than Google's:
// they are read by the numbers of their fields.
func checkWellKnown(files *protoregistry.Files) error {
	for _, short := range wellKnownTypes {
		name := protoreflect.FullName(wellKnownPackage + short)
		found, err := files.FindDescriptorByName(name)
		if err != nil {
			continue
		}
		md, _ := found.(protoreflect.MessageDescriptor)
		googles, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if md == nil || err != nil || !sameFields(md.Fields(), googles.Descriptor().Fields()) {
			return fmt.Errorf("its %s is not Google's", name)
		}
	}
	return nil
}

func sameFields(a, b protoreflect.FieldDescriptors) bool {
	for i := range b.Len() {
		want := b.Get(i)
		got := a.ByNumber(want.Number())
		if got == nil || got.Kind() != want.Kind() || got.IsMap() != want.IsMap() || got.IsList() != want.IsList() ||
			got.Message() != nil && got.Message().FullName() != want.Message().FullName() {
			return false
		}
	}
	return a.Len() == b.Len()
}

// wellKnown appends a message of a type that means more than its fields; false = it does
// not. Types are known by name, as everywhere.
func (d *protobufDecoder) wellKnown(m protoreflect.Message) (bool, *Error) {
	short, ok := strings.CutPrefix(string(m.Descriptor().FullName()), wellKnownPackage)
	if !ok {
		return false, nil
	}
	fields := m.Descriptor().Fields()
	get := func(number protoreflect.FieldNumber) protoreflect.Value { return m.Get(fields.ByNumber(number)) }
	switch short {
	case "Timestamp":
		return true, d.timestamp(get(1).Int(), get(2).Int())
	case "Duration":
		return true, d.duration(get(1).Int(), get(2).Int())
	case "BoolValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue", "StringValue", "BytesValue":
		return true, d.value(fields.ByNumber(1), get(1))
	case "Struct":
		return true, d.entries(fields.ByNumber(1), get(1).Map())
	case "ListValue":
		return true, d.field(fields.ByNumber(1), get(1))
	case "Value":
		set := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
		if set == nil {
			return true, d.b.null()
		}
		return true, d.value(set, m.Get(set))
	case "Any":
		return true, d.any(get(1).String(), get(2).Bytes())
	}
	return false, nil
}

// any appends the message inside beside "@type", as ProtoJSON has it; one whose type is not
// in the descriptor set keeps its bytes.
func (d *protobufDecoder) any(url string, data []byte) *Error {
	if err := d.b.begin(object); err != nil {
		return err
	}
	if url == "" && len(data) == 0 {
		return d.b.end()
	}
	if !utf8.ValidString(url) {
		return undecodable(d.b.parent(), "the message google.protobuf.Any: its type is not UTF-8")
	}
	d.b.name("@type")
	if err := d.b.string(url); err != nil {
		return err
	}
	mt, err := d.p.types.FindMessageByURL(url)
	if err != nil {
		d.b.name("value")
		if err := d.b.octets(data); err != nil {
			return err
		}
		return d.b.end()
	}
	if err := d.countAny(len(data)); err != nil {
		return err
	}
	m := mt.New()
	if err := d.unmarshal(data, m); err != nil {
		return err
	}
	if isWellKnown(m.Descriptor().FullName()) {
		d.b.name("value")
		if err := d.message(m); err != nil {
			return err
		}
		return d.b.end()
	}
	if err := d.fields(m); err != nil {
		return err
	}
	return d.b.end()
}

// timestamp appends a google.protobuf.Timestamp.
func (d *protobufDecoder) timestamp(seconds, nanos int64) *Error {
	if nanos < 0 || nanos >= int64(time.Second) {
		return undecodable(d.b.pointer(), "the message google.protobuf.Timestamp: its nanos are outside the second")
	}
	return d.b.instant(time.Unix(seconds, nanos))
}

// duration appends a google.protobuf.Duration as ProtoJSON writes it, which duration() reads:
// seconds with 0, 3, 6 or 9 digits behind the point.
func (d *protobufDecoder) duration(seconds, nanos int64) *Error {
	const most = 315_576_000_000 // seconds, by duration.proto
	switch {
	case seconds < -most || seconds > most || nanos <= -int64(time.Second) || nanos >= int64(time.Second),
		seconds > 0 && nanos < 0, seconds < 0 && nanos > 0:
		return undecodable(d.b.pointer(), "the message google.protobuf.Duration: its seconds or nanos are out of range")
	}
	sign := ""
	if seconds < 0 || nanos < 0 {
		sign, seconds, nanos = "-", -seconds, -nanos
	}
	text := fmt.Sprintf("%s%d.%09d", sign, seconds, nanos)
	text = strings.TrimSuffix(strings.TrimSuffix(text, "000"), "000")
	return d.b.plain(strings.TrimSuffix(text, ".000") + "s")
}
