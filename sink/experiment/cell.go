// Package experiment writes the results of experiments with model servers: a table of all cells, plots of how
// they scale, and a workload card of each cell.
package experiment

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Cell is one cell. Nil means unknown and never 0.
type Cell struct {
	Experiment string
	Model      string
	Precision  string

	// Degrees of parallelism, and the number of GPUs.
	TP, PP, DP, EP *int
	GPUs           *int

	Throughput *float64 // generated tokens per second
	Iteration  *float64 // wall clock in s
	TTFT, TPOT *float64 // ms
	Comm       *float64 // % of a step
	Exposed    *float64 // %
	Bubble     *float64 // %
	Calls      *int     // collectives

	// MFU is the use of the GPUs' peak, Copies the share of a traced span with copies, Coverage that of the
	// SMs with a block of the running kernel, in %. Imbalance is the ratio of busy times of ranks.
	MFU, Copies, Coverage, Imbalance *float64

	// Batch, Seq and Max are the settings of an iteration.
	Batch, Seq, Max *int

	// Error is the reason why there are no figures, or "".
	Error string
}

// CellOf returns the cell of a row of a case. Columns that the row lacks are unknown.
func CellOf(row map[string]any) Cell {
	number := func(name string) *float64 {
		switch v := row[name].(type) {
		case int64:
			f := float64(v)
			return &f
		case float64:
			return &v
		}
		return nil
	}

	count := func(name string) *int {
		v := number(name)
		if v == nil {
			return nil
		}
		n := int(*v)
		return &n
	}

	text := func(name string) string {
		if row[name] == nil {
			return ""
		}
		return fmt.Sprint(row[name])
	}

	c := Cell{
		Experiment: cmp.Or(text("experiment_id"), text("case_id")), Model: text("model"), Precision: text("precision"),
		TP: count("tensor_parallel_size"), PP: count("pipeline_parallel_size"), DP: count("data_parallel_size"),
		EP: count("expert_parallel_size"), GPUs: count("gpus"),
		Batch: count("batch_size"), Seq: count("seq_len"), Max: count("max_tokens"),
		Throughput: number("throughput_tokens_sec"), Iteration: number("iteration_wall_clock"), TTFT: number("ttft"),
		TPOT: number("tpot"), Comm: number("comm_overhead"), Exposed: number("comm_exposed_pct"),
		Bubble: number("bubble_ratio_pct"), Calls: count("coll_call_num"),
		Copies: number("copy_pct"), Coverage: number("sm_coverage_pct"), Imbalance: number("load_imbalance"),
		Error: text("trace_error"),
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

// load names the settings that cells of one line share.
func (c *Cell) load() string {
	parts := []string{}
	for _, p := range []struct {
		name  string
		value *int
	}{{"batch", c.Batch}, {"seq", c.Seq}, {"max", c.Max}} {
		if p.value != nil {
			parts = append(parts, p.name+" "+strconv.Itoa(*p.value))
		}
	}
	return strings.TrimSpace(strings.Join(parts, " ") + " " + c.Precision)
}

// Columns of the table. The columns of the experiments' first tool come first.
var Columns = []string{
	"experiment", "model", "tp", "pp", "ep", "gpus", "steps_per_sec", "ttft_ms", "tpot_ms", "comm_overhead_pct",
	"bubble_ratio_pct", "throughput_tokens_sec", "iteration_wall_clock_s", "coll_call_num", "comm_exposed_pct",
	"scaling_efficiency_pct", "mfu_pct", "copy_pct", "sm_coverage_pct", "load_imbalance",
	"dp", "precision", "batch_size", "seq_len", "max_tokens", "error",
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

// Summary returns the sorted table as CSV. Unknown values are empty.
func Summary(cells []Cell) ([]byte, error) {
	cells = slices.Clone(cells)
	Sort(cells)
	var b strings.Builder
	w := csv.NewWriter(&b)
	if err := w.Write(Columns); err != nil {
		return nil, err
	}

	for _, c := range cells {
		var steps *float64
		if c.Iteration != nil && *c.Iteration > 0 {
			v := 1 / *c.Iteration
			steps = &v
		}

		line := []string{
			c.Experiment, c.Model, whole(c.TP), whole(c.PP), whole(c.EP), whole(c.GPUs), number(steps), number(c.TTFT),
			number(c.TPOT), number(c.Comm), number(c.Bubble), number(c.Throughput), number(c.Iteration), whole(c.Calls),
			number(c.Exposed), number(Efficiency(cells, &c)), number(c.MFU), number(c.Copies), number(c.Coverage),
			number(c.Imbalance), whole(c.DP), c.Precision, whole(c.Batch), whole(c.Seq), whole(c.Max),
			strings.Join(strings.Fields(c.Error), " "),
		}
		if err := w.Write(line); err != nil {
			return nil, err
		}
	}

	w.Flush()
	return []byte(b.String()), w.Error()
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
		if b.GPUs == nil || *b.GPUs < 1 || b.Model != c.Model || b.load() != c.load() {
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
	v := 100 * *c.Throughput / *base.Throughput * float64(*base.GPUs) / float64(*c.GPUs)
	return &v
}

func whole(p *int) string {
	if p == nil {
		return ""
	}
	return strconv.Itoa(*p)
}

func number(p *float64) string {
	if p == nil {
		return ""
	}
	return strconv.FormatFloat(*p, 'g', 9, 64)
}
