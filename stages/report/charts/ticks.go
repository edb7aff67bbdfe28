package charts

import (
	"math"
	"strconv"
)

// tick is a mark on an axis. Minor ticks have no label.
type tick struct {
	at    float64
	label string
}

func (t tick) length() float64 {
	if t.label == "" {
		return 2
	}
	return 4
}

// ticker returns the ticks of an axis from lo to hi.
type ticker func(lo, hi float64) []tick

// logTicks marks decades, and 2 and 5 within them if there are few decades.
func logTicks(lo, hi float64) []tick {
	if !(lo > 0) || math.IsInf(hi, 1) {
		return nil // no decade to begin or to end with
	}

	first, last := math.Floor(math.Log10(lo)+1e-9), math.Ceil(math.Log10(hi)-1e-9)
	span := math.Log10(hi) - math.Log10(lo)
	every := max(1, math.Ceil(span/8))

	var out []tick
	for e := first; e <= last; e++ {
		for digit := 1.0; digit <= 9; digit++ {
			v := digit * math.Pow(10, e)
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) {
				continue
			}

			switch {
			case digit == 1 && math.Mod(e-first, every) == 0, span < 2 && (digit == 2 || digit == 5), span < 0.7:
				out = append(out, tick{v, SI(v)})
			case every == 1 || digit == 1:
				out = append(out, tick{at: v})
			}
		}
	}

	return out
}

// linearTicks marks about n round values, at least two.
func linearTicks(n int, label func(float64) string) ticker {
	return func(lo, hi float64) []tick {
		if alike(lo, hi) {
			return []tick{{lo, label(lo)}}
		}

		step := roundStep((hi - lo) / float64(n))
		first := math.Ceil(lo/step - 1e-9)

		var out []tick
		same := false
		for i := range n + 2 {
			v := (first+float64(i))*step + 0 // never -0
			if v > hi+step*1e-9 {
				break
			}
			out = append(out, tick{v, label(v)})
			same = same || i > 0 && out[i].label == out[i-1].label
		}

		for i := range out {
			if same { // a narrow range: all digits down to the step
				out[i].label = strconv.FormatFloat(out[i].at, 'f', max(0, int(math.Ceil(-math.Log10(step)))), 64)
			}
		}

		return out
	}
}

// nameTicks labels the categories of an axis, every so many of them.
func nameTicks(names []string, every int) ticker {
	return func(lo, hi float64) []tick {
		var out []tick
		for i := 0; i < len(names); i += every {
			out = append(out, tick{float64(i), names[i]})
		}
		return out
	}
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

// SI writes a value with at most three digits and a suffix from k to P.
func SI(v float64) string {
	a := math.Abs(v)
	for _, s := range []struct {
		from   float64
		suffix string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if a >= s.from*(1-1e-12) {
			return strconv.FormatFloat(v/s.from, 'g', 3, 64) + s.suffix
		}
	}

	if a < 1e-4 && a > 0 {
		return strconv.FormatFloat(v, 'e', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// whole writes a number in full up to five digits: three would make powers of two unrecognisable.
func whole(v float64) string {
	if math.Abs(v) < 1e5 {
		return strconv.FormatFloat(math.Round(v*1e9)/1e9, 'f', -1, 64) // a multiple of 0.05 is not exact
	}
	return SI(v)
}

// percentLabel writes a share.
func percentLabel(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e6)/1e4+0, 'g', 4, 64) + " %"
}

// widen makes room around a range, so that marks do not touch the axes.
func widen(lo, hi float64, log bool) (float64, float64) {
	switch {
	case log && alike(lo, hi):
		return lo / 2, hi * 2
	case log:
		f := math.Pow(hi/lo, 0.03)
		return lo / f, hi * f
	case alike(lo, hi):
		d := math.Max(math.Abs(lo)*0.1, 1e-9)
		return lo - d, hi + d
	}

	d := (hi - lo) * 0.03
	return lo - d, hi + d
}
