package export

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

func refValue(name string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RefType,
		&stage.Ref{Address: "gate." + name, Kind: "gate"})})
}

func config(change func(*Config)) *Config {
	c := Kind().New().(*Config)
	c.Value = refValue("gemm")
	if change != nil {
		change(c)
	}
	return c
}

// gemm has rows of m = 1..n, in the order of perm.
func gemm(perm []int) *stage.Dataset {
	n := len(perm)
	ids, ms, lat, started := make([]string, n), make([]int64, n), make([]float64, n), make([]string, n)
	for i, p := range perm {
		ids[i], ms[i], lat[i] = fmt.Sprintf("c%03d", p), int64(p+1), float64(p+1)/1000
		started[i] = fmt.Sprintf("2026-03-%02dT10:00:00Z", p%9+1)
	}

	rec := table.NewRecord(
		[]string{"case_id", "gemm_dtype", "m", "n", "k", "framework", "version", "device", "kernel_source", "latency",
			"rel_stdev", "started_at"},
		[]arrow.Array{
			table.Texts(ids, nil), table.Constant("bfloat16", n), table.Ints(ms, nil), table.Constant(int64(64), n),
			table.Constant(int64(32), n),
			table.Constant("TRTLLM", n), table.Constant("1.3.0", n), table.Constant("NVIDIA H200", n),
			table.Constant("cublas", n),
			table.Floats(lat, nil), table.Constant(0.01, n), table.Texts(started, nil),
		})

	return &stage.Dataset{
		Table:   rec,
		Planned: table.NewRecord([]string{"case_id"}, []arrow.Array{table.Texts(ids, nil)}),
		Info: stage.Info{Op: "gemm", Perf: "gemm_perf", Params: []string{"gemm_dtype", "m", "n", "k"},
			Framework: "TRTLLM", Version: "1.3.0",
			Device: "NVIDIA H200", System: "h200_sxm", Runtime: "trtllm"},
	}
}

func order(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	return p
}

type silent struct{ stage.Events }

func (silent) Message(string, string, string) {}

func run(t testing.TB, c *Config, dir string, sets ...*stage.Dataset) (*stage.Outcome, error) {
	t.Helper()

	if d := c.Check(&stage.CheckContext{}); d.HasErrors() {
		return nil, d
	}

	inputs := map[string]*stage.Dataset{}
	for i, ds := range sets {
		inputs[inputName(i)] = ds
	}
	return c.Run(t.Context(), &stage.RunContext{Address: "export.gemm", Events: silent{}, OutDir: dir, Inputs: inputs})
}

