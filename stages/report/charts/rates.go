package charts

import (
	"math"
	"slices"

	"aicplan/stages/report/model"
)

// roof draws the upper bound of a system: its peak rates, ascending, and at lower intensity the rate that its
// memory bandwidth allows, both in the unit of the y axis.
func roof(bandwidth float64, peaks []float64) func(f *frame) {
	return func(f *frame) {
		line := func(x0, y0, x1, y1 float64) {
			f.path("s-level", `stroke-width="1.2"`, polyline(f.px(x0), f.py(y0), f.px(x1), f.py(y1)))
		}

		ridge := peaks[len(peaks)-1] / bandwidth // the slope is the same for all
		if lo, hi := math.Max(f.x.lo, f.y.lo/bandwidth), math.Min(ridge, f.x.hi); lo < ridge {
			line(lo, lo*bandwidth, hi, hi*bandwidth)
		}

		for _, peak := range peaks {
			if from := math.Max(peak/bandwidth, f.x.lo); from < f.x.hi && peak <= f.y.hi {
				line(from, peak, f.x.hi, peak)
			}
		}
	}
}

// scaled divides values by a unit.
func scaled(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] / by
	}
	return out
}

// unitOf is the unit that the largest of the values reads best in.
func unitOf(v []float64, what string) (by float64, name string) {
	most := top(v)
	switch {
	case most >= 1e12:
		return 1e12, "T" + what
	case most >= 1e9:
		return 1e9, "G" + what
	}

	return 1e6, "M" + what
}

// rates draws how much the rows compute and move in their time: ops that multiply
// under the roofs of their system, the others over their size.
func rates(id string, t *model.Table, columns []column, budget int) *Chart {
	f := t.Facets
	bandwidth := 0.0
	if f.Spec != nil {
		bandwidth = f.Spec.GPU.MemBW
	}

	pt := points{id: id, xAxis: axis{log: true}, yAxis: axis{log: true}, series: f.Series, budget: budget}
	by := 1.0
	switch {
	case f.Rates.Intensity != nil && !f.Rates.Moves():
		by, pt.yAxis.label = unitOf(f.Rates.Flops, "FLOP/s")
		pt.title, pt.noMedians = "Roofline", true
		pt.x, pt.xAxis.label = f.Rates.Intensity, "operations per byte (FLOP/B)"
		pt.y = scaled(f.Rates.Flops, by)
		columns = append(columns, column{name: "intensity", unit: "FLOP/B", num: pt.x})

		pt.caption = "Operations and bytes are the least that the op must do. The plan names no system, so there is no " +
			"roof to draw."
		if peaks := peaksOf(f, by); bandwidth > 0 && len(peaks) > 0 {
			pt.over = roof(bandwidth/by, peaks)
			pt.levels = []level{{peaks[len(peaks)-1], true}}
			pt.caption = "Lines are the peaks of " + f.System +
				": memory to the left, the units of each type to the right. Operations and bytes are the least that the op must do."
		}

	case f.Rates.Bytes != nil:
		by, pt.yAxis.label = unitOf(f.Rates.Bytes, "B/s")
		pt.title = "Throughput against size"
		pt.x, pt.xAxis.label = f.Size, f.SizeLabel
		pt.y = scaled(f.Rates.Bytes, by)

		if bandwidth > 0 {
			pt.levels, pt.caption = []level{{bandwidth / by, true}}, "Dashed is the peak of the memory of "+f.System+"."
		}

	default:
		return nil
	}

	pt.columns = append(columns, column{name: "rate", unit: pt.yAxis.label, num: pt.y})
	return pt.chart()
}

// peaksOf are the peaks of the types that the rows have, ascending; of bfloat16 if they have none.
func peaksOf(f *model.Facets, by float64) []float64 {
	if f.Spec == nil {
		return nil
	}

	var out []float64
	for _, dtype := range f.Series.Names {
		if peak, ok := f.Spec.Peak(dtype); ok {
			out = append(out, peak/by)
		}
	}

	if peak, ok := f.Spec.Peak("bfloat16"); ok && len(out) == 0 {
		out = append(out, peak/by)
	}

	slices.Sort(out)
	return slices.Compact(out)
}
