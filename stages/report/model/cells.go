package model

import (
	"cmp"
	"fmt"
	"strings"
)

// Cells is a table of texts, such as the rows of a load or an experiment: what varies, and the metrics.
type Cells struct {
	Heads []string   `json:"heads"`
	Rows  [][]string `json:"rows"`
	// Texts is the number of first columns that are no numbers.
	Texts int `json:"-"`
}

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

// watchedColumns are the columns of telemetry that a table of cells has.
var watchedColumns = []struct{ name, head string }{
	{"gpu_power_w", "GPU power (W)"}, {"gpu_utilization_pct", "GPU utilisation (%)"},
	{"gpu_memory_gb", "GPU memory (GB)"}, {"gpu_sm_clock_mhz", "SM clock (MHz)"},
}

// cells returns the table of cells, or nil for tables with one metric and for large ones.
func (t *Table) cells() *Cells {
	f := t.Facets
	if len(f.Metrics) < 2 || f.Rows > mostCells {
		return nil
	}

	type column struct {
		head string
		cell func(row int) string
	}
	var columns []column
	for _, p := range f.Params {
		if p.Varies() || f.Rows == 1 {
			columns = append(columns, column{p.Name, p.Cell})
		}
	}

	add := func(head string, values []float64) {
		columns = append(columns, column{head, func(row int) string {
			if values[row] != values[row] {
				return "-"
			}
			return Number(values[row])
		}})
	}
	for _, m := range f.Metrics {
		if hiddenMetrics[m.Name] {
			continue
		}
		head := MetricTitle(m.Name)
		if m.Unit != "" {
			head = fmt.Sprintf("%s (%s)", head, m.Unit)
		}
		add(head, m.Values)
	}

	if speedUp, efficiency := f.SpeedUp(); speedUp != nil {
		add("speed-up", speedUp)
		add("efficiency", efficiency)
	}

	for _, w := range watchedColumns {
		if values := numbers(t.Data.Table, w.name); len(values) == f.Rows {
			add(w.head, values)
		}
	}

	out := &Cells{}
	for _, c := range columns {
		out.Heads = append(out.Heads, c.head)
	}
	for row := range f.Rows {
		var cells []string
		for _, c := range columns {
			cells = append(cells, c.cell(row))
		}
		out.Rows = append(out.Rows, cells)
	}

	return out
}
