package handlers

import "slices"

// Methods are the methods that an Observer is told.
func Methods() []string { return append(slices.Clone(standardMethods), otherMethod) }

// Results are all that can become of a record.
func Results() []Result {
	return []Result{ResultWritten, ResultSkipped, ResultDropped, ResultDeadLettered, ResultRejected, ResultMalformed,
		ResultOverloaded, ResultUnavailable, ResultDeadline, ResultInternal}
}
