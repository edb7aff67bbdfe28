package ops

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/cublaslt"
	"aicplan/cudaops/driver"
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
	if ratio := sum / r["latency"].(float64); !(math.Abs(ratio-1) <= 0.03) {
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

// TestLayerOfOneProduct chains a product behind itself: it adds up, every one has
// weights of its own, and the row says which algorithms ran.
func TestLayerOfOneProduct(t *testing.T) {
	t.Parallel()
	set, _ := json.Marshal(measure.Defaults())
	b := newBench(t, worker.Init{Measure: set})
	weights := map[driver.Ptr]bool{}
	b.lt.Seen = func(p cublaslt.Problem, o cublaslt.Operands) {
		if p.M == 28672 {
			weights[o.A] = true
		}
	}
	chain := b.add(OpLayer, map[string]any{"gemm_dtype": "bfloat16", "m": 8, "shapes": "28672x4096 28672x4096 28672x4096"})
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	const bytes = 28672 * 4096 * 2
	at := slices.Sorted(maps.Keys(weights))
	if len(at) != 3 {
		t.Fatalf("%d weights of three products", len(at))
	}
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] < bytes {
			t.Errorf("two weights overlap: %d bytes apart", at[i]-at[i-1])
		}
	}
	r := b.row(chain)
	if algos := strings.Split(r["algo"].(string), "; "); len(algos) != 3 || algos[0] != algos[2] {
		t.Errorf("algo %q", r["algo"])
	}
	b.noLeaks()
}
