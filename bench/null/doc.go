// Package null is a Bigtable and a Spanner that keep nothing: every write is answered OK,
// an exact latency after it arrived, and counted. What a contender is measured with is
// then its own cost, and a service whose latency does not depend on the contender.
package null
