package contract

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOtherPlans compares the counts of the shipped plans whose case lists are
// not digested: stages by kind, and the cases and points of each grid.
func TestOtherPlans(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "plans", "*.hcl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d plans, %v", len(files), err)
	}
	got := map[string]any{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".hcl")
		if slices.Contains(backendPlans, name) || strings.HasSuffix(name, ".aictest") {
			continue
		}
		var p planned
		newFolder(t).json(&p, 0, "plan", "--json", file)
		kinds, grids := map[string]int{}, map[string]string{}
		for _, s := range p.Stages {
			kinds[s.Kind]++
			if s.Grid != nil {
				grids[s.Address] = fmt.Sprintf("%d declared, %d cases, %d points", s.Grid.Declared, s.Grid.Cases, s.Grid.Rows)
			}
		}
		got[name] = map[string]any{"stages": kinds, "grids": grids, "collect": p.Totals["collect"]}
	}
	golden(t, *update, "plans", got)
}

// why is what why --json prints.
type why struct {
	Kept  bool
	Drops []struct{ Filter, Reason, Place string }
}

// TestWhy asks why a grid keeps a case or drops it.
func TestWhy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		plan, grid, values, filter string
	}{
		{"h200_trtllm", "gemm", "gemm_dtype=bfloat16 m=1 n=1024 k=1024", ""},
		{"h200_trtllm", "gemm", "gemm_dtype=nvfp4 m=1 n=1024 k=1024", "sm_gate"},
		{"h200_trtllm", "gemm", "gemm_dtype=fp8_block m=1 n=64 k=1024", "block_min_128"},
		{"h200_trtllm", "gemm", "gemm_dtype=bfloat16 m=1 n=65536 k=65536", "base.largest_square"},
		{"h200_vllm", "moe", "" +
			"model_name=deepseek-ai/DeepSeek-V3 " +
			"moe_dtype=fp8_block moe_tp_size=2 moe_ep_size=4 distribution=balanced", "topology"},
	} {
		var w why
		args := append([]string{"why", "--json", filepath.Join(root, "plans", tc.plan+".hcl"), "grid." + tc.grid},
			strings.Fields(tc.values)...)
		newFolder(t).json(&w, 0, args...)
		found := false
		for _, d := range w.Drops {
			found = found || d.Filter == tc.filter && d.Reason != "" && d.Place != ""
		}
		if w.Kept != (tc.filter == "") || !w.Kept && !found {
			t.Errorf("%s %s: kept %v, drops %+v; want the filter %q", "grid."+tc.grid, tc.values, w.Kept, w.Drops, tc.filter)
		}
	}
}

const languagePlan = `
variable "sizes" {
  type    = list(number)
  default = [1, 2]
}
variable "shape" {
  type    = object({ heads = number, name = optional(string, "none") })
  default = { heads = 8 }
}
module "lib" {
  source = "./lib"
  limit  = 2
}
runtime "try" {
  kind      = "cpu"
  framework = "TRY"
  synthetic = true
}
grid "parted" {
  op      = "synthetic"
  include = module.lib.limited
  axis "m" { values = [1, 2, 4] }
}
grid "each" {
  for_each = { a = 1, b = 2 }
  op       = "synthetic"
  axis "m" { values = [for s in var.sizes : s * each.value] }
  derive "heads" { value = var.shape.heads }
}
grid "sets" {
  op = "synthetic"
  case_set "small" {
    axis "m" { values = powers(2, 0, 3) }
    axis "n" { values = [1, 2] }
  }
  case_set "equal" {
    axis "m" { values = [1, 16] }
    derive "n" { value = m }
  }
  filter "order" {
    keep   = m >= n
    reason = "m is the longer one"
  }
}
grid "swept" {
  op = "synthetic"
  axis "dtype" { values = ["bf16", "fp8"] }
  sweep "points" {
    axis "tokens" { values = [1, 2, 4] }
    derive "tile" { value = tokens * 8 }
    filter "small" {
      keep   = dtype == "fp8" || tokens < 4
      reason = "too large"
    }
  }
}
collect "all" {
  for_each = { parted = grid.parted, a = grid.each["a"], b = grid.each["b"], sets = grid.sets, swept = grid.swept }
  grid     = each.value
  runtime  = runtime.try
}
export "all" {
  for_each = collect.all
  input    = each.value
  file     = "${each.key}.csv"
}
`

