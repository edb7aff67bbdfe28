package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicplan/cudaops/load/aiperf"
	cudatelemetry "aicplan/cudaops/telemetry"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/telemetry"
)

// withTelemetry adds GPU telemetry to AIPerf's files: the key telemetry_data and the metrics of all GPUs to the
// summary, a section to the CSV, and the names of files to the manifest of phases.
func withTelemetry(store *checkpoint.Store, list []stage.Attachment, name string, data []byte) ([]byte, error) {
	if name == aiperf.Manifest {
		return telemetryManifest(list, data)
	}

	at := slices.IndexFunc(list, func(a stage.Attachment) bool { return a.Name == telemetry.SummaryName })
	if at < 0 || name != aiperf.SummaryJSON && name != aiperf.SummaryCSV && name != aiperf.Console {
		return data, nil
	}

	raw, err := store.GetBytes(list[at].Digest)
	if err != nil {
		return nil, err
	}

	var s cudatelemetry.Summary
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", telemetry.SummaryName, err)
	}

	if name == aiperf.Console {
		return append(data, telemetryConsole(&s)...), nil
	}

	at = slices.IndexFunc(list, func(a stage.Attachment) bool { return a.Name == aiperf.SummaryJSON })
	run := data
	if name != aiperf.SummaryJSON {
		if run, err = store.GetBytes(list[at].Digest); err != nil {
			return nil, err
		}
	}

	fleet, err := aiperf.Fleet(run, known(s.Power), known(s.Energy))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", aiperf.SummaryJSON, err)
	}

	if name == aiperf.SummaryJSON {
		return telemetryJSON(data, raw, fleet)
	}
	return telemetryCSV(data, &s, fleet), nil
}

// known returns a number of the summary, or NaN if it is null.
func known(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	return math.NaN()
}

// telemetryManifest adds the name of each phase's statistics to the manifest.
func telemetryManifest(list []stage.Attachment, data []byte) ([]byte, error) {
	var manifest struct {
		Phases  []map[string]any `json:"phases"`
		Version int              `json:"schema_version"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("%s: %w", aiperf.Manifest, err)
	}

	for _, p := range manifest.Phases {
		name := aiperf.PhaseFile(fmt.Sprint(p["phase_name"]), telemetry.SummaryName)
		if slices.ContainsFunc(list, func(a stage.Attachment) bool { return a.Name == name }) {
			p["gpu_telemetry_json"] = aiperf.Path(name)
		}
	}

	out, err := json.MarshalIndent(manifest, "", "  ")
	return append(out, '\n'), err
}

// telemetryJSON replaces the empty telemetry of the summary and adds the metrics of all GPUs.
func telemetryJSON(data, summary []byte, fleet []aiperf.Metric) ([]byte, error) {
	var none struct {
		Data json.RawMessage `json:"telemetry_data"`
	}
	if err := json.Unmarshal(data, &none); err != nil {
		return nil, fmt.Errorf("%s: %w", aiperf.SummaryJSON, err)
	}

	var text bytes.Buffer
	if err := json.Indent(&text, summary, "  ", "  "); err != nil {
		return nil, err
	}

	key := strconv.Quote(aiperf.TelemetryKey) + ": "
	data = bytes.Replace(data, append([]byte(key), none.Data...), append([]byte(key), text.Bytes()...), 1)
	before := []byte("  \"input_config\": ")
	var added []byte
	for _, m := range fleet {
		added = fmt.Appendf(added, "  %q: {\n    \"unit\": %q,\n    \"avg\": %v\n  },\n", m.Tag, m.Unit, m.Stats["avg"])
	}
	return bytes.Replace(data, before, append(added, before...), 1), nil
}

type gpu struct {
	*cudatelemetry.GPUSummary
	endpoint string
}

// gpusOf returns the GPUs of a summary, sorted by endpoint and key.
func gpusOf(s *cudatelemetry.Summary) (out []gpu) {
	for _, endpoint := range slices.Sorted(maps.Keys(s.Endpoints)) {
		gpus := s.Endpoints[endpoint].GPUs
		for _, key := range slices.Sorted(maps.Keys(gpus)) {
			out = append(out, gpu{gpus[key], endpoint})
		}
	}
	return out
}

// telemetryConsole returns a table for each GPU.
func telemetryConsole(s *cudatelemetry.Summary) []byte {
	var out bytes.Buffer
	out.WriteString("\nNVIDIA AIPerf | GPU Telemetry Summary\n")
	for _, g := range gpusOf(s) {
		title := strings.Join([]string{g.endpoint, "GPU " + string(g.Index), g.Name}, " | ")
		fmt.Fprintf(&out, "\n%s\n", aiperf.DeviceTable(title, slices.Sorted(maps.Keys(g.Metrics)), g.Metrics))
	}
	return out.Bytes()
}

// telemetryStats are the columns of statistics, in AIPerf's order.
var telemetryStats = strings.Fields("avg min max sum p1 p5 p10 p25 p50 p75 p90 p95 p99 std")

// telemetryCSV adds the metrics of all GPUs, and after two empty lines the section of single GPUs.
func telemetryCSV(data []byte, s *cudatelemetry.Summary, fleet []aiperf.Metric) []byte {
	var out bytes.Buffer // which returns no errors

	// Remove the header of an empty section, which has no column for hosts.
	out.Write(bytes.TrimRight(bytes.TrimSuffix(bytes.TrimRight(data, "\r\n"),
		[]byte(strings.Join(aiperf.TelemetryHeader, ","))), "\r\n"))
	out.WriteString("\r\n")
	w := csv.NewWriter(&out)
	w.UseCRLF = true
	for _, m := range fleet {
		_ = w.Write([]string{m.Label(), statText(m.Stats["avg"])})
	}

	w.Flush()
	out.WriteString("\r\n\r\n")
	rows := [][]string{append(slices.Clone(aiperf.TelemetryHeader), "Hostname")}
	for _, g := range gpusOf(s) {
		index := string(g.Index)
		if g.InstanceID != "" {
			index += "/" + g.InstanceID
		}

		for _, name := range slices.Sorted(maps.Keys(g.Metrics)) {
			m := g.Metrics[name]
			row := []string{g.endpoint, index, g.Name, g.UUID, g.Platform, fmt.Sprintf("%v (%v)", m["display_name"], m["unit"])}
			for _, stat := range telemetryStats {
				row = append(row, statText(m[stat]))
			}
			rows = append(rows, append(row, g.Hostname))
		}
	}

	_ = w.WriteAll(rows)
	return out.Bytes()
}

// statText formats a number with two decimals like AIPerf, and with four digits if it is below 0.1, such as the energy
// of a short run in MJ.
func statText(v any) string {
	f, ok := v.(float64)
	switch {
	case !ok:
		return ""
	case f != 0 && f > -0.1 && f < 0.1:
		return strconv.FormatFloat(f, 'g', 4, 64)
	}

	return strconv.FormatFloat(f, 'f', 2, 64)
}
