package model

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

// Series is a column of words: rows belong to the series of their word.
type Series struct {
	Column string
	Names  []string // the most frequent first
	Code   []int    // by row; -1 without a word
}

// Add adds a row to the series with a name. The names are in the order of the rows then.
func (s *Series) Add(name string) {
	at := slices.Index(s.Names, name)
	if at < 0 {
		at = len(s.Names)
		s.Names = append(s.Names, name)
	}
	s.Code = append(s.Code, at)
}

// Facets are columns of equal length with one value for each row of the table: NaN if the
// row has none. A column without any value is nil.
type Facets struct {
	Rows int
	// Metric is the metric by which rows are compared: a latency in all tables of
	// kernels. Latency contains its values, in Unit.
	Metric  catalog.Column
	Latency []float64
	Unit    string
	// Metrics are all metrics with their values, of tables with several.
	Metrics []Measured
	// Size grows with the work of a row. SizeLabel names it.
	Size      []float64
	SizeLabel string
	Series    Series
	// Light is the share of the speed of light, 1 being all of it; nil without
	// a system or a formula.
	Light  []float64
	System string
	Spec   *systems.Spec // what Light is a share of the peaks of; nil without one
	Noise  []float64     // standard deviation over mean
	Clock  []float64     // SM clock, MHz
	Power  []float64     // W
	// Low and High are the 10th and 90th percentile of the row's samples.
	Low, High []float64
	Rates     Rates
	// Held reports for each row whether the driver throttled it. An entry is nil if that
	// is unknown, and Held is nil if it is unknown for all rows.
	Held []*bool
	// Throttled counts the rows that the driver throttled, among those of which it is known.
	Throttled, ThrottledOf int
	Started                []float64 // seconds since 1970
	// Params are the columns that name a row, in grid order, as text.
	Params []Param
}

// Measured is one measured column.
type Measured struct {
	catalog.Column
	Values []float64
}

// Param is one column that names rows.
type Param struct {
	Name string
	// Numeric is true if every value is a number.
	Numeric bool
	Value   []float64 // nil unless Numeric
	Text    []string  // nil when Numeric
}

// ParamOf returns a column. Value and Text are both nil if there is no such column, or no row has a number.
func ParamOf(rec arrow.Record, name string) Param {
	if text := texts(rec, name); text != nil {
		return Param{Name: name, Text: text}
	}
	return Param{Name: name, Value: numbers(rec, name), Numeric: true}
}

// Cell returns the value of a row as text, "" for null.
func (p Param) Cell(row int) string {
	if p.Numeric {
		if math.IsNaN(p.Value[row]) {
			return ""
		}
		return strconv.FormatFloat(p.Value[row], 'f', -1, 64)
	}
	return p.Text[row]
}

// Varies reports whether two rows have different values.
func (p Param) Varies() bool {
	return slices.ContainsFunc(p.Value, func(v float64) bool { return v != p.Value[0] }) ||
		slices.ContainsFunc(p.Text, func(t string) bool { return t != p.Text[0] })
}

// FacetsOf derives the facets of a dataset with a table. spec may be nil.
func FacetsOf(ds *stage.Dataset, spec *systems.Spec) *Facets {
	rec, schema := ds.Table, catalog.SchemaOf("")
	own := schema.Primary()
	if rec == nil {
		return &Facets{Metric: own, Unit: own.Unit}
	}

	t, _ := dedupe.PerfTable(ds)
	f := &Facets{Rows: table.Len(rec)}
	var works []rules.Work
	if t != nil {
		schema = t.Schema()
		works, _ = rules.Works(rec, t)
	}

	f.Metric = schema.Primary()
	f.Unit = f.Metric.Unit
	if !table.Has(rec, f.Metric.Name) && table.Has(rec, own.Name) {
		f.Metric = own // of a table with other columns, as workers measured it
	}

	f.Latency = numbers(rec, f.Metric.Name)
	if len(schema.Metrics) > 1 {
		for _, m := range schema.Metrics {
			if v := numbers(rec, m.Name); v != nil {
				f.Metrics = append(f.Metrics, Measured{m, v})
			}
		}
	}

	f.Noise, f.Clock, f.Power = numbers(rec, "rel_stdev"), numbers(rec, "sm_clock_mhz"), numbers(rec, "power")
	f.Low, f.High = numbers(rec, "p10"), numbers(rec, "p90")
	f.rates(rec, works)
	f.Started = started(rec)
	f.throttled(rec)
	f.params(rec, ds, t)
	f.Series = seriesOf(rec, ds, t)
	f.size(rec, works)

	if len(f.Series.Names) < 2 {
		f.fewNumbers()
	}

	if f.Spec = spec; spec != nil {
		f.System = spec.Name
		if t != nil {
			f.light(rec, t)
		}
	}

	return f
}

