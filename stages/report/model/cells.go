package model

import (
	"cmp"
	"fmt"
	"strings"

	"aicplan/stages/gate/results"
)

// mostCells is the maximum number of rows of a table of cells.
const mostCells = 60

// hiddenMetrics are in the rows and not in the table of cells: they follow from others.
var hiddenMetrics = map[string]bool{"input_throughput": true, "total_throughput": true, "ttst": true, "icl": true,
	"coll_call_num": true, "throughput_tokens_sec": true}

// metricTitles are names for people of metrics whose column names are not.
var metricTitles = map[string]string{"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT",
	"iteration_wall_clock": "iteration time", "comm_overhead": "communication share",
	"comm_exposed_pct": "exposed communication"}

// MetricTitle returns the name of a metric for people.
func MetricTitle(name string) string {
	return cmp.Or(metricTitles[name], strings.ReplaceAll(name, "_", " "))
}

// besideColumns are the columns of searches and of telemetry that a table of cells has.
var besideColumns = []struct{ name, head string }{
	{"search_value", "search value"}, {"search_missed", "search missed"},
	{"gpu_power_w", "GPU power (W)"}, {"gpu_utilization_pct", "GPU utilisation (%)"},
	{"gpu_memory_gb", "GPU memory (GB)"}, {"gpu_sm_clock_mhz", "SM clock (MHz)"},
}

// cells returns the table of cells, or nil for tables with one metric and for large ones.
func (t *Table) cells() *results.Table {
	f := t.Facets
	if len(f.Metrics) < 2 || f.Rows > mostCells {
		return nil
	}

	out := &results.Table{Rows: make([][]any, f.Rows)}
	for _, p := range f.Params {
		if p.Varies() || f.Rows == 1 {
			out.Add(p.Name, func(row int) any { return p.Cell(row) })
		}
	}

	number := func(head string, values []float64) {
		out.Add(head, func(row int) any { return at(values, row) })
	}
	for _, m := range f.Metrics {
		if hiddenMetrics[m.Name] {
			continue
		}
		head := MetricTitle(m.Name)
		if m.Unit != "" {
			head = fmt.Sprintf("%s (%s)", head, m.Unit)
		}
		number(head, m.Values)
	}

	if efficiency := f.Efficiency(); efficiency != nil {
		number("efficiency", efficiency)
	}

	for _, c := range besideColumns {
		if values := numbers(t.Data.Table, c.name); len(values) == f.Rows {
			number(c.head, values)
		}
	}

	return out
}
