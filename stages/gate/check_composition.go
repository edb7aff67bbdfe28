package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// composition compares each layer's measured value with the sum over the layer's parts. Planners add up
// rows, so this shows whether a table predicts what a server does.
//
// Rows of op layer list their parts in the column "parts": a JSON list of objects. Each object has the
// columns that identify one row, and optionally "count" if the part occurs more than once.
type composition struct {
	// Parts (reference or list of references) are the stages that have the rows of the parts.
	Parts cty.Value `hcl:"parts" json:"-"`
	// Column is the column that is added up: "latency" or "energy".
	Column string `hcl:"column,optional" json:"column"`
	// Min is the smallest accepted ratio of the sum to the layer.
	Min float64 `hcl:"min,optional" json:"min"`
	// Max is the largest accepted ratio of the sum to the layer.
	Max float64 `hcl:"max,optional" json:"max"`

	References
}

// partsColumn lists the parts of a row, and countKey is how often a part occurs.
const (
	partsColumn = "parts"
	countKey    = "count"
)

// Columns with the operating point of a row and, for the sustained point, its clock and the exponent of
// the clock.
const (
	pointColumn = "operating_point"
	clockColumn = "sm_clock_mhz"
	slopeColumn = "clock_slope"
)

func (c *composition) columns() []string { return []string{partsColumn, c.Column} }

func (c *composition) title() string {
	title := titleOf("composition of", c.refs)
	if c.Column != "latency" {
		title += " by " + c.Column
	}
	return title
}

func (c *composition) prepare(bad problems) {
	c.addAll("parts", c.Parts, bad)
	if !(c.Min > 0) || !(c.Max >= c.Min) {
		bad("Wrong limits", "min is %s and max %s; the sum over the layer must lie between them, and both be above 0.",
			number(c.Min), number(c.Max))
	}
}

// part is one entry of the column "parts".
type part struct {
	names []string // of columns, sorted
	row   string   // column values, joined
	text  string   // for messages
	count float64
}

// partSet looks up rows by the columns that identify a part.
type partSet struct {
	column string
	tables []arrow.Record
	index  map[string]map[string][]found // by part.names, then part.row
}

// found is a row that matches a part. clock is the SM clock in MHz and slope the exponent with which the
// value follows the clock; both are NaN if the row lacks them. point is the operating point, empty if
// the row has none.
type found struct {
	value, clock, slope float64
	point               string
}

// lookup returns the rows of a part. If a point is given, rows at that point come first, then rows
// without a point. If only rows at other points exist, it returns them with the reason why they do not
// count.
func (p *partSet) lookup(x part, point string) ([]found, string) {
	key := strings.Join(x.names, "\x00")
	rows, ok := p.index[key]
	if !ok {
		rows = map[string][]found{}
		for _, rec := range p.tables {
			p.read(rec, x.names, rows)
		}
		p.index[key] = rows
	}

	all := rows[x.row]
	if point == "" || len(all) == 0 {
		return all, ""
	}

	for _, want := range []string{point, ""} {
		if these := slices.DeleteFunc(slices.Clone(all), func(f found) bool { return f.point != want }); len(these) > 0 {
			return these, ""
		}
	}

	return all, fmt.Sprintf(
		"the part %s was taken at the operating point %s and the layer at %s; collect both at one",
		x.text,
		all[0].point,
		point,
	)
}

// read adds the rows of rec to rows, keyed by the values of the named columns. Tables without one of the
// columns are skipped.
func (p *partSet) read(rec arrow.Record, names []string, rows map[string][]found) {
	value, err := table.Float64s(rec, p.column)
	if err != nil {
		return
	}

	clock, slope := orNaN(rec, clockColumn), orNaN(rec, slopeColumn)
	cols := make([]arrow.Array, len(names))
	for i, n := range names {
		if cols[i] = column(rec, n); cols[i] == nil {
			return
		}
	}

	for row := range table.Len(rec) {
		words := make([]string, len(cols))
		for i, col := range cols {
			words[i] = table.Text(col, row)
		}

		key := strings.Join(words, "\x00")
		f := found{value: math.NaN(), clock: clock(row), slope: slope(row),
			point: textOf(rec, pointColumn, row)}
		if v, ok := value.At(row); ok && v > 0 && !math.IsInf(v, 0) {
			f.value = v
		}

		rows[key] = append(rows[key], f)
	}
}

// orNaN returns a function that reads a column of numbers by row. It returns NaN if there is no value.
func orNaN(rec arrow.Record, name string) func(row int) float64 {
	c, _ := table.Float64s(rec, name)
	return func(row int) float64 {
		if v, ok := c.At(row); ok {
			return v
		}
		return math.NaN()
	}
}

