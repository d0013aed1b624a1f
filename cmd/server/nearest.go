package main

import (
	"maps"
	"slices"
	"strings"
)

// nearest returns the known name that the fewest edits make of name, or "" when even
// that one is too far to be what was meant. Both have the prefix.
func nearest(name string, known map[string]bool) string {
	short := func(name string) string { return strings.TrimPrefix(name, prefix+"_") }
	best, fewest := "", len(short(name))/3+1
	var longer []string // the end of the name was left out
	for _, candidate := range sortedKeys(known) {
		if strings.HasSuffix(candidate, "_"+short(name)) {
			return candidate // the group's name was left out
		}
		if strings.HasPrefix(short(candidate), short(name)+"_") {
			longer = append(longer, candidate)
		}
		if n := edits(short(name), short(candidate)); n < fewest {
			best, fewest = candidate, n
		}
	}
	if best == "" && len(longer) == 1 {
		return longer[0]
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
