//go:build !race

package sink_test

const raceRounds = 200
