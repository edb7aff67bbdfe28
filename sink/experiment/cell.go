// Package experiment writes the results of experiments with model servers: a table of all cells, plots of how
// they scale, and a workload card of each cell.
package experiment

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/textutil"
)

// Cell is one cell. Nil means unknown and never 0. The fields are in the order of the table; csv is the name of the
// column there, and row that of the column of a measured row. Units are in the names of the columns.
type Cell struct {
	Experiment string   `csv:"experiment" row:"experiment_id"`
	Model      string   `csv:"model" row:"model"`
	TP         *int     `csv:"tp" row:"tensor_parallel_size"`
	PP         *int     `csv:"pp" row:"pipeline_parallel_size"`
	EP         *int     `csv:"ep" row:"expert_parallel_size"`
	GPUs       *int     `csv:"gpus" row:"gpus"`
	Steps      *float64 `csv:"steps_per_sec"` // set by derived
	TTFT       *float64 `csv:"ttft_ms" row:"ttft"`
	TPOT       *float64 `csv:"tpot_ms" row:"tpot"`
	Comm       *float64 `csv:"comm_overhead_pct" row:"comm_overhead"` // of a step
	Bubble     *float64 `csv:"bubble_ratio_pct" row:"bubble_ratio_pct"`
	Throughput *float64 `csv:"throughput_tokens_sec" row:"throughput_tokens_sec"` // generated tokens
	Iteration  *float64 `csv:"iteration_wall_clock_s" row:"iteration_wall_clock"`
	Calls      *int     `csv:"coll_call_num" row:"coll_call_num"` // collectives
	Exposed    *float64 `csv:"comm_exposed_pct" row:"comm_exposed_pct"`
	Scaling    *float64 `csv:"scaling_efficiency_pct"` // set by derived
	MFU        *float64 `csv:"mfu_pct"`                // use of the GPUs' peak
	// Copies is the share of a traced span with copies, Coverage that of the SMs with a block of the running
	// kernel, and Imbalance the ratio of busy times of ranks.
	Copies    *float64 `csv:"copy_pct" row:"copy_pct"`
	Coverage  *float64 `csv:"sm_coverage_pct" row:"sm_coverage_pct"`
	Imbalance *float64 `csv:"load_imbalance" row:"load_imbalance"`
	DP        *int     `csv:"dp" row:"data_parallel_size"`
	Precision string   `csv:"precision" row:"precision"`
	Batch     *int     `csv:"batch_size" row:"batch_size"`
	Seq       *int     `csv:"seq_len" row:"seq_len"`
	Max       *int     `csv:"max_tokens" row:"max_tokens"`
	// Of loads without closed batches.
	Concurrency *int     `csv:"concurrency" row:"concurrency"`
	Rate        *float64 `csv:"request_rate" row:"request_rate"`
	ISL         *int     `csv:"isl" row:"isl"`
	OSL         *int     `csv:"osl" row:"osl"`
	// Error is the reason why there are no figures, or "".
	Error string `csv:"error" row:"trace_error"`
}

// CellOf returns the cell of a row of a case. Columns that the row lacks are unknown.
func CellOf(row map[string]any) Cell {
	var c Cell
	fields := reflect.ValueOf(&c).Elem()
	for i := range fields.NumField() {
		value := row[fields.Type().Field(i).Tag.Get("row")]
		if value == nil {
			continue
		}

		number, isFloat := value.(float64)
		if whole, ok := value.(int64); ok {
			number, isFloat = float64(whole), true
		}

		switch to := fields.Field(i).Addr().Interface().(type) {
		case *string:
			*to = fmt.Sprint(value)
		case **float64:
			if isFloat {
				*to = &number
			}
		case **int:
			if isFloat {
				*to = new(int(number))
			}
		}
	}

	if c.Experiment == "" && row["case_id"] != nil {
		c.Experiment = fmt.Sprint(row["case_id"])
	}

	// Expert parallelism uses the GPUs of the other degrees.
	n, known := 1, false
	for _, p := range []*int{c.TP, c.PP, c.DP} {
		if p != nil {
			n, known = n**p, true
		}
	}
	if c.GPUs == nil && known {
		c.GPUs = &n
	}

	return c
}

