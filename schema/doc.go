// Package schema says what a record is and what it becomes: payload decoders, the routes
// file, and the mapping from a record to a mutation. It does no I/O beyond reading the
// routes file's own text and imports no cloud client.
//
// The way of a record through the package:
//
//	json.go, tree.go     payload -> tree: strict, exact, without copies
//	path.go, template.go paths and templates of paths, compiled past the evaluator
//	expr.go, eval.go     everything else is CEL; cost.go bounds what it may cost
//	bigtable.go          -> RowMutation, values by encode.go
//	spanner.go           -> GroupMutation, values untyped and exact
//	explain.go           mutation -> JSON for dry runs and for reading back
//
// and of a routes file: yaml.go reads it into the structs of file.go, compile*.go make
// routes of them, problem.go words what is wrong.
//
// Absent is not null. A plain path that finds nothing leaves its cell or column alone; a
// null does what the cell says. Anywhere else both reject the record.
package schema