func mustRun(t testing.TB, c *Config, dir string, sets ...*stage.Dataset) *stage.Outcome {
	t.Helper()
	out, err := run(t, c, dir, sets...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t testing.TB, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestMeasuredDigits checks that a measured number is written with nine significant digits, and
// that a number that identifies a row, or comes from a file, keeps all of its digits.
func TestMeasuredDigits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		planned bool
		want    string
	}{
		{"measured", true, "alpha,latency\n1.0100000000000002,0.009389\n"},
		{"imported", false, "alpha,latency\n1.0100000000000002,0.009389000000000002\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds := gemm([]int{0})
			ds.Table = table.WithColumn(ds.Table, "latency", table.Floats([]float64{0.009389000000000002}, nil))
			ds.Table = table.WithColumn(ds.Table, "alpha", table.Floats([]float64{1.0100000000000002}, nil))
			ds.Info.Op, ds.Info.Perf, ds.Info.Params = "own", "", []string{"alpha"}
			if !tt.planned {
				ds.Planned = nil
			}

			dir := t.TempDir()
			mustRun(t, config(func(c *Config) { c.File = "own_perf.txt" }), dir, ds)
			got := ""
			for line := range strings.Lines(read(t, dir, "own_perf.txt")) {
				fields := strings.Split(line, ",")
				got += strings.Join(fields[len(fields)-2:], ",")
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFlat(t *testing.T) {
	dir := t.TempDir()
	collected := gemm([]int{1, 0, 2})
	collected.Planned = collected.Table
	out := mustRun(t, config(func(c *Config) { c.File = "sub/gemm_perf.txt" }), dir, collected)

	want := `framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency
TRTLLM,1.3.0,NVIDIA H200,gemm,cublas,bfloat16,3,64,32,0.003
TRTLLM,1.3.0,NVIDIA H200,gemm,cublas,bfloat16,2,64,32,0.002
TRTLLM,1.3.0,NVIDIA H200,gemm,cublas,bfloat16,1,64,32,0.001
`
	if got := read(t, dir, "sub", "gemm_perf.txt"); got != want {
		t.Errorf("file:\n%swant:\n%s", got, want)
	}

	a := out.Artifacts[0]
	if a.Rows != 3 || !strings.HasPrefix(a.Digest, "sha256:") || !strings.Contains(out.Message, a.Digest) {
		t.Errorf("artifact %+v, message %q", a, out.Message)
	}
}

func TestBytesDependOnTheDataAlone(t *testing.T) {
	digests := map[string]bool{}
	for _, format := range []string{CSV, Parquet} {
		clear(digests)

		for seed := range uint64(5) {
			perm := rand.New(rand.NewPCG(seed, 1)).Perm(200)
			out := mustRun(t, config(func(c *Config) { c.Format = format }), t.TempDir(), gemm(perm))
			digests[out.Artifacts[0].Digest] = true
		}

		if len(digests) != 1 {
			t.Errorf("%s: the same rows in 5 orders made %d different files", format, len(digests))
		}
	}
}

func TestExportSkipsSamples(t *testing.T) {
	ds := gemm(order(2))
	ds.Info.Partial = "smoke"
	dir := t.TempDir()
	out, err := run(t, config(nil), dir, ds)
	if err != nil || out.Status != stage.StatusSkipped || !strings.Contains(out.Message, "sample (--smoke)") {
		t.Fatalf("%+v, error %v", out, err)
	}

	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("a skipped export left %v", left)
	}

	mustRun(t, config(func(c *Config) { c.AllowPartial = true }), dir, ds)
	read(t, dir, "gemm_perf.partial.txt")
}

func TestExportRejectsUnfinishedData(t *testing.T) {
	for _, why := range []string{"ramp", "interrupted", "tasks lost"} {
		ds := gemm(order(2))
		ds.Info.Partial = why
		dir := t.TempDir()
		if out, err := run(t, config(nil), dir, ds); err == nil || !strings.Contains(err.Error(), "lacks cases ("+why+")") {
			t.Errorf("%s: %+v, error %v", why, out, err)
		}

		mustRun(t, config(func(c *Config) { c.AllowPartial = true }), dir, ds)
		read(t, dir, "gemm_perf.partial.txt")
	}
}

func TestPathsStayInside(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.File = "../gemm_perf.txt" },
		func(c *Config) { c.File = "/tmp/gemm_perf.txt" },
		func(c *Config) { c.Dir = ".." },
		func(c *Config) { c.Layout, c.Version = tree.Families, "../../x" },
		func(c *Config) { c.Layout, c.System = tree.Systems, cty.StringVal("..") },
	} {
		dir := t.TempDir()
		if _, err := run(t, config(change), filepath.Join(dir, "out"), gemm(order(1))); err == nil {
			t.Errorf("%+v is accepted", config(change))
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("a refused path left %v", left)
		}
	}
}

func TestSystemsLayout(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, config(func(c *Config) { c.Layout, c.SystemSpec = tree.Systems, true }), dir, gemm(order(2)))

	if got := read(t, dir, "data", "h200_sxm", "trtllm", "1.3.0", "gemm_perf.txt"); strings.Count(got, "\n") != 3 {
		t.Errorf("file:\n%s", got)
	}

	spec := read(t, dir, "h200_sxm.yaml")
	if !strings.Contains(spec, "sm_version") {
		t.Errorf("spec:\n%s", spec)
	}

	// A spec that exists, as after an interrupted run, is a file of the export: a publish
	// includes it.
	for _, text := range []string{spec, spec + "# the user's own\n"} {
		path := filepath.Join(dir, "h200_sxm.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out := mustRun(t, config(func(c *Config) { c.Layout, c.SystemSpec = tree.Systems, true }), dir,
			gemm(order(2)))
		if len(out.Artifacts) != 2 || out.Artifacts[1].Path != path ||
			out.Artifacts[1].Digest != fileutil.Digest([]byte(text)) {
			t.Errorf("artifacts %+v", out.Artifacts)
		}
		if got := read(t, dir, "h200_sxm.yaml"); got != text {
			t.Error("the spec was changed")
		}
	}
}