const languageModule = `
variable "limit" {
  type = number
}
part "limited" {
  filter "limit" {
    keep   = m <= var.limit
    reason = "more than ${var.limit}"
  }
}
output "limited" { value = part.limited }
`

// TestLanguage compares what modules, parts, for_each, variables, case sets,
// filters and sweeps come to.
func TestLanguage(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "plan.hcl", languagePlan, "lib/lib.hcl", languageModule,
		"more.hclvars", "sizes = [3]\nshape = { heads = 16, name = \"x\" }\n", "bad.hcl", "grid \"s\" {\n  opp = \"x\"\n}\n")
	got := map[string]any{}
	for _, grid := range []string{"grid.parted", `grid.each["a"]`, `grid.each["b"]`, "grid.sets", "grid.swept"} {
		var list []any
		for _, c := range rows(t, f.expect(0, "cases", "--json", "plan.hcl", grid).stdout) {
			delete(c, "case_id")
			list = append(list, c)
		}
		got[grid] = list
	}
	var more []any
	for _, c := range rows(t, f.expect(0, "cases", "--json", "--var-file", "more.hclvars", "plan.hcl",
		`grid.each["b"]`).stdout) {
		delete(c, "case_id")
		more = append(more, c)
	}
	got["with a file of variables"] = more
	f.apply(0, "plan.hcl")
	for _, name := range []string{"parted.csv", "a.csv", "b.csv", "sets.csv", "swept.csv"} {
		var latencies []string
		for line := range strings.Lines(string(f.read("out/" + name))) {
			cells := strings.Split(strings.TrimSpace(line), ",")
			latencies = append(latencies, strings.Join(cells[4:], ","))
		}
		got["rows of "+name] = latencies
	}
	golden(t, *update, "language", got)

	// Types of variables are checked, and mistakes have a place.
	var bad struct {
		Valid       bool
		Diagnostics []struct {
			Severity, Summary string
			Range             struct {
				File  string
				Start struct{ Line int }
			}
		}
	}
	f.json(&bad, 1, "plan", "--json", "--var", `sizes=["x"]`, "plan.hcl")
	if bad.Valid || len(bad.Diagnostics) == 0 {
		t.Errorf("a variable of another type is accepted: %+v", bad)
	}
	r := f.expect(1, "validate", "--json", "bad.hcl")
	if !strings.Contains(string(r.stdout), `"line": 2`) || !strings.Contains(string(r.stdout), "bad.hcl") {
		t.Errorf("a mistake has no place: %s", r.stdout)
	}

	// Selections.
	var p planned
	f.json(&p, 0, "plan", "--json", "--target", `collect.all["a"]`, "plan.hcl")
	if p.action(`collect.all["a"]`) == "" || p.action(`collect.all["b"]`) != "" {
		t.Error("--target does not choose one stage and what it needs")
	}
	f.json(&p, 0, "plan", "--json", "--exclude", `collect.all["a"]`, "plan.hcl")
	if p.action(`collect.all["a"]`) != "" || p.action(`export.all["a"]`) != "" || p.action(`export.all["b"]`) == "" {
		t.Error("--exclude does not leave out a stage and what depends on it")
	}
	value := f.expect(0, "describe", "--var", "sizes=[5]", "plan.hcl", "--eval", "[var.sizes, var.shape]").stdout
	if v := strings.Join(strings.Fields(string(value)), ""); v != `[[5],{"heads":8,"name":"none"}]` {
		t.Errorf("eval prints %s", v)
	}
	var described struct {
		Variables []struct{ Name, Type string }
	}
	f.json(&described, 0, "describe", "--json", "plan.hcl")
	if len(described.Variables) != 2 || described.Variables[0].Name != "sizes" ||
		described.Variables[0].Type != "list(number)" {
		t.Errorf("describe has the variables %+v", described.Variables)
	}
}

