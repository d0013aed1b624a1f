// Package bigtable writes to Bigtable: the [sink.Backend] over MutateRows.
//
// A record's mutation is encoded once, where its request waits for it ([Route.Encode]),
// into the very bytes that go on the wire. The writer's byte bound is therefore the memory
// an entry holds, a batch is put together by copying, and entries of one row become one
// (repeated fields of concatenated protobuf messages are one list, in order).
//
// One [Sink.Write] is one MutateRows call and is never repeated in here: the writer owns
// every retry. [sink.Applied] is set where an OK was read for the entry, nowhere else.
package bigtable
