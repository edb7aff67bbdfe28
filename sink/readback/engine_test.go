package readback

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// TestEngineReadsTheDatabase checks that the package's engine gets the folder. Without it, the engine answers from the
// package's own tables, and no two databases differ.
func TestEngineReadsTheDatabase(t *testing.T) {
	t.Parallel()
	program := pythonWith(t, "testdata/new")
	before := database(t, row("1", "0.5"), row("64", "0.9"))
	after := database(t, row("1", "0.5"), row("64", "1.8"))
	r, err := Run(t.Context(), after, options(program, before))
	if err != nil {
		t.Fatal(err)
	}
	// Both rows and the places beside them along m, n and k; at 64 and beside it the
	// answer is another one, and n and k beside a row have no table.
	if gemm := find(t, r, "gemm_perf"); r.Package != "aiconfigurator 0.12.0" || gemm.Answered == 0 || gemm.Differ == 0 ||
		gemm.Result != Fail {
		t.Errorf("%s: %+v", r.Package, gemm)
	}
	if r, err = Run(t.Context(), before, options(program, before)); err != nil {
		t.Fatal(err)
	}
	// Without another database, too, it shows: the answers are the rows' own.
	if gemm := find(t, r, "gemm_perf"); gemm.Differ != 0 || gemm.Result != Pass || gemm.Asked != 2 || gemm.Exact != 2 {
		t.Errorf("%+v", gemm)
	}
}

// TestInstalledPackageIsChosen checks that aisimulate is asked before aiconfigurator, and that the
// option chooses.
func TestInstalledPackageIsChosen(t *testing.T) {
	t.Parallel()
	site := t.TempDir()
	if err := os.CopyFS(site, os.DirFS("testdata/new")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(site, "aisimulate_core"), os.DirFS("testdata/new/aiconfigurator_core")); err != nil {
		t.Fatal(err)
	}
	info := filepath.Join(site, "aisimulate-0.13.0.dist-info")
	if err := os.Mkdir(info, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(info, "METADATA"), []byte("Name: aisimulate\nVersion: 0.13.0\n"),
		0o644); err != nil {
		t.Fatal(err)
	}

	dir, program := database(t, row("1", "0.5")), pythonWith(t, site)
	for name, want := range map[string]string{
		"": "aisimulate 0.13.0", "aisimulate": "aisimulate 0.13.0", "aiconfigurator": "aiconfigurator 0.12.0",
	} {
		o := options(program, "")
		o.Package = name
		r, err := Run(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if gemm := find(t, r, "gemm_perf"); r.Package != want || gemm.Result != Pass || gemm.Exact != 1 {
			t.Errorf("%q: %s, %+v", name, r.Package, gemm)
		}
	}

	o := options(pythonWith(t, "testdata/new"), "")
	o.Package = "aisimulate"
	if _, err := Run(t.Context(), dir, o); err == nil || !strings.Contains(err.Error(), "has no aisimulate:") {
		t.Errorf("%v", err)
	}
}

// TestOwnTimeIsInMilliseconds checks the unit of the times of rows, which is that of the package's answers.
func TestOwnTimeIsInMilliseconds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]float64{"gemm_perf": 2.5, "moe_a2a_perf": 0.0025} {
		if got := ownTime(name, map[string]any{"latency": 2.5}); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := ownTime("gemm_perf", map[string]any{}); !math.IsNaN(got) {
		t.Errorf("a row without a time: %v", got)
	}
}

