package aiperf

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// File names of the metrics of servers.
const (
	ServerJSON = "server_metrics_export.json"
	ServerCSV  = "server_metrics_export.csv"
)

// ServerMetrics are the metrics that servers exported during the profiling phase.
type ServerMetrics struct {
	From, To int64 // ns since the Unix epoch

	// Configured are the URLs of the metrics pages, with the number of pages that were read. Errors are the first
	// errors by URL.
	Configured map[string]int
	Errors     map[string]string

	Metrics map[string]*ServerMetric
}

// ServerMetric is a metric with its series.
type ServerMetric struct {
	// Type is gauge, counter, histogram or unknown.
	Type        string          `json:"type"`
	Description string          `json:"description,omitempty"`
	Unit        string          `json:"unit,omitempty"`
	Series      []*ServerSeries `json:"series"`
}

// ServerSeries is one series of a metric: its statistics by name, and the increases of a histogram's buckets by upper
// bound.
type ServerSeries struct {
	URL     string             `json:"endpoint_url"`
	Labels  map[string]string  `json:"labels,omitempty"`
	Stats   map[string]float64 `json:"stats"`
	Buckets map[string]float64 `json:"buckets,omitempty"`
}

// serverStats are the statistics by type, in the order of the CSV.
var serverStats = map[string][]string{
	"gauge":   {"avg", "min", "max", "std", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"},
	"counter": {"total", "rate"},
	"histogram": {"count", "count_rate", "sum", "sum_rate", "avg", "p50_estimate", "p90_estimate", "p95_estimate",
		"p99_estimate"},
}

// GaugeStats returns the statistics of a gauge's samples.
func GaugeStats(values []float64) map[string]float64 {
	s := Describe(slices.Clone(values))
	delete(s, "sum")
	delete(s, "count")
	return s
}

// HistogramStats returns the statistics of a histogram's increase in a time. bounds are the upper bounds of the buckets
// in order, and counts their cumulative increases. Percentiles are interpolated linearly within a bucket.
func HistogramStats(count, sum, seconds float64, bounds, counts []float64) map[string]float64 {
	out := map[string]float64{"count": count, "sum": sum}
	if seconds > 0 {
		out["count_rate"], out["sum_rate"] = count/seconds, sum/seconds
	}

	if count == 0 {
		return out
	}

	out["avg"] = sum / count
	for _, p := range []int{50, 90, 95, 99} {
		want, below, from := float64(p)/100*count, 0.0, 0.0
		for i, bound := range bounds {
			if counts[i] >= want && !math.IsInf(bound, 1) {
				out[fmt.Sprintf("p%d_estimate", p)] = from + (bound-from)*(want-below)/(counts[i]-below)
				break
			}
			below, from = counts[i], bound
		}
	}
	return out
}

// Files returns the files of the metrics. id identifies the run.
func (m *ServerMetrics) Files(id string, input any) ([]File, error) {
	raw, err := m.JSON(id, input)
	table, terr := m.CSV(id)
	return []File{{ServerJSON, jsonType, raw}, {ServerCSV, csvType, table}}, errors.Join(err, terr)
}

// JSON returns the text of ServerJSON. id identifies the run.
func (m *ServerMetrics) JSON(id string, input any) ([]byte, error) {
	successful := []string{}
	for _, url := range slices.Sorted(maps.Keys(m.Configured)) {
		if m.Configured[url] > 0 {
			successful = append(successful, url)
		}
	}

	return indented(map[string]any{
		"schema_version": "1.1", "aiperf_version": Version, "benchmark_id": id, "input_config": input,
		"metrics": m.Metrics,
		"summary": map[string]any{
			"endpoints_configured": slices.Sorted(maps.Keys(m.Configured)), "endpoints_successful": successful,
			"start_time": time.Unix(0, m.From).Format(localTime), "end_time": time.Unix(0, m.To).Format(localTime),
			"fetches": m.Configured, "errors": m.Errors,
		},
	})
}

// CSV returns the text of ServerCSV: a section for each type, with the labels as columns.
func (m *ServerMetrics) CSV(id string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# AIPerf Server Metrics Export (CSV)\n# aiperf_version: %s\n# schema_version: 1.0\n", Version)
	fmt.Fprintf(&b, "# benchmark_id: %s\n#\n", id)
	w := csv.NewWriter(&b)
	for _, kind := range []string{"gauge", "counter", "histogram", "unknown"} {
		stats := serverStats[kind]
		if kind == "unknown" {
			stats = serverStats["gauge"]
		}

		var names, labels []string
		for _, name := range slices.Sorted(maps.Keys(m.Metrics)) {
			if m.Metrics[name].Type != kind {
				continue
			}
			names = append(names, name)
			for _, s := range m.Metrics[name].Series {
				labels = slices.AppendSeq(labels, maps.Keys(s.Labels))
			}
		}
		if len(names) == 0 {
			continue
		}

		slices.Sort(labels)
		labels = slices.Compact(labels)
		head := slices.Concat([]string{"Endpoint", "Type", "Metric", "Unit"}, stats, labels, []string{"Description"})
		rows := [][]string{head}
		for _, name := range names {
			metric := m.Metrics[name]
			for _, s := range metric.Series {
				row := []string{strings.TrimPrefix(strings.TrimPrefix(s.URL, "http://"), "https://"), kind, name, metric.Unit}
				for _, stat := range stats {
					text := ""
					if v, ok := s.Stats[stat]; ok {
						text = fmt.Sprintf("%.4f", v)
					}
					row = append(row, text)
				}
				for _, l := range labels {
					row = append(row, s.Labels[l])
				}
				rows = append(rows, append(row, metric.Description))
			}
		}

		if err := w.WriteAll(rows); err != nil {
			return nil, err
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), w.Error()
}
