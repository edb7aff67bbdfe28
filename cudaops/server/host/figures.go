package host

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"aicplan/cudaops/trace"
	"aicplan/cudaops/worker"
)

// rankFigures are the figures of one rank's trace. Null means unknown.
type rankFigures struct {
	*trace.Figures
	Collectives int64    `json:"collectives"`
	CommPct     *float64 `json:"comm_overhead_pct"` // percent of the steps, or of the span
	Basis       string   `json:"comm_overhead_of"`  // steps, span

	// Of the steps, or of the span.
	wallNs, busyNs, bubbleNs, commNs, exposedNs int64

	stepCalls int64
	result    *trace.Analysis
}

// busiest returns the result of the device with the most kernels.
func busiest(results []*trace.Analysis) *trace.Analysis {
	return slices.MaxFunc(results, func(a, b *trace.Analysis) int { return int(a.Kernels - b.Kernels) })
}

// figures computes the figures of a rank's trace. Communication is a share of the steps, because a trace
// begins and ends with waiting. Without steps, it is a share of the time from the first kernel to the last.
func figures(r *trace.Analysis) *rankFigures {
	f := &rankFigures{Figures: &r.Figures, result: r}
	for _, c := range r.Collectives {
		f.Collectives += c.Count
	}

	for _, s := range r.PerStep {
		f.wallNs += s.WallNs
		f.busyNs += s.BusyNs
		f.bubbleNs += s.BubbleNs
		f.commNs += *s.CommUnionNs
		f.exposedNs += *s.ExposedCommNs
		f.stepCalls += s.Collectives
	}

	switch {
	case f.busyNs > 0:
		f.Basis, f.CommPct = "steps", new(f.share(f.commNs))
	case r.SpanNs != nil && r.CommUnionNs != nil:
		f.useSpan()
	default:
		f.wallNs = 0 // unknown
	}

	return f
}

// useSpan computes the figures of the span.
func (f *rankFigures) useSpan() {
	f.Basis, f.CommPct = "span", nil
	f.wallNs, f.bubbleNs, f.commNs, f.exposedNs = *f.SpanNs, *f.IdleNs, *f.CommUnionNs, *f.ExposedCommNs
	if f.busyNs = f.wallNs - f.bubbleNs; f.wallNs > 0 {
		f.CommPct = new(f.share(f.commNs))
	}
}

// align computes the figures of all ranks for the span if one of them has no steps. A mean of both means nothing.
func align(ranks map[int]*rankFigures) {
	spans := slices.ContainsFunc(slices.Collect(maps.Values(ranks)),
		func(f *rankFigures) bool { return f.Basis == "span" })
	for _, f := range ranks {
		if spans && f.Basis == "steps" {
			f.useSpan()
		}
	}
}

// share returns a part of the steps or of the span in percent.
func (f *rankFigures) share(part int64) float64 { return 100 * float64(part) / float64(f.wallNs) }

// kernels returns the times of the kernels of all ranks that are no collectives as a JSON object in ms, or "" if
// there are none.
func kernels(ranks map[int]*rankFigures) string {
	times := map[string]float64{}
	for _, rank := range slices.Sorted(maps.Keys(ranks)) {
		for _, k := range ranks[rank].result.Top {
			if k.Kind == trace.Compute {
				times[k.Name] += float64(k.SumNs) / 1e6
			}
		}
	}

	text, err := json.Marshal(times)
	if err != nil || len(times) == 0 {
		return ""
	}
	return string(text)
}

// into adds the figures of all ranks to the row. Unknown figures are omitted.
//
//	comm_overhead       %, time in which a collective runs, of the steps' wall time: mean over ranks
//	comm_exposed_pct    %, the part of it in which nothing else runs
//	coll_call_num       collectives in the traces of all ranks
//	coll_calls_per_step collectives of a step on one rank: mean over steps and ranks
//	copy_pct            %, time in which a copy runs, of the traced span: mean over ranks
//	sm_coverage_pct     %, share of the SMs with a block of the running kernel: mean over ranks
//	kernels             JSON text: ms of each kernel that is no collective, by name, on all ranks
//	load_imbalance      busy time of the busiest rank, divided by that of the least busy one
func (t *tracing) into(row worker.Row) {
	if t.err != nil {
		row["trace_error"] = strings.ReplaceAll(t.err.Error(), "\n", "; ")
	}

	if names := kernels(t.ranks); names != "" {
		row["kernels"] = names
	}

	align(t.ranks)
	n, withSteps, collectives, stepCalls, allSteps := 0, 0, int64(0), int64(0), 0
	complete := true // no trace is truncated
	var imbalance *float64
	sums, known := map[string]float64{}, map[string]int{}
	for _, rank := range slices.Sorted(maps.Keys(t.ranks)) {
		f := t.ranks[rank]
		if f.Error != "" || f.CommPct == nil {
			continue
		}

		add := func(column string, v float64) {
			sums[column] += v
			known[column]++
		}

		n++
		complete = complete && !f.result.Truncated
		collectives += f.Collectives
		row["comm_overhead_of"] = f.Basis
		add("comm_overhead", *f.CommPct)
		if f.Basis == "steps" {
			withSteps++
			row["trace_steps"] = f.Steps
			allSteps += f.Steps
			stepCalls += f.stepCalls
		}

		add("comm_exposed_pct", f.share(f.exposedNs))
		add("trace_bubble_ms", float64(f.bubbleNs)/1e6)
		add("trace_busy_ms", float64(f.busyNs)/1e6)
		add("trace_wall_ms", float64(f.wallNs)/1e6)
		if *f.SpanNs > 0 {
			add("copy_pct", 100*float64(*f.CopyNs)/float64(*f.SpanNs))
		}
		if f.SMCoverage != nil {
			add("sm_coverage_pct", *f.SMCoverage)
		}
		if f.WaitNs != nil {
			add("comm_wait_ms", float64(*f.WaitNs)/1e6)
		}
		imbalance = f.result.Imbalance
	}

	for column, v := range sums {
		if known[column] == n && (column != "comm_wait_ms" || n > 1) {
			row[column] = v / float64(n)
		}
	}

	if n == 0 {
		return
	}

	row["traced_ranks"] = n
	if complete && n >= t.gpus { // else the figures are those of a part of the calls or the ranks
		row["coll_call_num"] = collectives
		if imbalance != nil {
			row["load_imbalance"] = *imbalance
		}
	}
	if wall := sums["trace_wall_ms"]; wall > 0 {
		row["bubble_ratio_pct"] = 100 * sums["trace_bubble_ms"] / wall
	}

	if withSteps == n {
		row["coll_calls_per_step"] = float64(stepCalls) / float64(allSteps)
	} else {
		delete(row, "trace_steps")
	}
}
