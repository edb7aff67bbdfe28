// Package aiperf computes the metrics of a load with AIPerf's names, units and definitions, and writes the files of
// AIPerf 0.13, so that tools for these files work unchanged: profile_export.jsonl, profile_export_aiperf.json
// (schema 1.4) and .csv, profile_export_console.txt and inputs.json. The formats were derived from files written by
// AIPerf. docs/guides/serving.md lists the definitions and the differences from AIPerf.
package aiperf

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/load/openai"
)

// SchemaVersion is the schema version of profile_export_aiperf.json.
const SchemaVersion = "1.4"

// Version is the AIPerf version whose file formats are written.
const Version = "0.13.0"

// AIPerf's file names.
const (
	SummaryJSON = "profile_export_aiperf.json"
	SummaryCSV  = "profile_export_aiperf.csv"
	Records     = "profile_export.jsonl"
	Console     = "profile_export_console.txt"
	Inputs      = "inputs.json"
	Telemetry   = "gpu_telemetry_export.jsonl"
	Manifest    = "phase_manifest.json"
)

// AIPerf's phase names.
const (
	Warmup    = "warmup"
	Profiling = "profiling"
)

// PhaseFile returns the attachment name for phases/PHASE/NAME of AIPerf's folder. Attachment names must not
// contain slashes.
func PhaseFile(phase, name string) string { return "phases." + phase + "." + name }

// Path returns the slash-separated path of an attachment in AIPerf's folder.
func Path(attachment string) string {
	for _, phase := range []string{Warmup, Profiling} {
		if name, ok := strings.CutPrefix(attachment, PhaseFile(phase, "")); ok {
			return "phases/" + phase + "/" + name
		}
	}
	return attachment
}

// Phase is the result of a phase.
type Phase struct {
	Summary *Summary
	// From and To are the time window of the phase in ns since the Unix epoch. Telemetry uses only samples
	// within it.
	From, To int64
}

// Report is the content of the files of a run, with the profiling phase.
type Report struct {
	// ID identifies the run.
	ID string
	Phase

	// Warmup is nil if there was no warm-up phase.
	Warmup *Phase

	// Part marks the files of a single phase, which have no telemetry.
	Part      bool
	Cancelled bool
	Seed      uint64

	// Input is the content of input_config.
	Input any

	// Command is the equivalent AIPerf command line.
	Command string
}

// TelemetryKey is the key of the GPU telemetry in SummaryJSON.
const TelemetryKey = "telemetry_data"

// localTime is AIPerf's time format: local time without a zone, in microseconds.
const localTime = "2006-01-02T15:04:05.000000"

// JSON returns the text of profile_export_aiperf.json.
func (r *Report) JSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("{\n")
	first := true
	var fail error
	field := func(name string, v any) {
		raw, err := openai.Marshal(v)
		if err != nil {
			fail = err
			return
		}
		if !first {
			b.WriteString(",\n")
		}
		first = false
		b.WriteString("  " + strconv.Quote(name) + ": ")
		if err := json.Indent(&b, raw, "  ", "  "); err != nil {
			fail = err
		}
	}

	field("schema_version", SchemaVersion)
	field("aiperf_version", Version)
	field("generator", "aicplan")
	field("benchmark_id", r.ID)

	for _, m := range r.Summary.Metrics {
		field(m.Tag, entry(m))
	}

	field("input_config", r.Input)
	field("run_info", map[string]any{"benchmark_id": r.ID, "random_seed": r.Seed, "trial": 0, "cli_command": r.Command})
	field("was_cancelled", r.Cancelled)
	field("is_complete", !r.Cancelled)
	field("error_summary", r.Summary.Errors)
	field("start_time", time.Unix(0, r.From).Format(localTime))
	field("end_time", time.Unix(0, r.To).Format(localTime))

	if !r.Part {
		// If GPU telemetry was recorded, the export replaces this field.
		field(TelemetryKey, map[string]any{
			"summary": map[string]any{
				"endpoints_configured": []string{}, "endpoints_successful": []string{},
				"start_time": time.Unix(0, r.From).Format(localTime), "end_time": time.Unix(0, r.To).Format(localTime),
			},
			"endpoints": map[string]any{}, "error_summary": []any{},
		})
	}

	if r.Warmup != nil && !r.Part {
		m := map[string]any{}
		for _, w := range r.Warmup.Summary.Metrics {
			m[w.Tag] = entry(w)
		}
		field("warmup_metrics", m)
	}

	b.WriteString("\n}\n")
	return b.Bytes(), fail
}

// entryStats are the statistics of a metric in the order of files.
var entryStats = []string{"avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max", "std",
	"count", "sum"}

// entry returns the JSON object of a metric.
func entry(m Metric) json.RawMessage {
	b := []byte(`{"unit":` + strconv.Quote(m.Unit))
	for _, name := range entryStats {
		v := m.Stats.get(name)
		if !finite(v) {
			continue
		}

		b = append(b, `,"`+name+`":`...)
		if name == "count" {
			b = strconv.AppendInt(b, int64(v), 10)
		} else {
			b = appendFloat(b, v)
		}
	}
	return append(b, '}')
}
