package spanner

import (
	"errors"
	"fmt"
	"io"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// results is the stream of a read or a query.
type results interface {
	Recv() (*sppb.PartialResultSet, error)
}

// readRows calls row for every row of width values. Large values come in pieces over
// several messages and are put together here. A stream that ends inside a row is an
// error, so that nothing is concluded from half an answer.
func readRows(r results, width int, row func([]*structpb.Value)) error {
	var values []*structpb.Value
	open := false // the last value is still incomplete
	for {
		part, err := r.Recv()
		if errors.Is(err, io.EOF) {
			if open || len(values) > 0 {
				return fmt.Errorf("result ended inside a row: %w", io.ErrUnexpectedEOF)
			}
			return nil
		}
		if err != nil {
			return err
		}
		next := part.GetValues()
		if open && len(next) > 0 {
			last := len(values) - 1
			if values[last], err = joinValue(values[last], next[0]); err != nil {
				return err
			}
			next = next[1:]
			open = false
		}
		values = append(values, next...)
		open = open || part.GetChunkedValue()
		for len(values) > width || len(values) == width && !open {
			row(values[:width:width])
			values = values[width:]
		}
		if len(values) == 0 {
			values = nil
		}
	}
}

// joinValue puts two pieces of one value together: texts are joined, lists too, with
// their touching ends being pieces of one value where those can be cut.
func joinValue(a, b *structpb.Value) (*structpb.Value, error) {
	switch x := a.GetKind().(type) {
	case *structpb.Value_StringValue:
		if y, ok := b.GetKind().(*structpb.Value_StringValue); ok {
			return structpb.NewStringValue(x.StringValue + y.StringValue), nil
		}
	case *structpb.Value_ListValue:
		y, ok := b.GetKind().(*structpb.Value_ListValue)
		if !ok {
			break
		}
		left, right := x.ListValue.GetValues(), y.ListValue.GetValues()
		if len(left) > 0 && len(right) > 0 {
			switch left[len(left)-1].GetKind().(type) {
			case *structpb.Value_StringValue, *structpb.Value_ListValue:
				whole, err := joinValue(left[len(left)-1], right[0])
				if err != nil {
					return nil, err
				}
				left = append(left[:len(left)-1:len(left)-1], whole)
				right = right[1:]
			}
		}
		return structpb.NewListValue(&structpb.ListValue{Values: append(left[:len(left):len(left)], right...)}), nil
	}
	return nil, errors.New("result has a value in pieces that do not fit")
}
