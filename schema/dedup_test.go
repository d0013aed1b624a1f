package schema

import (
	"fmt"
	"testing"
)

// DedupByID tells of every way to read message.id.
func TestDedupByID(t *testing.T) {
	for _, c := range []struct {
		dedup string
		want  bool
	}{
		{`{table: Seen}`, true},
		{`{table: Seen, key: "{message.id}"}`, true},
		{`{table: Seen, key: "{data.id}"}`, false},
		{`{table: Seen, key: "{data.id}-{message.id}"}`, true},
		{`{table: Seen, key: "{data.?id.orValue(message.id)}"}`, true},
		{`{table: Seen, key: "{has(data.id) ? data.id : message.id}"}`, true},
		{`{table: Seen, key: "{has(message.id) ? data.a : data.b}"}`, true},
		{`{table: Seen, key: "{hash(message.id, 10)}"}`, true},
		{`{table: Seen, key: "{message.orderingKey}/{data.message.id}"}`, false},
	} {
		// The columns read message.id too, which does not count.
		file := fmt.Sprintf(`routes: {r: {spanner: {table: T, columns: {Id: data.id, M: message.id}, dedup: %s}}}`, c.dedup)
		routes, err := Compile("routes.yaml", []byte(file))
		if err != nil {
			t.Fatalf("%s: %v", c.dedup, err)
		}
		if got := routes.List[0].Spanner.DedupByID; got != c.want {
			t.Errorf("%s: %v, want %v", c.dedup, got, c.want)
		}
	}
}
