package charts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"aicplan/sink/base/stats"
	"aicplan/sink/base/textutil"
	"aicplan/stages/report/facets"
)

// column is a value of each row that is shown at the pointer.
type column struct {
	name string
	unit string
	num  []float64
	text []string
}

// points is a chart of one mark a row, rows of a series alike.
type points struct {
	id, title, caption string
	x, y               []float64
	xLabel, yLabel     string
	xLog, yLog         bool
	xTicks, yTicks     plot.Ticker
	yMin, yMax         float64 // 0, 0: from the data
	series             facets.Series
	columns            []column
	levels             []level
	over               []plot.Plotter // drawn above the grid and below the marks
	low, high          []float64      // ends of error bars, by row; nil for none
	budget             int            // marks
	noMedians          bool
	join               bool  // lines join the rows of a series, in the order of x
	fine               bool  // marks are small, because they are points of a curve and no rows
	counts             []int // for the legend, by series; nil counts the rows
	xZero              bool  // the x axis begins at zero
	h                  int
}

// maxSeries have colours and forms of their own; the rest is one series.
const maxSeries = 7

// mark represents the rows that fall into one small square of the drawing.
type mark struct {
	at   vg.Point
	row  int
	rows int
}

// chart draws the points; nil when there is nothing to draw.
func (pt points) chart() *Chart {
	rows, names, code := pt.usable()
	if len(rows) == 0 {
		return nil
	}

	p := newPlot(pt.xLabel, pt.yLabel)
	p.X.Min, p.X.Max = bounds(pt.x, rows)
	p.Y.Min, p.Y.Max = bounds(pt.y, rows)
	for _, l := range pt.levels {
		if l.kept {
			p.Y.Min, p.Y.Max = math.Min(p.Y.Min, l.y), math.Max(p.Y.Max, l.y)
		}
	}

	p.X.Min, p.X.Max = widen(p.X.Min, p.X.Max, pt.xLog)
	if pt.xZero {
		p.X.Min = 0
	}
	p.Y.Min, p.Y.Max = widen(p.Y.Min, p.Y.Max, pt.yLog)
	if pt.yMin != 0 || pt.yMax != 0 {
		p.Y.Min, p.Y.Max = pt.yMin, pt.yMax
	}

	style(&p.X, pt.xLog, pt.xTicks)
	style(&p.Y, pt.yLog, pt.yTicks)
	m := &marks{pt: pt, rows: rows, code: code, series: len(names)}
	p.Add(grid{true, true})
	p.Add(pt.over...)
	p.Add(m)

	for _, l := range pt.levels {
		p.Add(l)
	}

	h := pt.h
	if h == 0 {
		h = height
	}

	c := &Chart{ID: pt.id, Title: pt.title, Caption: pt.caption, W: width, H: h, Body: render(p, width, h),
		Data: m.data(names)}
	for i, n := range names {
		if len(names) == 1 && pt.series.Column == "" {
			break // one kind of rows needs no key
		}
		if pt.counts != nil {
			m.total[i] = pt.counts[i]
		}
		c.Legend = append(c.Legend, Key{Name: n, Class: fmt.Sprintf("c%d", i), Shape: i,
			Note: textutil.Count(int64(m.total[i]))})
	}

	if m.drawn < len(rows) && !pt.fine {
		c.Caption += fmt.Sprintf(" %s rows as %s marks: each mark covers all rows under it.",
			textutil.Count(int64(len(rows))), textutil.Count(int64(m.drawn)))
	}

	if m.bars {
		c.Caption += " Bars reach from the 10th to the 90th percentile of the samples."
	}

	if m.lines {
		c.Caption += " Lines are medians."
	}

	c.Caption = strings.TrimSpace(c.Caption)
	c.Alt = fmt.Sprintf("%s: %s against %s, %d rows in %d series.", pt.title, pt.yLabel, pt.xLabel, len(rows), len(names))
	return c
}

