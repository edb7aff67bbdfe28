package importer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

const published = "../../sink/testdata/published"

func write(t testing.TB, text string, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, path string, o Options) *Set {
	t.Helper()
	set, err := Load(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func drift(set *Set) string { return strings.Join(set.Drift, "\n") }

// The oldest NCCL header has no framework columns and another order.
func TestOldestNCCL(t *testing.T) {
	path := write(t, "nccl_dtype,num_gpus,message_size,kernel_source,op_name,latency\nhalf,2,1024,NCCL,all_gather,0.00614\nhalf,2,2048,NCCL,alltoall,0.007\n",
		t.TempDir(), "data", "h200_sxm", "nccl", "2.23", "nccl_perf.txt")
	set := load(t, path, Options{})
	in := set.Data.Info
	if in.Perf != "nccl_perf" || in.Framework != "" || in.System != "h200_sxm" || in.Op != "" ||
		in.Params[0] != "op_name" {
		t.Errorf("info %+v", in)
	}

	for _, want := range []string{"rows have no framework", "rows have no version", "rows have no device"} {
		if !strings.Contains(drift(set), want) {
			t.Errorf("drift lacks %q:\n%s", want, drift(set))
		}
	}

	set = load(t, path, Options{Framework: "TRTLLM", FrameworkVersion: "2.23", Device: "NVIDIA H200"})
	if in := set.Data.Info; in.Framework != "TRTLLM" || in.Version != "2.23" || in.Device != "NVIDIA H200" {
		t.Errorf("info %+v", in)
	}

	if !strings.Contains(drift(set), `the import gives "NVIDIA H200" (2 rows)`) {
		t.Errorf("drift:\n%s", drift(set))
	}
}

// float16 became bfloat16, and window_size came later.
func TestOldAttention(t *testing.T) {
	path := write(t, `framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,attn_dtype,kv_cache_dtype,step,latency
VLLM,1.10,NVIDIA H200,context_attention,fa,1,16,8,8,128,1,float16,float16,0,0.5
VLLM,1.10,NVIDIA H200,context_attention,fa,1,32,8,8,128,1,float16,fp8,0,1
`, t.TempDir(), "context_attention_perf.txt")

	set := load(t, path, Options{})
	rec := set.Data.Table
	for name, want := range map[string]string{"attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16", "version": "1.10"} {
		col, err := table.Strings(rec, name)
		if err != nil {
			t.Fatal(err)
		}
		if col.Values[0] != want {
			t.Errorf("%s = %q, want %q", name, col.Values[0], want)
		}
	}

	window, err := table.Int64s(rec, "window_size")
	if err != nil || window.Values[0] != 0 {
		t.Errorf("window_size %v %v", window, err)
	}

	lat, _ := table.Float64s(rec, "latency")
	if lat.Values[1] != 1 || set.Data.Info.Op != "attention_context" {
		t.Errorf("latency %v, op %q", lat.Values, set.Data.Info.Op)
	}

	want := `context_attention_perf.txt: attn_dtype "float16" is called "bfloat16" now (2 rows)
context_attention_perf.txt: kv_cache_dtype "float16" is called "bfloat16" now (1 rows)
context_attention_perf.txt: the column window_size is missing; 0 is taken, as readers do (2 rows)`
	if drift(set) != want {
		t.Errorf("drift:\n%s\nwant:\n%s", drift(set), want)
	}
}

// The oldest latent-attention tables have ranks in place of heads.
func TestOldMLA(t *testing.T) {
	text := "framework,version,device,op_name,kernel_source,mla_dtype,kv_cache_dtype,batch_size,isl,tp_size,step,latency\n" +
		"TRTLLM,0.20.0,GPU,mla_context,default,bfloat16,bfloat16,1,16,%,0,0.5\n"
	set := load(t, write(t, strings.Replace(text, "%", "4", 1), t.TempDir(), "context_mla_perf.txt"), Options{})
	heads, err := table.Int64s(set.Data.Table, "num_heads")
	if err != nil || heads.Values[0] != 32 || !strings.Contains(drift(set), "128 / tp_size is taken") {
		t.Errorf("%v %v; drift %s", heads, err, drift(set))
	}

	if _, err := Load(write(t, strings.Replace(text, "%", "3", 1), t.TempDir(), "context_mla_perf.txt"),
		Options{}); err == nil || !strings.Contains(err.Error(), "tp_size 3") {
		t.Errorf("error %v", err)
	}
}

func TestPowerColumnsOrNone(t *testing.T) {
	header := "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency"
	row := "TRTLLM,1.0,GPU,gemm,x,bfloat16,%,64,64,1"
	dir := t.TempDir()
	write(t, header+"\n"+strings.Replace(row, "%", "1", 1)+"\n", dir, "trtllm", "1.0", "gemm_perf.txt")
	write(t, header+",power,power_limit\n"+strings.Replace(row, "%", "2", 1)+",,\n"+strings.Replace(row, "%", "3",
		1)+",300.5,700\n", dir, "trtllm", "1.1", "gemm_perf.txt")
	set := load(t, dir, Options{Table: "gemm_perf"})
	power, err := table.Float64s(set.Data.Table, "power")
	if err != nil {
		t.Fatal(err)
	}

	if set.Data.Table.NumRows() != 3 || power.Nulls() != 2 || power.Values[2] != 300.5 {
		t.Errorf("%d rows, power %v with %d nulls", set.Data.Table.NumRows(), power.Values, power.Nulls())
	}

	if !strings.Contains(drift(set), "the folder is of version 1.1, the rows are of 1.0; an export follows the rows to "+
		"the folder 1.0, and version = \"1.1\" in it keeps the folder (2 rows)") {
		t.Errorf("drift:\n%s", drift(set))
	}
}

// TestRowsWithoutVersion reports that rows name no version, and no folder for it.
func TestRowsWithoutVersion(t *testing.T) {
	dir := t.TempDir()
	write(t, "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"+
		"TRTLLM,,GPU,gemm,x,bfloat16,1,64,64,1\n", dir, "trtllm", "1.1", "gemm_perf.txt")
	text := drift(load(t, dir, Options{}))
	if !strings.Contains(text, "the folder is of version 1.1, the rows are of no version (1 rows)") {
		t.Errorf("drift:\n%s", text)
	}
}

func TestWhatCannotBeMappedIsRefused(t *testing.T) {
	header := "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
	tests := []struct{ text, want string }{
		{strings.Replace(header, ",k,", ",", 1) + "T,1,G,gemm,x,fp8,1,2,3\n", "lacks the column k"},
		{header + "T,1,G,gemm,x,fp8,1.5,2,3,4\n", "row 1 has 1.5, which is not a whole number"},
		{header + "T,1,G,gemm,x,fp8,one,2,3,4\n", "the column m cannot be read as int64"},
		{header + "T,1,G,gemm,x,fp8,1,2,3,fast\n", "gemm_perf.txt:2:24"},
		{header + "T,1,G\n", "3 fields"},
		{"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "git-lfs pointer"},
		{"", "empty"},
	}
	for _, tt := range tests {
		_, err := Load(write(t, tt.text, t.TempDir(), "gemm_perf.txt"), Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %q", tt.text, err, tt.want)
		}
	}

	set := load(t, write(t, header+"T,1,G,gemm,x,fp9,1,2.0,3,4\n", t.TempDir(), "gemm_perf.txt"), Options{})
	for _, want := range []string{`"fp9" is unknown`, "n is float64 there and int64 in the table"} {
		if !strings.Contains(drift(set), want) {
			t.Errorf("drift lacks %q:\n%s", want, drift(set))
		}
	}
}

func TestPublishedTree(t *testing.T) {
	set := load(t, published, Options{Table: "nccl_perf", Version: "2.26.2"})
	if set.Data.Table.NumRows() != 1008 || set.Data.Info.Version != "2.29.2" || set.Files[0].System != "h200_sxm" {
		t.Errorf("%d rows, %+v", set.Data.Table.NumRows(), set.Data.Info)
	}

	if want := "nccl_perf.parquet: the folder is of version 2.26.2, the rows are of 2.29.2; an export follows the rows " +
		"to the folder 2.29.2, and version = \"2.26.2\" in it keeps the folder (1008 rows)"; drift(set) != want {
		t.Errorf("drift %q, want %q", drift(set), want)
	}

	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "several tables (computescale_perf, context_attention_perf"},
		{Options{Table: "moe_perf"}, "none of the 11 perf files"},
		{Options{Table: "gemm_perf", Backend: "vllm"}, "the backends nccl, trtllm, vllm"},
	} {
		if _, err := Load(published, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.o, err, tt.want)
		}
	}

	if _, err := Load(filepath.Join(t.TempDir(), "none"), Options{}); err == nil {
		t.Error("a missing folder is imported")
	}

	if _, err := Load(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "contains no perf files") {
		t.Errorf("error %v", err)
	}
}

