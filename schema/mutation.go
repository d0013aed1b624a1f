package schema

// Mutation is what the mapping made of a record. Either Skip is set, or exactly one of
// Bigtable and Spanner.
type Mutation struct {
	Skip     Skip
	Bigtable *RowMutation
	Spanner  *GroupMutation
}

// Skip says why a record is written nowhere, and acknowledged all the same.
type Skip uint8

const (
	NotSkipped   Skip = iota
	SkippedWhere      // `where` was false
	SkippedEmpty      // every cell was skipped
)

// RowMutation changes one Bigtable row. Ops are applied in order.
type RowMutation struct {
	// Instance is the evaluated instance; empty = the process's default.
	Instance string
	Table    string
	// Key is the row key, 1..4096 bytes, not necessarily UTF-8.
	Key string
	Ops []Op
}

// OpKind is a kind of Bigtable mutation. The zero value is invalid.
type OpKind uint8

const (
	SetCell OpKind = iota + 1
	DeleteColumn
	DeleteFamily
	DeleteRow
)

// Op is one mutation of a row. Family is empty for DeleteRow; Column only has a meaning
// for SetCell and DeleteColumn.
type Op struct {
	Kind   OpKind
	Family string
	Column string
	// Micros is the cell's timestamp in microseconds since 1970, whole milliseconds.
	Micros int64
	Value  []byte
	// As is the encoding Value was made with, to show it decoded.
	As Encoding
}
