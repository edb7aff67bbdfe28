package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/google/go-cmp/cmp"

	"aicplan/sink/table"
	"aicplan/sink/tree"
)

const published = "../testdata/published"

func lint(t testing.TB, root string, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), root, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *Report) of(rule string) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.Rule == rule {
			out = append(out, f)
		}
	}
	return out
}

func want(t *testing.T, r *Report, rule, path string, count int, message string) {
	t.Helper()
	for _, f := range r.of(rule) {
		if strings.Contains(f.Path, path) && f.Count == count && strings.Contains(f.Message, message) {
			return
		}
	}
	t.Errorf("%s %s (%d, %q) is not among %+v", rule, path, count, message, r.of(rule))
}

// The known defects of the published tables: every count of every rule, so that a
// rule that begins to see less, or more, is seen itself.
func TestPublishedDefects(t *testing.T) {
	r := lint(t, published, Options{})
	var got []string
	for _, f := range r.Findings {
		if f.Rule != "R1" {
			got = append(got, fmt.Sprintf("%s %s %d", f.Rule,
				strings.TrimSuffix(strings.TrimPrefix(f.Path, "h200_sxm/"), ".parquet"), f.Count))
		}
	}
	if diff := cmp.Diff([]string{
		"duplicates attention/vllm/0.18.0/generation_attention_perf 512",
		"duplicates comm/nccl/2.26.2/nccl_perf 504",
		"provenance comm/nccl/2.26.2/nccl_perf 1008",
		"trend mla/trtllm/1.3.0rc20/generation_mla_perf 2",
		"opaque_kernel attention/trtllm/1.3.0rc20/context_attention_perf 1377",
		"opaque_kernel attention/trtllm/1.3.0rc20/generation_attention_perf 1240",
		"opaque_kernel gemm/trtllm/1.3.0rc20/gemm_perf 1332",
		"opaque_kernel mla/trtllm/1.3.0rc20/generation_mla_perf 724",
	}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want(t, r, "duplicates", "comm/nccl/2.26.2/nccl_perf", 504, "504 of 1008 rows repeat the key")
	want(t, r, "provenance", "comm/nccl/2.26.2/nccl_perf", 1008, `1008 rows have the version "2.29.2", not "2.26.2"`)
	if len(r.of("R1")) != 11 || r.Files != 11 || r.Rows != 8290 {
		t.Errorf("%d files of %d without a sidecar, %d rows", len(r.of("R1")), r.Files, r.Rows)
	}
	if !r.Failed() || !slices.Contains(r.Exceeded, "duplicates") || strings.Contains(r.Summary(), "fail nothing") {
		t.Errorf("exceeded %v: %s", r.Exceeded, r.Summary())
	}
	warned := &Report{Findings: make([]Finding, 1), Exceeded: []string{"opaque_kernel"}}
	if s := warned.Summary(); warned.Failed() ||
		s != "1 finding; more than allowed of opaque_kernel (warnings, which fail nothing)" {
		t.Error(s)
	}
}

// gemm is a sound table that change may spoil.
func gemm(backend string, change func(map[string]arrow.Array)) arrow.Record {
	const n = 60
	ms, lat := make([]int64, n), make([]float64, n)
	for i := range ms {
		ms[i], lat[i] = int64(i+1), 0.03+float64(i)/2000
	}
	cols := map[string]arrow.Array{
		"framework": table.Constant(backend, n), "version": table.Constant("1.0", n),
		"device": table.Constant("NVIDIA H200", n), "op_name": table.Constant("gemm", n),
		"kernel_source": table.Constant("cublas", n), "gemm_dtype": table.Constant("bfloat16", n),
		"m": table.Ints(ms, nil), "n": table.Constant(int64(4096), n),
		"k": table.Constant(int64(4096), n), "latency": table.Floats(lat, nil),
	}
	if change != nil {
		change(cols)
	}
	names := []string{}
	for _, name := range []string{"framework", "version", "device", "op_name", "kernel_source", "gemm_dtype", "m", "n",
		"k", "latency", "power", "power_limit"} {
		if cols[name] != nil {
			names = append(names, name)
		}
	}
	var list []arrow.Array
	for _, name := range names {
		list = append(list, cols[name])
	}
	return table.NewRecord(names, list)
}

func put(t testing.TB, rec arrow.Record, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	digest, err := tree.WriteFile(path, rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func text(t testing.TB, s string, parts ...string) {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
}

func meta(t testing.TB, dir, tableName string, m tree.TableMeta) {
	t.Helper()
	path := filepath.Join(dir, tree.MetaFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if data, err = tree.NextMeta(data, path, tree.Runtime{Framework: "trtllm", Version: "1.0"},
		tree.Update{Table: tableName, Entry: m}); err != nil {
		t.Fatal(err)
	}
	text(t, string(data), path)
}

func TestSoundTreeHasNoFindings(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "data", "h200_sxm", "gemm", "trtllm", "1.0")
	digest := put(t, gemm("TRTLLM", nil), dir, "gemm_perf.parquet")
	rows := int64(60)
	meta(t, dir, "gemm_perf", tree.TableMeta{Rows: &rows, DataHash: digest, CasePlanHash: tree.CasePlanHash([]string{"a"}),
		Status: tree.Complete})
	r := lint(t, root, Options{})
	if len(r.Findings) != 0 || r.Failed() || r.Rows != 60 {
		t.Errorf("%+v", r)
	}
}

func TestStructureRules(t *testing.T) {
	root := t.TempDir()
	base := filepath.Join(root, "data", "h200_sxm")
	dir := filepath.Join(base, "gemm", "trtllm", "1.0")
	put(t, gemm("TRTLLM", nil), dir, "gemm_perf.parquet")
	put(t, gemm("TRTLLM", nil), base, "moe", "trtllm", "1.0", "gemm_perf.parquet") // R4, R1
	put(t, gemm("TRTLLM", nil), base, "gemm", "trtllm", "1.1", "gem_perf.parquet") // unknown, R1
	rows, none := int64(60), int64(59)
	meta(t, dir, "gemm_perf", tree.TableMeta{Rows: &none, DataHash: "sha256:0", CasePlanHash: tree.EmptyPlanHash,
		Status: tree.Partial})
	meta(t, dir, "moe_perf", tree.TableMeta{Rows: &rows, Status: tree.Complete})
	text(t, "schema_version: 1\nreuse:\n- {table: scale_matrix_perf, from_version: '0.9', reason: same, approved_by: me}\n", dir, tree.ReuseFile)
	text(t, "schema_version: 1\nreuse:\n- {table: moe_perf, from_version: ../../x, reason: same, approved_by: me}\n", base,
		"moe", "trtllm", "1.0", tree.ReuseFile)
	text(t, "schema_version: 1\nreuse: []\n", base, "comm", "trtllm", "1.0", tree.ReuseFile)
	text(t, "x", dir, "INCOMPLETE.txt")
	text(t, "schema_version: 7\n", base, "mla", "trtllm", "1.0", tree.MetaFile)
	text(t, "not parquet", base, "mla", "trtllm", "1.0", "context_mla_perf.parquet")
	text(t, "frameworks:\n  trtllm: {default: {version: '1.0', images: {default: 'nvcr.io/x:1'}}}\n  vllm: {default: {}}\n", root, "framework_manifest.yaml")
	r := lint(t, root, Options{})
	want(t, r, "R1", "moe/trtllm/1.0/gemm_perf", 1, "no readable collection_meta.yaml")
	want(t, r, "R4", "moe/trtllm/1.0/gemm_perf", 1, "belongs to the family gemm and is in the folder of moe")
	want(t, r, "unknown_table", "gem_perf", 1, "did you mean gemm_perf?")
	want(t, r, "R2", "gemm/trtllm/1.0/reuse.yaml", 1,
		"there is no data/h200_sxm/gemm/trtllm/0.9/scale_matrix_perf.parquet")
	want(t, r, "R2", "moe/trtllm/1.0/reuse.yaml", 1, "")
	want(t, r, "R3", "comm/trtllm/1.0/reuse.yaml", 1, "")
	want(t, r, "R6", "INCOMPLETE.txt", 1, "")
	want(t, r, "R7", "gemm/trtllm/1.0/collection_meta.yaml", 1, "59 rows and the plan hash of no cases")
	want(t, r, "sidecar_rows", "gemm/trtllm/1.0/gemm_perf", 1, "the sidecar lists 59 rows, the file has 60")
	want(t, r, "sidecar_rows", "gemm/trtllm/1.0/gemm_perf", 1, "data_hash")
	want(t, r, "sidecar_orphan", "gemm/trtllm/1.0/collection_meta.yaml", 1, "moe_perf is not in the folder")
	want(t, r, "partial", "gemm/trtllm/1.0/collection_meta.yaml", 1, "")
	want(t, r, "unreadable", "mla/trtllm/1.0/collection_meta.yaml", 1, "schema_version is 7")
	want(t, r, "unreadable", "context_mla_perf.parquet", 1, "")
	want(t, r, "R5", "framework_manifest.yaml", 1, "there is no framework sglang")
	want(t, r, "R5", "framework_manifest.yaml", 1, "not pinned by digest")
	want(t, r, "R5", "framework_manifest.yaml", 1, "the family attention of vllm has no version")
}

func TestRowRules(t *testing.T) {
	const n = 60
	tests := []struct {
		rule, message string
		count         int
		change        func(map[string]arrow.Array)
	}{
		{"limits", "1 of 60 rows have an impossible latency", 1,
			func(c map[string]arrow.Array) { c["latency"] = replace(c["latency"], 3, 0) }},
		{"limits", "1 of 60 rows have an impossible latency", 1,
			func(c map[string]arrow.Array) { c["latency"] = replace(c["latency"], 3, math.NaN()) }},
		{"limits", "1 of 60 rows have an impossible latency", 1,
			func(c map[string]arrow.Array) { c["latency"] = replace(c["latency"], 3, 1e-9) }},
		{"limits", "1 of 60 rows have an impossible latency", 1,
			func(c map[string]arrow.Array) { c["latency"] = replace(c["latency"], 3, 1e9) }},
		{"schema", "kernel_source is missing", 1, func(c map[string]arrow.Array) { delete(c, "kernel_source") }},
		{"schema", "kernel_source has no value in 1 rows", 1,
			func(c map[string]arrow.Array) { c["kernel_source"] = firstOther("", "cublas", n, false) }},
		{"schema", "m is float64", 1, func(c map[string]arrow.Array) { c["m"] = table.Constant(1.5, n) }},
		{"schema", `"float16" is called "bfloat16" now`, 1,
			func(c map[string]arrow.Array) { c["gemm_dtype"] = table.Constant("float16", n) }},
		{"schema", "k is missing", 1, func(c map[string]arrow.Array) { delete(c, "k") }},
		{"schema", `the column kernel_source has spaces around "nvjet "`, 1,
			func(c map[string]arrow.Array) { c["kernel_source"] = firstOther("nvjet ", "nvjet", n, true) }},
		{"duplicates", "59 of 60 rows", 59, func(c map[string]arrow.Array) { c["m"] = table.Constant(int64(1), n) }},
		{"provenance", `60 rows have the framework "VLLM", and the folder is of trtllm`, n,
			func(c map[string]arrow.Array) { c["framework"] = table.Constant("VLLM", n) }},
		{"provenance", `60 rows have the version "1.1", not "1.0"`, n,
			func(c map[string]arrow.Array) { c["version"] = table.Constant("1.1", n) }},
		{"provenance", "NVIDIA H100", n, func(c map[string]arrow.Array) { c["device"] = table.Constant("NVIDIA H100 80GB HBM3", n) }},
		{"provenance", `1 rows have the version "1.1", not "1.0"`, 1,
			func(c map[string]arrow.Array) { c["version"] = firstOther("1.1", "1.0", n, true) }},
		{"provenance", "1 rows have no version", 1,
			func(c map[string]arrow.Array) { c["version"] = firstOther("", "1.0", n, false) }},
		{"provenance", "1 rows have no device", 1,
			func(c map[string]arrow.Array) { c["device"] = firstOther("", "NVIDIA H200", n, false) }},
		{"provenance", `60 rows name the kernel "vllm_default", which belongs to vllm`, n,
			func(c map[string]arrow.Array) { c["kernel_source"] = table.Constant("vllm_default", n) }},
		{"limits", "60 of 60 rows have an impossible latency or power", n, func(c map[string]arrow.Array) {
			c["power"], c["power_limit"] = edit(c["latency"],
				func(i int, _ float64) float64 { return 800 + float64(i) }), table.Constant(700.0, n)
		}},
		{"limits", "all 60 values of power are 300 W", 1,
			func(c map[string]arrow.Array) { c["power"] = table.Constant(300.0, n) }},
		{"limits", "60 of 60 rows", n, func(c map[string]arrow.Array) { c["latency"] = scale(c["latency"], 1e-4) }},
		{"limits", "is latency in another unit", n,
			func(c map[string]arrow.Array) { c["latency"] = scale(c["latency"], 1e6) }},
		{"limits", "all 60 values of latency are 1", 1,
			func(c map[string]arrow.Array) { c["latency"] = table.Constant(1.0, n) }},
		{"limits", "latency is rounded to multiples of 0.1", 1, func(c map[string]arrow.Array) {
			c["latency"] = edit(c["latency"], func(i int, _ float64) float64 { return 0.1 + 0.1*float64(i%2) })
		}},
		{"trend", "1 of 60 rows are more than 1.7 times apart", 1,
			func(c map[string]arrow.Array) { c["latency"] = replace(c["latency"], 30, 10) }},
		{"trend", "rows fall below 0.7 of the row before", 30, func(c map[string]arrow.Array) {
			c["latency"] = edit(c["latency"], func(i int, v float64) float64 { return v * float64(2-i%2) })
		}},
		{"limits", "60 of 60 rows have an impossible latency", n, func(c map[string]arrow.Array) {
			c["n"], c["k"] = table.Constant(int64(65536), n), table.Constant(int64(65536), n)
		}},
		{"opaque_kernel", "60 of 60", n, func(c map[string]arrow.Array) {
			c["kernel_source"] = table.Constant("default",
				n)
		}},
	}
	for _, tt := range tests {
		root := t.TempDir()
		put(t, gemm("TRTLLM", tt.change), root, "h200_sxm", "gemm", "trtllm", "1.0", "gemm_perf.parquet")
		r := lint(t, root, Options{})
		if len(r.of(tt.rule)) == 0 {
			t.Errorf("%s is not found: %+v", tt.rule, r.Findings)
			continue
		}
		want(t, r, tt.rule, "gemm_perf", tt.count, tt.message)
	}
}

// firstOther is a column of n texts whose first is another one, or null.
func firstOther(first, rest string, n int, valid bool) arrow.Array {
	texts, has := make([]string, n), make([]bool, n)
	for i := range texts {
		texts[i], has[i] = rest, true
	}
	texts[0], has[0] = first, valid
	return table.Texts(texts, has)
}

func TestMixedFrameworksOfAFile(t *testing.T) {
	root := t.TempDir()
	put(t, gemm("TRTLLM", func(c map[string]arrow.Array) { c["framework"] = firstOther("VLLM", "TRTLLM", 60, true) }),
		root, "gemm_perf.parquet")
	want(t, lint(t, root, Options{}), "provenance", "gemm_perf", 1, `1 rows have the framework "VLLM", others another one`)
}

func replace(arr arrow.Array, i int, v float64) arrow.Array {
	return edit(arr, func(j int, x float64) float64 {
		if i == j {
			return v
		}
		return x
	})
}

func scale(arr arrow.Array, by float64) arrow.Array {
	return edit(arr, func(_ int, x float64) float64 { return x * by })
}

func edit(arr arrow.Array, f func(int, float64) float64) arrow.Array {
	col, err := table.Float64s(table.NewRecord([]string{"x"}, []arrow.Array{arr}), "x")
	if err != nil {
		panic(err)
	}
	out := slices.Clone(col.Values)
	for i := range out {
		out[i] = f(i, out[i])
	}
	return table.Floats(out, nil)
}

func TestCrossBackend(t *testing.T) {
	root := t.TempDir()
	for _, system := range []string{"h200_sxm", "h100_sxm", "b200_sxm"} {
		put(t, gemm("TRTLLM", nil), root, system, "gemm", "trtllm", "1.0", "gemm_perf.parquet")
		put(t, gemm("TRTLLM", func(c map[string]arrow.Array) { c["latency"] = scale(c["latency"], 50) }), root, system,
			"gemm", "trtllm", "1.0rc1", "gemm_perf.parquet")
		put(t, gemm("VLLM", func(c map[string]arrow.Array) {
			c["latency"] = edit(c["latency"], func(i int, x float64) float64 {
				if i == 7 {
					return x * 6 // one row off
				}
				return x * 1.3 // and all of them slower
			})
		}), root, system, "gemm", "vllm", "1.0", "gemm_perf.parquet")
	}
	r := lint(t, root, Options{})
	if f := r.of("pair_outlier"); len(f) != 3 || f[0].Count != 1 || !strings.Contains(f[0].Rows[0], "m=8 ") ||
		!strings.Contains(f[0].Path, "vllm") {
		t.Errorf("pair_outlier %+v", f)
	}
	want(t, r, "systematic_offset", "", 1,
		"the median of vllm / trtllm is off the same way on 3 systems: b200_sxm 1.300, h100_sxm 1.300, h200_sxm 1.300")
	// The tables of the three systems are equal to the last digit.
	want(t, r, "copies", "h100_sxm/gemm/trtllm/1.0/", 60,
		"60 of 60 compared rows repeat those of b200_sxm/gemm/trtllm/1.0/gemm_perf.parquet")
	if strings.Contains(fmt.Sprint(r.of("pair_outlier")), "1.0rc1") {
		t.Error("an old version is compared with the other backend")
	}
}

func TestMachineDeviation(t *testing.T) {
	root := t.TempDir()
	for system, factor := range map[string]float64{"a100_sxm": 3, "h100_sxm": 1} {
		for i, name := range []string{"gemm", "computescale", "scale_matrix"} {
			rec := gemm("TRTLLM", func(c map[string]arrow.Array) {
				f := factor
				if i == 2 && f > 1 {
					f = 9
				}
				c["latency"] = scale(c["latency"], f)
			})
			if i > 0 {
				rec = table.WithColumn(table.Drop(rec, "gemm_dtype"), "quant_dtype", rec.Column(table.Index(rec, "gemm_dtype")))
				rec = table.WithColumn(rec, "quant_dtype", table.Constant("fp8", 60))
			}
			family := map[bool]string{true: "gemm", false: "quantize"}[i == 0]
			put(t, rec, root, system, family, "trtllm", "1.0", name+"_perf.parquet")
		}
	}
	r := lint(t, root, Options{Rules: []string{"machine_op_deviation"}})
	if len(r.Findings) != 1 || r.Findings[0].Table != "scale_matrix_perf" || len(r.Exceeded) != 0 {
		t.Errorf("%+v", r.Findings)
	}
}

func TestOptionsAndViews(t *testing.T) {
	r := lint(t, published, Options{Rules: []string{"duplicates"}, Allow: map[string]int{"duplicates": 1016}})
	if r.Failed() || len(r.Exceeded) != 0 || len(r.Findings) != 2 {
		t.Errorf("%+v", r)
	}
	if _, err := Run(t.Context(), published, Options{Rules: []string{"R9"}}); err == nil ||
		!strings.Contains(err.Error(), "R9") {
		t.Errorf("error %v", err)
	}
	if _, err := Run(t.Context(), t.TempDir(), Options{}); err == nil {
		t.Error("an empty folder is linted")
	}
	var txt bytes.Buffer
	if err := r.WriteText(&txt, 1); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(txt.String(), "error duplicates: 1,016 duplicate keys") ||
		!strings.Contains(txt.String(), "all within what is allowed") {
		t.Errorf("text:\n%s", txt.String())
	}
	if r.Counts["duplicates"] != 1016 {
		t.Errorf("%v", r.Counts)
	}
}

// The same tree gives the same report, whatever order tables finish in.
func TestDeterministic(t *testing.T) {
	var first string
	for range 3 {
		r := lint(t, published, Options{})
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		} else if string(text) != first {
			t.Error("two runs differ")
		}
	}
}

// TestFilesBesideTheSpecs: versions without tables, and files that readers would
// ignore.
func TestFilesBesideTheSpecs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("data/h200_sxm/trtllm/1.0.0rc3/gemm_perf.txt",
		"framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\nTRTLLM,1.0.0rc3,NVIDIA "+
			"H200,gemm,x,float16,1,128,64,0.5\n")
	write("query_versions.yaml", "schema_version: 1\ndefaults:\n  trtllm: {current: 1.0.0rc3, previous: 0.20.0}\n  "+
		"vllm: {current: 0.24.0}\noverrides:\n  h100_sxm:\n    trtllm: {current: 1.0.0rc3}\n")
	write("attention_lane_defaults.yaml", "trtllm: {1.0.0rc3: {90: x}}\nsglang: {0.5.14: {90: fa3}}\n")
	r := lint(t, dir, Options{})
	var got []string
	for _, rule := range []string{"slots", "lanes"} {
		for _, f := range r.of(rule) {
			got = append(got, f.Message)
		}
	}
	slices.Sort(got)
	want := []string{
		"defaults.trtllm names 0.20.0 as previous, and there is no table of it", "defaults.vllm names 0.24.0 as current, " +
			"and there is no table of it",
		"it has kernels of sglang 0.5.14, and there is no table of it", "overrides.h100_sxm.trtllm names 1.0.0rc3 as " +
			"current, and there is no table of it",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	write("query_versions.yaml", "schema_version: 3\n")
	if f := lint(t, dir, Options{}).of("unreadable"); len(f) != 1 ||
		!strings.Contains(f[0].Message, "schema_version is 3") {
		t.Errorf("%+v", f)
	}
}

// TestTablesWithoutRows checks the findings about a file that is cut off and about one without rows.
func TestTablesWithoutRows(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const header = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
	text(t, header, root, "data", "h200_sxm", "trtllm", "1.0", "gemm_perf.txt")
	text(t, "PAR1", root, "data", "h200_sxm", "trtllm", "1.1", "gemm_perf.parquet")
	text(t, header+"a,b\n", root, "data", "h200_sxm", "trtllm", "1.2", "gemm_perf.txt")
	r := lint(t, root, Options{})
	want(t, r, "schema", "1.0/gemm_perf.txt", 1, "the table has no rows")
	for path, message := range map[string]string{
		"1.1/gemm_perf.parquet": "the file is cut off",
		"1.2/gemm_perf.txt":     "2:1: this row has 2 fields, the header has 10",
	} {
		want(t, r, "unreadable", path, 1, message)
	}
	for _, f := range r.of("unreadable") {
		if strings.Contains(f.Message, root) {
			t.Errorf("the message repeats the path: %s %s", f.Path, f.Message)
		}
	}
}

// TestNullsAreNoZeros checks that rows without a value do not count as rows with zero.
func TestNullsAreNoZeros(t *testing.T) {
	root := t.TempDir()
	there := slices.Repeat([]bool{true}, 60)
	there[1] = false
	put(t, gemm("TRTLLM", func(cols map[string]arrow.Array) {
		ms := make([]int64, 60)
		for i := range ms {
			ms[i] = int64(max(i, 1)) // rows 0 and 1 have one key
		}
		cols["m"], cols["latency"] = table.Ints(ms, nil), table.Floats(slices.Repeat([]float64{0.03}, 60), there)
	}), root, "data", "h200_sxm", "gemm", "trtllm", "1.0", "gemm_perf.parquet")
	r := lint(t, root, Options{Rules: []string{"duplicates"}})
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Message, "median 1, worst 1)") {
		t.Errorf("%+v", r.Findings)
	}

	sizes := sizesOf(&loaded{names: []string{"m", "n"}, rec: table.NewRecord([]string{"m", "n"}, []arrow.Array{
		table.Ints([]int64{0, 4, 2}, []bool{false, true, true}), table.Ints([]int64{0, 0, 0}, []bool{false, false, false})})})
	if !slices.Equal(sizes["m"], []int64{2, 4}) || sizes["n"] != nil {
		t.Errorf("%v", sizes)
	}
}
