package ops

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// TestLayer measures a chain and its products at the sustained point: the rows
// add up to it, and its row names them.
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
	layer := b.add(OpLayer, map[string]any{"gemm_dtype": "bfloat16", "m": m,
		"shapes": "10240x5120 5120x8192 51200x5120 5120x25600"})
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
	if r["operating_point"] != "sustained" || r["products"] != 4 || r["chained"] != 3 {
		t.Errorf("row %v", r)
	}
	if f := b.failure(wrong); !strings.Contains(f.Message, `"5120" is not a product`) {
		t.Errorf("a shape without k: %+v", f)
	}
	if f := b.failure(large); f.Class != worker.ClassResourceIssue {
		t.Errorf("weights beyond the arena: %+v", f)
	}
	b.noLeaks()
}

// TestLayerOfOneProduct chains a product with itself. The times add up, each product has separate weights, and
// the row names the algorithms.
func TestLayerOfOneProduct(t *testing.T) {
	t.Parallel()
	set, _ := json.Marshal(measure.Defaults())
	b := newBench(t, worker.Init{Measure: set})
	weights := map[cuda.Ptr]bool{}
	b.lt.Seen = func(p cuda.MatmulProblem, o cuda.Operands) {
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

// TestLayerPassesOutputs checks that each product of a chain reads the output of the previous one, if type and
// size allow it.
func TestLayerPassesOutputs(t *testing.T) {
	t.Parallel()
	set, _ := json.Marshal(measure.Defaults())
	tests := []struct {
		name, dtype, shapes string
		from                []bool // of each product: reads the output before
	}{
		{"model", "bfloat16", "1280x5120 5120x1024 6400x5120 5120x3200", []bool{false, true, true, true}},
		{"an output that is too small", "float16", "1280x5120 5120x2048 6400x5120", []bool{false, false, true}},
		{"a type that is no output", "fp8", "1280x5120 5120x1024", []bool{false, false}},
		{"one product", "bfloat16", "1280x5120", []bool{false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, worker.Init{Measure: set})
			type call struct {
				p cuda.MatmulProblem
				o cuda.Operands
			}
			var calls []call
			b.lt.Seen = func(p cuda.MatmulProblem, o cuda.Operands) {
				if len(calls) < len(tt.from) {
					calls = append(calls, call{p, o})
				}
			}
			seq := b.add(OpLayer, map[string]any{"gemm_dtype": tt.dtype, "m": 64, "shapes": tt.shapes})
			if err := b.serve(); err != nil {
				t.Fatal(err)
			}
			if len(calls) != len(tt.from) {
				t.Fatalf("%d products were queued, want %d", len(calls), len(tt.from))
			}
			chained := 0
			for i, c := range calls {
				if c.o.D == c.o.B {
					t.Errorf("product %d writes over its activations", i)
				}
				if i == 0 {
					continue
				}
				before := calls[i-1]
				if reads := c.o.B == before.o.D; reads != tt.from[i] {
					t.Errorf("product %d reads the output before: %v", i, reads)
				}
				if d := before.o.D; c.o.D >= d && c.o.D < d+cuda.Ptr(64*before.p.M*before.p.D.Size()) {
					t.Errorf("product %d writes into the output before", i)
				}
				want := float32(0)
				if tt.from[i] {
					want, chained = float32(1/math.Sqrt(float64(before.p.K))), chained+1
				}
				if before.p.Alpha != want {
					t.Errorf("product %d is scaled by %v, want %v", i-1, before.p.Alpha, want)
				}
			}
			if r := b.row(seq); r["chained"] != chained {
				t.Errorf("chained %v, want %d", r["chained"], chained)
			}
			b.noLeaks()
		})
	}
}

// TestLayerOutputsOverlap uses pools with room for one or two outputs. No product reads an output that the next
// one may overwrite.
func TestLayerOutputsOverlap(t *testing.T) {
	t.Parallel()
	a := cuda.RowMajorLinear(8, 4096, 1024, cuda.BF16, cuda.BF16)
	b := cuda.RowMajorLinear(8, 1024, 4096, cuda.BF16, cuda.BF16)
	const first, second = 8 * 4096 * 2, 8 * 1024 * 2
	for _, tt := range []struct {
		pool int64
		want bool
	}{{first + 2*second, true}, {first + 2*second - 1, false}, {first + second, false}} {
		if got := chains(a, b, tt.pool); got != tt.want {
			t.Errorf("a pool of %d bytes: %v", tt.pool, got)
		}
	}
	// Wherever the outputs begin in the smallest pool that hands on, they lie apart.
	p := &Pool{bytes: first + 2*second}
	for at := int64(0); at < p.bytes; at += operandAlign {
		c := &cursor{pool: p, at: at}
		x, y := c.take("the first", first), c.take("the second", second)
		if c.err != nil {
			t.Fatal(c.err)
		}
		if x < y+second && y < x+first {
			t.Fatalf("outputs at %d and %d overlap", x, y)
		}
	}
}
