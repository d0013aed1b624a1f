package sink

import "context"

// Dest is a destination: one table of Bigtable, or one database of Spanner (Instance is
// then the database path and Table is empty). Its state in the writer is a lane.
type Dest struct{ Instance, Table string }

// Route is the writer's view of a route: the unit of streak, trip and fatal state. The
// pointer is the identity; one is made per route at start and never changed.
type Route struct {
	Name string
	// Trips: the streak bound stops this route (its policy is drop or deadLetter). The
	// streak is counted either way.
	Trips bool
}

// Entry is one record on its way to a destination. The writer does not change it.
type Entry struct {
	Dest  Dest
	Route *Route
	// ID is the record's id: it counts once in a streak and is remembered as poison.
	// Empty = unknown: always counted, never remembered.
	ID string
	// Key orders entries within Dest. Empty = unordered.
	Key string
	// Bytes is the exact serialized size, at least 1.
	Bytes int64
	// Cost is what the batch cost bound counts: mutations (Bigtable), cells (Spanner);
	// at least 1.
	Cost int
	// Payload is private to the adapter that made it.
	Payload any
}

// Backend does the I/O of one kind of sink. Its methods are called from goroutines that
// the writer starts, several at once, never under the writer's lock.
type Backend interface {
	// Open makes a client for instance ready. The writer calls Release once for each
	// Open that returned nil.
	Open(ctx context.Context, instance string) error
	// Release closes the client of instance and returns when it is closed. Nothing is
	// open for the instance.
	Release(instance string)
	// Write sends batch, all of it for d, as ONE attempt and returns an outcome per
	// entry, by index. Applied is set where an OK was read for that entry and nowhere
	// else. It keeps no entry afterwards. ctx carries the writer's attempt timeout,
	// never a caller's cancellation.
	Write(ctx context.Context, d Dest, batch []Entry) []Outcome
	// Ensure makes d exist. It is called with nothing open for d. The kind says whether
	// the entries may be sent (Applied), it may be tried again (Transient), or not
	// (Fatal, Rejected). An Ensure that found nothing to change says Unchanged.
	Ensure(ctx context.Context, d Dest) Ensured
}

// Ensured is the answer of Backend.Ensure. Its zero value is Undecided and tried again.
type Ensured struct {
	Outcome
	// Unchanged: the destination had all that it should have. An entry that fails the
	// same way after it is not waited for again.
	Unchanged bool
}
