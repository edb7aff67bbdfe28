package diff

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
	"aicplan/sink/tree"
)

func gemm(ms []int64, lat []float64, kernel string) arrow.Record {
	n := len(ms)
	return table.NewRecord([]string{"framework", "version", "device", "kernel_source", "gemm_dtype", "m", "n", "k",
		"latency"}, []arrow.Array{
		table.Constant("VLLM", n), table.Constant("1", n), table.Constant("GPU", n),
		table.Constant(kernel, n), table.Constant("bfloat16", n),
		table.Ints(ms, nil), table.Constant(int64(64), n), table.Constant(int64(64), n), table.Floats(lat, nil)})
}

func TestTables(t *testing.T) {
	a := gemm([]int64{1, 2, 3, 4, 1}, []float64{1, 2, 4, 0, 9}, "x")
	b := gemm([]int64{2, 3, 4, 5}, []float64{2, 3, 0, 7}, "y")
	r, err := Tables(a, b, "A", "B", Options{Table: "gemm_perf", Tolerance: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Common != 3 || r.Added != 1 || r.Removed != 1 || r.Changed != 1 || r.Unusable != 0 || r.A.Duplicates != 1 {
		t.Errorf("%+v", r)
	}
	if r.Ratio.Min != 0.75 || r.Ratio.P50 != 0.75 || r.Ratio.Max != 1 ||
		!(math.Abs(r.Ratio.Geomean-math.Sqrt(0.75)) <= 1e-12) {
		t.Errorf("ratio %+v", *r.Ratio)
	}
	if len(r.Worst) != 1 || r.Worst[0].Key != "gemm_dtype=bfloat16 m=3 n=64 k=64" || r.Worst[0].KernelA != "x" ||
		r.Worst[0].KernelB != "y" {
		t.Errorf("worst %+v", r.Worst)
	}
	if len(r.AddedRows) != 1 || !strings.Contains(r.AddedRows[0], "m=5") || len(r.LostRows) != 1 ||
		!strings.Contains(r.LostRows[0], "m=1") {
		t.Errorf("added %q, removed %q", r.AddedRows, r.LostRows)
	}
	pairs, ratios := r.Pairs()
	if len(pairs) != 2 || pairs[0] != (Pair{1, 0}) || ratios[1] != 0.75 {
		t.Errorf("pairs %v %v", pairs, ratios)
	}
}

func TestOldWordsAndMissingWindow(t *testing.T) {
	att := func(dtype string, window bool) arrow.Record {
		names := []string{"attn_dtype", "kv_cache_dtype", "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim",
			"latency"}
		cols := []arrow.Array{table.Constant(dtype, 1), table.Constant(dtype, 1)}
		for range 5 {
			cols = append(cols, table.Constant(int64(8), 1))
		}
		cols = append(cols, table.Constant(1.5, 1))
		if window {
			names, cols = append(names, "window_size"), append(cols, table.Constant(int64(0), 1))
		}
		return table.NewRecord(names, cols)
	}
	r, err := Tables(att("float16", false), att("bfloat16", true), "old", "new", Options{Table: "context_attention_perf"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Common != 1 || r.Added != 0 || r.Changed != 0 {
		t.Errorf("a float16 row without window is not the bfloat16 row with window 0: %+v", r)
	}
	if len(r.Drift) != 1 || r.Drift[0] != "window_size only in new" {
		t.Errorf("drift %q", r.Drift)
	}
}

func TestNothingInCommon(t *testing.T) {
	a := table.NewRecord([]string{"x", "latency"}, []arrow.Array{table.Constant(int64(1), 1), table.Constant(1.0, 1)})
	b := table.NewRecord([]string{"y", "latency"}, []arrow.Array{table.Constant(int64(1), 1), table.Constant(1.0, 1)})
	if _, err := Tables(a, b, "A", "B", Options{}); err == nil || !strings.Contains(err.Error(), "in common") {
		t.Errorf("error %v", err)
	}
}

func TestBreakdown(t *testing.T) {
	ms := []int64{1, 2, 10}
	r, err := Tables(gemm(ms, []float64{1, 1, 1}, "x"), gemm(ms, []float64{1, 2, 3}, "y"), "A", "B",
		Options{Table: "gemm_perf"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range r.Groups {
		got = append(got, fmt.Sprintf("%s=%s %d %g", g.Column, g.Value, g.Rows, g.Ratio.P50))
	}
	if want := "kernel_source=x -> y 3 2|m=1 1 1|m=2 1 2|m=10 1 3"; strings.Join(got, "|") != want {
		t.Errorf("groups %v, want %s: one group per m in order of size, none for constant columns", got, want)
	}
	r, _ = Tables(gemm(ms, []float64{1, 1, 1}, "x"), gemm(ms, []float64{1, 2, 3}, "y"), "A", "B",
		Options{Table: "gemm_perf", By: []string{"kernel_source"}})
	if len(r.Groups) != 1 || r.Groups[0].Value != "x -> y" {
		t.Errorf("groups %+v", r.Groups)
	}
}

func write(t testing.TB, rec arrow.Record, parts ...string) {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.WriteFile(path, rec, nil); err != nil {
		t.Fatal(err)
	}
}

func TestTreesAndRenderers(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write(t, gemm([]int64{1, 2}, []float64{1, 2}, "x"), a, "gemm", "trtllm", "1.0", "gemm_perf.parquet")
	write(t, gemm([]int64{1, 2}, []float64{1.1, 2}, "x|y"), b, "h200", "trtllm", "1.1", "gemm_perf.txt")
	write(t, gemm([]int64{1}, []float64{1}, "x"), b, "h200", "trtllm", "1.1", "scale_matrix_perf.txt")
	r, err := Paths(a, b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tables) != 1 || r.Tables[0].Changed != 1 || len(r.OnlyB) != 1 {
		t.Fatalf("%+v", r)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "2 common, 0 added, 0 removed, 1 changed") ||
		!strings.Contains(text.String(), "m=1 n=64 k=64: 1 -> 1.1 (x 1.100) x -> x|y") {
		t.Errorf("text:\n%s", text.String())
	}
	if r.Tables[0].Ratio.Max != 1.1 {
		t.Errorf("%+v", r.Tables[0].Ratio)
	}
	zero, five := 0, 0.05
	if got := r.Exceeded(Limits{Changed: &zero, P95: &five, Median: &five}); len(got) != 2 {
		t.Errorf("limits: %q", got)
	}
	if got := r.Exceeded(Limits{}); len(got) != 0 {
		t.Errorf("no limits: %q", got)
	}
	same, err := Paths(a, a, Options{})
	if err != nil || len(same.Tables) != 1 || same.Tables[0].Changed != 0 || len(same.OnlyA)+len(same.OnlyB) > 0 {
		t.Errorf("a tree differs from itself: %v %+v", err, same)
	}
	if _, err := Paths(a, t.TempDir(), Options{}); err == nil {
		t.Error("an empty folder compares")
	}
}

// TestNegativesHaveNoRatio checks that two negative values are unusable, although their quotient is positive.
func TestNegativesHaveNoRatio(t *testing.T) {
	t.Parallel()
	of := func(latency ...float64) arrow.Record {
		return table.NewRecord([]string{"m", "latency"}, []arrow.Array{
			table.Ints([]int64{1, 2, 3, 4, 5}, nil), table.Floats(latency, nil)})
	}
	r, err := Tables(of(1, -1, -1, 0, math.Inf(1)), of(2, -2, -1, -1, math.Inf(1)), "A", "B", Options{})
	if err != nil || r.Common != 5 || r.Unusable != 2 || r.Changed != 3 || r.Ratio.Max != 2 || r.Ratio.P5 != 2 {
		t.Errorf("%v %+v", err, r)
	}
}

// TestTwoFilesOfOneTable checks that a second file of a table is reported and not taken for the compared one.
func TestTwoFilesOfOneTable(t *testing.T) {
	t.Parallel()
	a, b := t.TempDir(), t.TempDir()
	for _, path := range []string{a + "/gemm_perf.txt", b + "/gemm_perf.parquet", b + "/gemm_perf.txt"} {
		write(t, gemm([]int64{1, 2}, []float64{1, 2}, "x"), path)
	}
	r, err := Paths(a, b, Options{})
	if err != nil || len(r.Tables) != 1 || len(r.OnlyB) != 1 {
		t.Errorf("%v %+v", err, r)
	}
}

func BenchmarkTables(b *testing.B) {
	const n = 200_000
	build := func(seed uint64) arrow.Record {
		r := rand.New(rand.NewPCG(seed, 1))
		dtype, kernel := make([]string, n), make([]string, n)
		cols := make([][]int64, 3)
		for i := range cols {
			cols[i] = make([]int64, n)
		}
		lat := make([]float64, n)
		for at, p := range r.Perm(n) {
			dtype[at] = []string{"bfloat16", "fp8", "fp8_block"}[p%3]
			kernel[at] = "kernel"
			cols[0][at], cols[1][at], cols[2][at] = int64(p/3%70), int64(p/210%32), int64(p/6720)
			lat[at] = r.Float64() + 0.1
		}
		return table.NewRecord([]string{"kernel_source", "gemm_dtype", "m", "n", "k", "latency"}, []arrow.Array{
			table.Texts(kernel, nil), table.Texts(dtype, nil), table.Ints(cols[0], nil), table.Ints(cols[1],
				nil), table.Ints(cols[2], nil), table.Floats(lat, nil)})
	}
	x, y := build(1), build(2)
	b.ResetTimer()
	for range b.N {
		r, err := Tables(x, y, "A", "B", Options{Table: "gemm_perf"})
		if err != nil || r.Common != n {
			b.Fatal(err, r.Common)
		}
	}
}

// NCCL's two published tables: the same version measured twice, once with
// every row repeated.
func TestPublishedNCCL(t *testing.T) {
	const root = "../testdata/published/h200_sxm/comm/nccl/"
	r, err := Paths(root+"2.26.2", root+"2.29.2", Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := r.Tables[0]
	if n.A.Duplicates != 504 || n.Common != 504 || n.Added+n.Removed != 0 || n.Changed != 501 {
		t.Errorf("%+v", n)
	}
	if q := n.Ratio; fmt.Sprintf("%.3f %.3f %.3f", q.P5, q.P50, q.P95) != "0.911 1.002 1.093" {
		t.Errorf("ratio %+v", *q)
	}
	if w := n.Worst[0]; w.Key != "op_name=alltoall nccl_dtype=half num_gpus=4 message_size=1024" ||
		fmt.Sprintf("%.3f", w.Ratio) != "0.272" {
		t.Errorf("worst %+v", w)
	}
}
