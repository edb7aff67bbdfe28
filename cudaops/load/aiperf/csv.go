package aiperf

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
)

var csvHeader = []string{"Metric", "avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95",
	"p99", "std"}

// CSV returns the text of profile_export_aiperf.csv: metrics with statistics, then metrics with a single
// value, each sorted by name, then the header of the telemetry section unless Part is set.
func (r *Report) CSV() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.UseCRLF = true
	list := slices.Clone(r.Summary.Metrics)
	slices.SortStableFunc(list, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	stats, values := [][]string{csvHeader}, [][]string{{"Metric", "Value"}}
	for _, m := range list {
		if m.single() {
			values = append(values, []string{m.Label(), fixed(m.Stats["avg"])})
			continue
		}

		row := []string{m.Label()}
		for _, name := range csvHeader[1:] {
			row = append(row, fixed(m.Stats.get(name)))
		}
		stats = append(stats, row)
	}

	err := w.WriteAll(stats)
	b.WriteString("\r\n")
	err = cmp.Or(err, w.WriteAll(values))
	if !r.Part {
		b.WriteString("\r\n\r\n" + strings.Join(TelemetryHeader, ",") + "\r\n")
	}

	return b.Bytes(), err
}

// TelemetryHeader is the header of the GPU telemetry section, which follows after two empty lines. AIPerf
// writes it even without telemetry. Rows of devices have Hostname as an additional column.
var TelemetryHeader = append([]string{"Endpoint", "GPU_Index", "GPU_Name", "GPU_UUID", "Platform"}, csvHeader...)

// fixed formats a number with two decimals, or returns "" if it is not finite.
func fixed(v float64) string {
	if !finite(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
