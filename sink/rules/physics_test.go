package rules

import (
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/systems"
)

func TestPairs(t *testing.T) {
	for _, tt := range []struct{ isl, step, window, want float64 }{
		{4, 0, 0, 10},   // 1+2+3+4
		{4, 2, 0, 18},   // 3+4+5+6
		{4, 0, 2, 7},    // 1+2+2+2
		{4, 1, 3, 11},   // 2+3+3+3
		{4, 5, 3, 12},   // 3 each
		{4, 0, 100, 10}, // wider than everything
	} {
		if got := pairs(tt.isl, tt.step, tt.window); got != tt.want {
			t.Errorf("%+v: %g", tt, got)
		}
	}
}

func TestSpeedOfLight(t *testing.T) {
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	gemm, _ := catalog.Lookup("gemm_perf")
	rec := table.NewRecord([]string{"gemm_dtype", "m", "n", "k"}, []arrow.Array{
		table.Texts([]string{"bfloat16", "fp8", "bfloat16", "unheard"}, nil),
		table.Ints([]int64{8192, 8192, 1, 8192}, nil), table.Constant(int64(8192), 4), table.Constant(int64(8192), 4)})
	least, ok := SpeedOfLight(rec, gemm, spec)
	if !ok {
		t.Fatal("no formula for gemm")
	}
	flops := 2 * 8192.0 * 8192 * 8192
	if want := flops / spec.GPU.BFloat16Flops * 1000; !(math.Abs(least[0]/want-1) <= 1e-12) {
		t.Errorf("bfloat16: %g ms, want %g", least[0], want)
	}
	if want := flops / spec.GPU.FP8Flops * 1000; !(math.Abs(least[1]/want-1) <= 1e-12) {
		t.Errorf("fp8: %g ms, want %g", least[1], want)
	}
	if want := (8192*8192 + 8192 + 8192) * 2 / spec.GPU.MemBW * 1000; !(math.Abs(least[2]/want-1) <= 1e-12) {
		t.Errorf("one token: %g ms, want %g: its weights must be read", least[2], want)
	}
	if least[3] != 0 {
		t.Errorf("a format of unknown size has the bound %g", least[3])
	}
	for _, m := range []int64{0, -5} {
		if none, _ := SpeedOfLight(table.WithColumn(rec, "m", table.Constant(m, 4)), gemm, spec); slices.Max(none) != 0 {
			t.Errorf("%d tokens have a bound: %v", m, none)
		}
	}
	nccl, _ := catalog.Lookup("nccl_perf")
	if _, ok := SpeedOfLight(rec, nccl, spec); ok {
		t.Error("collectives have a formula")
	}
	att, _ := catalog.Lookup("context_attention_perf")
	least, _ = SpeedOfLight(rec, att, spec)
	if slices.Max(least) != 0 {
		t.Errorf("rows without the columns of a formula have a bound: %v", least)
	}
}

// TestLikely checks which kernels are bound by operations. They draw the most power.
func TestLikely(t *testing.T) {
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	rec := table.NewRecord([]string{"gemm_dtype", "m", "n", "k"}, []arrow.Array{
		table.Texts([]string{"bfloat16", "bfloat16", "unheard"}, nil), table.Ints([]int64{8192, 1, 8192},
			nil), table.Constant(int64(8192), 3), table.Constant(int64(8192), 3)})
	kernels, ok := Likely(rec, "gemm_perf", "gemm", "", spec)
	if !ok {
		t.Fatal("no formula for gemm")
	}
	if k := kernels[0]; !k.ComputeBound || !(k.Seconds >= 1.1e-3 && k.Seconds <= 2.2e-3) {
		t.Errorf("a large product: %+v", k)
	}
	if k := kernels[1]; k.ComputeBound || !(k.Seconds >= 28e-6 && k.Seconds <= 60e-6) {
		t.Errorf("one token: %+v", k)
	}
	if k := kernels[2]; k != (Kernel{}) {
		t.Errorf("a format of unknown size: %+v", k)
	}
}
