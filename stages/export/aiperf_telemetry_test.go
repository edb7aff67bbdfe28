package export

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/nvml/nvmltest"
	cudatelemetry "aicplan/cudaops/telemetry"
)

// TestTelemetryInAIPerfFiles: what GPUs did stands where AIPerf has it.
func TestTelemetryInAIPerfFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		d := nvmltest.H200(3)
		d.Draw.Instant = 500
		d.Now, d.Step = func() time.Duration { return time.Since(begin) }, time.Nanosecond
		rec := cudatelemetry.Start(t.Context(), cudatelemetry.Options{Interval: 100 * time.Millisecond}, nil,
			[]cudatelemetry.Source{cudatelemetry.NewNVML(&nvmltest.API{GPUs: []*nvmltest.Device{d}}, "n1")})
		defer rec.Stop()
		from := time.Now()
		time.Sleep(1050 * time.Millisecond)
		w := rec.Window(from, time.Now())
		raw, err := json.Marshal(w.Summary())
		if err != nil {
			t.Fatal(err)
		}

		none, err := (&aiperf.Report{Summary: &aiperf.Summary{}}).JSON()
		if err != nil {
			t.Fatal(err)
		}

		if n := strings.Count(string(none), aiperf.TelemetryKey); n != 1 {
			t.Errorf("without telemetry the key is there %d times:\n%s", n, none)
		}

		for _, data := range []string{"{\n  \"schema_version\": \"1.4\"\n}\n", "{}", string(none)} {
			text, err := telemetryJSON([]byte(data), raw)
			if err != nil {
				t.Fatal(err)
			}

			var got struct {
				Data struct {
					Endpoints map[string]struct {
						GPUs map[string]struct {
							Index   int                       `json:"gpu_index"`
							Metrics map[string]map[string]any `json:"metrics"`
						} `json:"gpus"`
					} `json:"endpoints"`
				} `json:"telemetry_data"`
			}
			if err := json.Unmarshal(text, &got); err != nil || strings.Count(string(text), aiperf.TelemetryKey) != 1 {
				t.Fatalf("%v\n%s", err, text)
			}

			g := got.Data.Endpoints["nvml://n1"].GPUs["gpu_3"]
			if g.Index != 3 || g.Metrics[cudatelemetry.Power]["avg"] != 500.0 ||
				g.Metrics[cudatelemetry.Energy]["unit"] != "MJ" {
				t.Errorf("%s", text)
			}
		}

		var s cudatelemetry.Summary
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}

		table, err := (&aiperf.Report{Summary: &aiperf.Summary{Metrics: []aiperf.Metric{{Def: aiperf.Def{Name: "x"}, Value: 1}}}}).CSV()
		if err != nil || !strings.HasSuffix(string(table), "\r\n\r\n\r\n"+strings.Join(aiperf.TelemetryHeader, ",")+"\r\n") {
			t.Fatalf("%v\n%q", err, table)
		}

		text, err := telemetryCSV(table, &s)
		if err != nil {
			t.Fatal(err)
		}

		_, section, ok := strings.Cut(string(text), "x,1.00\r\n\r\n\r\n")
		rows, err := csv.NewReader(strings.NewReader(section)).ReadAll()
		if !ok || err != nil || strings.Join(rows[0],
			",") != "Endpoint,GPU_Index,GPU_Name,GPU_UUID,Platform,Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std,Hostname" {
			t.Fatalf("%v\n%s", err, text)
		}

		for _, row := range rows[1:] {
			if row[5] == "GPU Energy Consumption (MJ)" && row[6] != "0.0005" || row[5] == "GPU Power Usage (W)" &&
				(row[6] != "500.00" || row[len(row)-1] != "n1") {
				t.Errorf("%v", row)
			}
		}

		lines, err := rec.Records(rec.Samples(w))
		if err != nil {
			t.Fatal(err)
		}

		first, _, _ := strings.Cut(string(lines), "\n")
		var one struct {
			Index  int                `json:"gpu_index"`
			UUID   string             `json:"gpu_uuid"`
			Source string             `json:"telemetry_source_url"`
			Data   map[string]float64 `json:"telemetry_data"`
		}
		if err := json.Unmarshal([]byte(first), &one); err != nil || one.Index != 3 || one.UUID != d.ID.UUID ||
			one.Data[cudatelemetry.Power] != 500 || strings.Count(string(lines), "\n") != w.GPUs[0].Samples {
			t.Errorf("%v %s", err, lines)
		}
	})
}
