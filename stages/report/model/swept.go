package model

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"aicplan/sink/experiment"
)

// sweptColumns are the columns that loads and experiments vary, the most telling first.
var sweptColumns = []string{"concurrency", "request_rate", "tensor_parallel_size", "pipeline_parallel_size",
	"data_parallel_size", "num_gpus", "sessions", "isl", "osl", "batch_size", "seq_len"}

// parallelSizes are the columns whose product is the number of GPUs.
var parallelSizes = []string{"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"}

// Parallel reports whether the column is a factor of the number of GPUs.
func (p *Param) Parallel() bool { return slices.Contains(parallelSizes, p.Name) }

// GPUCount is the name of the column that Swept returns for rows with different kinds of parallelism.
const GPUCount = "GPUs"

// Swept returns the numeric column that the rows of a load or an experiment vary, or nil if all rows agree. If they
// vary several parallel sizes, it is the number of GPUs.
func (f *Facets) Swept() *Param {
	var varying []*Param
	sizes := 0
	for i := range f.Params {
		if p := &f.Params[i]; p.Numeric && p.Varies() {
			varying = append(varying, p)
			if p.Parallel() {
				sizes++
			}
		}
	}

	concurrent := slices.ContainsFunc(varying, func(p *Param) bool { return slices.Contains(sweptColumns[:2], p.Name) })
	if gpus := f.GPUs(); sizes > 1 && !concurrent && len(Distinct(gpus)) > 1 {
		return &Param{Name: GPUCount, Numeric: true, Value: gpus}
	}

	for _, name := range sweptColumns {
		for _, p := range varying {
			if p.Name == name {
				return p
			}
		}
	}

	if len(varying) > 0 {
		return varying[0]
	}
	return nil
}

// Loads returns the rows of a sweep by their other parameters, such as "isl 100". Those that identify a row are left
// out, and those that follow from the swept value. The column is "" if no other parameter varies.
func (f *Facets) Loads(swept *Param) Series {
	var others []Param
	for _, p := range f.Params {
		values, at, follows := map[string]bool{}, map[string]string{}, true // at are the values at each swept one
		for row := range f.Rows {
			cell, x := p.Cell(row), swept.Cell(row)
			if first, seen := at[x]; seen && first != cell {
				follows = false
			}
			values[cell], at[x] = true, cell
		}
		if !follows && len(values) < f.Rows {
			others = append(others, p)
		}
	}

	var s Series
	for row := range f.Rows {
		var words []string
		for _, p := range others {
			words = append(words, p.Name+" "+p.Cell(row))
		}
		s.Add(strings.Join(words, ", "))
	}
	if len(others) > 0 {
		s.Column = "load"
	}
	return s
}

// Column returns the values of a metric, or nil if no row has one.
func (f *Facets) Column(name string) []float64 {
	for _, m := range f.Metrics {
		if m.Name == name {
			return m.Values
		}
	}
	return nil
}

// GPUs returns the number of GPUs of each row: the product of its parallel sizes, or nil if no row has one.
func (f *Facets) GPUs() []float64 {
	var out []float64
	for _, p := range f.Params {
		if !p.Numeric || !p.Parallel() {
			continue
		}
		if out == nil {
			out = make([]float64, f.Rows)
			for i := range out {
				out[i] = 1
			}
		}
		for i, v := range p.Value {
			if v > 0 {
				out[i] *= v
			}
		}
	}
	return out
}

// cells returns the rows as cells of an experiment, or nil if they are none.
func (f *Facets) cells() []experiment.Cell {
	if f.Column("throughput_tokens_sec") == nil {
		return nil
	}

	out := make([]experiment.Cell, f.Rows)
	for i := range out {
		row := map[string]any{}
		for _, m := range f.Metrics {
			if v := m.Values[i]; !math.IsNaN(v) {
				row[m.Name] = v
			}
		}
		for _, p := range f.Params {
			switch {
			case p.Cell(i) == "":
			case p.Numeric:
				row[p.Name] = p.Value[i]
			default:
				row[p.Name] = p.Text[i]
			}
		}
		out[i] = experiment.CellOf(row)
	}
	return out
}

// Families returns the rows of an experiment by parallelism and, if there are several, by model and load. Cells on one
// GPU belong to the only parallelism of the others, if there is one. The column is "" if the rows are no experiment.
func (f *Facets) Families() Series {
	cells := f.cells()
	if cells == nil {
		return Series{}
	}

	s := Series{Column: "parallelism"}
	several := func(of func(*experiment.Cell) string) bool {
		return slices.ContainsFunc(cells, func(c experiment.Cell) bool { return of(&c) != of(&cells[0]) })
	}
	models, loads := several(func(c *experiment.Cell) string { return c.Model }), several((*experiment.Cell).Load)

	kinds := map[string]bool{}
	for i := range cells {
		if family := cells[i].Family(); family != "" {
			kinds[family] = true
		}
	}
	alone := "one GPU"
	if len(kinds) == 1 {
		alone = slices.Collect(maps.Keys(kinds))[0]
	}

	for i := range cells {
		name := cmp.Or(cells[i].Family(), alone)
		if models {
			name += ", " + cells[i].Model
		}
		if loads {
			name += ", " + cells[i].Load()
		}
		s.Add(name)
	}
	return s
}

// Efficiency returns the throughput per GPU of each row over that of its baseline. The baseline of a cell of an
// experiment is that of the table of its export. That of other rows is the row with the fewest GPUs whose other
// parameters are equal. It is nil if the number of GPUs does not vary.
func (f *Facets) Efficiency() []float64 {
	gpus, rate := f.GPUs(), f.Latency
	if gpus == nil || len(Distinct(gpus)) < 2 || rate == nil {
		return nil
	}

	if cells := f.cells(); cells != nil {
		out := make([]float64, f.Rows)
		for i := range cells {
			out[i] = math.NaN()
			if pct := experiment.Efficiency(cells, &cells[i]); pct != nil {
				out[i] = *pct / 100
			}
		}
		return orNil(out)
	}

	least := map[string]int{}
	names := make([]string, f.Rows)
	for i := range names {
		names[i] = f.beside(i)
		if at, ok := least[names[i]]; !ok || gpus[i] < gpus[at] {
			least[names[i]] = i
		}
	}

	out := make([]float64, f.Rows)
	for i := range names {
		at := least[names[i]]
		out[i] = rate[i] / rate[at] / (gpus[i] / gpus[at])
	}

	return out
}

// beside names a row by its parameters other than parallel sizes and what follows from them, and names of cells.
func (f *Facets) beside(row int) string {
	var b strings.Builder
	for _, p := range f.Params {
		if strings.HasSuffix(p.Name, "_parallel_size") || p.Name == "experiment_id" || p.Name == "server_args" {
			continue
		}
		b.WriteString(p.Name + "=" + p.Cell(row) + " ")
	}
	return b.String()
}
