package spanner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pushsink/pushsink/schema"
)

// dedupDays is how long a dedup row is kept. It has to exceed the subscription's message
// retention and whatever may be seeked back to: a message that comes later counts again.
const dedupDays = 14

// DDL is the text of the statements that make the dedup tables of routes, each ending in
// a semicolon and a line feed; "" when they have none. Routes that share a table share
// its statement.
func DDL(routes []*schema.Route, d Dialect) string {
	var b strings.Builder
	var made []string
	for _, r := range routes {
		if r.Spanner == nil || r.Spanner.DedupTable == "" {
			continue
		}
		name := d.quote(r.Spanner.DedupTable)
		if slices.Contains(made, d.fold(name)) {
			continue
		}
		made = append(made, d.fold(name))
		if d == PostgreSQL {
			fmt.Fprintf(&b, `CREATE TABLE %s (
  id bytea NOT NULL,
  written_at spanner.commit_timestamp NOT NULL,
  PRIMARY KEY (id)
) TTL INTERVAL '%d days' ON written_at;
`, name, dedupDays)
			continue
		}
		fmt.Fprintf(&b, `CREATE TABLE %s (
  Id BYTES(%d) NOT NULL,
  WrittenAt TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)
) PRIMARY KEY (Id), ROW DELETION POLICY (OLDER_THAN(WrittenAt, INTERVAL %d DAY));
`, name, dedupKeySize, dedupDays)
	}
	return b.String()
}

// quote makes each part of a table's name an identifier, whatever word it is.
func (d Dialect) quote(name string) string {
	mark := "`"
	if d == PostgreSQL {
		mark = `"`
	}
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = mark + strings.ReplaceAll(p, mark, "") + mark
	}
	return strings.Join(parts, ".")
}
