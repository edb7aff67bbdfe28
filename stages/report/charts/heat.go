package charts

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicplan/stages/report/facets"
	"aicplan/stages/report/model"
)

// Limits of heat maps: columns or rows, values of all slices together, slices.
const (
	maxCells  = 80
	maxValues = 40000
	maxSlices = 16
)

// heatSteps is how many shades a heat map has.
const heatSteps = 9

// heatData lets the page draw another slice: V has a shade index for every
// cell, row by row from the bottom, T what a pointer shows there.
type heatData struct {
	Kind   string      `json:"kind"`
	X      string      `json:"x"`
	Y      string      `json:"y"`
	Xs     []string    `json:"xs"`
	Ys     []string    `json:"ys"`
	Unit   string      `json:"unit"`
	Box    []float64   `json:"box"`
	Slices []heatSlice `json:"slices"`
}

type heatSlice struct {
	Name string `json:"name"`
	V    []any  `json:"v"` // values; null if a cell has none
	K    []int  `json:"k"` // shades; -1 if a cell has none
}

// axisOf is a column that a heat map can be laid out by.
type axisOf struct {
	name  string
	at    []int // by row: index into names
	names []string
}

func categories(p facets.Param) axisOf {
	a := axisOf{name: p.Name}
	if !p.Numeric {
		sorted := slices.Compact(slices.Sorted(slices.Values(p.Text)))
		for _, t := range p.Text {
			i, _ := slices.BinarySearch(sorted, t)
			a.at = append(a.at, i)
		}
		a.names = sorted
		return a
	}

	sorted := slices.Compact(facets.Sorted(p.Value))
	for _, v := range p.Value {
		i, ok := slices.BinarySearch(sorted, v)
		if !ok {
			i = -1
		}
		a.at = append(a.at, i)
	}

	a.names = wholes(sorted)
	return a
}

