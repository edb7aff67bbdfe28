package ops

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// TestLayer measures a chain and its products at the sustained point: the rows
// add up to it, and it says which rows those are.
func TestLayer(t *testing.T) {
	t.Parallel()
	set, _ := json.Marshal(measure.Defaults())
	b := newBench(t, worker.Init{Measure: set})
	const m = 4096
	sizes := [][2]int{{10240, 5120}, {5120, 8192}, {51200, 5120}, {5120, 25600}}
	var rows []int64
	for _, s := range sizes {
		rows = append(rows, b.gemm("bfloat16", m, s[0], s[1]))
	}
	layer := b.add(OpLayer, map[string]any{"gemm_dtype": "bfloat16", "m": m, "shapes": "10240x5120 5120x8192 51200x5120 5120x25600"})
	wrong := b.add(OpLayer, map[string]any{"gemm_dtype": "bfloat16", "m": m, "shapes": "10240x5120 5120"})
	large := b.add(OpLayer, map[string]any{"gemm_dtype": "bfloat16", "m": 1, "shapes": "262144x65536"})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, seq := range rows {
		sum += b.row(seq)["latency"].(float64)
	}
	r := b.row(layer)
	if ratio := sum / r["latency"].(float64); math.Abs(ratio-1) > 0.03 {
		t.Errorf("the rows add up to %.4f of the layer", ratio)
	}
	var parts []map[string]any
	if err := json.Unmarshal([]byte(r["parts"].(string)), &parts); err != nil || len(parts) != 4 {
		t.Fatalf("parts %v: %v", r["parts"], err)
	}
	if p := parts[2]; p["n"] != 51200.0 || p["k"] != 5120.0 || p["m"] != 4096.0 || p["gemm_dtype"] != "bfloat16" {
		t.Errorf("part %v", p)
	}
	if r["operating_point"] != "sustained" || r["products"] != 4 {
		t.Errorf("row %v", r)
	}
	if f := b.failure(wrong); !strings.Contains(f.Message, `"5120" is no product`) {
		t.Errorf("a shape without k: %+v", f)
	}
	if f := b.failure(large); f.Class != worker.ClassResourceIssue {
		t.Errorf("weights beyond the arena: %+v", f)
	}
	b.noLeaks()
}
