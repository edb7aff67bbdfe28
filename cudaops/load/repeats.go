package load

import (
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/worker"
)

// RepeatsFile is the attachment with the rows of all repeats.
const RepeatsFile = "repeats.json"

// totals are the columns that are added up over repeats.
var totals = []string{"requests", "succeeded", "failed", "cancelled", "cut", "input_tokens", "output_tokens",
	"duration"}

// withInterval are the columns that have a confidence interval over repeats.
var withInterval = []string{"ttft", "itl", "latency", "request_throughput", "throughput", "goodput"}

// Columns returns the names of the columns that metrics, repeats and searches add to a row. Rows have others as well.
func Columns() []string {
	out := append(aiperf.Columns(), "concurrency", "request_rate", "search_over", "search_met", "search_probes",
		"search_value", "search_missed")
	for _, name := range withInterval {
		out = append(out, name+ci95)
	}
	return out
}

// ci95 is the end of the names of columns with a confidence interval.
const ci95 = "_ci95"

// repeated returns the row of a repeated load: totals, and means over the repeats of all other metrics. If there are
// several, the columns COLUMN_ci95 are half the width of the 95 % confidence interval of the mean (Student's t).
func repeated(rows []worker.Row) worker.Row {
	out := rows[len(rows)-1]
	if len(rows) == 1 || out == nil {
		return out
	}

	out = maps.Clone(out)
	out["repeats"] = len(rows)
	out["repeat_start_ns"] = out["window_start_ns"] // of the last repeat, which AIPerf's files are of
	out["window_start_ns"], out["started_at_utc"] = rows[0]["window_start_ns"], rows[0]["started_at_utc"]
	sums := totals
	if source := out["prompt_source"]; source != "dataset" && source != "trace" {
		sums = append(slices.Clone(totals), "unique_prompts") // each repeat has prompts of its own
	}

	for _, r := range rows {
		if endedEarly(r) && out["ended_by"] != interrupted {
			out["ended_by"] = r["ended_by"]
		}
	}

	for _, name := range slices.Concat(aiperf.Columns(), sums, []string{"error_rate", "short_outputs",
		"token_mismatch", "cache_hit_rate", "cached_prompt_share", "server_queue", "server_prefill",
		"client_cpu_share", "client_sched_p99"}) {
		var values []float64
		for _, r := range rows {
			if v, ok := number(r[name]); ok {
				values = append(values, v)
			}
		}

		switch {
		case len(values) < len(rows):
			delete(out, name) // unknown in one repeat
		case slices.Contains(sums, name):
			sum := 0.0
			for _, v := range values {
				sum += v
			}
			out[name] = sum
		default:
			mean, std := stat.MeanStdDev(values, nil)
			out[name] = mean
			if slices.Contains(withInterval, name) {
				t := distuv.StudentsT{Sigma: 1, Nu: float64(len(values) - 1)}.Quantile(0.975)
				out[name+ci95] = t * std / math.Sqrt(float64(len(values)))
			}
		}
	}

	return out
}

// endedEarly reports whether a limit of errors or over_saturation ended the load of a row.
func endedEarly(row worker.Row) bool {
	by, _ := row["ended_by"].(string)
	return strings.HasPrefix(by, "max_") || by == "over_saturation"
}

// number returns a value of a row as a float64.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int:
		return float64(n), true
	}
	return 0, false
}
