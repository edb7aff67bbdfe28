package charts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/textutil"
	"aicplan/stages/report/model"
)

// Limits of heat maps: columns or rows, values of all slices together, slices.
const (
	maxCells  = 80
	maxValues = 40000
	maxSlices = 16
)

// categories is a column that a matrix can be laid out by.
type categories struct {
	name  string
	at    []int // by row: index into names, -1 without a value
	names []string
}

func categoriesOf(p model.Param) categories {
	if !p.Numeric {
		names := slices.Compact(slices.Sorted(slices.Values(p.Text)))
		return categories{p.Name, model.Places(names, p.Text), names}
	}

	values := model.Distinct(p.Value)
	return categories{p.Name, model.Places(values, p.Value), distinctNames(values)}
}

// distinctNames formats numbers so that different values have different texts: with all
// digits if short forms would be equal, such as those of 151,936 and 152,064.
func distinctNames(values []float64) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = whole(v)
	}

	if len(slices.Compact(slices.Clone(out))) < len(out) {
		for i, v := range values {
			out[i] = strconv.FormatFloat(v, 'f', -1, 64)
		}
	}

	return out
}

// matrixData is the part of the script's data that all matrices have.
type matrixData struct {
	Kind string    `json:"kind"`
	X    string    `json:"x"`
	Y    string    `json:"y"`
	Xs   []string  `json:"xs"`
	Ys   []string  `json:"ys"`
	Box  []float64 `json:"box"` // the cells: x, y, width, height
}

// matrix draws cells of classes over two columns, one path for all cells of a class. Row 0 is at the bottom.
// A class of -1 is an empty cell.
func matrix(c *Chart, kind string, x, y categories, class []int, classes []string, perRow int) matrixData {
	c.W, c.H = width, min(max(140, 74+len(y.names)*perRow), 420)
	xs, ys := tickNames(x.names), tickNames(y.names)

	longest := 0.0
	for _, name := range xs {
		longest = max(longest, textWidth(name))
	}

	f := newFrame(c.W, c.H,
		axis{label: x.name, lo: -0.5, hi: float64(len(xs)) - 0.5, ticks: nameTicks(xs, every(xs, width-90, longest+8))},
		axis{label: y.name, lo: -0.5, hi: float64(len(ys)) - 0.5, ticks: nameTicks(ys, every(ys, float64(c.H)-60, 13))})
	w, h := (f.right-f.left)/float64(len(xs)), (f.bottom-f.top)/float64(len(ys))

	gap := 0.5
	if w < 4 || h < 4 {
		gap = 0
	}

	paths := make([]strings.Builder, len(classes))
	for i, k := range class {
		if k >= 0 {
			ix, iy := i%len(xs), i/len(xs)
			paths[k].WriteString(box(f.left+float64(ix)*w, f.top+float64(len(ys)-1-iy)*h, w-gap, h-gap))
		}
	}

	for k := range paths { // the script fills empty ones with another slice
		fmt.Fprintf(f, `<path class="%s" data-k="%d" d="%s"/>`, classes[k], k, paths[k].String())
	}

	c.Body = f.String()
	return matrixData{Kind: kind, X: x.name, Y: y.name, Xs: x.names, Ys: y.names,
		Box: []float64{short(f.left), short(f.top), short(f.right - f.left), short(f.bottom - f.top)}}
}

// tickNames shortens names in their middle, for axes: a long one would leave no room
// for the cells, and names often differ at their ends. The pointer shows them in full.
func tickNames(names []string) []string {
	const most, ends = 19, 9
	out := make([]string, len(names))
	for i, n := range names {
		n = textutil.VisibleLine(n) // as it is going to be written
		if r := []rune(n); len(r) > most {
			n = string(r[:ends]) + "…" + string(r[len(r)-ends:])
		}
		out[i] = n
	}

	return out
}

