package schema

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
)

// computedItems are the items of a list or a map that an expression made; a map's in the
// order of its keys' names.
func (s *state) computedItems(v value, do func() error) error {
	if v.kind == object {
		m := v.ref.(traits.Mapper)
		names, err := memberNames(m)
		if err != nil {
			return err
		}
		for i, name := range names {
			s.index, s.key, s.item = i, textValue(name), fromRef(m.Get(types.String(name)))
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}
	i := 0
	for it := v.ref.(traits.Lister).Iterator(); it.HasNext() == types.True; i++ {
		s.index, s.key, s.item = i, intValue(int64(i)), fromRef(it.Next())
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
