package model

import (
	"slices"
	"strings"
)

// sweptColumns are the columns that loads and experiments vary, the most telling first.
var sweptColumns = []string{"concurrency", "request_rate", "tensor_parallel_size", "pipeline_parallel_size",
	"data_parallel_size", "num_gpus", "sessions", "isl", "osl", "batch_size", "seq_len"}

// Swept returns the numeric column that the rows of a load or an experiment vary, or nil if all rows agree.
func (f *Facets) Swept() *Param {
	var varying []*Param
	for i := range f.Params {
		if p := &f.Params[i]; p.Numeric && p.Varies() {
			varying = append(varying, p)
		}
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
		if !p.Numeric || !slices.Contains([]string{"tensor_parallel_size", "pipeline_parallel_size",
			"data_parallel_size"}, p.Name) {
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

// Efficiency returns the throughput per GPU of each row over that of the row with the fewest GPUs whose other
// parameters are equal. It is nil if the number of GPUs does not vary.
func (f *Facets) Efficiency() []float64 {
	gpus, rate := f.GPUs(), f.Latency
	if gpus == nil || len(Distinct(gpus)) < 2 || rate == nil {
		return nil
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