// partsOf parses the column "parts" of a row.
func partsOf(text string) ([]part, error) {
	var raw []map[string]any
	if err := textutil.DecodeJSON([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("parts is no JSON list of objects: %w", err)
	}

	if len(raw) == 0 {
		return nil, fmt.Errorf("parts is an empty list")
	}

	var out []part
	for _, m := range raw {
		p := part{count: 1}
		if n, ok := m[countKey].(json.Number); ok {
			v, err := n.Float64()
			if err != nil || !(v > 0) {
				return nil, fmt.Errorf("count of a part is %s; it must be above 0", n)
			}
			p.count = v
			delete(m, countKey)
		}

		p.names = slices.Sorted(maps.Keys(m))
		var words, said []string
		for _, n := range p.names {
			w := fmt.Sprint(m[n])
			words, said = append(words, w), append(said, n+"="+w)
		}

		p.row, p.text = strings.Join(words, "\x00"), strings.Join(said, " ")
		out = append(out, p)
	}

	return out, nil
}

func (c *composition) run(s *subject) finding {
	if s.rec == nil {
		return failed("there are no layers to judge")
	}

	texts := column(s.rec, partsColumn)
	if texts == nil {
		return s.cannot(fmt.Sprintf("the data has no column %q; rows of op layer have it", partsColumn))
	}

	whole, err := table.Float64s(s.rec, c.Column)
	if err != nil {
		return s.cannot(fmt.Sprintf("the data has no column %q of numbers", c.Column))
	}

	clocks := orNaN(s.rec, clockColumn)
	set := &partSet{column: c.Column, index: map[string]map[string][]found{}}
	for _, ds := range s.others {
		if ds != nil && ds.Table != nil {
			set.tables = append(set.tables, ds.Table)
		}
	}

	v := finding{limit: number(c.Min) + " to " + number(c.Max), total: s.rows()}
	low, high, outside := math.Inf(1), math.Inf(-1), 0
	type line struct {
		off  float64
		text string
	}

	var lines []line
	for row := range s.rows() {
		layer, ok := whole.At(row)
		if !ok || !(layer > 0) || math.IsInf(layer, 0) {
			v.left.row(row, "it has no usable "+c.Column)
			continue
		}

		clock := clocks(row)
		if c.Column != "latency" {
			clock = math.NaN()
		}

		added, why := c.sum(set, table.Text(texts, row), textOf(s.rec, pointColumn, row), clock)
		if why != "" {
			v.left.row(row, why)
			continue
		}

		ratio := added.value / layer
		low, high = min(low, ratio), max(high, ratio)

		of, note := "", ""
		if ratio < c.Min || ratio > c.Max {
			outside++
			note = " outside"

			if len(added.terms) > 1 {
				of = " (" + strings.Join(added.terms, " + ") + ")"
			}

			switch {
			case !math.IsNaN(added.there):
				note += fmt.Sprintf(" (%.3f at the layer's clock of %.0f MHz)", added.there/layer, clock)
			case !math.IsNaN(clock) && !math.IsNaN(added.slowest):
				note += fmt.Sprintf(" (the parts at %.0f to %.0f MHz, the layer at %.0f)", added.slowest, added.fastest, clock)
			}
		}

		sum := number(added.value) + of
		text := fmt.Sprintf("%s sum=%s layer=%s sum/layer=%.3f%s", s.describe(row), sum, number(layer), ratio, note)
		lines = append(lines, line{math.Abs(ratio - 1), text})
	}

	if len(lines) == 0 {
		return v
	}

	v.ok = outside == 0
	v.value = fmt.Sprintf("%.3f to %.3f", low, high)
	v.message = fmt.Sprintf("the sums of the parts are %s of the %s of their layers", v.value, c.Column)
	if !v.ok {
		v.message += fmt.Sprintf(": %d of %d outside", outside, len(lines))
		v.fix = "collect layer and parts at operating_point = \"sustained\" in one run; what is between kernels (launches, " +
			"a cache that the layer keeps warm) is no part of rows, and parts that the power cap slows down by themselves are " +
			"faster in a layer that it hardly slows down"
	}

	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.off, a.off) })

	for _, l := range lines {
		v.rows = append(v.rows, l.text)
	}

	return v
}

// summed is the total over a layer's parts.
type summed struct {
	value float64
	there float64 // value scaled to the layer's clock; NaN if a clock or slope is missing
	// slowest and fastest are the lowest and highest clock of a part in MHz; NaN if a part has no clock.
	slowest, fastest float64
	terms            []string // summands, for messages
}

// sum adds up the parts of a layer. If it cannot, why gives the reason.
func (c *composition) sum(set *partSet, text, point string, mhz float64) (out summed, why string) {
	parts, err := partsOf(text)
	if err != nil {
		return out, err.Error()
	}

	out.slowest, out.fastest = math.Inf(1), math.Inf(-1)
	for _, p := range parts {
		rows, why := set.lookup(p, point)
		switch {
		case why != "":
			return out, why
		case len(rows) == 0:
			return out, "no row for the part " + p.text
		case len(rows) > 1:
			return out, fmt.Sprintf("%d rows for the part %s; name more columns, or read them from a dedupe", len(rows), p.text)
		case math.IsNaN(rows[0].value):
			return out, fmt.Sprintf("no usable %s of the part %s", c.Column, p.text)
		}

		f := rows[0]
		out.value += p.count * f.value
		out.there += p.count * (f.value * math.Pow(f.clock/mhz, f.slope))
		out.slowest, out.fastest = min(out.slowest, f.clock), max(out.fastest, f.clock)

		term := strconv.FormatFloat(f.value, 'g', 4, 64)
		if p.count != 1 {
			term = number(p.count) + " x " + term
		}

		out.terms = append(out.terms, term)
	}

	return out, ""
}
