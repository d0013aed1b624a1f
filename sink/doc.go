// Package sink is the bounded writer: every record of the process goes through one
// [Writer] per kind of sink, which batches, admits, orders, isolates and retries.
//
// A record becomes an [Entry] (package schema maps it, an adapter encodes it), entries
// of one destination travel in batches, and each entry ends in exactly one [Outcome].
// Nothing but [Applied] may be acknowledged; it is set by a [Backend] where it read an
// OK for that entry, and nowhere else.
package sink
