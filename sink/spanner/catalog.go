package spanner

import (
	"slices"
	"strings"
	"time"
)

// Dialect is a database's SQL dialect.
type Dialect uint8

const (
	GoogleSQL Dialect = iota
	PostgreSQL
)

func (d Dialect) String() string {
	if d == PostgreSQL {
		return "PostgreSQL"
	}
	return "GoogleSQL"
}

// catalog is one reading of a database's schema. It does not change.
type catalog struct {
	dialect Dialect
	tables  map[string]*table // by fold(schema, name)
	read    time.Time
}

type table struct {
	// wire is the name a mutation carries: without the default schema.
	wire    string
	columns map[string]*column // by fold(name)
	order   []*column          // by position
	// key is the primary key, in its order.
	key []*column
	// parent is the wire name of the table this one is interleaved in (IN PARENT); "" =
	// none.
	parent  string
	indexes []*index
}

type column struct {
	name      string
	typ       columnType
	nullable  bool
	generated bool
	// filled: the service fills the column in when it is not written (DEFAULT, identity).
	filled bool
	// commitTime: the column takes the commit timestamp.
	commitTime bool
	// indexes is how many secondary indexes hold the column, as key or STORING.
	indexes int
	// keyPart is the column's place in the primary key, from 1; 0 = none.
	keyPart int
}

// index is a secondary index. The managed one behind a foreign key counts as any other.
type index struct {
	name   string
	unique bool
}

// fold makes the form names are compared in: GoogleSQL ignores case, PostgreSQL does not.
func (d Dialect) fold(name string) string {
	if d == PostgreSQL {
		return name
	}
	return strings.ToLower(name)
}

// defaultSchema is where tables are that no schema is written before.
func (d Dialect) defaultSchema() string {
	if d == PostgreSQL {
		return "public"
	}
	return ""
}

func (d Dialect) wireName(schema, name string) string {
	if schema == d.defaultSchema() {
		return name
	}
	return schema + "." + name
}

// table finds a table by the name a route gives it.
func (c *catalog) table(name string) *table {
	name = strings.TrimPrefix(name, c.dialect.defaultSchema()+".")
	return c.tables[c.dialect.fold(name)]
}

// column finds a column by the name a route gives it.
func (c *catalog) column(t *table, name string) *column {
	return t.columns[c.dialect.fold(name)]
}

// nearTable lists the tables whose names differ from name in case only.
func (c *catalog) nearTable(name string) []string {
	var near []string
	for _, t := range c.tables {
		if t.wire != name && strings.EqualFold(t.wire, name) {
			near = append(near, t.wire)
		}
	}
	slices.Sort(near)
	return near
}

// nearColumn lists the columns whose names differ from name in case only.
func (t *table) nearColumn(name string) []string {
	var near []string
	for _, c := range t.order {
		if c.name != name && strings.EqualFold(c.name, name) {
			near = append(near, c.name)
		}
	}
	return near
}

// uniqueIndexes lists the names of the table's UNIQUE indexes.
func (t *table) uniqueIndexes() []string {
	var names []string
	for _, x := range t.indexes {
		if x.unique {
			names = append(names, x.name)
		}
	}
	slices.Sort(names)
	return names
}

// cells is what a column costs when it is written.
func (col *column) cells() int { return 1 + col.indexes }

// deleteCells is what a row costs when it is deleted.
func (t *table) deleteCells() int { return 1 + len(t.indexes) }
