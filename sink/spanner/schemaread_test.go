package spanner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
)

// openDatabase is a database of a running emulator, held open until t ends.
func openDatabase(t *testing.T, addr, path string) *database {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Endpoint = addr
	d := &database{path: path, cfg: &cfg}
	if _, err := d.hold(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.drop)
	return d
}

// describe spells out what is known of a table, for comparison.
func (t *table) describe() string {
	var b strings.Builder
	b.WriteString(t.wire)
	if t.parent != "" {
		b.WriteString(" in " + t.parent)
	}
	b.WriteString(" (")
	for i, c := range t.key {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.name)
	}
	b.WriteString(")\n")
	for _, c := range t.order {
		b.WriteString("  " + c.name + " " + c.typ.spelled)
		for _, f := range []struct {
			on   bool
			name string
		}{{!c.nullable, "notnull"}, {c.generated, "generated"}, {c.filled, "filled"}, {c.commitTime, "committime"}, {c.typ.scalar == unsupported, "unsupported"}} {
			if f.on {
				b.WriteString(" " + f.name)
			}
		}
		b.WriteString(" +" + string(rune('0'+c.indexes)) + "\n")
	}
	for _, x := range t.indexes {
		b.WriteString("  index " + x.name)
		if x.unique {
			b.WriteString(" unique")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestReadCatalog(t *testing.T) {
	e := emulator.Spanner(t)
	for _, tt := range []struct {
		name    string
		dialect Dialect
		path    string
		tables  []string
		want    map[string]string
	}{
		{
			name: "GoogleSQL", dialect: GoogleSQL,
			path: e.Database(t,
				`CREATE SCHEMA sales`,
				`CREATE TABLE Parents (Id STRING(36) NOT NULL, Low STRING(MAX) AS (LOWER(Id)) STORED, N INT64 NOT NULL DEFAULT (7)) PRIMARY KEY (Id)`,
				`CREATE TABLE Kids (Id STRING(36) NOT NULL, Num INT64 NOT NULL, U STRING(20), V ARRAY<FLOAT64>, P STRING(36),
					Ts TIMESTAMP OPTIONS (allow_commit_timestamp = true), CONSTRAINT ToParent FOREIGN KEY (P) REFERENCES Parents (Id))
					PRIMARY KEY (Id, Num DESC), INTERLEAVE IN PARENT Parents ON DELETE CASCADE`,
				`CREATE UNIQUE INDEX KidsByU ON Kids (U)`,
				`CREATE INDEX KidsByAt ON Kids (Ts DESC) STORING (U, V)`,
				`CREATE TABLE sales.Orders (Id INT64 NOT NULL) PRIMARY KEY (Id)`,
				`CREATE TABLE Made (Id STRING(36) NOT NULL DEFAULT (GENERATE_UUID()), G INT64) PRIMARY KEY (Id)`,
			),
			want: map[string]string{
				"parents": "Parents (Id)\n  Id STRING(36) notnull +0\n  Low STRING(MAX) generated +0\n  N INT64 notnull filled +0\n",
				"kids": "Kids in Parents (Id, Num)\n  Id STRING(36) notnull +0\n  Num INT64 notnull +0\n  U STRING(20) +2\n  V ARRAY<FLOAT64> +1\n" +
					"  P STRING(36) +1\n  Ts TIMESTAMP committime +1\n  index IDX_Kids_P_… \n  index KidsByAt\n  index KidsByU unique\n",
				"SALES.orders": "sales.Orders (Id)\n  Id INT64 notnull +0\n",
				"made":         "Made (Id)\n  Id STRING(36) notnull filled +0\n  G INT64 +0\n",
			},
		},
		{
			name: "PostgreSQL", dialect: PostgreSQL,
			path: e.PostgreSQL(t,
				`CREATE TABLE parents (id varchar(36) PRIMARY KEY, low text GENERATED ALWAYS AS (lower(id)) STORED, n bigint NOT NULL DEFAULT 7)`,
				`CREATE TABLE kids (id varchar(36), no bigint, u varchar(20), "V" double precision[], p varchar(36) REFERENCES parents (id),
					at spanner.commit_timestamp, j jsonb, PRIMARY KEY (id, no)) INTERLEAVE IN PARENT parents ON DELETE CASCADE`,
				`CREATE UNIQUE INDEX kids_by_u ON kids (u)`,
				`CREATE INDEX kids_by_at ON kids (at DESC) INCLUDE (u, "V")`,
				`CREATE TABLE made (id varchar(36) DEFAULT spanner.generate_uuid() PRIMARY KEY, g bigint)`,
			),
			want: map[string]string{
				"parents": "parents (id)\n  id character varying(36) notnull +0\n  low character varying generated +0\n  n bigint notnull filled +0\n",
				"public.kids": "kids in parents (id, no)\n  id character varying(36) notnull +0\n  no bigint notnull +0\n  u character varying(20) +2\n" +
					"  V double precision[] +1\n  p character varying(36) +1\n  at spanner.commit_timestamp committime +1\n  j jsonb +0\n" +
					"  index IDX_kids_p_… \n  index kids_by_at\n  index kids_by_u unique\n",
				"made": "made (id)\n  id character varying(36) notnull filled +0\n  g bigint +0\n",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := openDatabase(t, e.Addr, tt.path)
			now := time.Now()
			cat, err := d.client.readCatalog(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
			if cat.dialect != tt.dialect || !cat.read.Equal(now) {
				t.Errorf("dialect %v, read %v; want %v, %v", cat.dialect, cat.read, tt.dialect, now)
			}
			if len(cat.tables) != len(tt.want) {
				t.Errorf("%d tables, want %d", len(cat.tables), len(tt.want))
			}
			for name, want := range tt.want {
				tb := cat.table(name)
				if tb == nil {
					t.Errorf("table %s is not found", name)
					continue
				}
				got := tb.describe()
				// The name of a managed index ends in what nobody chose.
				lines := strings.SplitAfter(got, "\n")
				for i, l := range lines {
					if at := strings.Index(l, "IDX_"); at >= 0 {
						parts := strings.SplitN(l[at:], "_", 4)
						lines[i] = l[:at] + strings.Join(parts[:3], "_") + "_… \n"
					}
				}
				if got = strings.Join(lines, ""); got != want {
					t.Errorf("table %s:\n%s\nwant\n%s", name, got, want)
				}
			}
			if tb := cat.table("kids"); tb != nil {
				if want := 1 + 3; tb.deleteCells() != want {
					t.Errorf("deleting a row costs %d cells, want %d", tb.deleteCells(), want)
				}
				if got := tb.uniqueIndexes(); len(got) != 1 || !slices.ContainsFunc(tb.indexes, func(x *index) bool { return x.name == got[0] }) {
					t.Errorf("unique indexes %v", got)
				}
			}
		})
	}
}