// wholes formats numbers so that different values have different texts: with all
// digits if short forms would be equal, such as those of 151,936 and 152,064.
func wholes(values []float64) []string {
	out := make([]string, len(values))
	seen := map[string]bool{}
	for i, v := range values {
		out[i] = Whole(v)
		seen[out[i]] = true
	}

	if len(seen) < len(values) {
		for i, v := range values {
			out[i] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}

	return out
}

// Whole writes a whole number in full up to five digits: sizes of powers of two
// would not be known again with three.
func Whole(v float64) string {
	if math.Abs(v) < 1e5 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return SI(v)
}

// pairs are the columns that people look at together, in this order.
var pairs = [][2]string{{"k", "n"}, {"isl", "batch_size"}, {"step", "batch_size"}, {"seq_len", "batch_size"}}

// pickAxes chooses columns and rows of a heat map; ok is false without two.
func pickAxes(params []facets.Param) (x, y int, ok bool) {
	distinct := make([]int, len(params))
	byName := map[string]int{}
	for i, p := range params {
		distinct[i] = len(categories(p).names)
		byName[p.Name] = i
	}

	fits := func(i int) bool { return distinct[i] >= 2 && distinct[i] <= maxCells }
	for _, pair := range pairs {
		x, okX := byName[pair[0]]
		y, okY := byName[pair[1]]
		if okX && okY && fits(x) && fits(y) && distinct[x] > 2 {
			return x, y, true
		}
	}

	x, y = -1, -1
	for i, p := range params {
		if !fits(i) || !p.Numeric {
			continue
		}

		switch {
		case x < 0 || distinct[i] > distinct[x]:
			x, y = i, x
		case y < 0 || distinct[i] > distinct[y]:
			y = i
		}
	}

	if y < 0 {
		for i, p := range params {
			if fits(i) && !p.Numeric && i != x && (y < 0 || distinct[i] > distinct[y]) {
				y = i
			}
		}
	}

	return x, y, x >= 0 && y >= 0
}

// heat draws a table over two of its columns, one slice of the others at a
// time; nil when it has no two such columns.
func heat(id string, t *model.Table) *Chart {
	f := t.Facets
	xi, yi, ok := pickAxes(f.Params)
	if !ok || f.Latency == nil {
		return nil
	}

	value, unit, log := f.Latency, f.Unit, true
	title := Capital(f.Metric.Name)
	if f.Light != nil {
		value, unit, log, title = f.Light, "%", false, "Share of the speed of light"
	}

	xs, ys := categories(f.Params[xi]), categories(f.Params[yi])
	slicesOf := sliceRows(f, xi, yi, len(xs.names)*len(ys.names))
	if len(slicesOf) == 0 {
		return nil
	}

	shade := shades(value, slicesOf, log)
	d := heatData{Kind: "heat", X: xs.name, Y: ys.name, Xs: xs.names, Ys: ys.names, Unit: unit}

	c := &Chart{ID: id, Title: fmt.Sprintf("%s over %s and %s", title, xs.name, ys.name), W: width, H: height}
	for _, s := range slicesOf {
		hs := heatSlice{Name: s.name, V: make([]any, len(xs.names)*len(ys.names)),
			K: make([]int, len(xs.names)*len(ys.names))}
		best := make([]float64, len(hs.V))
		for i := range hs.K {
			hs.K[i], best[i] = -1, math.NaN()
		}

		for _, r := range s.rows {
			if xs.at[r] < 0 || ys.at[r] < 0 || math.IsNaN(value[r]) || math.IsInf(value[r], 0) {
				continue
			}
			at := ys.at[r]*len(xs.names) + xs.at[r]
			// Of several kernels the fastest counts.
			if math.IsNaN(best[at]) || (log && value[r] < best[at]) || (!log && value[r] > best[at]) {
				best[at] = value[r]
			}
		}

		for i, v := range best {
			if math.IsNaN(v) {
				continue
			}
			hs.K[i] = shade(v)
			if !log {
				v *= 100
			}
			hs.V[i] = short(v)
		}

		d.Slices = append(d.Slices, hs)
		c.Slices = append(c.Slices, s.name)
	}

	m := &cells{nx: len(xs.names), ny: len(ys.names), class: d.Slices[0].K}
	for i := range heatSteps {
		m.classes = append(m.classes, fmt.Sprintf("h%d", i))
	}

	c.H = min(max(140, 74+m.ny*16), 420)
	c.Body = matrix(m, xs.name, ys.name, xs.names, ys.names, c.H)
	d.Box = []float64{short(m.box[0]), short(m.box[1]), short(m.box[2]), short(m.box[3])}
	c.Data = d
	c.Legend = shadeLegend(value, slicesOf, log, unit)
	if c.Slices[0] != "" {
		c.Caption = "Shown: " + c.Slices[0] + "."
	}

	c.Alt = fmt.Sprintf("%s: %d by %d cells, %d slices.", c.Title, m.nx, m.ny, len(d.Slices))
	return c
}

// slice is the rows that agree in everything but the two axes.
type slice struct {
	name string
	rows []int
	key  []float64
}

// sliceRows splits the rows by all other columns. Of many slices those are kept
// that lie evenly among them.
func sliceRows(f *facets.Facets, xi, yi, area int) []slice {
	index := map[string]int{}
	var out []slice
	same := make([]bool, len(f.Params))

	words := make([]func(float64) string, len(f.Params))
	for i, p := range f.Params {
		same[i] = constant(p)
		if p.Numeric && !same[i] {
			values := slices.Compact(facets.Sorted(p.Value))
			names := wholes(values)
			words[i] = func(v float64) string {
				if at, ok := slices.BinarySearch(values, v); ok {
					return names[at]
				}
				return "null"
			}
		}
	}

	for r := range f.Rows {
		var parts []string
		var key []float64
		for i, p := range f.Params {
			if i == xi || i == yi || same[i] || p.Name == "kernel_source" {
				continue
			}

			if p.Numeric {
				key = append(key, p.Value[r])
				parts = append(parts, p.Name+" "+words[i](p.Value[r]))
			} else {
				key = append(key, 0)
				text := p.Text[r]
				if p.Name != f.Series.Column {
					text = p.Name + " " + text
				}
				parts = append(parts, text)
			}
		}

		name := strings.Join(parts, ", ")
		i, ok := index[name]
		if !ok {
			i = len(out)
			index[name] = i
			out = append(out, slice{name: name, key: key})
		}

		out[i].rows = append(out[i].rows, r)
	}

	// Slices of a few cells are not worth a chart.
	most := 0
	for _, s := range out {
		most = max(most, len(s.rows))
	}

	out = slices.DeleteFunc(out, func(s slice) bool { return len(s.rows)*4 < most || len(s.rows) < 3 })
	slices.SortStableFunc(out, func(a, b slice) int {
		if c := slices.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})

	n := min(maxSlices, max(1, maxValues/max(area, 1)))
	if len(out) <= n {
		return out
	}

	var kept []slice
	for i := range n {
		kept = append(kept, out[(i*(len(out)-1)+(n-1)/2)/max(n-1, 1)])
	}

	return kept
}

// shades maps values to 0..heatSteps-1: shares of light in equal steps up to
// all of it, latencies in equal ratios from the least to the largest.
func shades(value []float64, of []slice, log bool) func(float64) int {
	lo, hi := valueRange(value, of)
	return func(v float64) int {
		at := v
		if log {
			at = 0
			if hi > lo && v > 0 && lo > 0 {
				at = math.Log(v/lo) / math.Log(hi/lo)
			}
		}

		return min(max(int(at*heatSteps), 0), heatSteps-1)
	}
}

func valueRange(value []float64, of []slice) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, s := range of {
		for _, r := range s.rows {
			if v := value[r]; v > 0 && !math.IsInf(v, 0) {
				lo, hi = math.Min(lo, v), math.Max(hi, v)
			}
		}
	}

	return lo, hi
}

func shadeLegend(value []float64, of []slice, log bool, unit string) []Key {
	lo, hi := valueRange(value, of)
	if log && lo > hi { // no value is above 0
		return nil
	}

	var out []Key
	for i := range heatSteps {
		from := 0.5 * float64(i) / (heatSteps / 2) // named are the ends and the middle
		name := percentLabel(from)
		if log {
			name = model.Number(lo*math.Pow(hi/lo, from)) + " " + unit
		}

		key := Key{Class: fmt.Sprintf("h%d", i)}
		if i == 0 || i == heatSteps/2 {
			key.Name = name
		}

		if i == heatSteps-1 {
			key.Name = "100 %"
			if log {
				key.Name = model.Number(hi) + " " + unit
			}
		}

		out = append(out, key)
	}

	return out
}
