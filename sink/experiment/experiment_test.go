package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"image/png"
	"io"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func at[T any](v T) *T { return &v }

// cells are the published figures of the experiments on A100s, without the wrong
// column of tokens/s, and one cell that failed.
func cells() []Cell {
	one := func(id string, tp int, ttft, tpot, iter, comm float64) Cell {
		return Cell{Experiment: id, Model: "llama-8b", TP: at(tp), PP: at(1), GPUs: at(tp), TTFT: at(ttft), TPOT: at(tpot),
			Iteration: at(iter), Comm: at(comm),
			Throughput: at(4 * 512 / iter), Batch: at(4), Seq: at(2048), Max: at(512)}
	}
	return []Cell{
		one("E1.3", 4, 107, 12.8, 6.69, 63.9), one("E1.1", 1, 81, 18.8, 9.65, 0), one("E1.2", 2, 108, 16.1, 8.15, 40.8),
		{Experiment: "E1.4", Model: "llama-8b", TP: at(8), GPUs: at(8), Error: "unsupported_config: 8 GPUs\nare needed"},
	}
}

func TestSummary(t *testing.T) {
	data := Summary(cells())
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil || len(rows) != 5 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if got, want := strings.Join(rows[0][:11],
		","), "experiment,model,tp,pp,ep,gpus,steps_per_sec,ttft_ms,tpot_ms,comm_overhead_pct,bubble_ratio_pct"; got != want {
		t.Errorf("the seed's columns come first: %s", got)
	}
	col := map[string]int{}
	for i, name := range rows[0] {
		col[name] = i
	}
	if rows[1][0] != "E1.1" || rows[2][0] != "E1.2" || rows[3][0] != "E1.3" || rows[4][0] != "E1.4" {
		t.Errorf("not in order of GPUs: %v", rows[1:])
	}
	if got := rows[1][col["comm_overhead_pct"]]; got != "0" {
		t.Errorf("no communication is a measured 0, got %q", got)
	}
	if got := rows[4][col["comm_overhead_pct"]]; got != "" {
		t.Errorf("not measured is empty, got %q", got)
	}
	if got := rows[3][col["scaling_efficiency_pct"]]; !strings.HasPrefix(got, "36.06") {
		t.Errorf("efficiency of TP 4 is %s, want 100 * 9.65 / 6.69 / 4", got)
	}
	if got := rows[4][col["error"]]; got != "unsupported_config: 8 GPUs are needed" {
		t.Errorf("the reason is %q", got)
	}
}

func TestScaling(t *testing.T) {
	for name, list := range map[string][]Cell{"cells": cells(), "none measured": cells()[3:], "none": nil} {
		svg, image, err := Scaling(list)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: the SVG is no XML: %v", name, err)
			}
		}
		img, err := png.Decode(bytes.NewReader(image))
		if err != nil || img.Bounds().Dx() != 1500 || img.Bounds().Dy() != 1050 {
			t.Errorf("%s: the PNG: %v %v", name, err, img.Bounds())
		}
		if name == "none measured" && !bytes.Contains(svg, []byte("not measured")) {
			t.Errorf("%s: the plot does not say so", name)
		}
	}
}

func TestCard(t *testing.T) {
	c := Card{
		"workload.data.batch_size":                     {4, Configured},
		"workload.hardware.xpu_spec.model":             {"NVIDIA H200", Measured},
		"workload.hardware.xpu_spec.total_count":       {2, Measured},
		"Model-executor.communication_library.env":     {map[string]string{"NCCL_NVLS_ENABLE": "0"}, Configured},
		"workload.hardware.network_topo.topology":      {nil, Measured},
		"Model-executor.model_plan_parallelization.tp": {2, Configured},
	}
	data := c.YAML()
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	spec := doc["workload"].(map[string]any)["hardware"].(map[string]any)["xpu_spec"].(map[string]any)
	if spec["total_count"] != 2 || spec["model"] != "NVIDIA H200" || spec["memory_gb"] != nil {
		t.Errorf("%v", spec)
	}
	fields := 0
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if strings.HasSuffix(line, ":") {
			continue // a group
		}
		fields++
		if !strings.HasSuffix(line, "# measured") && !strings.HasSuffix(line, "# configured") &&
			!strings.HasSuffix(line, "# default") {
			t.Errorf("no source: %q", line)
		}
	}
	if fields != len(Paths()) {
		t.Errorf("%d fields in\n%s\nwant %d", fields, data, len(Paths()))
	}
}

func TestRoundTicks(t *testing.T) {
	t.Parallel()
	for hi, want := range map[float64]string{
		29.4: "0 5 10 15 20 25", 1204: "0 200 400 600 800 1000 1200", 3.14: "0 0.5 1 1.5 2 2.5 3", 0.9: "0 0.2 0.4 0.6 0.8",
		7.99: "0 1 2 3 4 5 6 7", 115: "0 20 40 60 80 100",
	} {
		var got []string
		for _, tick := range roundTicks(0, hi) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%g: %q, want %q", hi, got, want)
		}
	}
}

// TestPanelsHaveRoundTicks: every plot takes them, also one whose values are all
// zero.
func TestPanelsHaveRoundTicks(t *testing.T) {
	t.Parallel()
	zero := cells()[:1]
	zero[0].Throughput = new(float64)
	for name, list := range map[string][]Cell{"cells": cells(), "zero": zero} {
		for _, p := range panels {
			drawn, err := p.draw(list)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tick := range drawn.Y.Tick.Marker.Ticks(0, 29.4) {
				got = append(got, tick.Label)
			}
			if strings.Join(got, " ") != "0 5 10 15 20 25" {
				t.Errorf("%s, %s: %q", name, p.title, got)
			}
		}
		if _, _, err := Scaling(list); err != nil {
			t.Error(err)
		}
	}
}
