package spanner

// The service's limits (cloud.google.com/spanner/quotas, and the reference of its data
// types). The emulator enforces hardly any, so they are checked before anything is sent.
const (
	// maxCells is the most cells ("mutations" in the quotas' words) in one commit.
	maxCells = 80_000
	// maxCommitBytes is the largest commit.
	maxCommitBytes = 100 << 20
	// maxStringChars is the most characters in a STRING(MAX).
	maxStringChars = 2_621_440
	// maxCellBytes is the most bytes in a BYTES(MAX), and in any cell.
	maxCellBytes = 10 << 20
	// NUMERIC holds 29 digits before the point and 9 behind it; PostgreSQL's numeric
	// 131,072 and 16,383.
	numericWhole, numericScale     = 29, 9
	pgNumericWhole, pgNumericScale = 131_072, 16_383
	// maxTag is where the service cuts a transaction tag, in characters.
	maxTag = 50
)