func TestMergeSaysWhatItDid(t *testing.T) {
	dir := t.TempDir()
	c := func() *Config { return config(func(c *Config) { c.Layout = tree.Families }) }
	mustRun(t, c(), dir, gemm([]int{0, 1, 2}))

	out := mustRun(t, c(), dir, gemm([]int{2, 3}))
	if !strings.Contains(out.Message, "4 rows") || !strings.Contains(out.Message, "1 rows added, 1 replaced, 2 kept") {
		t.Errorf("message %q", out.Message)
	}

	again := mustRun(t, c(), dir, gemm([]int{2, 3}))
	if again.Artifacts[0].Digest != out.Artifacts[0].Digest {
		t.Error("merging the same rows again changes the file")
	}
}

func TestSeveralInputsFillOneTable(t *testing.T) {
	pre, post := gemm([]int{0}), gemm([]int{1})
	c := config(func(c *Config) { c.Value = cty.TupleVal([]cty.Value{refValue("a"), refValue("b")}) })
	if in := c.Inputs(); len(in) != 2 || in[0].Name != "input" || in[1].Name != "input2" || in[1].Ref.Address != "gate.b" {
		t.Fatalf("inputs %+v", in)
	}

	dir := t.TempDir()
	mustRun(t, c, dir, pre, post)

	if got := read(t, dir, "gemm_perf.txt"); strings.Count(got, "\n") != 3 {
		t.Errorf("file:\n%s", got)
	}
}

// One case of an op may give rows of two tables; each export takes its own.
func TestRowsOfTwoTables(t *testing.T) {
	rec := table.NewRecord([]string{"m", "k", "quant_dtype", "op_name", "kernel_source", "latency", "perf_table"},
		[]arrow.Array{
			table.Ints([]int64{1, 1}, nil), table.Ints([]int64{32, 32}, nil), table.Constant("fp8", 2),
			table.Texts([]string{"compute_scale", "scale_matrix"}, nil), table.Constant("torch_ops", 2),
			table.Floats([]float64{0, 0.002}, nil), table.Texts([]string{"", "scale_matrix_perf"}, []bool{false, true}),
		})

	ds := &stage.Dataset{Table: rec, Info: stage.Info{Op: "compute_scale", Perf: "computescale_perf",
		Params:    []string{"m", "k"},
		Framework: "TRTLLM", Version: "1.3.0", Device: "NVIDIA H200"}}
	dir := t.TempDir()
	for name, want := range map[string]string{
		"computescale_perf": "TRTLLM,1.3.0,NVIDIA H200,compute_scale,torch_ops,1,32,fp8,0\n",
		"scale_matrix_perf": "TRTLLM,1.3.0,NVIDIA H200,scale_matrix,torch_ops,1,32,fp8,0.002\n",
	} {
		mustRun(t, config(func(c *Config) { c.Table = name }), dir, ds)
		if got := read(t, dir, name+".txt"); !strings.HasSuffix(got, "latency\n"+want) {
			t.Errorf("%s:\n%s", name, got)
		}
	}

	if _, err := run(t, config(func(c *Config) { c.Table = "gemm_perf" }), dir, ds); err == nil ||
		!strings.Contains(err.Error(), "none of the 2 rows belongs to gemm_perf") {
		t.Errorf("rows of other tables: %v", err)
	}
}

