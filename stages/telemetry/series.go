package telemetry

import (
	"regexp"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/telemetry"
	"aicplan/sink/perf"
	"aicplan/sink/table"
)

// Names of the attachments of cases that were watched.
const (
	SeriesName  = "gpu_telemetry_export.parquet" // every sample, as a series (SeriesRecord)
	LinesName   = "gpu_telemetry_export.jsonl"   // every sample, as AIPerf has them
	SummaryName = "gpu_telemetry.json"           // statistics by source and device
)

// Columns of the series, besides those of the metrics. A row is one scrape of
// one device.
const (
	SeriesSource   = "source"          // the URL, or nvml://HOST
	SeriesHostname = "hostname"        // null if the source reports none
	SeriesIndex    = "gpu_index"       // text, as the source writes it
	SeriesUUID     = "gpu_uuid"        // of the device, for a MIG slice of its parent
	SeriesGPU      = "gpu_name"        // model
	SeriesInstance = "gpu_instance_id" // of a MIG slice; null for whole devices
)

// SeriesColumn is the column of a metric: its name, then its unit, such as
// nvidia_power_usage_w. Counts and codes have no unit.
func SeriesColumn(m telemetry.Metric) string {
	switch m.Unit {
	case "", "count", "code":
		return m.Name
	case "%":
		return m.Name + "_pct"
	}
	return m.Name + "_" + strings.Trim(notWord.ReplaceAllString(strings.ToLower(strings.ReplaceAll(m.Unit, "/",
		"_per_")), "_"), "_")
}

var notWord = regexp.MustCompile(`[^a-z0-9_]+`)

// SeriesRecord makes the series of samples: a row a sample, a column a metric
// that at least one of them has. What a scrape lacked is null.
func SeriesRecord(samples []telemetry.Sample, metrics []telemetry.Metric) arrow.Record {
	names := []string{perf.SeriesTime}
	times := make([]int64, len(samples))
	for i, s := range samples {
		times[i] = s.At
	}

	cols := []arrow.Array{table.Ints(times, nil)}
	labels := []string{SeriesSource, SeriesHostname, SeriesIndex, SeriesUUID, SeriesGPU, SeriesInstance}
	texts, valid := make([][]string, len(labels)), make([][]bool, len(labels))
	for _, s := range samples {
		for c, text := range []string{s.Source, s.GPU.Hostname, string(s.GPU.Index), s.GPU.UUID, s.GPU.Name,
			s.GPU.InstanceID} {
			texts[c], valid[c] = append(texts[c], text), append(valid[c], text != "")
		}
	}
	for c, name := range labels {
		names, cols = append(names, name), append(cols, table.Texts(texts[c], valid[c]))
	}

	for _, m := range metrics {
		values, valid, some := make([]float64, len(samples)), make([]bool, len(samples)), false
		for i, s := range samples {
			values[i], valid[i] = s.Values[m.Name]
			some = some || valid[i]
		}
		if some {
			names, cols = append(names, SeriesColumn(m)), append(cols, table.Floats(values, valid))
		}
	}

	return table.NewRecord(names, cols)
}