const small = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n" +
	"TRTLLM,1.0.0,NVIDIA H200,gemm,default,bfloat16,1,128,128,0.5\n" +
	"TRTLLM,1.0.0,NVIDIA H200,gemm,default,bfloat16,2,128,128,0.75\n"

// TestDiff compares two files, and has an exit code for limits.
func TestDiff(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "a/gemm_perf.txt", small+"TRTLLM,1.0.0,NVIDIA H200,gemm,default,bfloat16,4,128,128,1\n",
		"b/gemm_perf.txt", strings.NewReplacer("0.5", "1", "0.75",
			"1.5").Replace(small)+"TRTLLM,1.0.0,NVIDIA H200,gemm,default,bfloat16,8,128,128,1\n")
	var d struct {
		Tables []struct {
			Common, Added, Removed, Changed int
			Ratio                           struct{ P50, Max float64 }
			Worst                           []struct{ A, B, Ratio float64 }
		}
	}
	f.json(&d, 0, "diff", "--json", "a/gemm_perf.txt", "b/gemm_perf.txt")
	if len(d.Tables) != 1 {
		t.Fatalf("%d tables", len(d.Tables))
	}
	x := d.Tables[0]
	expectEqual(t, "diff", []any{x.Common, x.Added, x.Removed, x.Changed, x.Ratio.P50, x.Ratio.Max,
		x.Worst[0].Ratio}, []any{2, 1, 1, 2, 2, 2, 2})
	f.json(&d, 0, "diff", "--json", "a", "b")
	for flag, code := range map[string]int{
		"--max-changed=1": 4, "--max-changed=2": 0, "--max-removed=0": 4, "--max-removed=1": 0, "--max-added=0": 4,
		"--max-added=1": 0,
		"--max-p95=1.5": 4, "--max-p95=2": 0, "--max-median=0.9": 4, "--max-median=1": 0,
	} {
		if r := f.run("diff", flag, "a/gemm_perf.txt", "b/gemm_perf.txt"); r.code != code {
			t.Errorf("diff %s: exit code %d, want %d", flag, r.code, code)
		}
	}
}

// TestDatabase examines a database, and asks which models it covers.
func TestDatabase(t *testing.T) {
	t.Parallel()
	const at = "data/h200_sxm/trtllm/1.0.0/gemm_perf.txt"
	f := newFolder(t, "good/"+at, small+strings.ReplaceAll(strings.Join(strings.Split(small, "\n")[1:], "\n"),
		",128,128,", ",256,128,"),
		"bad/"+at, small+"TRTLLM,1.0.0,NVIDIA H200,gemm,default,bfloat16,1,128,128,-1\n",
		"models.yaml", "models:\n  - name: tiny\n    tp: [1]\n    dense:\n"+
			"      - hidden_size: 128\n        inter_size: 128\n"+
			"  - name: huge\n    tp: [1]\n    dense:\n      - hidden_size: 65536\n        inter_size: 65536\n")
	var lint struct {
		Files, Rows int
		Counts      map[string]int
		Findings    []struct{ Rule, Severity, Path, Table string }
	}
	f.json(&lint, 0, "data", "lint", "--json", "good")
	if lint.Files != 1 || lint.Rows != 4 {
		t.Errorf("lint reads %d files with %d rows, want 1 with 4", lint.Files, lint.Rows)
	}
	for _, x := range lint.Findings {
		if x.Severity == "error" {
			t.Errorf("lint finds %+v in a good database", x)
		}
	}
	f.json(&lint, 4, "data", "lint", "--json", "bad")
	if lint.Counts["limits"] != 1 || lint.Counts["duplicates"] != 1 {
		t.Errorf("lint counts %v", lint.Counts)
	}
	f.expect(0, "data", "lint", "--allow", "limits=1", "--allow", "duplicates=1", "bad")

	var matrix struct {
		Cells []struct {
			Model, System, Backend, Version, Answer string
			TP                                      int
			Missing                                 []string
		}
	}
	f.json(&matrix, 0, "data", "matrix", "--json", "--models", "models.yaml", "good")
	answers := map[string]string{}
	for _, c := range matrix.Cells {
		answers[c.Model] = fmt.Sprint(c.System, " ", c.Backend, " ", c.Version, " ", c.TP, " ", c.Answer, " ", len(c.Missing))
	}
	golden(t, *update, "matrix", answers)
	f.expect(4, "data", "matrix", "--require", "--models", "models.yaml", "good")
}