func (f *Facets) throttled(rec arrow.Record) {
	flags, err := table.Bools(rec, "throttled")
	if err != nil {
		return
	}

	f.Held = make([]*bool, len(flags.Values))
	for i, v := range flags.Values {
		if !flags.Null(i) {
			f.Held[i] = &flags.Values[i]
			f.ThrottledOf++
			if v {
				f.Throttled++
			}
		}
	}
}

func (f *Facets) params(rec arrow.Record, ds *stage.Dataset, t *catalog.Table) {
	names := ds.Info.Params
	if len(names) == 0 && t != nil {
		names = t.Key()
	}

	for _, name := range names {
		if name == "kernel_source" || name == "op_name" || !table.Has(rec, name) {
			continue
		}

		p := ParamOf(rec, name)
		if p.Value == nil && p.Text == nil {
			continue // unknown for all rows
		}

		f.Params = append(f.Params, p)
	}

	if kernels := words(rec, "kernel_source"); len(kernels.Names) > 1 {
		f.Params = append(f.Params, Param{Name: "kernel_source", Text: texts(rec, "kernel_source")})
	}
}

// seriesOf returns the column by which rows are coloured: the precision if there is
// one, else a text parameter of the case, else the kernel.
func seriesOf(rec arrow.Record, ds *stage.Dataset, t *catalog.Table) Series {
	var names []string
	if t != nil {
		names = append(names, t.DtypeColumn())
	}

	for _, p := range ds.Info.Params {
		if strings.Contains(p, "dtype") {
			names = append(names, p)
		}
	}

	names = append(append(names, ds.Info.Params...), "op_name", "kernel_source")
	var one Series
	for _, name := range names {
		s := words(rec, name)
		if len(s.Names) > 1 {
			return s
		}
		if one.Column == "" && len(s.Names) == 1 {
			one = s
		}
	}

	return one
}

// fewNumbers takes a column of a few numbers as the series, such as the number
// of GPUs, if no text column distinguishes rows.
func (f *Facets) fewNumbers() {
	for _, p := range f.Params {
		if !p.Numeric || strings.Contains(" "+strings.ReplaceAll(f.SizeLabel, " × ", " ")+" ", " "+p.Name+" ") {
			continue
		}

		values := Distinct(p.Value)
		if len(values) < 2 || len(values) > 8 {
			continue
		}

		s := Series{Column: p.Name, Code: Places(values, p.Value)}
		for _, v := range values {
			s.Names = append(s.Names, p.Name+" "+strconv.FormatFloat(v, 'f', -1, 64))
		}

		f.Series = s
		return
	}
}

// size computes how large a row's problem is: its number of operations if it is
// known, else the product of the columns along which work grows.
func (f *Facets) size(rec arrow.Record, works []rules.Work) {
	for _, flops := range [][]float64{operations(works), numbers(rec, "flops")} {
		if len(flops) > 0 && !slices.ContainsFunc(flops, func(x float64) bool { return !(x > 0) }) {
			f.Size, f.SizeLabel = flops, "floating-point operations"
			return
		}
	}

	var factors []string
	for _, p := range f.Params {
		if p.Numeric && (slices.Contains(rules.Axes, p.Name) || sizeColumns[p.Name]) {
			factors = append(factors, p.Name)
		}
	}

	if len(factors) == 0 {
		for _, p := range f.Params {
			if p.Numeric && p.Varies() {
				factors = append(factors, p.Name)
				break
			}
		}
	}

	if len(factors) == 0 {
		return
	}

	if slices.Contains(factors, "batch_size") {
		// Their tokens are sequences times length already.
		factors = slices.DeleteFunc(factors, func(n string) bool { return n == "num_tokens" })
	}

	f.Size = make([]float64, f.Rows)
	for i := range f.Size {
		f.Size[i] = 1
		for _, p := range f.Params {
			if slices.Contains(factors, p.Name) {
				f.Size[i] *= max(p.Value[i], 1)
			}
		}
	}

	f.SizeLabel = strings.Join(factors, " × ")
}

// operations returns the operations of each row by the formula of its op.
func operations(works []rules.Work) []float64 {
	var out []float64
	for _, w := range works {
		out = append(out, w.Flops)
	}
	return out
}

// sizeColumns grow the work, as do the axes that physics knows.
var sizeColumns = map[string]bool{"n": true, "k": true, "size_bytes": true}

func (f *Facets) light(rec arrow.Record, t *catalog.Table) {
	least, ok := rules.SpeedOfLight(rec, t, f.Spec)
	if !ok || f.Latency == nil {
		return
	}

	perMS := 1.0
	if f.Unit == "us" {
		perMS = 1000
	}

	out := make([]float64, len(least))
	for i, l := range least {
		out[i] = math.NaN()
		if l > 0 && f.Latency[i] > 0 {
			out[i] = l * perMS / f.Latency[i]
		}
	}

	f.Light = orNil(out)
}
