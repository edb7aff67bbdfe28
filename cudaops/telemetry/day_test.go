package telemetry

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestDay records eight GPUs for two hours, or for a day if AICPLAN_TEST_LONG is set. The windows must be
// correct until the end, and memory must not grow.
func TestDay(t *testing.T) {
	hours := 2
	if os.Getenv("AICPLAN_TEST_LONG") != "" {
		hours = 24
	}
	synctest.Test(t, func(t *testing.T) {
		var sources []Source
		for i := range 8 {
			sources = append(sources, steady(fmt.Sprint("s", i), fmt.Sprint("GPU-", i), 100+float64(i), 1e6, 0))
		}
		r := Start(t.Context(), Options{Interval: time.Second}, nil, sources)
		defer r.Stop()
		var early uint64
		var goroutines int
		const window = 30 * time.Second
		for at := time.Duration(0); at < time.Duration(hours)*time.Hour; at += window {
			from := time.Now()
			time.Sleep(window)
			to := time.Now()
			r.Mark(t.Context())
			w := r.Window(from, to)
			if len(w.GPUs) != 8 || w.Lost != 0 {
				t.Fatalf("after %s: %d GPUs, %d lost", at, len(w.GPUs), w.Lost)
			}
			for i, g := range w.GPUs {
				if e := g.Get(Energy); e.Delta == nil || !near(e.Delta, (100+float64(i))*window.Seconds()) || g.Samples < 29 ||
					g.Stale {
					t.Fatalf("after %s: GPU %d: %+v %+v", at, i, g, e)
				}
			}
			r.Forget(from)
			if at == 10*time.Minute {
				synctest.Wait() // the scrapes of this second end at different times
				early, goroutines = heap(), runtime.NumGoroutine()
			}
		}
		synctest.Wait()
		if now := heap(); now > early+early/2+8<<20 {
			t.Errorf("%d kB after ten minutes, %d kB after %d hours", early>>10, now>>10, hours)
		}
		if now := runtime.NumGoroutine(); now > goroutines+8 {
			t.Errorf("%d goroutines after ten minutes, %d after %d hours", goroutines, now, hours)
		}
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
