package spanner

import (
	"context"
	"fmt"
	"strconv"
	"time"

	sppb "cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// The queries run unchanged in both dialects. ours leaves the service's own schemas out.
const (
	ours = ` NOT IN ('INFORMATION_SCHEMA', 'SPANNER_SYS', 'information_schema', 'spanner_sys', 'pg_catalog')`

	dialectQuery = `SELECT option_value FROM information_schema.database_options WHERE option_name = 'database_dialect'`

	tablesQuery = `SELECT table_schema, table_name, parent_table_name, interleave_type
FROM information_schema.tables
WHERE table_type = 'BASE TABLE' AND table_schema` + ours

	columnsQuery = `SELECT c.table_schema, c.table_name, c.column_name, c.spanner_type, c.is_nullable, c.is_generated,
  c.column_default IS NOT NULL, c.is_identity
FROM information_schema.columns AS c JOIN information_schema.tables AS t
  ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE t.table_type = 'BASE TABLE' AND t.table_schema` + ours + `
ORDER BY c.table_schema, c.table_name, c.ordinal_position`

	// The ordinal position of a STORING column is NULL.
	indexesQuery = `SELECT ic.table_schema, ic.table_name, ic.index_name, i.index_type, i.is_unique, ic.column_name, ic.ordinal_position
FROM information_schema.index_columns AS ic JOIN information_schema.indexes AS i
  ON i.table_schema = ic.table_schema AND i.table_name = ic.table_name AND i.index_name = ic.index_name
WHERE ic.table_schema` + ours + `
ORDER BY ic.table_schema, ic.table_name, ic.index_name, ic.ordinal_position`

	// PostgreSQL says it by the column's type instead.
	commitTimeQuery = `SELECT table_schema, table_name, column_name FROM information_schema.column_options
WHERE option_name = 'allow_commit_timestamp' AND option_value = 'TRUE'`
)

// readCatalog reads the database's schema, of all its tables.
func (c *client) readCatalog(ctx context.Context, now time.Time) (*catalog, error) {
	cat := &catalog{tables: make(map[string]*table), read: now}
	read := func(what, sql string, width int, row func(v []*structpb.Value)) error {
		if err := c.query(ctx, sql, width, row); err != nil {
			return fmt.Errorf("read %s of the schema: %w", what, err)
		}
		return nil
	}
	find := func(schema, name string) *table {
		return cat.tables[cat.dialect.fold(cat.dialect.wireName(schema, name))]
	}
	if err := read("the dialect", dialectQuery, 1, func(v []*structpb.Value) {
		if v[0].GetStringValue() == "POSTGRESQL" {
			cat.dialect = PostgreSQL
		}
	}); err != nil {
		return nil, err
	}
	if err := read("the tables", tablesQuery, 4, func(v []*structpb.Value) {
		schema, name := v[0].GetStringValue(), v[1].GetStringValue()
		t := &table{wire: cat.dialect.wireName(schema, name), columns: make(map[string]*column)}
		// A table that is only placed with another (INTERLEAVE IN, without PARENT) needs
		// no row there.
		if parent := v[2].GetStringValue(); parent != "" && v[3].GetStringValue() != "IN" {
			t.parent = cat.dialect.wireName(schema, parent)
		}
		cat.tables[cat.dialect.fold(t.wire)] = t
	}); err != nil {
		return nil, err
	}
	if err := read("the columns", columnsQuery, 8, func(v []*structpb.Value) {
		t := find(v[0].GetStringValue(), v[1].GetStringValue())
		if t == nil {
			return // made between the two queries
		}
		col := &column{
			name:      v[2].GetStringValue(),
			typ:       parseType(cat.dialect, v[3].GetStringValue()),
			nullable:  truth(v[4]),
			generated: v[5].GetStringValue() == "ALWAYS",
			filled:    truth(v[6]) || truth(v[7]),
		}
		col.commitTime = col.typ.pending
		t.columns[cat.dialect.fold(col.name)] = col
		t.order = append(t.order, col)
	}); err != nil {
		return nil, err
	}
	if err := read("the indexes", indexesQuery, 7, func(v []*structpb.Value) {
		t := find(v[0].GetStringValue(), v[1].GetStringValue())
		if t == nil {
			return
		}
		col := t.columns[cat.dialect.fold(v[5].GetStringValue())]
		if v[3].GetStringValue() == "PRIMARY_KEY" {
			if col == nil {
				return
			}
			t.key = append(t.key, col)
			col.keyPart, _ = strconv.Atoi(v[6].GetStringValue())
			return
		}
		name := v[2].GetStringValue()
		if n := len(t.indexes); n == 0 || t.indexes[n-1].name != name {
			t.indexes = append(t.indexes, &index{name: name, unique: truth(v[4])})
		}
		if col != nil {
			col.indexes++
		}
	}); err != nil {
		return nil, err
	}
	if cat.dialect == PostgreSQL {
		return cat, nil
	}
	return cat, read("the commit timestamp columns", commitTimeQuery, 3, func(v []*structpb.Value) {
		if t := find(v[0].GetStringValue(), v[1].GetStringValue()); t != nil {
			if col := t.columns[cat.dialect.fold(v[2].GetStringValue())]; col != nil {
				col.commitTime = true
			}
		}
	})
}

// truth reads a yes that is a BOOL in one dialect and YES in the other.
func truth(v *structpb.Value) bool { return v.GetBoolValue() || v.GetStringValue() == "YES" }

// query runs sql as a strong read of its own.
func (c *client) query(ctx context.Context, sql string, width int, row func([]*structpb.Value)) error {
	return c.inSession(ctx, func(session string) error {
		ctx, cancel := context.WithCancel(c.outgoing(ctx, session))
		defer cancel() // ends the stream, however it is left
		stream, err := c.stub.ExecuteStreamingSql(ctx, &sppb.ExecuteSqlRequest{Session: session, Sql: sql})
		if err != nil {
			return err
		}
		return readRows(stream, width, row)
	})
}
