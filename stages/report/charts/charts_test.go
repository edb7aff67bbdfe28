package charts

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"aicplan/stages/report/model"
)

func byID(groups []Group) map[string]*Chart {
	out := map[string]*Chart{}
	for _, g := range groups {
		for _, c := range g.Charts {
			out[c.ID] = c
		}
	}
	return out
}

// TestClockCutsLongPauses: long pauses are cut, order is kept, nothing overlaps.
func TestClockCutsLongPauses(t *testing.T) {
	night := float64(time.Date(2026, 1, 2, 22, 0, 0, 0, time.UTC).Unix())
	c := newClock([]float64{night, night + 10, night + 20, night + 36000, night + 36010})
	if len(c.segments) != 2 || !(c.total <= 60) {
		t.Fatalf("%+v", c)
	}

	if !strings.Contains(c.label(), "2026-01-02 to 2026-01-03; one pause cut") {
		t.Errorf("label %q", c.label())
	}

	for _, tick := range c.ticks(0, c.total) {
		if tick.label == "" || !(tick.at >= 0 && tick.at <= c.total) {
			t.Errorf("tick %+v", tick)
		}
	}

	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 40).Draw(t, "moments")
		c := newClock(list)

		sorted := model.Sorted(list)
		for i := 1; i < len(sorted); i++ {
			if a, b := c.on(sorted[i-1]), c.on(sorted[i]); !(a <= b+1e-6) {
				t.Fatalf("%v comes at %v, %v at %v", sorted[i-1], a, sorted[i], b)
			}
		}

		if end := c.on(sorted[len(sorted)-1]); !(end <= c.total+1e-6) {
			t.Fatalf("the last moment is at %v of %v", end, c.total)
		}
	})
}

// TestLogTicksAreLabelledAndRise: labelled ticks exist, are in range and rise, whatever the range.
func TestLogTicksAreLabelledAndRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := math.Pow(10, rapid.Float64Range(-9, 12).Draw(t, "lo"))
		hi := lo * math.Pow(10, rapid.Float64Range(0.7, 12).Draw(t, "decades"))
		labels := 0

		last := 0.0
		for _, k := range logTicks(lo, hi) {
			if !(k.at >= lo*0.999 && k.at <= hi*1.001) || !(k.at > last) {
				t.Fatalf("tick %v after %v in %v..%v", k.at, last, lo, hi)
			}
			last = k.at
			if k.label != "" {
				labels++
			}
		}

		if labels < 1 || labels > 14 {
			t.Fatalf("%d labels in %v..%v", labels, lo, hi)
		}
	})

	for v, want := range map[float64]string{0: "0", 1500: "1.5k", 1e6: "1M", 2.5e9: "2.5G", 0.01: "0.01", 1e-7: "1e-07"} {
		if got := SI(v); got != want {
			t.Errorf("SI(%v) = %q, want %q", v, got, want)
		}
	}
}

// TestTicksOfExtremeRangesAreFew: ranges that differ in the last bit only, or have no end, have a
// few marks, and no endless row of them.
func TestTicksOfExtremeRangesAreFew(t *testing.T) {
	t.Parallel()
	four := math.Nextafter(4, 0)
	for _, r := range [][2]float64{{four, 4}, {4, 4}, {1e15, 1e15 + 0.25}, {-4, -four}, {0, 5e-324}, {0, 1e308},
		{-1e308, 1e308}, {1, math.Inf(1)}, {0, 1}} {
		for i, ticks := range []ticker{linearTicks(6, SI), logTicks} {
			if n := len(ticks(r[0], r[1])); n > 3000 {
				t.Errorf("ticker %d has %d marks from %v to %v", i, n, r[0], r[1])
			}
		}
		if lo, hi := widen(r[0], r[1], false); !(lo < hi) && !math.IsInf(hi, 1) {
			t.Errorf("%v to %v is widened to %v to %v", r[0], r[1], lo, hi)
		}
	}
}

func TestCoverClass(t *testing.T) {
	t.Parallel()
	for n, want := range map[[4]int]int{{0, 0, 0, 0}: -1, {3, 3, 0, 0}: coverFull, {3, 1, 2, 0}: coverPart,
		{3, 0, 1, 2}: coverFail, {3, 0, 0, 3}: coverSkip, {3, 0, 0, 0}: coverNone} {
		if got := coverClass(n); got != want {
			t.Errorf("class of %v is %d, want %d", n, got, want)
		}
	}
}
