package aiperf

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/textutil"
)

var consoleColumns = []string{"avg", "min", "max", "p99", "p90", "p50", "std"}

// groups are the tables in their order.
var groups = []Group{"Effective", "Active", "Usage", GroupMain}

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
	if t := errorTable(r.Summary); t != "" {
		b.WriteString(t + "\n\n")
	}

	for _, g := range groups {
		t, title := statsTable(), "NVIDIA AIPerf | LLM Metrics"
		if g != GroupMain {
			title += ": " + string(g)
		}
		for _, m := range metricsOf(r.Summary, g) {
			t.Row(cells(m, label(m), consoleColumns...)...)
		}
		if text := titled(title, t); text != "" {
			b.WriteString(text + "\n\n")
		}
	}

	if r.Command != "" {
		fmt.Fprintf(&b, "CLI Command: %s\n", r.Command)
	}

	fmt.Fprintf(&b, "Benchmark Duration: %.2f sec\n", float64(r.Summary.To-r.Summary.From)/1e9)
	return b.String()
}

// Table returns the main metrics for a terminal of 80 columns. It returns "" if there are none.
func Table(s *Summary, title string) string {
	t := new(textutil.Table).Left("metric").Right("avg", "p50", "p99")
	for _, m := range metricsOf(s, GroupMain) {
		t.Row(cells(m, strings.ReplaceAll(label(m), "tokens/sec", "tokens/s"), "avg", "p50", "p99")...)
	}

	return titled(title, t)
}

// label returns the name and the unit of a metric.
func label(m Metric) string {
	if m.Unit == "requests" {
		return m.Label() + " (requests)"
	}
	return m.Label()
}

// metricsOf returns the metrics of a group in the order of the console.
func metricsOf(s *Summary, g Group) []Metric {
	list := slices.DeleteFunc(slices.Clone(s.Metrics), func(m Metric) bool { return m.Group != g })
	if g == GroupMain {
		place := func(m Metric) uint { return uint(slices.Index(mainOrder, m.Tag)) } // others are last
		slices.SortStableFunc(list, func(a, b Metric) int { return cmp.Compare(place(a), place(b)) })
	}
	return list
}

// cells returns the row of a metric with statistics by their names in files.
func cells(m Metric, label string, names ...string) []any {
	row := []any{label}
	if m.single() {
		names = names[:1]
	}

	for _, name := range names {
		v := m.Stats.get(name)
		text := grouped(v)
		if (name == "avg" || name == "std") && !finite(v) {
			text = "" // failures count as infinite
		}
		row = append(row, text)
	}
	return row
}

func statsTable() *textutil.Table { return new(textutil.Table).Left("Metric").Right(consoleColumns...) }

// titled returns a table below its title, or "" if it has no rows.
func titled(title string, t *textutil.Table) string {
	if t.Len() == 0 {
		return ""
	}

	var b strings.Builder
	b.WriteString(title + "\n")
	_ = t.Text(&b, "  ", 0) // a strings.Builder returns no errors
	return strings.TrimSuffix(b.String(), "\n")
}

// DeviceTable returns a table of the statistics of one GPU. metrics has the statistics by their names in files; names
// selects and orders the metrics.
func DeviceTable(title string, names []string, metrics map[string]map[string]any) string {
	t := statsTable()
	for _, name := range names {
		m := metrics[name]
		row := []any{fmt.Sprintf("%v (%v)", m["display_name"], m["unit"])}
		for _, stat := range consoleColumns {
			text := ""
			if v, ok := m[stat].(float64); ok {
				text = grouped(v)
			}
			row = append(row, text)
		}
		t.Row(row...)
	}
	return titled(title, t)
}

func errorTable(s *Summary) string {
	t := new(textutil.Table).Right("Code").Left("Type", "Message").Right("Count")
	for _, e := range s.Errors {
		code := "N/A"
		if e.Code > 0 {
			code = strconv.Itoa(e.Code)
		}
		t.Row(code, e.Type, textutil.Clip(textutil.VisibleLine(e.Message), 90), e.Count)
	}
	return titled("NVIDIA AIPerf | Error Summary", t)
}

// grouped formats a number with two decimals and thousands separators, or "N/A" if it is not finite.
func grouped(v float64) string {
	if !finite(v) {
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
