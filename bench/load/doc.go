// Package load makes requests from prepared bytes over raw connections and reads of the
// answers no more than it must: it has to cost far less than the server that it loads.
package load
