package readback

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicplan/sink/base/testutil"
)

const header = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"

// database writes a tree in the layout of old packages.
func database(t *testing.T, rows ...string) string {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, "data", "h200_sxm", "trtllm", "1.0.0rc3")
	for name, text := range map[string]string{
		filepath.Join(at, "gemm_perf.txt"):             header + strings.Join(rows, "\n") + "\n",
		filepath.Join(at, "custom_allreduce_perf.txt"): "framework,version,device,op_name,kernel_source,allreduce_dtype,num_gpus,message_size,latency\nTRTLLM,1.0.0rc3,NVIDIA H200,all_reduce,x,half,2,64,0.5\n",
		filepath.Join(at, "computescale_perf.txt"):     "framework,version,device,op_name,kernel_source,quant_dtype,m,k,latency\nTRTLLM,1.0.0rc3,NVIDIA H200,compute_scale,x,fp8,1,64,0.5\n",
		filepath.Join(dir, "h200_sxm.yaml"):            "data_dir: data/h200_sxm\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func row(m, latency string) string {
	return "TRTLLM,1.0.0rc3,NVIDIA H200,gemm,torch_flow,float16," + m + ",128,64," + latency
}

// python is an interpreter that has the stand-in of an old package.
func python(t *testing.T) string { return pythonWith(t, "testdata/old") }

func pythonWith(t *testing.T, standIn string) string {
	t.Helper()
	program := testutil.Python(t, t.TempDir())
	folder, err := filepath.Abs(standIn)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "python")
	text := "#!/bin/sh\nPYTHONDONTWRITEBYTECODE=1 PYTHONPATH=" + folder + " exec " + program + " \"$@\"\n"
	testutil.WriteProgram(t, path, text)
	return path
}

func options(python, against string) Options {
	return Options{Python: python, Against: against, System: "h200_sxm", Backend: "trtllm", Version: "1.0.0rc3", Rows: 10}
}

func find(t *testing.T, r *Report, name string) Table {
	t.Helper()
	at := slices.IndexFunc(r.Tables, func(x Table) bool { return x.Table == name })
	if at < 0 {
		t.Fatalf("no %s in %+v", name, r.Tables)
	}
	return r.Tables[at]
}

// TestTablesPassFailOrAreNotAsked checks that every row and places beside it are asked about, that a table without an
// answer fails, and that a table without a query does not pass.
func TestTablesPassFailOrAreNotAsked(t *testing.T) {
	t.Parallel()
	dir := database(t, row("1", "0.5"), row("16", "0.7"))
	r, err := Run(t.Context(), dir, options(python(t), dir))
	if err != nil {
		t.Fatal(err)
	}
	gemm := find(t, r, "gemm_perf")
	if r.Package != "aiconfigurator 0.4.0" || gemm.Result != Pass || gemm.Rows != 2 || gemm.Queries != 8 ||
		gemm.Answered != 8 || gemm.Differ != 0 {
		t.Errorf("%s: %+v", r.Package, gemm)
	}
	if x := find(t, r, "custom_allreduce_perf"); x.Result != Fail || !strings.Contains(x.Message, "no table of 2 GPUs") {
		t.Errorf("%+v", x)
	}
	if x := find(t, r, "computescale_perf"); x.Result != NotAsked || x.Queries != 0 {
		t.Errorf("%+v", x)
	}
	if queries, answered, _ := r.Totals(); queries != 10 || answered != 8 || !r.Failed() {
		t.Errorf("%d queries, %d answered", queries, answered)
	}
}

// TestAnotherOrderOfRowsDiffers checks that the same rows in another order give other answers.
func TestAnotherOrderOfRowsDiffers(t *testing.T) {
	t.Parallel()
	before := database(t, row("1", "0.5"), row("16", "0.7"), row("6", "0.9"))
	after := database(t, row("6", "0.9"), row("16", "0.7"), row("1", "0.5"))
	r, err := Run(t.Context(), after, options(python(t), before))
	if err != nil {
		t.Fatal(err)
	}
	if gemm := find(t, r, "gemm_perf"); gemm.Differ != 0 {
		t.Errorf("no place is equally near: %+v", gemm)
	}
	changed := database(t, row("1", "0.5"), row("16", "0.7000000000000001"), row("6", "0.9"))
	if r, err = Run(t.Context(), changed, options(python(t), before)); err != nil {
		t.Fatal(err)
	}
	if gemm := find(t, r, "gemm_perf"); gemm.Result != Fail || gemm.Differ == 0 ||
		!strings.Contains(gemm.Message, "answers differ") {
		t.Errorf("one bit of one row: %+v", gemm)
	}
}

func TestErrorsNameTheirCause(t *testing.T) {
	t.Parallel()
	dir := database(t, row("1", "0.5"))
	if _, err := Run(t.Context(), dir, options(filepath.Join(dir, "nope"), "")); err == nil {
		t.Error("an interpreter that is not there")
	}
	o := options(python(t), "")
	o.Version = "9"
	if _, err := Run(t.Context(), dir, o); err == nil || !strings.Contains(err.Error(), "no table of h200_sxm trtllm 9") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filepath.Join(dir, "h200_sxm.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), dir, options(python(t), "")); err == nil ||
		!strings.Contains(err.Error(), "h200_sxm.yaml") {
		t.Errorf("%v", err)
	}
	if _, err := Run(t.Context(), dir, options(testutil.Python(t, t.TempDir()), "")); err == nil ||
		!strings.Contains(err.Error(), "has no aisimulate or aiconfigurator") {
		t.Errorf("%v", err)
	}
	versions, err := Versions(dir)
	if err != nil || len(versions) != 1 || versions[0] != (Version{"h200_sxm", "trtllm", "1.0.0rc3"}) {
		t.Errorf("%v, %v", versions, err)
	}
}
