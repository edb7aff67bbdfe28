// Package experiment writes what is kept of experiments with model servers: a
// table of all cells, plots of how they scale, and a workload card of each.
package experiment

import (
	"cmp"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
)

// Cell is one cell. Nil is not known and never 0.
type Cell struct {
	Experiment string
	Model      string
	TP, PP, EP *int
	GPUs       *int

	Throughput *float64 // generated tokens a second
	Iteration  *float64 // wall clock in s
	TTFT, TPOT *float64 // ms
	Comm       *float64 // % of a step
	Exposed    *float64 // %
	Bubble     *float64 // %
	Calls      *int     // collectives
	// MFU is the use of the GPUs' peak, Copies the share of a traced span with copies, Coverage that of the
	// SMs with a block of the running kernel, in %. Imbalance is the ratio of busy times of ranks.
	MFU, Copies, Coverage, Imbalance *float64
	// Batch, Seq and Max are the iteration's.
	Batch, Seq, Max *int
	// Error is the reason why there are no figures, or "".
	Error string
}

// Columns of the table: those of the tool that the names are from come first.
var Columns = []string{
	"experiment", "model", "tp", "pp", "ep", "gpus", "steps_per_sec", "ttft_ms", "tpot_ms", "comm_overhead_pct", "bubble_ratio_pct",
	"throughput_tokens_sec", "iteration_wall_clock_s", "coll_call_num", "comm_exposed_pct", "tp_efficiency_pct",
	"mfu_pct", "copy_pct", "sm_coverage_pct", "load_imbalance",
	"batch_size", "seq_len", "max_tokens", "error",
}

// Sort puts cells in order of model, GPUs and name.
func Sort(cells []Cell) {
	n := func(p *int) int {
		if p == nil {
			return 0
		}
		return *p
	}
	slices.SortStableFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(n(a.GPUs), n(b.GPUs)), cmp.Compare(a.Experiment, b.Experiment))
	})
}

// Summary returns the table as CSV, sorted. Unknown values are empty.
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
			c.Experiment, c.Model, whole(c.TP), whole(c.PP), whole(c.EP), whole(c.GPUs), number(steps), number(c.TTFT), number(c.TPOT), number(c.Comm), number(c.Bubble),
			number(c.Throughput), number(c.Iteration), whole(c.Calls), number(c.Exposed), number(Efficiency(cells, &c)),
			number(c.MFU), number(c.Copies), number(c.Coverage), number(c.Imbalance),
			whole(c.Batch), whole(c.Seq), whole(c.Max), strings.Join(strings.Fields(c.Error), " "),
		}
		if err := w.Write(line); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return []byte(b.String()), w.Error()
}

// Efficiency is 100 * (throughput / throughput at TP 1) / TP, in %, where the same
// cell without tensor parallelism is among cells; nil otherwise.
func Efficiency(cells []Cell, c *Cell) *float64 {
	if c.Throughput == nil || c.TP == nil || *c.TP < 1 {
		return nil
	}
	for _, b := range cells {
		if b.Model == c.Model && b.TP != nil && *b.TP == 1 && same(b.PP, c.PP) && same(b.EP, c.EP) && same(b.Batch, c.Batch) && same(b.Seq, c.Seq) && same(b.Max, c.Max) &&
			b.Throughput != nil && *b.Throughput > 0 {
			v := 100 * *c.Throughput / *b.Throughput / float64(*c.TP)
			return &v
		}
	}
	return nil
}

func same(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

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