func style(a *plot.Axis, log bool, ticks plot.Ticker) {
	if log {
		a.Scale, a.Tick.Marker = plot.LogScale{}, logTicks{}
		if a.Max/a.Min < 5 {
			a.Tick.Marker = linearTicks{n: 6}
		}
	} else {
		a.Tick.Marker = linearTicks{n: 6}
	}

	if ticks != nil {
		a.Tick.Marker = ticks
	}
}

// usable lists the rows with finite coordinates that the scales can show, and
// the series of each row.
func (pt points) usable() (rows []int, names []string, code []int) {
	names = pt.series.Names
	if len(names) > maxSeries+1 {
		names = append(append([]string{}, names[:maxSeries]...), fmt.Sprintf("%d others", len(names)-maxSeries))
	}

	if len(names) == 0 {
		names = []string{"rows"}
	}

	code = make([]int, len(pt.x))
	for i := range pt.x {
		if len(pt.series.Code) > 0 {
			code[i] = min(pt.series.Code[i], len(names)-1)
		}
		ok := func(v float64, log bool) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) && (!log || v > 0) }
		if code[i] >= 0 && ok(pt.x[i], pt.xLog) && ok(pt.y[i], pt.yLog) {
			rows = append(rows, i)
		}
	}

	return rows, names, code
}

func bounds(v []float64, rows []int) (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		lo, hi = math.Min(lo, v[r]), math.Max(hi, v[r])
	}
	return lo, hi
}

// marks draws the rows and remembers which mark shows which.
type marks struct {
	pt     points
	rows   []int
	code   []int
	series int
	drawn  int
	total  []int
	by     [][]mark
	lines  bool // medians are drawn
	bars   bool // error bars are
}

// Plot implements plot.Plotter.
func (m *marks) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	budget := m.pt.budget
	if budget <= 0 {
		budget = 3000
	}

	for cell := 2.0; ; cell *= 1.4 {
		m.thin(tx, ty, cell)
		if m.drawn <= budget || cell > 30 {
			break
		}
	}

	s := canvasOf(c)
	forms, many := Shapes, ""
	switch {
	case m.drawn > manyMarks:
		forms, many = Small, " many"
	case m.pt.fine:
		forms = Small
	}

	for i := range m.by {
		at := make([]vg.Point, len(m.by[i]))
		for j, k := range m.by[i] {
			at[j] = k.at
		}

		if m.pt.low != nil && m.pt.high != nil && many == "" {
			if d := errorBars(s, m.by[i], m.pt.low, m.pt.high, ty, c); d != "" {
				s.Write(fmt.Sprintf(`<path class="e c%d" data-s="%d" d="%s"/>`, i, i, d))
				m.bars = true
			}
		}

		s.Write(fmt.Sprintf(`<path class="m c%d %s%s" data-s="%d" d="%s"/>`, i, ShapeClass(i), many, i,
			s.Marks(at, forms[i%len(forms)])))
	}

	if m.pt.join && many == "" {
		for i := range m.by {
			line := make([]vg.Point, len(m.by[i]))
			for j, k := range m.by[i] {
				line[j] = k.at
			}
			slices.SortStableFunc(line, func(a, b vg.Point) int { return cmp.Compare(a.X, b.X) })
			if len(line) > 1 {
				s.Write(fmt.Sprintf(`<path class="l c%d" data-s="%d" d="%s"/>`, i, i, s.Line(line)))
			}
		}
	}

	if many == "" || m.pt.noMedians {
		return
	}

	for i := range m.by {
		if line := m.medians(i, tx, ty, c); len(line) > 2 {
			s.Write(fmt.Sprintf(`<path class="u" data-s="%d" d="%s"/><path class="l c%d" data-s="%d" d="%s"/>`, i,
				s.Line(line), i, i, s.Line(line)))
			m.lines = true
		}
	}
}

// manyMarks is the number of marks above which they are small and medians are drawn over them.
const manyMarks = 400

// medians are the middles of a series in stripes of equal width, for every
// stripe with rows enough to have one.
func (m *marks) medians(series int, tx, ty func(float64) vg.Length, c draw.Canvas) []vg.Point {
	const stripes = 30
	left, width := c.Min.X.Points(), c.Size().X.Points()

	rows := make([][]int, stripes)
	for _, r := range m.rows {
		if m.code[r] == series {
			at := min(max(int((tx(m.pt.x[r]).Points()-left)/width*stripes), 0), stripes-1)
			rows[at] = append(rows[at], r)
		}
	}

	var out []vg.Point
	for _, list := range rows {
		if len(list) < 5 {
			continue
		}
		xs, ys := make([]float64, len(list)), make([]float64, len(list))
		for i, r := range list {
			xs[i], ys[i] = m.pt.x[r], m.pt.y[r]
		}
		out = append(out, vg.Point{X: tx(stats.Rank(facets.Sorted(xs), 0.5)), Y: ty(stats.Rank(facets.Sorted(ys), 0.5))})
	}

	return out
}

// thin joins rows of a series that fall into one square of that many pixels.
func (m *marks) thin(tx, ty func(float64) vg.Length, cell float64) {
	type square struct{ s, x, y int }
	at := map[square]int{}

	m.by, m.total, m.drawn = make([][]mark, m.series), make([]int, m.series), 0
	for _, r := range m.rows {
		s := m.code[r]
		m.total[s]++
		pos := vg.Point{X: tx(m.pt.x[r]), Y: ty(m.pt.y[r])}
		sq := square{s, int(pos.X.Points() / cell), int(pos.Y.Points() / cell)}
		i, ok := at[sq]
		if !ok {
			at[sq] = len(m.by[s])
			m.by[s] = append(m.by[s], mark{at: pos, row: r, rows: 1})
			m.drawn++
			continue
		}

		m.by[s][i].rows++
	}
}

// seriesData is a series for the page's script: positions are in its path.
type seriesData struct {
	Name string `json:"name"`
	// N counts the rows below each mark; left out when every mark is one row.
	N []int `json:"n,omitempty"`
	// Cols has the values of each column, or indices into its words.
	Cols [][]any `json:"c"`
}

type pointsData struct {
	Kind string `json:"kind"`
	// By is the column whose words are the series.
	By      string       `json:"by,omitempty"`
	Columns []columnData `json:"cols"`
	Series  []seriesData `json:"series"`
}

type columnData struct {
	Name  string   `json:"name"`
	Unit  string   `json:"unit,omitempty"`
	Words []string `json:"words,omitempty"`
}

func (m *marks) data(names []string) pointsData {
	d := pointsData{Kind: "points", By: m.pt.series.Column}
	index := make([]map[string]int, len(m.pt.columns))
	for i, col := range m.pt.columns {
		d.Columns = append(d.Columns, columnData{Name: col.name, Unit: col.unit})
		index[i] = map[string]int{}
	}

	for s, list := range m.by {
		sd := seriesData{Name: names[s], Cols: make([][]any, len(m.pt.columns))}
		several := false
		for _, k := range list {
			sd.N = append(sd.N, k.rows)
			several = several || k.rows > 1
			for i, col := range m.pt.columns {
				sd.Cols[i] = append(sd.Cols[i], cell(col, k.row, index[i], &d.Columns[i].Words))
			}
		}

		if !several {
			sd.N = nil
		}

		d.Series = append(d.Series, sd)
	}

	return d
}

func cell(col column, row int, index map[string]int, words *[]string) any {
	if col.text != nil {
		w := col.text[row]
		i, ok := index[w]
		if !ok {
			i = len(*words)
			index[w] = i
			*words = append(*words, w)
		}
		return i
	}

	if v := col.num[row]; !math.IsNaN(v) && !math.IsInf(v, 0) {
		return short(v)
	}
	return nil
}
