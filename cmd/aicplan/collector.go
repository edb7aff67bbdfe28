package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// tuneCollector makes the garbage collector run more often if much memory is in use. The memory is
// mostly tables, which are cheap to scan, and a heap that doubles before each collection takes twice the
// memory. GOGC and GOMEMLIMIT in the environment take precedence.
func tuneCollector() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}

	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := startPercent
	debug.SetGCPercent(percent)
	var again func(*[16]byte)
	again = func(*[16]byte) { // runs after each collection
		metrics.Read(live)
		if live[0].Value.Kind() == metrics.KindUint64 {
			if p := collectorPercent(live[0].Value.Uint64()); p != percent {
				percent = p
				debug.SetGCPercent(p)
			}
		}
		runtime.SetFinalizer(new([16]byte), again)
	}

	runtime.SetFinalizer(new([16]byte), again)
}

// startPercent applies until the first collection. Reading a plan leaves little garbage.
const startPercent = 200

// collectorPercent returns how much the heap may grow until the next collection, in percent of the live
// heap.
func collectorPercent(live uint64) int {
	switch {
	case live < 64<<20:
		return 200

	case live < 96<<20:
		return 150

	case live < 128<<20:
		return 100

	case live < 192<<20:
		return 50

	case live < 256<<20:
		return 25

	case live < 320<<20:
		return 12
	}

	return 8
}