func TestPower(t *testing.T) {
	ds := gemm(order(2))
	ds.Table = table.WithColumn(table.WithColumn(ds.Table, "power",
		table.Floats([]float64{300, 0}, []bool{true, false})), "power_limit", table.Constant(700.0, 2))
	dir := t.TempDir()
	mustRun(t, config(nil), dir, ds)

	if got := read(t, dir, "gemm_perf.txt"); strings.Contains(got, "power") {
		t.Errorf("power of some rows is written:\n%s", got)
	}

	if _, err := run(t, config(func(c *Config) { c.Power = PowerNeed }), dir, ds); err == nil ||
		!strings.Contains(err.Error(), "1 of 2 rows") {
		t.Errorf("error %v", err)
	}

	text := *ds
	text.Table = table.WithColumn(ds.Table, "power", table.Constant("300", 2))
	if _, err := run(t, config(nil), dir, &text); err == nil || !strings.Contains(err.Error(), `"power" is string`) {
		t.Errorf("power as text: %v", err)
	}

	ds.Table = table.WithColumn(ds.Table, "power", table.Constant(300.0, 2))
	mustRun(t, config(nil), dir, ds)

	if got := read(t, dir, "gemm_perf.txt"); !strings.Contains(got, ",latency,power,power_limit\n") {
		t.Errorf("file:\n%s", got)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	without := func(cols ...string) *stage.Dataset {
		ds := gemm(order(1))
		ds.Table = table.Drop(ds.Table, cols...)
		return ds
	}

	unnamed := without("framework")
	unnamed.Info.Framework = ""

	tests := []struct {
		ds     *stage.Dataset
		change func(*Config)
		want   string
	}{
		{without("kernel_source"), nil, "kernel_source"},
		{unnamed, nil, "set its framework, framework_version and device"},
		{without("n"), nil, "gemm_perf needs the columns n"},
		{without(), func(c *Config) { c.Layout, c.Version = tree.Systems, "" }, ""},
		{&stage.Dataset{}, nil, "no rows"},
	}
	for _, tt := range tests {
		_, err := run(t, config(tt.change), t.TempDir(), tt.ds)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}

	ds := gemm(order(1))
	ds.Info.System = ""
	if _, err := run(t, config(func(c *Config) { c.Layout = tree.Families }), t.TempDir(),
		ds); err == nil || !strings.Contains(err.Error(), "the system of the layout") {
		t.Errorf("error %v", err)
	}
}

func TestWordsThatReadersDoNotKnow(t *testing.T) {
	ds := gemm(order(1))
	ds.Table = table.WithColumn(ds.Table, "gemm_dtype", table.Constant("float32", 1))
	if _, err := run(t, config(func(c *Config) { c.Layout = tree.Systems }), t.TempDir(),
		ds); err == nil || !strings.Contains(err.Error(), "float32") {
		t.Errorf("a database takes a word that its readers do not know: %v", err)
	}

	mustRun(t, config(nil), t.TempDir(), ds)
	ds.Table = table.WithColumn(ds.Table, "gemm_dtype", table.Constant("float16", 1))
	dir := t.TempDir()
	mustRun(t, config(nil), dir, ds)

	if got := read(t, dir, "gemm_perf.txt"); !strings.Contains(got, "bfloat16") {
		t.Errorf("float16 is what bfloat16 was called:\n%s", got)
	}
}

func TestOpWithoutTable(t *testing.T) {
	ds := gemm(order(2))
	ds.Info.Op, ds.Info.Perf, ds.Info.Params = "memory", "", []string{"m", "gemm_dtype"}
	dir := t.TempDir()
	mustRun(t, config(func(c *Config) { c.File = "memory_perf.txt" }), dir, ds)

	got := read(t, dir, "memory_perf.txt")
	if !strings.HasPrefix(got,
		"framework,version,device,op_name,kernel_source,m,gemm_dtype,latency\nTRTLLM,1.3.0,NVIDIA H200,memory,cublas,1,") {
		t.Errorf("file:\n%s", got)
	}

	if _, err := run(t, config(nil), dir, ds); err == nil || !strings.Contains(err.Error(), "\"file\"") {
		t.Errorf("error %v", err)
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Value = cty.StringVal("gemm") }, "must refer to a stage"},
		{func(c *Config) { c.Layout = "tree" }, "layout"},
		{func(c *Config) { c.Format = "xlsx" }, "format"},
		{func(c *Config) { c.Power = "on" }, "power"},
		{func(c *Config) { c.Layout, c.File = "systems", "a.txt" }, "leave \"file\" out"},
		{func(c *Config) { c.File, c.Format = "a.txt", Parquet }, "extension"},
		{func(c *Config) { c.File = "a.xlsx" }, "names no format"},
		{func(c *Config) { c.Table = "gem_perf" }, "Did you mean gemm_perf"},
		{func(c *Config) { c.Reuse = []ReuseBlock{{Table: "gemm_perf"}} }, "families"},
		{func(c *Config) { c.Layout, c.Reuse = "families", []ReuseBlock{{Table: "gemm_perf"}} }, "from_version"},
	}
	for _, tt := range tests {
		diags := config(tt.change).Check(&stage.CheckContext{Range: hcl.Range{Filename: "p.hcl"}})
		found := false
		for _, d := range diags {
			found = found || strings.Contains(d.Summary+" "+d.Detail, tt.want) && d.Subject != nil
		}
		if !found {
			t.Errorf("want %q, got %v", tt.want, diags)
		}
	}
}

