package charts

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// logTicks marks decades, and 2 and 5 within them if there are few decades.
type logTicks struct{ unit func(float64) string }

// Ticks implements plot.Ticker.
func (t logTicks) Ticks(lo, hi float64) []plot.Tick {
	label := t.unit
	if label == nil {
		label = SI
	}

	if !(lo > 0) || math.IsInf(hi, 1) {
		return nil // no decade to begin or to end with
	}

	first, last := math.Floor(math.Log10(lo)+1e-9), math.Ceil(math.Log10(hi)-1e-9)
	span := math.Log10(hi) - math.Log10(lo)
	every := max(1, math.Ceil(span/8))

	var out []plot.Tick
	for e := first; e <= last; e++ {
		for _, digit := range []float64{1, 2, 3, 4, 5, 6, 7, 8, 9} {
			v := digit * math.Pow(10, e)
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) {
				continue
			}

			tick := plot.Tick{Value: v}
			major := digit == 1 && math.Mod(e-first, every) == 0
			if span < 2 {
				major = major || digit == 2 || digit == 5
			}

			if span < 0.7 {
				major = true
			}

			switch {
			case major:
				tick.Label = label(v)
			case every > 1 && digit != 1:
				continue
			}

			out = append(out, tick)
		}
	}

	return out
}

// linearTicks marks about n round values.
type linearTicks struct {
	n    int
	unit func(float64) string
}

// Ticks implements plot.Ticker.
func (t linearTicks) Ticks(lo, hi float64) []plot.Tick {
	label := t.unit
	if label == nil {
		label = SI
	}

	if alike(lo, hi) {
		return []plot.Tick{{Value: lo, Label: label(lo)}}
	}

	n := max(t.n, 2)
	step := roundStep((hi - lo) / float64(n))
	first := math.Ceil(lo/step - 1e-9)

	var out []plot.Tick
	same := false
	for i := range n + 2 {
		v := (first+float64(i))*step + 0 // never -0
		if v > hi+step*1e-9 {
			break
		}
		out = append(out, plot.Tick{Value: v, Label: label(v)})
		same = same || i > 0 && out[i].Label == out[i-1].Label
	}

	for i := range out {
		if same { // a narrow range: all digits down to the step
			out[i].Label = strconv.FormatFloat(out[i].Value, 'f', max(0, int(math.Ceil(-math.Log10(step)))), 64)
		}
	}

	return out
}

// alike reports whether a range is too narrow for ticks between its ends: the distance
// of floating-point numbers is larger than that of the ticks.
func alike(lo, hi float64) bool {
	return !(hi-lo > 1e-12*math.Max(math.Abs(lo), math.Abs(hi)))
}

// roundStep is the next of 1, 2, 2.5 and 5 times a power of ten.
func roundStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*p*(1+1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// SI writes a value with at most three digits and a suffix from n to T.
func SI(v float64) string {
	a := math.Abs(v)
	if a == 0 {
		return "0"
	}

	for _, s := range []struct {
		from   float64
		suffix string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if a >= s.from*(1-1e-12) {
			return trimmed(v/s.from) + s.suffix
		}
	}

	if a < 1e-4 {
		return strconv.FormatFloat(v, 'e', 0, 64)
	}

	return trimmed(v)
}

func trimmed(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// percentLabel writes a share.
func percentLabel(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e6)/1e4+0, 'g', 4, 64) + " %"
}

// widen makes room around a range, so that marks do not sit on the axes.
func widen(lo, hi float64, log bool) (float64, float64) {
	if log {
		if alike(lo, hi) {
			return lo / 2, hi * 2
		}
		f := math.Pow(hi/lo, 0.03)
		return lo / f, hi * f
	}

	if alike(lo, hi) {
		d := math.Max(math.Abs(lo)*0.1, 1e-9)
		return lo - d, hi + d
	}

	d := (hi - lo) * 0.03
	return lo - d, hi + d
}
