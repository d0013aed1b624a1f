package schema

// Code is a machine-readable reason. The list is closed and stands in openapi.yaml.
type Code string

const (
	BadJSON                Code = "bad_json"
	KeyPartMissing         Code = "key_part_missing"
	TypeMismatch           Code = "type_mismatch"
	MissingField           Code = "missing_field"
	UnknownField           Code = "unknown_field"
	TooLarge               Code = "too_large"
	TooDeep                Code = "too_deep"
	TimestampOutOfRange    Code = "timestamp_out_of_range"
	ExpressionTooCostly    Code = "expression_too_costly"
	UnsupportedContentType Code = "unsupported_content_type"
	BadEnvelope            Code = "bad_envelope"
	NoSuchTable            Code = "no_such_table"
	NoSuchFamily           Code = "no_such_family"
	NoSuchColumn           Code = "no_such_column"
	TooManyTables          Code = "too_many_tables"
	Constraint             Code = "constraint"
	AlreadyExists          Code = "already_exists"
	DedupIDMissing         Code = "dedup_id_missing"
	IdempotencyKeyRequired Code = "idempotency_key_required"
	Overloaded             Code = "overloaded"
	Unavailable            Code = "unavailable"
	Tripped                Code = "tripped"
	Deadline               Code = "deadline"
	Internal               Code = "internal"
)

// Error is why a record cannot become a mutation, or was refused by the sink. Its text
// names fields, options and bounds, never a value, key or token.
type Error struct {
	Code    Code
	Detail  string
	Pointer string // JSON pointer into the payload; empty = none
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }
