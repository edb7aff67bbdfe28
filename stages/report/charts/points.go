package charts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicplan/sink/base/stats"
	"aicplan/sink/base/textutil"
	"aicplan/stages/report/model"
)

// column is a value of each row that is shown at the pointer.
type column struct {
	name string
	unit string
	num  []float64
	text []string
}

// level is a horizontal dashed line. The y axis includes it if it is kept.
type level struct {
	y    float64
	kept bool
}

// points is a chart with a mark for each row. Rows of a series have the same mark.
type points struct {
	id, title, caption string
	x, y               []float64
	xAxis, yAxis       axis // the range of an axis is that of the data if lo and hi are 0
	series             model.Series
	columns            []column
	levels             []level
	over               func(f *frame) // draws between the grid and the marks
	low, high          []float64      // ends of error bars, by row; nil for none
	budget             int            // marks
	noMedians          bool
	join               bool  // lines join the rows of a series, in the order of x
	fine               bool  // marks are small, because they are points of a curve and no rows
	counts             []int // for the legend, by series; nil counts the rows
	h                  int
}

// maxSeries have colours and forms of their own; the rest is one series.
const maxSeries = 7

// manyMarks is the number of marks above which they are small and medians are drawn over them.
const manyMarks = 400

// mark represents the rows that fall into one small square of the drawing.
type mark struct {
	x, y float64
	row  int
	rows int
}

// chart draws the points, or returns nil if there is nothing to draw.
func (pt points) chart() *Chart {
	rows, names, code := pt.usable()
	if len(rows) == 0 {
		return nil
	}

	pt.xAxis.fit(pt.x, rows, nil)
	pt.yAxis.fit(pt.y, rows, pt.levels)
	pt.xAxis.grid, pt.yAxis.grid = true, true
	h := cmp.Or(pt.h, height)
	f := newFrame(width, h, pt.xAxis, pt.yAxis)

	if pt.over != nil {
		pt.over(f)
	}

	m := marks{points: pt, frame: f, rows: rows, code: code, total: make([]int, len(names))}
	m.draw()

	for _, l := range pt.levels {
		f.level(l.y)
	}

	c := &Chart{ID: pt.id, Title: pt.title, W: width, H: h, Body: f.String(), Data: m.data(names)}
	if len(names) > 1 || pt.series.Column != "" {
		for i, n := range names {
			if pt.counts != nil {
				m.total[i] = pt.counts[i]
			}
			c.Legend = append(c.Legend, Key{Name: n, Class: fmt.Sprintf("c%d", i), Shape: i,
				Note: textutil.Count(m.total[i])})
		}
	}

	caption := []string{pt.caption}
	if m.drawn < len(rows) && !pt.fine {
		caption = append(caption, fmt.Sprintf("%s rows as %s marks: each mark covers all rows under it.",
			textutil.Count(len(rows)), textutil.Count(m.drawn)))
	}

	if m.bars {
		caption = append(caption, "Bars reach from the 10th to the 90th percentile of the samples.")
	}

	if m.lines {
		caption = append(caption, "Lines are medians.")
	}

	c.Caption = strings.TrimSpace(strings.Join(caption, " "))
	c.Alt = fmt.Sprintf("%s: %s against %s, %d rows in %d series.", pt.title, pt.yAxis.label, pt.xAxis.label, len(rows),
		len(names))
	return c
}

// fit sets the range of the axis to that of the rows and the kept levels, with room at the ends. Ends that
// are set already stay.
func (a *axis) fit(v []float64, rows []int, levels []level) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		lo, hi = math.Min(lo, v[r]), math.Max(hi, v[r])
	}

	for _, l := range levels {
		if l.kept {
			lo, hi = math.Min(lo, l.y), math.Max(hi, l.y)
		}
	}

	lo, hi = widen(lo, hi, a.log)
	if a.hi != 0 {
		lo, hi = a.lo, a.hi
	}

	a.lo, a.hi = lo, hi
	if a.fromZero {
		a.lo = 0
	}
}

// usable returns the rows with finite coordinates that the scales can show, and
// the series of each row.
func (pt points) usable() (rows []int, names []string, code []int) {
	names = pt.series.Names
	if len(names) > maxSeries+1 {
		names = append(slices.Clone(names[:maxSeries]), fmt.Sprintf("%d others", len(names)-maxSeries))
	}

	if len(names) == 0 {
		names = []string{"rows"}
	}

	ok := func(v float64, log bool) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) && (!log || v > 0) }
	code = make([]int, len(pt.x))
	for i := range pt.x {
		if len(pt.series.Code) > 0 {
			code[i] = min(pt.series.Code[i], len(names)-1)
		}
		if code[i] >= 0 && ok(pt.x[i], pt.xAxis.log) && ok(pt.y[i], pt.yAxis.log) {
			rows = append(rows, i)
		}
	}

	return rows, names, code
}

// marks draws the rows and remembers which mark shows which.
type marks struct {
	points
	*frame
	rows  []int
	code  []int
	drawn int
	total []int // rows by series
	by    [][]mark
	lines bool // medians are drawn
	bars  bool // error bars are drawn
}

func (m *marks) draw() {
	for cell := 2.0; ; cell *= 1.4 {
		m.thin(cell)
		if m.drawn <= m.budget || cell > 30 {
			break
		}
	}

	many := m.drawn > manyMarks
	forms, class := Shapes, ""
	if many || m.fine {
		forms = small
	}
	if many {
		class = " many"
	}

	for i, list := range m.by {
		series := fmt.Sprintf(`data-s="%d"`, i)
		if m.low != nil && m.high != nil && !many {
			m.path(fmt.Sprintf("e c%d", i), series, m.errorBars(list))
		}

		var d strings.Builder
		for _, k := range list {
			d.WriteString("M" + num(k.x) + " " + num(k.y) + forms[i%len(forms)])
		}
		// The script expects a path for each series, also for one without marks.
		fmt.Fprintf(m.frame, `<path class="m c%d %s%s" %s d="%s"/>`, i, ShapeClass(i), class, series, d.String())
	}

	for i := range m.by {
		series, class := fmt.Sprintf(`data-s="%d"`, i), fmt.Sprintf("l c%d", i)
		if m.join && !many {
			line := slices.SortedStableFunc(slices.Values(m.by[i]), func(a, b mark) int { return cmp.Compare(a.x, b.x) })
			if len(line) > 1 {
				m.path(class, series, linePath(line))
			}
		} else if many && !m.noMedians {
			if line := m.medians(i); len(line) > 2 {
				m.path("u", series, linePath(line))
				m.path(class, series, linePath(line))
				m.lines = true
			}
		}
	}
}

func linePath(line []mark) string {
	var at []float64
	for _, k := range line {
		at = append(at, k.x, k.y)
	}
	return polyline(at...)
}

// errorBars returns the path of the error bars that are longer than their mark.
func (m *marks) errorBars(list []mark) string {
	path := ""
	for _, k := range list {
		lo, hi := m.low[k.row], m.high[k.row]
		if !(lo > 0) || !(hi > lo) {
			continue
		}

		from, to := min(m.py(lo), m.bottom), max(m.py(hi), m.top)
		if from-to >= 2 {
			path += polyline(k.x, from, k.x, to)
			m.bars = true
		}
	}

	return path
}

// medians returns the middles of a series in stripes of equal width, for each stripe with at least 5 rows.
func (m *marks) medians(series int) []mark {
	var xs, ys [30][]float64
	for _, r := range m.rows {
		if m.code[r] == series {
			at := min(max(int(m.xAxis.share(m.points.x[r])*float64(len(xs))), 0), len(xs)-1)
			xs[at], ys[at] = append(xs[at], m.points.x[r]), append(ys[at], m.points.y[r])
		}
	}

	var out []mark
	for i := range xs {
		if len(xs[i]) >= 5 {
			out = append(out, mark{x: m.px(stats.Rank(model.Sorted(xs[i]), 0.5)),
				y: m.py(stats.Rank(model.Sorted(ys[i]), 0.5))})
		}
	}

	return out
}

// thin joins rows of a series that fall into one square of that many pixels.
func (m *marks) thin(cell float64) {
	type square struct{ s, x, y int }
	at := map[square]int{}

	m.by, m.drawn = make([][]mark, len(m.total)), 0
	clear(m.total)

	for _, r := range m.rows {
		s := m.code[r]
		m.total[s]++

		x, y := m.px(m.points.x[r]), m.py(m.points.y[r])
		sq := square{s, int(x / cell), int(y / cell)}
		i, ok := at[sq]
		if !ok {
			i = len(m.by[s])
			at[sq] = i
			m.by[s] = append(m.by[s], mark{x: x, y: y, row: r})
			m.drawn++
		}

		m.by[s][i].rows++
	}
}

// seriesData is a series for the page's script: positions are in its path.
type seriesData struct {
	Name string `json:"name"`
	// N counts the rows below each mark; left out if every mark is one row.
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

	index map[string]int // of the words
}

func (m *marks) data(names []string) pointsData {
	d := pointsData{Kind: "points", By: m.series.Column}
	for _, col := range m.columns {
		d.Columns = append(d.Columns, columnData{Name: col.name, Unit: col.unit, index: map[string]int{}})
	}

	for s, list := range m.by {
		sd := seriesData{Name: names[s], Cols: make([][]any, len(m.columns))}
		for _, k := range list {
			sd.N = append(sd.N, k.rows)
			for i, col := range m.columns {
				sd.Cols[i] = append(sd.Cols[i], d.Columns[i].cell(col, k.row))
			}
		}

		if !slices.ContainsFunc(list, func(k mark) bool { return k.rows > 1 }) {
			sd.N = nil
		}

		d.Series = append(d.Series, sd)
	}

	return d
}

func (d *columnData) cell(col column, row int) any {
	if col.text != nil {
		w := col.text[row]
		if _, ok := d.index[w]; !ok {
			d.index[w] = len(d.Words)
			d.Words = append(d.Words, w)
		}
		return d.index[w]
	}

	if v := col.num[row]; !math.IsNaN(v) && !math.IsInf(v, 0) {
		return short(v)
	}
	return nil
}
