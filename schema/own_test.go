package schema

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// A mutation is the caller's: neither the record nor the scratch of later mappings shows in
// it, however large its values are, and appending to one value does not reach the next.
func TestMutationOwnsItsMemory(t *testing.T) {
	row := compileOne(t, `bigtable:
  table: t
  rowKey: "{data.k}"
  timestamp: 1767323045678
  delete: {family: m, column: gone}
  set:
    - {family: m, column: a, value: data.a, as: string, null: empty}
    - {family: m, column: b, value: data.b, as: json}
    - {family: m, column: "c-{data.k}", value: data.a, as: string, null: empty}`).Mapping
	group := compileOne(t, `spanner: {table: T, columns: {K: data.k, A: data.a, B: data.b}}`).Mapping
	payload := func(i, size int) string {
		a := `null`
		if i%3 > 0 {
			a = `"` + strings.Repeat(string(rune('a'+i)), size*(i%3-1)) + `"`
		}
		return fmt.Sprintf(`{"k":"key%d","a":%s,"b":[%d,"x"]}`, i, a, i)
	}
	var shown, again []string
	var made []Mutation
	for i := range 9 {
		size := []int{0, 10, keptScratch, 3 * keptScratch}[i%4]
		rec := jsonRecord(payload(i, size))
		for _, m := range []*Mapping{row, group} {
			mutation, err := m.Apply(rec)
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, mutation)
			shown = append(shown, fmt.Sprintf("%#v %#v", mutation.Bigtable, mutation.Spanner))
		}
		clear(rec.Data)
	}
	for _, m := range made {
		again = append(again, fmt.Sprintf("%#v %#v", m.Bigtable, m.Spanner))
	}
	if !reflect.DeepEqual(shown, again) {
		t.Error("a mutation changed after it was made")
	}
	ops := made[2].Bigtable.Ops
	next := string(ops[2].Value)
	_ = append(ops[1].Value, "reaches the next"...)
	if string(ops[2].Value) != next {
		t.Error("two values share memory")
	}
	for _, op := range made[0].Bigtable.Ops {
		if op.Kind == SetCell && op.Value == nil {
			t.Errorf("an empty value of %s is nil", op.Column)
		}
	}
}