// Family returns the kinds of parallelism that a cell uses: TP, PP, DP, or several joined by +. It is EP for
// experts on the GPUs of tensor parallelism, and "" for none.
func (c *Cell) Family() string {
	var parts []string
	for _, p := range []struct {
		name   string
		degree *int
	}{{"TP", c.TP}, {"PP", c.PP}, {"DP", c.DP}, {"EP", c.EP}} {
		if p.degree != nil && *p.degree > 1 {
			parts = append(parts, p.name)
		}
	}

	if slices.Equal(parts, []string{"TP", "EP"}) {
		return "EP"
	}
	return strings.Join(parts, "+")
}

// Load names the settings that cells of one line share.
func (c *Cell) Load() string {
	parts := []string{}
	for _, p := range []struct {
		name  string
		value *int
	}{{"batch", c.Batch}, {"seq", c.Seq}, {"max", c.Max}, {"concurrency", c.Concurrency}, {"isl", c.ISL},
		{"osl", c.OSL}} {
		if p.value != nil {
			parts = append(parts, p.name+" "+strconv.Itoa(*p.value))
		}
	}
	if c.Rate != nil {
		parts = append(parts, "rate "+strconv.FormatFloat(*c.Rate, 'g', -1, 64))
	}
	return strings.TrimSpace(strings.Join(parts, " ") + " " + c.Precision)
}

// Sort sorts cells by model, GPUs and name.
func Sort(cells []Cell) {
	n := func(p *int) int {
		if p == nil {
			return 0
		}
		return *p
	}
	slices.SortStableFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(n(a.GPUs), n(b.GPUs)),
			cmp.Compare(a.Experiment, b.Experiment))
	})
}

// derived returns the sorted cells with the figures that follow from others.
func derived(cells []Cell) []Cell {
	cells = slices.Clone(cells)
	Sort(cells)
	for i := range cells {
		c := &cells[i]
		c.Scaling = Efficiency(cells, c)
		if c.Iteration != nil && *c.Iteration > 0 {
			c.Steps = new(1 / *c.Iteration)
		}
		c.Error = textutil.OneLine(c.Error)
	}
	return cells
}

// Summary returns the sorted table as CSV. Unknown values are empty.
func Summary(cells []Cell) []byte {
	lines := [][]string{line(Cell{}, true)}
	for _, c := range derived(cells) {
		lines = append(lines, line(c, false))
	}

	var b bytes.Buffer
	_ = csv.NewWriter(&b).WriteAll(lines) // a buffer returns no error
	return b.Bytes()
}

// line returns the fields of a cell as text, or the names of the columns.
func line(c Cell, names bool) []string {
	var out []string
	fields := reflect.ValueOf(c)
	for i := range fields.NumField() {
		text := ""
		switch v := fields.Field(i).Interface().(type) {
		case string:
			text = v
		case *int:
			if v != nil {
				text = strconv.Itoa(*v)
			}
		case *float64:
			if v != nil {
				text = strconv.FormatFloat(*v, 'g', 9, 64)
			}
		}

		if names {
			text = fields.Type().Field(i).Tag.Get("csv")
		}
		out = append(out, text)
	}
	return out
}

// Efficiency returns the throughput of a cell per GPU, in % of that of its baseline: the cell of the same
// model, precision and load with the fewest GPUs. It is nil if the throughput of one of them is unknown, or if
// cells of several families have the fewest GPUs.
func Efficiency(cells []Cell, c *Cell) *float64 {
	if c.Throughput == nil || c.GPUs == nil || *c.GPUs < 1 {
		return nil
	}

	var base *Cell
	unique := true
	for i := range cells {
		b := &cells[i]
		if b.GPUs == nil || *b.GPUs < 1 || b.Model != c.Model || b.Load() != c.Load() {
			continue
		}
		switch {
		case base == nil || *b.GPUs < *base.GPUs:
			base, unique = b, true
		case *b.GPUs == *base.GPUs:
			unique = unique && b.Family() == base.Family()
		}
	}

	if base == nil || !unique || base.Throughput == nil || *base.Throughput <= 0 {
		return nil
	}
	return new(100 * (*c.Throughput / *base.Throughput) * (float64(*base.GPUs) / float64(*c.GPUs)))
}
