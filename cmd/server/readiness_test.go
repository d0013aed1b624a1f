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
				r := newReadiness(ctx, quiet(), func(ctx context.Context) []string {
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
		down := []string{"backend down"}
		r := newReadiness(ctx, quiet(), func(ctx context.Context) []string {
			checks.Add(1)
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a check without a deadline")
			}
			return down
		})
		if got := r.Causes(); len(got) != 1 {
			t.Errorf("before the first check: causes %q, want one", got)
		}
		synctest.Wait()
		if got := r.Causes(); !reflect.DeepEqual(got, []string{"backend down"}) || checks.Load() != 1 {
			t.Errorf("causes %q after %d checks, want the check's after one", got, checks.Load())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if checks.Load() != 1 {
			t.Errorf("%d checks while nobody probes, want 1", checks.Load())
		}
		for range 100 { // probed every 100 ms for 10 s
			r.Causes()
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if checks.Load() != 11 {
			t.Errorf("%d checks after 10 s of probes, want 11: one a second", checks.Load())
		}
		down = nil
		time.Sleep(time.Second)
		r.Causes()
		synctest.Wait()
		if got := r.Causes(); len(got) != 0 {
			t.Errorf("causes %q after the backend came back", got)
		}
		time.Sleep(time.Hour)
		r.Causes()
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
		r := newReadiness(ctx, quiet(), func(ctx context.Context) []string {
			checks++
			<-ctx.Done()
			return []string{"cut short"}
		})
		synctest.Wait()
		r.Drain()
		cancel()
		r.wait()
		time.Sleep(time.Minute)
		r.Causes()
		synctest.Wait()
		if checks != 1 || !r.Draining() {
			t.Errorf("%d checks, draining %v; want 1, true", checks, r.Draining())
		}
	})
}
