// Package sinktest tests writers and backends: [Backend] is a backend in memory that
// fails on request, and [Run] is the acceptance suite that every real backend passes.
package sinktest
