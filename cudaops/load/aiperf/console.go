package aiperf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var consoleColumns = []string{"avg", "min", "max", "p99", "p90", "p50", "std"}

var groups = []struct {
	group Group
	title string
}{
	{GroupEffective, "LLM Metrics: Effective"},
	{GroupActive, "LLM Metrics: Active"},
	{GroupUsage, "LLM Metrics: Usage"},
	{GroupMain, "LLM Metrics"},
}

// mainOrder is the order of the metrics in the main table. Other metrics come after them.
var mainOrder = []string{
	"time_to_first_token", "adj_time_to_first_token", "time_to_second_token", "time_to_first_output_token",
	"request_latency",
	"adj_request_latency", "decode_duration", "adj_decode_duration", "inter_token_latency", "adj_inter_token_latency",
	"output_token_throughput_per_user", "e2e_output_token_throughput", "output_sequence_length",
	"input_sequence_length",
	"output_token_throughput", "input_token_throughput", "request_throughput", "completed_request_count",
	"request_error_rate", "request_count",
}

// Console returns the text of profile_export_console.txt.
func (r *Report) Console() string {
	var b strings.Builder
	b.WriteString("\n")
	if len(r.Summary.Errors) > 0 {
		b.WriteString(errorTable(r.Summary) + "\n\n")
	}

	for _, g := range groups {
		if t := metricTable(r.Summary, g.group, "NVIDIA AIPerf | "+g.title); t != "" {
			b.WriteString(t + "\n\n")
		}
	}

	if r.Command != "" {
		fmt.Fprintf(&b, "CLI Command: %s\n", r.Command)
	}

	fmt.Fprintf(&b, "Benchmark Duration: %.2f sec\n", float64(r.Summary.To-r.Summary.From)/1e9)
	return b.String()
}

// Table returns only the main table, for a terminal. It returns "" if there are no metrics.
func Table(s *Summary, title string) string { return metricTable(s, GroupMain, title) }

func metricTable(s *Summary, g Group, title string) string {
	var list []Metric
	seen := map[string]bool{}
	add := func(m Metric) {
		if m.Group == g && !seen[m.Tag] {
			seen[m.Tag] = true
			list = append(list, m)
		}
	}

	if g == GroupMain {
		for _, tag := range mainOrder {
			if m, ok := s.Get(tag); ok {
				add(m)
			}
		}
	}

	for _, m := range s.Metrics {
		add(m)
	}

	if len(list) == 0 {
		return ""
	}

	t := &grid{title: title, header: append([]string{"Metric"}, consoleColumns...)}
	for _, m := range list {
		label := m.Label()
		if m.Unit == "requests" {
			label += " (requests)"
		}

		x := m.Stats
		values := []float64{x.Avg, x.Min, x.Max, x.P99, x.P90, x.P50, x.Std}
		if !m.Has {
			nan := math.NaN()
			values = []float64{m.Value, nan, nan, nan, nan, nan, nan}
		}

		if m.Adjusted {
			values[0], values[6] = math.NaN(), math.NaN()
		}

		row := []string{label}
		for _, v := range values {
			row = append(row, grouped(v))
		}

		t.rows = append(t.rows, row)
	}

	return t.render()
}

func errorTable(s *Summary) string {
	t := &grid{title: "NVIDIA AIPerf | Error Summary", header: []string{"Code", "Type", "Message", "Count"},
		left: []int{2}}
	for _, e := range s.Errors {
		code := "N/A"
		if e.Code > 0 {
			code = strconv.Itoa(e.Code)
		}
		t.rows = append(t.rows, []string{code, e.Type, clip(oneLine(e.Message)), strconv.Itoa(e.Count)})
	}
	return t.render()
}

// clip shortens a message to at most 90 characters for a table.
func clip(s string) string {
	const most = 90
	if r := []rune(s); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return s
}

// oneLine replaces control characters with spaces, because server messages are printed to a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// grouped formats a number with two decimals and thousands separators, or "N/A" if it is not finite.
func grouped(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "N/A"
	}

	t := strconv.FormatFloat(math.Abs(v), 'f', 2, 64)
	whole, frac, _ := strings.Cut(t, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}

	if v < 0 {
		whole = "-" + whole
	}

	return whole + "." + frac
}
