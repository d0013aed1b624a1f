//go:build race

package sink_test

// raceRounds shortens what the race detector makes ten times slower.
const raceRounds = 40
