// Package spanner writes to Spanner: the [sink.Backend] over BatchWrite or Commit.
//
// A record becomes one mutation group, encoded once where its request waits for it
// ([Route.Encode]) by the live types of the columns it writes, into the very bytes that
// go on the wire. The database's schema is therefore read before the first record, and
// again, at most once a minute, when a record names a table or column that is not known.
//
// One [Sink.Write] is one BatchWrite or one Commit and is never repeated in here but for a
// session the service has forgotten: the writer owns every retry. [sink.Applied] is set
// where an OK was read for the entry, or where a strong read found the very row it would
// insert (onDuplicate: ignore) or its dedup row; nowhere else.
//
// Statuses name no row, so what a refusal means is asked, not read out of its text: a
// strong read of the rows in question decides between a lost answer, a row that is not
// there, and a table that is gone.
package spanner
