package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"aicplan/cudaops/load/aiperf"
	cudatelemetry "aicplan/cudaops/telemetry"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/stages/telemetry"
)

// withTelemetry adds what GPUs did to the files that AIPerf has it in: the key
// telemetry_data of the summary, a section of the CSV.
func withTelemetry(store *checkpoint.Store, list []stage.Attachment, name string, data []byte) ([]byte, error) {
	at := slices.IndexFunc(list, func(a stage.Attachment) bool { return a.Name == telemetry.SummaryName })
	if at < 0 || name != aiperf.SummaryJSON && name != aiperf.SummaryCSV {
		return data, nil
	}
	raw, err := store.GetBytes(list[at].Digest)
	if err != nil {
		return nil, err
	}
	if name == aiperf.SummaryJSON {
		return telemetryJSON(data, raw)
	}
	var s cudatelemetry.Summary
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", telemetry.SummaryName, err)
	}
	return telemetryCSV(data, &s)
}

// telemetryJSON puts the summary in as the last member.
func telemetryJSON(data, summary []byte) ([]byte, error) {
	head := bytes.TrimRight(data, " \n\t\r")
	if !bytes.HasSuffix(head, []byte("}")) {
		return nil, fmt.Errorf("%s is no JSON object", aiperf.SummaryJSON)
	}
	head = bytes.TrimRight(head[:len(head)-1], " \n\t\r")
	var out bytes.Buffer
	out.Write(head)
	if !bytes.HasSuffix(head, []byte("{")) {
		out.WriteByte(',')
	}
	out.WriteString("\n  \"telemetry_data\": ")
	if err := json.Indent(&out, summary, "  ", "  "); err != nil {
		return nil, err
	}
	out.WriteString("\n}\n")
	return out.Bytes(), nil
}

// telemetryStats are the columns of statistics, in AIPerf's order.
var telemetryStats = []string{"avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std"}

// telemetryCSV appends the section, behind two empty lines.
func telemetryCSV(data []byte, s *cudatelemetry.Summary) ([]byte, error) {
	var out bytes.Buffer
	out.Write(data)
	if len(data) > 0 && data[len(data)-1] != '\n' {
		out.WriteByte('\n')
	}
	out.WriteString("\n\n")
	w := csv.NewWriter(&out)
	head := slices.Concat([]string{"Endpoint", "GPU_Index", "GPU_Name", "GPU_UUID", "Platform", "Metric"}, telemetryStats, []string{"Hostname"})
	rows := [][]string{head}
	for _, endpoint := range slices.Sorted(maps.Keys(s.Endpoints)) {
		gpus := s.Endpoints[endpoint].GPUs
		for _, key := range slices.Sorted(maps.Keys(gpus)) {
			g := gpus[key]
			index := string(g.Index)
			if g.InstanceID != "" {
				index += "/" + g.InstanceID
			}
			for _, name := range slices.Sorted(maps.Keys(g.Metrics)) {
				m := g.Metrics[name]
				row := []string{endpoint, index, g.Name, g.UUID, g.Platform, fmt.Sprintf("%v (%v)", m["display_name"], m["unit"])}
				for _, stat := range telemetryStats {
					row = append(row, statText(m[stat]))
				}
				rows = append(rows, append(row, g.Hostname))
			}
		}
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// statText has two decimals as AIPerf writes them, and more where these would
// say nothing: the energy of a short run in MJ.
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
