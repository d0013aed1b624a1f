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
	// Mutations is what a second bound of the batch counts; at least 1. A Spanner entry
	// is any number of mutations and of cells, and each has its bound. (Bigtable's
	// mutations are its Cost.)
	Mutations int
	// Payload is private to the adapter that made it.
	Payload any
	// Origin is private to Options.Tracer and to whoever submits: the span that asked for
	// the entry. nil = it is not traced.
	Origin any
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
	// Ensure makes d exist. It is called with nothing open for d, and its ctx does not
	// end with the callers. Applied: the entries may be sent. Transient, Undecided, Missing:
	// it is tried again on the Recovery budget. Fatal: the destination's; what waits for d
	// is answered so. Rejected: what waits for d is rejected for good, each record of it.
	Ensure(ctx context.Context, d Dest) Ensured
}

// Ensured is the answer of Backend.Ensure. Its zero value is Undecided and tried again.
type Ensured struct {
	Outcome
	// Unchanged: the destination had all that it should have, and has had it for long
	// enough to be seen. An entry that is Missing after it (for Recovery.Max) is not waited
	// for again but answered as unavailable. A table that was made a moment ago and is not
	// visible yet is not Unchanged: it is worth the rest of the budget.
	Unchanged bool
}
