package sink

import (
	"strconv"
	"strings"
	"testing"
)

func TestIDsAreKeptOnlyWhereATripIsPossible(t *testing.T) {
	for _, bound := range []int{-1, 100} {
		s := &routeState{route: &Route{Trips: true}}
		for i := range 1000 {
			s.count(strconv.Itoa(i), nil, bound)
		}
		if s.streak != 1000 || bound < 0 && len(s.ids) != 0 {
			t.Errorf("bound %d: a streak of %d, %d ids", bound, s.streak, len(s.ids))
		}
	}
	if n := len(kept(strings.Repeat("x", 1<<20))); n > longestID {
		t.Errorf("an id of 1 MiB is kept as %d bytes", n)
	}
}
