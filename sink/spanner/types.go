package spanner

import (
	"strconv"
	"strings"
)

// scalar is a column type, or the element type of an array. The zero value is a type
// that nothing can be written to.
type scalar uint8

const (
	unsupported scalar = iota // PROTO, ENUM, TOKENLIST, whatever comes next
	typeBool
	typeInt64
	typeFloat32
	typeFloat64
	typeNumeric
	typePGNumeric
	typeString
	typeBytes
	typeDate
	typeTimestamp
	typeJSON
	typePGJSONB
	typeUUID
)

// columnType is a column's type as the database spells it.
type columnType struct {
	scalar scalar
	array  bool
	// limit is N of STRING(N) in characters, of BYTES(N) in bytes; MAX and everything
	// else: 0.
	limit int
	// vector is the exact length of an array with vector_length; 0 = any.
	vector int
	// pending: the type itself takes the commit timestamp (PostgreSQL).
	pending bool
	spelled string
}

func (t columnType) String() string { return t.spelled }

var googleTypes = map[string]scalar{
	"BOOL": typeBool, "INT64": typeInt64, "FLOAT32": typeFloat32, "FLOAT64": typeFloat64,
	"NUMERIC": typeNumeric, "STRING": typeString, "BYTES": typeBytes, "DATE": typeDate,
	"TIMESTAMP": typeTimestamp, "JSON": typeJSON, "UUID": typeUUID,
}

var pgTypes = map[string]scalar{
	"boolean": typeBool, "bigint": typeInt64, "real": typeFloat32, "double precision": typeFloat64,
	"numeric": typePGNumeric, "character varying": typeString, "text": typeString, "bytea": typeBytes,
	"date": typeDate, "timestamp with time zone": typeTimestamp, "spanner.commit_timestamp": typeTimestamp,
	"jsonb": typePGJSONB, "uuid": typeUUID,
}

// parseType reads information_schema.columns.spanner_type.
func parseType(d Dialect, spelled string) columnType {
	t := columnType{spelled: spelled}
	text := spelled
	if d == PostgreSQL {
		text, t.array = strings.CutSuffix(text, "[]")
		base, length, _ := cutLength(text)
		t.scalar, t.limit = pgTypes[base], length
		t.pending = base == "spanner.commit_timestamp"
		return t
	}
	if rest, ok := strings.CutPrefix(text, "ARRAY<"); ok {
		inner, tail, closed := strings.Cut(rest, ">")
		if !closed || strings.Contains(inner, "<") { // of PROTO<...>
			return t
		}
		t.array, text = true, inner
		if tail != "" {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(tail, "(vector_length=>"), ")"))
			if err != nil {
				return t
			}
			t.vector = n
		}
	}
	base, length, ok := cutLength(text)
	if ok {
		t.scalar, t.limit = googleTypes[base], length
	}
	return t
}

// cutLength splits "STRING(36)"; MAX and no length are 0.
func cutLength(text string) (base string, length int, ok bool) {
	base, rest, found := strings.Cut(text, "(")
	if !found {
		return text, 0, true
	}
	rest, closed := strings.CutSuffix(rest, ")")
	if !closed {
		return text, 0, false
	}
	if rest == "MAX" {
		return base, 0, true
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return text, 0, false
	}
	return base, n, true
}
