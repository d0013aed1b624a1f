package main

import (
	"context"
	"io"
	"log/slog"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func TestCONN04WarmWithinTenSecondsWhateverTheBackendDoes(t *testing.T) {
	for _, c := range []struct {
		name string
		took time.Duration // until the check ends
		want time.Duration // when Warm says so
	}{
		{"a quick backend", 30 * time.Millisecond, 30 * time.Millisecond},
		{"a slow backend", 9 * time.Second, 9 * time.Second},
		{"a backend that never answers", time.Hour, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				r := newReadiness(ctx, quiet(), func(ctx context.Context) causes {
					time.Sleep(c.took) // a check that does not even obey its context
					return nil
				})
				time.Sleep(c.want - time.Nanosecond)
				synctest.Wait()
				if r.Warm() {
					t.Errorf("warm after %s, want not before %s", time.Since(began), c.want)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if !r.Warm() {
					t.Errorf("not warm after %s", c.want)
				}
				cancel()
				time.Sleep(time.Hour)
				r.wait()
			})
		})
	}
}

func TestCONN04CheckedAgainWhileProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var checks atomic.Int32
		down := causes{"r": {sink: "backend down"}}
		r := newReadiness(ctx, quiet(), func(ctx context.Context) causes {
			checks.Add(1)
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a check without a deadline")
			}
			return down
		})
		if got := r.Problems(); len(got) != 1 {
			t.Errorf("before the first check: causes %q, want one", got)
		}
		synctest.Wait()
		if got := r.Problems(); !reflect.DeepEqual(got, map[string]string{"r": "backend down"}) || checks.Load() != 1 {
			t.Errorf("causes %q after %d checks, want the check's after one", got, checks.Load())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if checks.Load() != 1 {
			t.Errorf("%d checks while nobody probes, want 1", checks.Load())
		}
		for range 100 { // probed every 100 ms for 10 s
			r.Problems()
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if checks.Load() != 11 {
			t.Errorf("%d checks after 10 s of probes, want 11: one a second", checks.Load())
		}
		down = nil
		time.Sleep(time.Second)
		r.Problems()
		synctest.Wait()
		if got := r.Problems(); len(got) != 0 {
			t.Errorf("causes %q after the backend came back", got)
		}
		time.Sleep(time.Hour)
		r.Problems()
		synctest.Wait()
		if checks.Load() != 12 {
			t.Errorf("%d checks, want no more once it was ready (12)", checks.Load())
		}
	})
}

func TestNoCheckStartsWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		checks := 0
		r := newReadiness(ctx, quiet(), func(ctx context.Context) causes {
			checks++
			<-ctx.Done()
			return causes{"r": {sink: "cut short"}}
		})
		synctest.Wait()
		r.Drain()
		cancel()
		r.wait()
		time.Sleep(time.Minute)
		r.Problems()
		synctest.Wait()
		if checks != 1 || !r.Draining() {
			t.Errorf("%d checks, draining %v; want 1, true", checks, r.Draining())
		}
	})
}

// A write proves a check wrong at once, also one that has not ended; it says nothing of
// dead letters. Other routes are left alone.
func TestAWriteEndsWhatACheckFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		took := time.Duration(0)
		r := newReadiness(ctx, quiet(), func(ctx context.Context) causes {
			time.Sleep(took)
			return causes{"a": {sink: "down"}, "b": {sink: "down", letters: "no topic"}, "c": {sink: "down"}}
		})
		r.Wrote("a")
		if got := r.Problems(); len(got) != 1 || got[""] == "" {
			t.Errorf("before the first check ended: %q", got)
		}
		synctest.Wait()
		r.Wrote("b")
		if got, want := r.Problems(), (map[string]string{"b": "no topic", "c": "down"}); !reflect.DeepEqual(got, want) {
			t.Errorf("after writes of a and b: %q, want %q", got, want)
		}
		took = time.Second
		time.Sleep(time.Second)
		r.Problems() // begins a check
		synctest.Wait()
		r.Wrote("c")
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := r.Problems(), (map[string]string{"a": "down", "b": "down; no topic"}); !reflect.DeepEqual(got, want) {
			t.Errorf("after a check during which c wrote: %q, want %q", got, want)
		}
	})
}
