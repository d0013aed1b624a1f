// Package handlers is the HTTP surface: it takes records in, gives them to the writer, and
// answers. openapi.yaml is its contract.
//
// A request is answered 2xx only after every one of its records is durable, was skipped by
// the mapping, or was dropped or dead-lettered by the route's policy; status.go is the one
// place that decides. The wait of a handler inside the writer is that promise, and it is
// also the drain at shutdown.
//
// Refusals happen in this order: 401 and 403, 404, 405, 415, and only then the body is read.
package handlers