// every returns the step at which labels fit into so many pixels.
func every(names []string, pixels, perLabel float64) int {
	return max(1, int(float64(len(names))*perLabel/pixels+0.999))
}

// heatSteps is how many shades a heat map has.
const heatSteps = 9

// heatData lets the page draw another slice.
type heatData struct {
	matrixData
	Unit   string      `json:"unit"`
	Slices []heatSlice `json:"slices"`
}

// heatSlice has an entry for each cell, row by row from the bottom.
type heatSlice struct {
	Name string `json:"name"`
	V    []any  `json:"v"` // values; null if a cell has none
	K    []int  `json:"k"` // shades; -1 if a cell has none
}

// pairs are the columns that people look at together, in this order.
var pairs = [][2]string{{"k", "n"}, {"isl", "batch_size"}, {"step", "batch_size"}, {"seq_len", "batch_size"}}

// pickAxes chooses the columns and rows of a heat map: a known pair, or the numeric columns with the most
// values, or one of them and a column of texts. ok is false without two.
func pickAxes(params []model.Param) (x, y int, ok bool) {
	distinct := make([]int, len(params))
	byName := map[string]int{}
	for i, p := range params {
		if n := len(categoriesOf(p).names); n >= 2 && n <= maxCells {
			distinct[i], byName[p.Name] = n, i
		}
	}

	for _, pair := range pairs {
		x, okX := byName[pair[0]]
		y, okY := byName[pair[1]]
		if okX && okY && distinct[x] > 2 {
			return x, y, true
		}
	}

	most := func(numeric bool, but int) int {
		best := -1
		for i, p := range params {
			if p.Numeric == numeric && i != but && distinct[i] > 0 && (best < 0 || distinct[i] > distinct[best]) {
				best = i
			}
		}
		return best
	}

	if x = most(true, -1); x < 0 {
		return 0, 0, false
	}
	if y = most(true, x); y < 0 {
		y = most(false, x)
	}

	return x, y, y >= 0
}

// heat draws a table over two of its columns, one slice of the others at a
// time. It returns nil if there are no two such columns.
func heat(id string, t *model.Table) *Chart {
	f := t.Facets
	xi, yi, ok := pickAxes(f.Params)
	if !ok || f.Latency == nil {
		return nil
	}

	s := shades{value: f.Latency, unit: f.Unit, log: true}
	title := Capital(f.Metric.Name)
	if f.Light != nil {
		s, title = shades{value: f.Light, unit: "%"}, "Share of the speed of light"
	}

	x, y := categoriesOf(f.Params[xi]), categoriesOf(f.Params[yi])
	cells := len(x.names) * len(y.names)
	list := sliceRows(f, xi, yi, cells)
	if len(list) == 0 {
		return nil
	}

	s.fit(list)
	c := &Chart{ID: id, Title: fmt.Sprintf("%s over %s and %s", title, x.name, y.name), Legend: s.legend()}
	d := heatData{Unit: s.unit}
	for _, rows := range list {
		best := make([]float64, cells)
		for i := range best {
			best[i] = math.NaN()
		}

		for _, r := range rows.rows {
			v := s.value[r]
			if x.at[r] < 0 || y.at[r] < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
				continue
			}
			// Of several kernels the fastest counts.
			at := y.at[r]*len(x.names) + x.at[r]
			if math.IsNaN(best[at]) || s.log == (v < best[at]) {
				best[at] = v
			}
		}

		hs := heatSlice{Name: rows.name, V: make([]any, cells), K: make([]int, cells)}
		for i, v := range best {
			hs.K[i] = -1
			if math.IsNaN(v) {
				continue
			}
			hs.K[i] = s.of(v)
			if !s.log {
				v *= 100
			}
			hs.V[i] = short(v)
		}

		d.Slices = append(d.Slices, hs)
		c.Slices = append(c.Slices, rows.name)
	}

	var classes []string
	for i := range heatSteps {
		classes = append(classes, fmt.Sprintf("h%d", i))
	}

	d.matrixData = matrix(c, "heat", x, y, d.Slices[0].K, classes, 16)
	c.Data = d
	if c.Slices[0] != "" {
		c.Caption = "Shown: " + c.Slices[0] + "."
	}

	c.Alt = fmt.Sprintf("%s: %d by %d cells, %d slices.", c.Title, len(x.names), len(y.names), len(d.Slices))
	return c
}

