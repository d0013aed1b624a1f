package schema

import (
	"errors"
	"fmt"
)

// Mapping turns a record of one route into a mutation. It is immutable: Apply is ok to
// call from many goroutines.
type Mapping struct {
	json     bool      // the payload is JSON
	typed    *typed    // the payload is decoded by a schema; nil = it is not
	where    evaluator // nil = every record
	source   string    // of where
	bigtable *rowMapping
	spanner  *groupMapping
}

// Apply maps r. The error is always an *Error. The mutation shares no memory with r,
// whose payload must not change while Apply runs.
func (m *Mapping) Apply(r *Record) (Mutation, error) {
	s := newState(r)
	defer s.release()
	// A column's value is passed on as it is; a cell's is encoded, which copies it.
	s.tree.own = m.spanner != nil
	if err := m.decode(s); err != nil {
		return Mutation{}, err
	}
	mutation, err := m.apply(s)
	if errors.Is(err, errMeasure) {
		s.exact, s.cost, s.exported = true, 0, 0
		mutation, err = m.apply(s)
	}
	if err == nil {
		return mutation, nil
	}
	var own *Error
	if !errors.As(err, &own) {
		own = &Error{Code: Internal, Detail: "the mapping failed"}
	}
	return Mutation{}, own
}

// decode makes s.tree of the payload, if there is one and its format has trees.
func (m *Mapping) decode(s *state) (err *Error) {
	for {
		switch {
		case m.json && len(s.rec.Data) > 0:
			err = s.tree.decode(s.rec.Data)
			s.decoded = err == nil
		case m.typed != nil:
			s.decoded, err = m.typed.decode(s)
		default:
			return nil
		}
		if err != errOutgrown {
			return err
		}
		s.letGo()
		if err = s.room.again(); err != nil {
			return err
		}
	}
}

func (m *Mapping) apply(s *state) (Mutation, error) {
	if m.where != nil {
		pass, err := evalBool(s, m.where, m.source)
		if err != nil {
			return Mutation{}, within("where", err)
		}
		if !pass {
			return Mutation{Skip: SkippedWhere}, nil
		}
	}
	if m.bigtable != nil {
		return m.bigtable.apply(s)
	}
	return m.spanner.apply(s)
}

// within puts the place of the routes file before an error's text.
func within(place string, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	return &Error{Code: e.Code, Detail: place + ": " + e.Detail, Pointer: e.Pointer}
}

// placed is an error that names its place already, unlike where it came up.
type placed struct{ err error }

func (p *placed) Error() string { return p.err.Error() }
func (p *placed) Unwrap() error { return p.err }

// items calls do for each item of a list or an object, with key, value and index set.
// Nothing there (absent, null) has no items.
func (s *state) items(v value, source string, do func() error) error {
	defer func() { s.key, s.item, s.index = value{}, value{}, 0 }()
	switch v.kind {
	case absent, null:
		return nil
	case list, object:
	default:
		return &Error{Code: TypeMismatch, Detail: fmt.Sprintf("%s is %s, not a list or an object", source, v.kind)}
	}
	if v.origin > 0 {
		first, count := s.tree.nodes[v.origin-1].children()
		for i := range count {
			s.index, s.item = i, s.tree.value(first+i)
			if v.kind == object {
				s.key = textValue(s.tree.nameOf(first + i))
			} else {
				s.key = intValue(int64(i))
			}
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}
	return s.computedItems(v, do)
}
