package model

import (
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/systems"
)

func rec(names []string, cols ...arrow.Array) arrow.Record { return table.NewRecord(names, cols) }

func ints(v ...int64) arrow.Array    { return table.Ints(v, nil) }
func nums(v ...float64) arrow.Array  { return table.Floats(v, nil) }
func labels(v ...string) arrow.Array { return table.Texts(v, nil) }

func h200(t *testing.T) *systems.Spec {
	t.Helper()
	s, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGemm: size, series and speed of light of a known table.
func TestGemm(t *testing.T) {
	ds := &stage.Dataset{
		Info: stage.Info{Op: "gemm", Params: []string{"gemm_dtype", "m", "n", "k"}},
		Table: rec([]string{"gemm_dtype", "m", "n", "k", "latency", "kernel_source", "throttled", "started_at"},
			labels("fp8", "bfloat16", "fp8"), ints(1, 2, 4096), ints(128, 128, 8192), ints(256, 256, 8192),
			nums(0.01, 0.02, 0.5),
			labels("a", "a", "b"), table.Flags([]bool{true, false, false}, []bool{true, true, false}),
			labels("2026-01-02T03:04:05Z", "", "garbage")),
	}

	f := FacetsOf(ds, h200(t))
	if f.SizeLabel != "floating-point operations" || f.Size[1] != 2*2*128*256 {
		t.Errorf("size %v %s", f.Size, f.SizeLabel)
	}

	if f.Series.Column != "gemm_dtype" || !slices.Equal(f.Series.Names, []string{"fp8", "bfloat16"}) ||
		!slices.Equal(f.Series.Code, []int{0, 1, 0}) {
		t.Errorf("series %+v", f.Series)
	}

	// 2 m n k operations at 1979 TFLOP/s against half a millisecond.
	if want := 2 * 4096 * 8192 * 8192 / 1979e12 / 0.5e-3; !(math.Abs(f.Light[2]-want) <= 0.01*want) {
		t.Errorf("share of light %v, want %v", f.Light[2], want)
	}

	if f.Throttled != 1 || f.ThrottledOf != 2 {
		t.Errorf("throttled %d of %d", f.Throttled, f.ThrottledOf)
	}

	if f.Started[0] != 1767323045 || !math.IsNaN(f.Started[1]) || !math.IsNaN(f.Started[2]) {
		t.Errorf("started %v", f.Started)
	}

	if n := len(f.Params); n != 5 || f.Params[4].Name != "kernel_source" {
		t.Errorf("parameters %+v", f.Params)
	}

	if f.Noise != nil || f.Clock != nil || f.Power != nil {
		t.Error("columns that there are not were found")
	}
}

// TestUnknownOp: no table, no dtype: a few numbers set rows apart, the product
// of the axes is the size.
func TestUnknownOp(t *testing.T) {
	ds := &stage.Dataset{
		Info: stage.Info{Op: "mine", Params: []string{"num_gpus", "batch_size", "isl"}},
		Table: rec([]string{"num_gpus", "batch_size", "isl", "latency"}, ints(4, 2, 2), ints(1, 2, 4),
			ints(10, 10, 10), nums(1, 2, math.NaN())),
	}

	f := FacetsOf(ds, h200(t))
	if f.SizeLabel != "batch_size × isl" || !slices.Equal(f.Size, []float64{10, 20, 40}) {
		t.Errorf("size %v %s", f.Size, f.SizeLabel)
	}

	if !slices.Equal(f.Series.Names, []string{"num_gpus 2", "num_gpus 4"}) ||
		!slices.Equal(f.Series.Code, []int{1, 0, 0}) {
		t.Errorf("series %+v", f.Series)
	}

	if f.Light != nil {
		t.Error("the speed of light of an unknown op")
	}

	if s := Sorted(f.Latency); len(s) != 2 || s[0] != 1 || s[1] != 2 {
		t.Errorf("latencies %v", s)
	}
}

// TestCounted: a worker that counts its operations is believed, unless some
// rows have none.
func TestCounted(t *testing.T) {
	ds := &stage.Dataset{
		Info: stage.Info{Op: "mine", Params: []string{"kernel", "size_bytes"}},
		Table: rec([]string{"kernel", "size_bytes", "flops", "latency"}, labels("copy", "add"), ints(64, 64),
			nums(8, 16), nums(1, 2)),
	}
	if f := FacetsOf(ds, nil); f.SizeLabel != "floating-point operations" || f.Size[1] != 16 ||
		f.Series.Column != "kernel" {
		t.Errorf("%s %v %+v", f.SizeLabel, f.Size, f.Series)
	}

	ds.Table = table.WithColumn(ds.Table, "flops", nums(0, 16))
	if f := FacetsOf(ds, nil); f.SizeLabel != "size_bytes" || f.Size[0] != 64 {
		t.Errorf("%s %v", f.SizeLabel, f.Size)
	}

	if f := FacetsOf(&stage.Dataset{}, nil); f.Rows != 0 || f.Unit != "ms" {
		t.Errorf("without a table: %+v", f)
	}
}

// TestUnknownFlag: a parameter that is a flag and that a row does not have is not
// false there.
func TestUnknownFlag(t *testing.T) {
	t.Parallel()
	f := FacetsOf(&stage.Dataset{
		Info: stage.Info{Op: "x", Params: []string{"causal", "m"}},
		Table: rec([]string{"causal", "m", "latency"},
			table.Flags([]bool{true, false, false}, []bool{true, true, false}), ints(1, 2, 3), nums(1, 2, 3)),
	}, nil)
	if !slices.Equal(f.Params[0].Text, []string{"true", "false", ""}) {
		t.Errorf("the flags are %q", f.Params[0].Text)
	}
}