// TestOtherVersionsOfLibrariesAreNotAsked checks that queries about libraries go to the version that the system's spec
// names, and to oneCCL only without a table of NCCL. Answers would not come from other tables.
func TestOtherVersionsOfLibrariesAreNotAsked(t *testing.T) {
	t.Parallel()
	program := pythonWith(t, "testdata/new")
	table := func(dir, library, version, framework string) {
		at := filepath.Join(dir, "data", "h200_sxm", library, version)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		text := "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n" +
			framework + "," + version + ",NVIDIA H200,all_gather,x,half,2,64,0.5\n"
		if err := os.WriteFile(filepath.Join(at, library+"_perf.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		spec string
		nccl bool
		want map[string]string // by path: what the message has, "" for a table that passes
	}{
		"oneccl": {spec: "misc:\n  nccl_version: '2.1'\n  oneccl_version: '2021.1'\n", want: map[string]string{
			"data/h200_sxm/oneccl/2021.1/oneccl_perf.txt": "",
			"data/h200_sxm/oneccl/2021.2/oneccl_perf.txt": "reads oneccl 2021.1, as h200_sxm.yaml states",
		}},
		"both": {spec: "misc:\n  nccl_version: '2.1'\n  oneccl_version: '2021.1'\n", nccl: true, want: map[string]string{
			"data/h200_sxm/nccl/2.1/nccl_perf.txt":        "",
			"data/h200_sxm/oneccl/2021.1/oneccl_perf.txt": "only if there is none",
		}},
		"neither": {spec: "", nccl: true, want: map[string]string{
			"data/h200_sxm/nccl/2.1/nccl_perf.txt": "reads nccl of no version",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := database(t, row("1", "0.5"))
			table(dir, "oneccl", "2021.1", "VLLM")
			table(dir, "oneccl", "2021.2", "VLLM")
			if c.nccl {
				table(dir, "nccl", "2.1", "TRTLLM")
			}
			if err := os.WriteFile(filepath.Join(dir, "h200_sxm.yaml"), []byte("data_dir: data/h200_sxm\n"+c.spec),
				0o644); err != nil {
				t.Fatal(err)
			}
			versions, err := Versions(dir)
			if err != nil || len(versions) != 1 || versions[0].Backend != "trtllm" {
				t.Errorf("%v, %v", versions, err)
			}
			r, err := Run(t.Context(), dir, options(program, ""))
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range r.Tables {
				message, ok := c.want[x.Path]
				switch {
				case !ok:
				case message == "" && (x.Result != Pass || x.Answered == 0):
					t.Errorf("%+v", x)
				case message != "" && (x.Result != NotAsked || x.Queries != 0 || !strings.Contains(x.Message, message)):
					t.Errorf("%+v, want %q", x, message)
				}
				delete(c.want, x.Path)
			}
			if len(c.want) > 0 {
				t.Errorf("not in the report: %v", c.want)
			}
		})
	}
}

// TestModulesOfSeveralModelsAreNotAsked checks that there is no query if rows do not name the model by the query's
// arguments, because the answer may be another model's row.
func TestModulesOfSeveralModelsAreNotAsked(t *testing.T) {
	t.Parallel()
	record := func(models ...string) arrow.Record {
		return table.NewRecord([]string{"model"}, []arrow.Array{table.Texts(models, nil)})
	}
	for _, c := range []struct {
		name   string
		models []string
		unread bool
	}{
		{"mla_context_module_perf", []string{"a", "a"}, false},
		{"mla_context_module_perf", []string{"a", "a", "b"}, true},
		{"mla_generation_module_perf", []string{"a", "b"}, true},
		{"mla_generation_module_perf", nil, false},
		{"dsa_context_module_perf", []string{"a", "b"}, false},
	} {
		if got := severalModels(c.name, record(c.models...)); (got != "") != c.unread {
			t.Errorf("%s of %v: %q", c.name, c.models, got)
		}
	}
}

// TestTablesWithoutQueryAreNotAsked checks that a database whose tables have no query is read.
func TestTablesWithoutQueryAreNotAsked(t *testing.T) {
	t.Parallel()
	dir := database(t, row("1", "0.5"))
	for _, name := range []string{"gemm_perf.txt", "custom_allreduce_perf.txt"} {
		if err := os.Remove(filepath.Join(dir, "data", "h200_sxm", "trtllm", "1.0.0rc3", name)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Run(t.Context(), dir, options(pythonWith(t, "testdata/new"), ""))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tables) != 1 || r.Tables[0].Result != NotAsked || r.Failed() {
		t.Errorf("%+v", r.Tables)
	}
}

// TestTimesThatAreNotNumbersFail checks that a time that is not a number, or no row's, does not count as an answer, and
// that a table without rows fails.
func TestTimesThatAreNotNumbersFail(t *testing.T) {
	t.Parallel()
	program := pythonWith(t, "testdata/new")
	for _, c := range []struct {
		rows           []string
		result, want   string
		asked, answers int // rows about themselves, and of all queries
	}{
		{[]string{row("1", "NaN"), row("64", "0.9")}, Pass, "not answered: the answer is nan, which is no time", 1, 3},
		{[]string{row("1", "NaN")}, Fail, "the answer is nan, which is no time", 0, 0},
		{nil, Fail, "it has no rows", 0, 0},
		{[]string{strings.Replace(row("1", "0.5"), "torch_flow", "broken", 1)}, Fail, "cannot read DIR/data/gemm_perf.txt", 1,
			0},
		{[]string{strings.Replace(row("1", "0.5"), "torch_flow", "unread", 1)}, Fail, "reads no row for it", 1, 0},
	} {
		dir := database(t, c.rows...)
		r, err := Run(t.Context(), dir, options(program, ""))
		if err != nil {
			t.Errorf("%q: %v", c.rows, err)
			continue
		}
		got := find(t, r, "gemm_perf")
		if got.Result != c.result || !strings.Contains(strings.ReplaceAll(got.Message, dir, "DIR"), c.want) ||
			got.Asked != c.asked || got.Answered != c.answers {
			t.Errorf("%q: %+v", c.rows, got)
		}
	}
}

// TestRowsWithGeometryAreAskedAsOperation checks that rows with a geometry are asked about as the operation of the
// engine that they describe.
func TestRowsWithGeometryAreAskedAsOperation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, "data", "h200_sxm", "sglang", "0.5.20")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}

	text := "component,geometry,batch_size,prefix,x,latency,kernel_source,measurement_scope\n"
	for _, x := range []string{"1", "8"} {
		text += `linear,"{""k"":64,""n"":128}",1,0,` + x + ",0." + x + ",nvjet,local_compute\n"
	}
	text += `router,"{""k"":64}",1,0,1,0.1,nvjet,local_compute` + "\n"
	for name, content := range map[string]string{
		filepath.Join(at, "dsv41_module_perf.txt"): text, filepath.Join(dir, "h200_sxm.yaml"): "data_dir: data/h200_sxm\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	o := options(pythonWith(t, "testdata/new"), "")
	o.Backend, o.Version = "sglang", "0.5.20"
	r, err := Run(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	// Three rows and a place beside each; the package has no operation for a router.
	if got := find(t, r, "dsv41_module_perf"); got.Queries != 6 || got.Answered != 4 || got.Exact != 2 || got.Asked != 3 {
		t.Errorf("%+v", got)
	}
}