// TestReports: the files of a report exist and the JSON has the run's figures.
func TestReports(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	f.write("plan.hcl", faultsPlan+`
report "r" {
  title  = "A release"
  inputs = gate.g
  format = ["html", "markdown", "json"]
}
`)
	f.apply(3, "--var", kinds("fine", "fine", "raises"), "plan.hcl")
	var report struct {
		Title  string
		Tables []struct {
			Rows, Planned, Covered, Failed, Skipped int
			Latency                                 struct{ Min, P50, Max float64 }
		}
		Gates    []struct{ Address, Status string }
		Failures []struct{ Class string }
		Files    []struct{ Path string }
	}
	check := func(data []byte) {
		t.Helper()
		if err := json.Unmarshal(data, &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Tables) != 1 || len(report.Gates) == 0 || len(report.Failures) != 1 {
			t.Fatalf("the report has %d tables, %d gates, %d failures", len(report.Tables), len(report.Gates),
				len(report.Failures))
		}
		x := report.Tables[0]
		expectEqual(t, "table", []any{x.Rows, x.Planned, x.Covered, x.Failed, x.Skipped, x.Latency.Min,
			x.Latency.Max}, []any{2, 3, 2, 1, 0, 1, 2})
	}
	check(f.read("out/report.json"))
	for _, name := range []string{"report.html", "report.md"} {
		text := string(f.read("out/" + name))
		if !strings.Contains(text, "A release") || !strings.Contains(text, "framework_bug") {
			t.Errorf("%s lacks the title or the failure", name)
		}
	}
	check(f.expect(0, "report", "--json").stdout)
	f.expect(0, "report", "--format", "html", "--out", "page.html")
	if !strings.HasPrefix(strings.ToLower(string(f.read("page.html"))), "<!doctype html>") {
		t.Error("page.html is no page")
	}
	var runs []map[string]any
	f.json(&runs, 0, "report", "--list", "--json")
	if len(runs) != 1 {
		t.Errorf("%d runs are listed, want 1", len(runs))
	}
}

const publishPlan = `
variable "n" { default = 2 }
runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
  synthetic = true
}
grid "s" {
  op = "synthetic"
  axis "a" { values = range(var.n) }
}
collect "s" {
  grid    = grid.s
  runtime = runtime.cpu
}
export "s" {
  input = collect.s
  file  = "s_perf.txt"
}
report "release" {
  title      = "A release"
  inputs     = collect.s
  depends_on = [export.s]
}
publish "git" {
  exports    = export.s
  report     = report.release
  repository = "db"
  branch     = "data/cpu"
  path       = "perf"
  message    = "add CPU perf data"
  author {
    name  = "Bot"
    email = "bot@example.com"
  }
}
`

