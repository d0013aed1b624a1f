package bigtable

// The service's limits (cloud.google.com/bigtable/quotas; it counts in powers of two).
// Emulators enforce none of them, so they are checked before anything is sent.
const (
	maxKeyBytes       = 4 << 10
	maxQualifierBytes = 16 << 10
	maxCellBytes      = 100 << 20
	// maxMutations is the most mutations in one request (MutateRowsRequest.entries).
	maxMutations = 100_000
	// maxRequestBytes is the largest request the service reads; the largest row too.
	maxRequestBytes = 256 << 20
)