// rowSlice is the rows that agree in everything but the two axes.
type rowSlice struct {
	name string
	rows []int
	key  []float64
}

// sliceRows splits the rows by all other columns. If there are too many slices, evenly distributed ones are
// kept.
func sliceRows(f *model.Facets, xi, yi, area int) []rowSlice {
	type part struct {
		model.Param
		categories
	}

	var parts []part
	for i, p := range f.Params {
		if i != xi && i != yi && p.Name != "kernel_source" && p.Varies() {
			parts = append(parts, part{p, categoriesOf(p)})
		}
	}

	index := map[string]int{}
	var out []rowSlice
	for r := range f.Rows {
		var words []string
		var key []float64
		for _, p := range parts {
			word, order := "null", 0.0
			if at := p.at[r]; at >= 0 {
				word = p.names[at]
			}
			if p.Numeric {
				order = p.Value[r]
			}
			if p.Numeric || p.Name != f.Series.Column {
				word = p.Name + " " + word
			}
			words, key = append(words, word), append(key, order)
		}

		name := strings.Join(words, ", ")
		i, ok := index[name]
		if !ok {
			i = len(out)
			index[name] = i
			out = append(out, rowSlice{name: name, key: key})
		}

		out[i].rows = append(out[i].rows, r)
	}

	// Slices of a few cells are not worth a chart.
	most := 0
	for _, s := range out {
		most = max(most, len(s.rows))
	}

	out = slices.DeleteFunc(out, func(s rowSlice) bool { return len(s.rows)*4 < most || len(s.rows) < 3 })
	slices.SortStableFunc(out, func(a, b rowSlice) int {
		return cmp.Or(slices.Compare(a.key, b.key), strings.Compare(a.name, b.name))
	})

	n := min(maxSlices, max(1, maxValues/max(area, 1)))
	if len(out) <= n {
		return out
	}

	var kept []rowSlice
	for i := range n {
		kept = append(kept, out[(i*(len(out)-1)+(n-1)/2)/max(n-1, 1)])
	}

	return kept
}

// shades maps values to 0..heatSteps-1: shares of light in equal steps up to
// all of it, latencies (log) in equal ratios from the least to the largest.
type shades struct {
	value  []float64
	unit   string
	log    bool
	lo, hi float64
}

func (s *shades) fit(of []rowSlice) {
	s.lo, s.hi = math.Inf(1), math.Inf(-1)
	for _, list := range of {
		for _, r := range list.rows {
			if v := s.value[r]; v > 0 && !math.IsInf(v, 0) {
				s.lo, s.hi = math.Min(s.lo, v), math.Max(s.hi, v)
			}
		}
	}
}

func (s *shades) of(v float64) int {
	if s.log {
		if !(s.hi > s.lo) || !(v > 0) {
			return 0
		}
		v = math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	}
	return min(max(int(v*heatSteps), 0), heatSteps-1)
}

// legend has a key for each shade. The ends and the middle are named.
func (s *shades) legend() []Key {
	if s.log && s.lo > s.hi { // no value is above 0
		return nil
	}

	out := make([]Key, heatSteps)
	for i, share := range map[int]float64{0: 0, heatSteps / 2: 0.5, heatSteps - 1: 1} {
		out[i].Name = percentLabel(share)
		if s.log {
			out[i].Name = model.Number(s.lo*math.Pow(s.hi/s.lo, share)) + " " + s.unit
		}
	}

	for i := range out {
		out[i].Class = fmt.Sprintf("h%d", i)
	}

	return out
}
