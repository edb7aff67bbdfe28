package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// tuneCollector has Go's garbage collector run more often while much memory is in
// use: that is tables, which are quick to look through, and a heap that doubles
// before it is collected takes twice what they need. GOGC and GOMEMLIMIT of the
// environment win.
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

// startPercent holds until the first collection: reading a plan leaves little
// behind that is worth looking for.
const startPercent = 200

// collectorPercent is by how much the heap may grow beyond what is in use, in per
// cent, before the next collection.
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
