package main

import "testing"

func TestCollectorPercent(t *testing.T) {
	t.Parallel()
	last := uint64(0)
	for live := uint64(1 << 20); live < 8<<30; live += live / 8 {
		goal := live + live*uint64(collectorPercent(live))/100
		if goal > 3*live || live > 128<<20 && goal > 2*live || live > 256<<20 && goal > live*13/10 {
			t.Errorf("%d bytes in use may grow to %d", live, goal)
		}
		if goal < last*3/4 {
			t.Errorf("at %d the heap would be collected at %d, before at %d", live, goal, last)
		}
		last = goal
	}
}
