package schema

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	// What a descriptor set may leave out: protoc writes imports only when it is asked to.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// MaxMessages is how many messages, entries of maps included, one protobuf payload may
// hold; more is TooLarge. Each costs up to half a KiB until the payload is mapped, so the
// bound is about 64 MiB.
const MaxMessages = 1 << 17

// protobufPayload decodes one type of message.
type protobufPayload struct {
	message protoreflect.MessageType
	types   *dynamicpb.Types // what an Any may hold
}

// emptyIsValue: a message whose fields are all unset has no bytes.
func (*protobufPayload) emptyIsValue() bool { return true }

// protobuf reads the descriptor set that a route names; nil after a problem.
func (c *compiler) protobuf(f *protobufFile) payload {
	text := c.schemaText(&f.DescriptorSet)
	if text == nil || !f.Message.given {
		return nil
	}
	files, err := descriptors(text)
	if err != nil {
		c.add(f.DescriptorSet.at(0), f.DescriptorSet.path, "%s: %s", f.DescriptorSet.text, shortReason(err))
		return nil
	}
	name := protoreflect.FullName(f.Message.text)
	found, err := files.FindDescriptorByName(name)
	md, ok := found.(protoreflect.MessageDescriptor)
	if err != nil || !ok {
		c.add(f.Message.at(0), f.Message.path, "%s has no message %q%s", f.DescriptorSet.text, name, suggest(string(name), messageNames(files)))
		return nil
	}
	return &protobufPayload{dynamicpb.NewMessageType(md), dynamicpb.NewTypes(files)}
}

// descriptors reads a FileDescriptorSet. Google's well-known types need not be in it.
func descriptors(text []byte) (*protoregistry.Files, error) {
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(text, set); err != nil || len(set.File) == 0 {
		return nil, errors.New("it is no FileDescriptorSet: protoc --include_imports --descriptor_set_out makes one")
	}
	have := map[string]bool{}
	for _, f := range set.File {
		have[f.GetName()] = true
	}
	for i := 0; i < len(set.File); i++ {
		for _, name := range set.File[i].Dependency {
			if have[name] {
				continue
			}
			known, err := protoregistry.GlobalFiles.FindFileByPath(name)
			if err != nil {
				return nil, fmt.Errorf("%s imports %s, which is not in the set: make it with protoc --include_imports", set.File[i].GetName(), name)
			}
			have[name] = true
			set.File = append(set.File, protodesc.ToFileDescriptorProto(known))
		}
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}
	return files, checkWellKnown(files)
}

// messageNames lists the messages of files, for suggestions.
func messageNames(files *protoregistry.Files) (names []string) {
	var add func(protoreflect.MessageDescriptors)
	add = func(list protoreflect.MessageDescriptors) {
		for i := range list.Len() {
			if m := list.Get(i); !m.IsMapEntry() {
				names = append(names, string(m.FullName()))
				add(m.Messages())
			}
		}
	}
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		add(f.Messages())
		return true
	})
	return names
}
