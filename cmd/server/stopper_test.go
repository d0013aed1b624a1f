package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSHUT07EachStepIsLoggedWithItsDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s, cancel := newStopper(newLogger(&out, "info", platform{}), 8*time.Second)
		defer cancel()
		var order []string
		s.step("one", func(context.Context) error {
			order = append(order, "one")
			time.Sleep(2 * time.Second)
			return nil
		})
		s.step("two", func(context.Context) error { order = append(order, "two"); return errors.New("broken") })
		s.step("three", func(ctx context.Context) error {
			order = append(order, "three")
			<-ctx.Done() // the budget of all steps
			return nil
		})
		if err := s.done(); err == nil || err.Error() != "two: broken" {
			t.Errorf("error %v, want that of the second step", err)
		}
		if got := strings.Join(order, " "); got != "one two three" {
			t.Errorf("order %q: a step that fails keeps the later ones from nothing", got)
		}
		type line struct{ Message, Severity, Step, Took string }
		var got []line
		for decoder := json.NewDecoder(&out); decoder.More(); {
			var l line
			if err := decoder.Decode(&l); err != nil {
				t.Fatal(err)
			}
			got = append(got, l)
		}
		want := []line{
			{"stopping", "INFO", "", ""},
			{"stop step", "INFO", "one", "2s"},
			{"stop step failed", "ERROR", "two", "0s"},
			{"stop step", "INFO", "three", "6s"},
			{"stopped", "INFO", "", "8s"},
		}
		if len(got) != len(want) {
			t.Fatalf("lines %+v", got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("line %d: %+v, want %+v", i, got[i], want[i])
			}
		}
	})
}

func TestAStepCannotHoldTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s, cancel := newStopper(newLogger(&out, "info", platform{}), time.Second)
		defer cancel()
		release := make(chan struct{})
		began := time.Now()
		s.step("deaf", func(context.Context) error { <-release; return nil })
		s.step("late", func(context.Context) error { return nil })
		if took := time.Since(began); took != time.Second+stepGrace {
			t.Errorf("took %s, want the budget and its grace", took)
		}
		if err := s.done(); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "deaf: ") {
			t.Errorf("error %v, want that of the deaf step alone", err)
		}
		close(release)
	})
}
