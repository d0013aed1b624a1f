package scripted

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Cell is one version of a cell.
type Cell struct {
	Micros int64
	Value  []byte
}

// Row maps "family:qualifier" to its versions, newest first.
type Row map[string][]Cell

type store struct {
	mu     sync.RWMutex // guards tables
	tables map[string]*table
}

// table keeps rows in shards, so that a benchmark does not queue on one lock.
type table struct {
	keysOnly bool

	mu       sync.RWMutex                     // guards the fields below
	families map[string]*adminpb.ColumnFamily // nil = any family
	visible  time.Time                        // NOT_FOUND for MutateRows until then

	shards [64]shard
}

type shard struct {
	mu   sync.Mutex
	rows map[string]Row
}

var shardSeed = maphash.MakeSeed()

func newTable(o Options, families map[string]*adminpb.ColumnFamily) *table {
	t := &table{keysOnly: o.KeysOnly, families: families}
	for i := range t.shards {
		t.shards[i].rows = map[string]Row{}
	}
	return t
}

// get returns nil for a table that does not exist.
func (s *store) get(name string) *table {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[name]
}

// add reports false when the table exists.
func (s *store) add(name string, t *table) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables[name] != nil {
		return false
	}
	s.tables[name] = t
	return true
}

// visible finds a table as MutateRows sees it.
func (s *store) visible(name string, o Options) (*table, error) {
	t := s.get(name)
	if t == nil && o.AnyTable {
		s.add(name, newTable(o, nil))
		t = s.get(name)
	}
	if t != nil {
		t.mu.RLock()
		from := t.visible
		t.mu.RUnlock()
		if !time.Now().Before(from) {
			return t, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "Table not found: %s", name)
}

func (t *table) hasFamily(name string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.families == nil || t.families[name] != nil
}

func (t *table) shard(key string) *shard {
	return &t.shards[maphash.String(shardSeed, key)%uint64(len(t.shards))]
}

// apply writes a good entry, all of it at once.
func (t *table) apply(e *Entry) {
	key := string(e.GetRowKey())
	sh := t.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t.keysOnly {
		sh.rows[key] = nil
		return
	}
	row := sh.rows[key]
	if row == nil {
		row = Row{}
		sh.rows[key] = row
	}
	for _, m := range e.GetMutations() {
		switch m := m.GetMutation().(type) {
		case *bigtablepb.Mutation_SetCell_:
			row.set(m.SetCell)
		case *bigtablepb.Mutation_DeleteFromColumn_:
			row.deleteColumn(m.DeleteFromColumn)
		case *bigtablepb.Mutation_DeleteFromFamily_:
			for name := range row {
				if strings.HasPrefix(name, m.DeleteFromFamily.GetFamilyName()+":") {
					delete(row, name)
				}
			}
		case *bigtablepb.Mutation_DeleteFromRow_:
			clear(row)
		}
	}
	if len(row) == 0 {
		delete(sh.rows, key)
	}
}

func (r Row) set(m *bigtablepb.Mutation_SetCell) {
	ts := m.GetTimestampMicros()
	if ts == -1 {
		ts = time.Now().UnixMilli() * 1000
	}
	name := m.GetFamilyName() + ":" + string(m.GetColumnQualifier())
	cell := Cell{Micros: ts, Value: m.GetValue()}
	at, found := slices.BinarySearchFunc(r[name], ts, func(c Cell, ts int64) int { return cmp.Compare(ts, c.Micros) })
	if found {
		r[name][at] = cell
		return
	}
	r[name] = slices.Insert(r[name], at, cell)
}

func (r Row) deleteColumn(m *bigtablepb.Mutation_DeleteFromColumn) {
	name := m.GetFamilyName() + ":" + string(m.GetColumnQualifier())
	from, to := m.GetTimeRange().GetStartTimestampMicros(), m.GetTimeRange().GetEndTimestampMicros()
	r[name] = slices.DeleteFunc(r[name], func(c Cell) bool { return c.Micros >= from && (to == 0 || c.Micros < to) })
	if len(r[name]) == 0 {
		delete(r, name)
	}
}

// TableName is the full name of a table.
func TableName(project, instance, table string) string {
	return "projects/" + project + "/instances/" + instance + "/tables/" + table
}

// AddTable makes a table, visible at once, or adds families to it. Name is the full one.
func (s *Server) AddTable(name string, families ...string) {
	s.store.add(name, newTable(s.options, map[string]*adminpb.ColumnFamily{}))
	t := s.store.get(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range families {
		t.families[f] = &adminpb.ColumnFamily{}
	}
}

// Has reports whether the row is there.
func (s *Server) Has(table, key string) bool {
	t := s.store.get(table)
	if t == nil {
		return false
	}
	sh := t.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, ok := sh.rows[key]
	return ok
}

// Row is a copy of a row; nil = not there.
func (s *Server) Row(table, key string) Row {
	t := s.store.get(table)
	if t == nil {
		return nil
	}
	sh := t.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.rows[key].clone()
}

// Rows is a copy of a whole table.
func (s *Server) Rows(table string) map[string]Row {
	all := map[string]Row{}
	t := s.store.get(table)
	if t == nil {
		return all
	}
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for key, row := range sh.rows {
			all[key] = row.clone()
		}
		sh.mu.Unlock()
	}
	return all
}

// Len is the number of rows of a table.
func (s *Server) Len(table string) int {
	n := 0
	if t := s.store.get(table); t != nil {
		for i := range t.shards {
			sh := &t.shards[i]
			sh.mu.Lock()
			n += len(sh.rows)
			sh.mu.Unlock()
		}
	}
	return n
}

// Families is a copy of a table's families and their rules; nil = no such table.
func (s *Server) Families(table string) map[string]*adminpb.ColumnFamily {
	t := s.store.get(table)
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	copied := map[string]*adminpb.ColumnFamily{}
	for name, f := range t.families {
		copied[name] = proto.Clone(f).(*adminpb.ColumnFamily)
	}
	return copied
}

func (r Row) clone() Row {
	if r == nil {
		return nil
	}
	c := make(Row, len(r))
	for name, cells := range r {
		c[name] = slices.Clone(cells)
	}
	return c
}
