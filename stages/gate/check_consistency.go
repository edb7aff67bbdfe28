package gate

import (
	"fmt"
	"math"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Largest relative differences between figures that count as consistent.
const (
	throughputWithin = 0.25
	partsWithin      = 0.01
	energyWithin     = 0.05
)

// consistency checks that figures of a cell that determine each other agree.
type consistency struct{}

func (c *consistency) prepare(hcl.Range) hcl.Diagnostics { return nil }

// cellValues reads the columns of one cell; a missing value is NaN.
type cellValues struct {
	cols map[string]series
	row  int
}

func (v cellValues) get(names ...string) float64 {
	for _, name := range names {
		if s, ok := v.cols[name]; ok && !s.null[v.row] && !math.IsNaN(s.val[v.row]) {
			return s.val[v.row]
		}
	}
	return math.NaN()
}

// product multiplies the columns that the cell has. It returns NaN if it has none.
func (v cellValues) product(names ...string) float64 {
	out := math.NaN()
	for _, name := range names {
		if n := v.get(name); !math.IsNaN(n) {
			if math.IsNaN(out) {
				out = 1
			}
			out *= n
		}
	}

	return out
}

var consistencyColumns = []string{
	"throughput_tokens_sec", "throughput", "tpot", "itl", "ttft", "output_length", "batch_size",
	"effective_concurrency", "concurrency",
	"gpus", "traced_ranks", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size",
	"comm_overhead", "comm_exposed_pct", "trace_wall_ms", "trace_busy_ms", "trace_bubble_ms", "gpu_energy_j",
	"gpu_energy_by_power_j", "iteration_wall_clock", "output_tokens", "iterations",
}

func (c *consistency) run(s *subject) finding {
	v := cellValues{cols: map[string]series{}}
	for _, name := range consistencyColumns {
		if column(s.rec, name) == nil {
			continue
		}
		col, err := numbers(s.rec, name)
		if err != nil {
			return s.cannot(err.Error())
		}
		v.cols[name] = col
	}

	out := finding{total: s.selected, limit: fmt.Sprintf("throughput within %s, parts within %s, energy within %s, communication at most 100 %%", percent(throughputWithin), percent(partsWithin), percent(energyWithin))}
	var bad []offender

	if s.rec == nil {
		return out
	}

	for i := range int(s.rec.NumRows()) {
		if !s.has(i) {
			continue
		}

		v.row = i
		notes, judged := c.judge(v)
		switch {
		case len(notes) > 0:
			bad = append(bad, offender{row: i, worse: float64(len(notes)), note: "(" + strings.Join(notes, "; ") + ")"})
		case judged == 0:
			out.left.row(i, "it has no two figures of which one follows from the other")
		}
	}

	out.ok = len(bad) == 0
	out.message = fmt.Sprintf("%d of %d rows have figures that contradict each other", len(bad),
		s.selected-out.left.count())
	if !out.ok {
		out.rows = s.worst(bad)
		out.fix = "one of the figures is not what its name says: look at the request log and the traces of these cells before anybody reads them"
	}

	return out
}

// judge returns a note for each contradiction in a cell, and the number of relations that it could
// check.
func (c *consistency) judge(v cellValues) (notes []string, judged int) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }

	// Each of n concurrent requests returns its tokens in ttft + tpot * (tokens - 1).
	tput, tpot, ttft, osl := v.get("throughput_tokens_sec", "throughput"), v.get("tpot", "itl"), v.get("ttft"),
		v.get("output_length")
	n := v.get("batch_size", "effective_concurrency", "concurrency")
	if known(tput, tpot, n) && tpot > 0 {
		judged++

		// Without ttft only the upper bound is known.
		want, low := n*1000/tpot, false
		if known(ttft, osl) && osl > 1 {
			want, low = n*osl*1000/(ttft+tpot*(osl-1)), true
		}

		if tput > want*(1+throughputWithin) || low && tput < want*(1-throughputWithin) || tput < want/100 {
			note("%s tokens/s, and TPOT and concurrency make %s", number(round(tput)), number(round(want)))
		}
	}

	if iter, tokens, k := v.get("iteration_wall_clock"), v.get("output_tokens"),
		v.get("iterations"); known(iter, tokens, k, tput) && iter > 0 && k > 0 {
		judged++
		if want := tokens / k / iter; math.Abs(tput/want-1) > throughputWithin {
			note("%s tokens/s, and tokens and iteration times make %s", number(round(tput)), number(round(want)))
		}
	}

	gpus, ranks := v.get("gpus"), v.product("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
	if known(gpus, ranks) {
		judged++
		if gpus != ranks {
			note("%s GPUs, and the degrees of parallelism make %s", number(gpus), number(ranks))
		}
	}

	if traced := v.get("traced_ranks"); known(gpus, traced) {
		judged++
		if gpus != traced {
			note("%s GPUs, and traces of %s", number(gpus), number(traced))
		}
	}

	comm, exposed := v.get("comm_overhead"), v.get("comm_exposed_pct")
	if known(comm) {
		judged++
		if comm < 0 || comm > 100 {
			note("communication takes %s %% of a step", number(round(comm)))
		}
	}

	if known(comm, exposed) && exposed > comm*(1+1e-9) {
		note("%s %% of exposed communication, of %s %% in all", number(round(exposed)), number(round(comm)))
	}

	if wall, busy, bubble := v.get("trace_wall_ms"), v.get("trace_busy_ms"),
		v.get("trace_bubble_ms"); known(wall, busy, bubble) && wall > 0 {
		judged++
		if math.Abs((busy+bubble)/wall-1) > partsWithin {
			note("busy %s ms and bubbles %s ms, of steps of %s ms", number(round(busy)), number(round(bubble)),
				number(round(wall)))
		}
	}

	if counted, integral := v.get("gpu_energy_j"), v.get("gpu_energy_by_power_j"); known(counted, integral) &&
		integral > 0 {
		judged++
		if math.Abs(counted/integral-1) > energyWithin {
			note("%s J by the counters, %s J by the power", number(round(counted)), number(round(integral)))
		}
	}

	return notes, judged
}

func known(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) {
			return false
		}
	}
	return true
}

// round rounds to four significant digits for messages.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	digits := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*digits) / digits
}
