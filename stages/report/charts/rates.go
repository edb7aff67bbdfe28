package charts

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"aicplan/stages/report/facets"
	"aicplan/stages/report/model"
)

// roof is the upper bound of a system: its peak rates, and at lower intensity the rate
// that its memory bandwidth allows.
type roof struct {
	bandwidth float64   // in the unit of y for an intensity of 1
	peaks     []float64 // in the unit of y, ascending
}

// Plot implements plot.Plotter.
func (r roof) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	style := draw.LineStyle{Color: Ink("level"), Width: 1.2}
	for i, peak := range r.peaks {
		ridge := peak / r.bandwidth
		from := ridge

		if i == len(r.peaks)-1 { // the slope is the same for all
			lo := math.Max(p.X.Min, p.Y.Min/r.bandwidth)
			if lo < ridge {
				hi := math.Min(ridge, p.X.Max)
				c.StrokeLine2(style, tx(lo), ty(lo*r.bandwidth), tx(hi), ty(hi*r.bandwidth))
			}
		}

		if from = math.Max(from, p.X.Min); from < p.X.Max && peak <= p.Y.Max {
			c.StrokeLine2(style, tx(from), ty(peak), c.Max.X, ty(peak))
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
	if f.Rates.Intensity != nil && !f.Rates.Moves() {
		by, unit := unitOf(f.Rates.Flops, "FLOP/s")
		pt := points{
			id: id, title: "Roofline", x: f.Rates.Intensity, y: scaled(f.Rates.Flops, by),
			xLabel: "operations per byte (FLOP/B)", yLabel: unit,
			xLog: true, yLog: true, series: f.Series, budget: budget, noMedians: true,
			caption: "Operations and bytes are the least that the op must do. The plan names no system, so there is no roof to draw.",
		}

		pt.columns = append(columns, column{name: "rate", unit: unit, num: pt.y},
			column{name: "intensity", unit: "FLOP/B", num: pt.x})
		if f.Spec != nil && f.Spec.GPU.MemBW > 0 {
			r := roof{bandwidth: f.Spec.GPU.MemBW / by, peaks: peaksOf(f, by)}
			if len(r.peaks) > 0 {
				pt.over = append(pt.over, r)
				pt.levels = append(pt.levels, level{r.peaks[len(r.peaks)-1], true})
				pt.caption = "Lines are the peaks of " + f.System +
					": memory to the left, the units of each type to the right. Operations and bytes are the least that the op must do."
			}
		}

		return pt.chart()
	}

	if f.Rates.Bytes == nil {
		return nil
	}

	by, unit := unitOf(f.Rates.Bytes, "B/s")
	pt := points{
		id: id, title: "Throughput against size", x: f.Size, y: scaled(f.Rates.Bytes, by), xLabel: f.SizeLabel, yLabel: unit,
		xLog: true, yLog: true, series: f.Series, budget: budget,
	}

	pt.columns = append(columns, column{name: "rate", unit: unit, num: pt.y})
	if f.Spec != nil && f.Spec.GPU.MemBW > 0 {
		pt.levels, pt.caption = []level{{f.Spec.GPU.MemBW / by, true}}, "Dashed is the peak of the memory of "+f.System+"."
	}

	return pt.chart()
}

// peaksOf are the peaks of the types that the rows have, ascending.
func peaksOf(f *facets.Facets, by float64) []float64 {
	var out []float64
	add := func(dtype string) {
		peak, ok := f.Spec.Peak(dtype)
		if !ok {
			return
		}

		peak /= by
		for i, p := range out {
			if p == peak {
				return
			}
			if p > peak {
				out = append(out[:i], append([]float64{peak}, out[i:]...)...)
				return
			}
		}

		out = append(out, peak)
	}
	for _, name := range f.Series.Names {
		add(name)
	}

	if len(out) == 0 {
		add("bfloat16")
	}

	return out
}

// errorBars are the error bars of a series' marks.
func errorBars(s *Canvas, list []mark, low, high []float64, ty func(float64) vg.Length, c draw.Canvas) string {
	path := ""
	for _, k := range list {
		lo, hi := low[k.row], high[k.row]
		if !(lo > 0) || !(hi > lo) {
			continue
		}

		from, to := ty(lo), ty(hi)
		from, to = max(from, c.Min.Y), min(to, c.Max.Y)
		if to-from < 2 { // smaller than its mark
			continue
		}

		path += s.Line([]vg.Point{{X: k.at.X, Y: from}, {X: k.at.X, Y: to}})
	}

	return path
}
