package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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

// telemetryJSON puts the summary in the place of that of a run without telemetry.
func telemetryJSON(data, summary []byte) ([]byte, error) {
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
	if len(none.Data) > 0 {
		return bytes.Replace(data, append([]byte(key), none.Data...), append([]byte(key), text.Bytes()...), 1), nil
	}

	// Files that were measured before this key was always there.
	head := bytes.TrimRight(data, " \n\t\r")
	head = bytes.TrimRight(bytes.TrimSuffix(head, []byte("}")), " \n\t\r")
	var out bytes.Buffer
	out.Write(head)

	if !bytes.HasSuffix(head, []byte("{")) {
		out.WriteByte(',')
	}

	out.WriteString("\n  " + key)
	out.Write(text.Bytes())
	out.WriteString("\n}\n")

	return out.Bytes(), nil
}

// telemetryStats are the columns of statistics, in AIPerf's order.
var telemetryStats = []string{"avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95",
	"p99", "std"}

// telemetryCSV appends the section, behind two empty lines.
func telemetryCSV(data []byte, s *cudatelemetry.Summary) ([]byte, error) {
	var out bytes.Buffer

	// The header of a run without telemetry makes room for one with hosts.
	out.Write(bytes.TrimRight(bytes.TrimSuffix(bytes.TrimRight(data, "\r\n"),
		[]byte(strings.Join(aiperf.TelemetryHeader, ","))), "\r\n"))
	out.WriteString("\r\n\r\n\r\n")
	w := csv.NewWriter(&out)
	w.UseCRLF = true
	head := append(slices.Clone(aiperf.TelemetryHeader), "Hostname")
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