// TestPublish commits exports to a branch of a local repository, once for each
// content, signed off, and leaves the work tree alone.
func TestPublish(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	f := newFolder(t, "plan.hcl", publishPlan)
	f.env = append(f.env, "HOME="+f.dir, "GIT_CONFIG_NOSYSTEM=1")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = f.dir, append(os.Environ(), f.env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main", "db")
	git("-C", "db", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "-q", "--allow-empty",
		"-m", "start")
	f.apply(0, "plan.hcl")
	if got := git("-C", "db", "show",
		"data/cpu:perf/s_perf.txt"); got != strings.TrimSpace(string(f.read("out/s_perf.txt"))) {
		t.Errorf("the branch has\n%s", got)
	}
	body := git("-C", "db", "log", "-1", "--format=%an <%ae>%n%B", "data/cpu")
	for _, want := range []string{"Bot <bot@example.com>", "add CPU perf data", "Signed-off-by: Bot <bot@example.com>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the commit lacks %q:\n%s", want, body)
		}
	}
	commits := func(want string) {
		t.Helper()
		if n := git("-C", "db", "rev-list", "--count", "data/cpu"); n != want {
			t.Errorf("%s commits on the branch, want %s", n, want)
		}
	}
	commits("2")
	f.apply(0, "plan.hcl")
	commits("2")
	f.apply(0, "--var", "n=3", "plan.hcl")
	commits("3")
	f.expect(0, "publish", "--json", "--var", "n=3", "plan.hcl")
	commits("3")
	if s := git("-C", "db", "status", "--porcelain"); s != "" || git("-C", "db", "rev-parse", "--abbrev-ref",
		"HEAD") != "main" {
		t.Errorf("the work tree is changed: %s", s)
	}
}

// TestExecutor: plan reports what a collect would submit to Slurm, and asks no
// Slurm for it.
func TestExecutor(t *testing.T) {
	t.Parallel()
	f := newFolder(t, "plan.hcl", `
executor "cluster" {
  kind          = "slurm"
  time          = "00:30:00"
  nodes         = 2
  gpus_per_node = 4
  tasks         = 2
  parallel      = 1
}
runtime "cpu" {
  kind      = "cpu"
  framework = "CPU"
  synthetic = true
}
grid "s" {
  op = "synthetic"
  axis "m" { values = range(12) }
}
collect "s" {
  grid     = grid.s
  runtime  = runtime.cpu
  executor = executor.cluster
}
`)
	var p struct {
		Stages []struct {
			Address string
			Request *struct {
				Executor          string
				Jobs, Nodes, GPUs int
				AtOnce            int     `json:"at_once"`
				GPUsPerNode       int     `json:"gpus_per_node"`
				TaskCases         int     `json:"task_cases"`
				GPUHours          float64 `json:"gpu_hours"`
				NodeHours         float64 `json:"node_hours"`
			}
		}
	}
	f.json(&p, 0, "plan", "--json", "plan.hcl")
	found := false
	for _, s := range p.Stages {
		if s.Address != "collect.s" {
			continue
		}
		r := s.Request
		if r == nil {
			t.Fatal("the plan has no request of collect.s")
		}
		found = true
		expectEqual(t, "request", []any{r.Executor, r.Jobs, r.Nodes, r.GPUs, r.AtOnce, r.GPUsPerNode, r.TaskCases,
			r.GPUHours, r.NodeHours},
			[]any{"executor.cluster", 2, 2, 8, 1, 4, 6, 8, 2})
	}
	if !found {
		t.Error("the plan has no collect.s")
	}
	script := string(f.expect(0, "apply", "--dry-run", "plan.hcl").stdout)
	for _, line := range []string{"#SBATCH -t 00:30:00", "#SBATCH -N 2", "#SBATCH --gpus-per-node=4"} {
		if !strings.Contains(script, line) {
			t.Errorf("the script of a dry run lacks %q:\n%s", line, script)
		}
	}
	if f.has(".aicplan/journal") {
		t.Error("a dry run measured")
	}
}