func TestStage(t *testing.T) {
	c := Kind().New().(*Config)
	c.Path, c.Table, c.Version = "published", "nccl_perf", "2.26.2"
	if d := c.Check(&stage.CheckContext{}); d.HasErrors() {
		t.Fatal(d)
	}

	p, diags := c.Plan(t.Context(), &stage.PlanContext{PlanDir: filepath.Dir(published)})
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	if p.Data == nil || len(p.Notes) != 1 || len(p.KeyExtra.([]string)) != 1 {
		t.Errorf("plan %+v", p)
	}

	out, err := c.Run(t.Context(), &stage.RunContext{Plan: p})
	if err != nil {
		t.Fatal(err)
	}

	if out.Status != stage.StatusOK || out.Checks[0].Result != "warn" || out.Data != p.Data {
		t.Errorf("%+v", out)
	}

	c.Path = "nowhere"
	if _, diags := c.Plan(t.Context(), &stage.PlanContext{PlanDir: t.TempDir(),
		Range: hcl.Range{Filename: "p.hcl"}}); !diags.HasErrors() || diags[0].Subject == nil {
		t.Errorf("%v", diags)
	}

	if _, err := c.Run(t.Context(), &stage.RunContext{}); err == nil {
		t.Error("an unplanned import runs")
	}
}

func TestCheck(t *testing.T) {
	c := &Config{Table: "gemm_pref", System: cty.NumberIntVal(1)}
	if diags := c.Check(&stage.CheckContext{}); len(diags) != 3 {
		t.Errorf("%d problems, want 3: %v", len(diags), diags)
	}
}

// What is exported comes back as it was.
func TestRoundTrip(t *testing.T) {
	set := load(t, published, Options{Table: "gemm_perf"})
	for _, name := range []string{"gemm_perf.txt", "gemm_perf.parquet"} {
		path := filepath.Join(t.TempDir(), name)
		if _, err := tree.WriteFile(path, set.Data.Table, nil); err != nil {
			t.Fatal(err)
		}

		back := load(t, path, Options{})
		again := filepath.Join(t.TempDir(), name)
		d1, err := tree.WriteFile(again, back.Data.Table, nil)
		if err != nil {
			t.Fatal(err)
		}

		d2, err := tree.WriteFile(path, set.Data.Table, nil)
		if err != nil {
			t.Fatal(err)
		}

		if d1 != d2 || len(back.Drift) != 0 {
			t.Errorf("%s: %s and %s; drift %s", name, d1, d2, drift(back))
		}
	}
}
