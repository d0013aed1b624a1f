// Package schema says what a record is and what it becomes: payload decoders, the routes
// file, and the mapping from a record to a mutation. It does no I/O beyond reading the
// routes file's own text and imports no cloud client.
package schema