func BenchmarkExportCSV(b *testing.B) {
	const n = 200_000
	ds := gemm(rand.New(rand.NewPCG(1, 2)).Perm(n))
	dir := b.TempDir()
	b.ResetTimer()

	for range b.N {
		mustRun(b, config(nil), dir, ds)
	}

	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// TestFrameworkAsPublished: a few tables of vLLM spell its name otherwise than the
// others do. Rows that were imported keep their word.
func TestFrameworkAsPublished(t *testing.T) {
	for runtime, want := range map[string]string{"runtime.vllm": "vLLM", "": "VLLM"} {
		rec := table.NewRecord(
			[]string{"allreduce_dtype", "num_gpus", "message_size", "framework", "version", "device", "kernel_source",
				"backend", "latency"},
			[]arrow.Array{
				table.Constant("bfloat16", 1), table.Constant(int64(2), 1), table.Constant(int64(128), 1),
				table.Constant("VLLM", 1), table.Constant("0.24.0", 1),
				table.Constant("NVIDIA H200", 1), table.Constant("vLLM_custom_graph", 1), table.Constant("vllm_graph", 1),
				table.Constant(0.0044, 1),
			})

		ds := &stage.Dataset{Table: rec, Info: stage.Info{
			Op: "custom_allreduce", Perf: "custom_allreduce_perf",
			Params:    []string{"allreduce_dtype", "num_gpus", "message_size"},
			Framework: "VLLM", Version: "0.24.0", Device: "NVIDIA H200", System: "h200_sxm", Runtime: runtime,
		}}

		dir := t.TempDir()
		out := mustRun(t, config(nil), dir, ds)
		lines := strings.Split(read(t, out.Artifacts[0].Path), "\n")
		if !strings.HasPrefix(lines[1], want+",0.24.0,") {
			t.Errorf("runtime %q: %s", runtime, lines[1])
		}
	}
}
