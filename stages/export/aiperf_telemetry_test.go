package export

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/cudatest"
	"aicplan/cudaops/load/aiperf"
	cudatelemetry "aicplan/cudaops/telemetry"
)

// TestTelemetryInAIPerfFiles checks that GPU telemetry is where AIPerf writes it.
func TestTelemetryInAIPerfFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		d := cudatest.H200(3)
		d.Draw.Instant = 500
		d.Now, d.Step = func() time.Duration { return time.Since(begin) }, time.Nanosecond
		rec := cudatelemetry.Start(t.Context(), cudatelemetry.Options{Interval: 100 * time.Millisecond}, nil,
			[]cudatelemetry.Source{cudatelemetry.NewNVML(&cudatest.NVML{GPUs: []*cudatest.GPU{d}}, "n1")})
		defer rec.Stop()
		from := time.Now()
		time.Sleep(1050 * time.Millisecond)
		w := rec.Window(from, time.Now())
		raw, err := json.Marshal(w.Summary())
		if err != nil {
			t.Fatal(err)
		}

		var metrics []aiperf.Metric
		for tag, v := range map[string]float64{"benchmark_duration": 2, "total_isl": 300, "total_osl": 100,
			"request_count": 10, "request_throughput": 5, "output_token_throughput": 50, "goodput": 4, "request_latency": 500} {
			metrics = append(metrics, aiperf.Metric{Def: aiperf.Def{Tag: tag}, Stats: aiperf.Stats{"avg": v}})
		}
		none, err := (&aiperf.Report{Phase: aiperf.Phase{Summary: &aiperf.Summary{Metrics: metrics}},
			Input: map[string]any{"phases": []any{map[string]any{"name": "profiling", "concurrency": 4}}}}).JSON()
		if err != nil {
			t.Fatal(err)
		}

		if n := strings.Count(string(none), aiperf.TelemetryKey); n != 1 {
			t.Errorf("without telemetry the key is there %d times:\n%s", n, none)
		}

		fleet, err := aiperf.Fleet(none, 500, 1000)
		if err != nil {
			t.Fatal(err)
		}

		{
			text, err := telemetryJSON(none, raw, fleet)
			if err != nil {
				t.Fatal(err)
			}

			var top map[string]json.RawMessage
			if err := json.Unmarshal(text, &top); err != nil {
				t.Fatal(err)
			}
			for tag, want := range map[string]float64{
				"total_gpu_power": 500, "average_gpu_power": 500, "total_gpu_energy": 1000, "output_tokens_per_joule": 0.1,
				"energy_per_output_token": 10_000, "energy_per_total_token": 2500, "energy_per_request": 100,
				"energy_per_user": 250, "energy_delay_product": 50, "performance_per_watt": 0.01, "output_tps_per_watt": 0.1,
				"goodput_per_watt": 0.008,
			} {
				var m struct{ Avg float64 }
				if err := json.Unmarshal(top["nvidia_"+tag], &m); err != nil || !(math.Abs(m.Avg-want) <= 1e-9*want) {
					t.Errorf("%s is %v, want %v: %v", tag, m.Avg, want, err)
				}
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

		table, err := (&aiperf.Report{Phase: aiperf.Phase{Summary: &aiperf.Summary{Metrics: []aiperf.Metric{
			{Def: aiperf.Def{Name: "x"}, Stats: aiperf.Stats{"avg": 1}}}}}}).CSV()
		if err != nil || !strings.HasSuffix(string(table), "\r\n\r\n\r\n"+strings.Join(aiperf.TelemetryHeader, ",")+"\r\n") {
			t.Fatalf("%v\n%q", err, table)
		}

		text := telemetryCSV(table, &s, nil)
		all := telemetryCSV(table, &s, fleet)
		if !strings.Contains(string(all), "x,1.00\r\nTotal GPU Power (W),500.00\r\n") {
			t.Errorf("%s", all)
		}

		_, section, ok := strings.Cut(string(text), "x,1.00\r\n\r\n\r\n")
		rows, err := csv.NewReader(strings.NewReader(section)).ReadAll()
		if !ok || err != nil || strings.Join(rows[0],
			",") != "Endpoint,GPU_Index,GPU_Name,GPU_UUID,Platform,Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std,Hostname" {
			t.Fatalf("%v\n%s", err, text)
		}

		for _, row := range rows[1:] {
			if row[5] == "GPU Energy Consumption (MJ)" && row[6] != "0.000525" || row[5] == "GPU Power Usage (W)" &&
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
