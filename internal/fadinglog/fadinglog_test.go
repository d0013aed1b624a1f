package fadinglog

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Kinds[string]
		var logged []int64
		for range 20 {
			if n, due := k.Due("a"); due {
				logged = append(logged, n)
			}
		}
		if want := []int64{1, 2, 4, 8, 16}; !slices.Equal(logged, want) {
			t.Errorf("events logged %v, want %v", logged, want)
		}
		if n, due := k.Due("b"); n != 1 || !due {
			t.Errorf("another kind's first: number %d, due %v", n, due)
		}
		time.Sleep(Interval - time.Nanosecond)
		if _, due := k.Due("a"); due {
			t.Errorf("due before %s", Interval)
		}
		time.Sleep(time.Nanosecond)
		if n, due := k.Due("a"); n != 22 || !due {
			t.Errorf("after %s: number %d, due %v; want 22, true", Interval, n, due)
		}
	})
}
