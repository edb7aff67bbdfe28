package report

import (
	"math"
	"testing"

	"aicplan/stages/collect"
)

// TestTriesInTheOrderOfTime: times are compared as times. As text, 05.12Z is behind
// 05.123Z.
func TestTriesInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	times := []string{"", "2026-11-22T10:00:05Z", "2026-11-22T10:00:05.12Z", "2026-11-22T10:00:05.123Z", "2026-11-22T11:00:06+01:00"}
	orders := [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {3, 2, 4, 0, 1}, {2, 4, 1, 3, 0}}
	for _, order := range orders {
		var all, until tried
		for _, i := range order {
			e := try{known: true, value: float64(i), noise: math.NaN(), at: collect.Nanos(times[i])}
			all.add(e, math.MaxInt64)
			until.add(e, collect.Nanos(times[2]))
		}
		if all.last.value != 4 || all.earlier.value != 3 {
			t.Errorf("%v: the last is %v and the one before %v", order, all.last.value, all.earlier.value)
		}
		if until.last.value != 4 || until.earlier.value != 2 {
			t.Errorf("%v: the last is %v and the one until then %v", order, until.last.value, until.earlier.value)
		}
	}
}

// TestShort: ids of grids and others are told apart.
func TestShort(t *testing.T) {
	t.Parallel()
	ids := []string{"", "x", "3913110b23d1a700eb7beb53fe96e391", "3913110b23d1a700eb7beb53fe96e392", "3913110b23d1a700eb7beb53fe96e39x", "3913110b23d1a700eb7beb53fe96e391/1"}
	seen := map[[16]byte]string{}
	for _, id := range ids {
		if other, ok := seen[short(id)]; ok {
			t.Errorf("%q and %q are one", id, other)
		}
		seen[short(id)] = id
	}
}
