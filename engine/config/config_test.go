package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	"golang.org/x/tools/txtar"

	"aicplan/engine/stage"
	"aicplan/engine/stage/stagetest"
	"aicplan/systems"
)

// testRuntimes are the kinds of runtimes that the plans in testdata use.
var testRuntimes = []stage.RuntimeKind{
	{
		Name: "cpu", Attributes: []string{"workers"},
		Options: []stage.Option{{Name: "synthetic", Type: cty.Bool}, {Name: "window", Type: cty.Number}},
	},
	{
		Name: "cuda", Attributes: []string{"devices", "workers"},
		Options: []stage.Option{
			{Name: "method", Type: cty.String, OneOf: []string{"eager", "graph"}},
			{Name: "verify", Type: cty.Bool},
		},
	},
	{Name: "python", Attributes: []string{"path", "python"},
		Options: []stage.Option{{Name: "window", Type: cty.Number}}},
	{
		Name: "far", Options: []stage.Option{{Name: "url", Type: cty.String, Required: true, Doc: "where it is"}},
		Blocks: []stage.Block{{Name: "ready",
			Options: []stage.Option{{Name: "path", Type: cty.String}, {Name: "tries", Type: cty.Number}}}},
	},
}

func TestPlans(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { runArchive(t, path) })
	}
}

func runArchive(t *testing.T, path string) {
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	want := map[string]string{}
	markers := map[string]string{}
	for _, f := range ar.Files {
		if !strings.HasSuffix(f.Name, ".hcl") {
			want[f.Name] = strings.TrimSpace(string(f.Data))
			continue
		}
		at := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(at, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}

		for i, line := range strings.Split(string(f.Data), "\n") {
			if _, text, ok := strings.Cut(line, "# ERROR: "); ok {
				markers[fmt.Sprintf("%s:%d", display(at), i+1)] = text
			}
		}
	}

	opts := Options{Path: filepath.Join(dir, "plan.hcl"), Kinds: map[string]stage.Kind{"thing": stagetest.Thing()},
		Runtimes: testRuntimes, Systems: testSystem}
	for _, line := range strings.Split(want["flags"], "\n") {
		if v, ok := strings.CutPrefix(line, "--var "); ok {
			opts.Vars = append(opts.Vars, v)
		}
	}

	cfg, diags := Load(opts)
	if !diags.HasErrors() {
		for _, in := range cfg.Instances {
			_, _, more := cfg.Decode(in)
			diags = append(diags, more...)
		}
	}

	checkDiags(t, cfg, diags, markers, want["want.more"])
	if text, ok := want["want.eval"]; ok {
		checkEval(t, cfg, text)
	}

	if text, ok := want["want.stages"]; ok && !diags.HasErrors() {
		if d := cmp.Diff(text, listing(t, cfg)); d != "" {
			t.Errorf("stages differ (-want +got):\n%s", d)
		}
	}

	if text, ok := want["results"]; ok {
		for _, line := range strings.Split(text, "\n") {
			addr, n, _ := strings.Cut(line, " ")
			rows, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			cfg.SetResult(addr,
				map[string]cty.Value{"rows": cty.NumberIntVal(int64(rows)), "digest": cty.StringVal("d")})
		}
		after := listing(t, cfg)
		for _, line := range strings.Split(want["want.after"], "\n") {
			if !strings.Contains(after, line) {
				t.Errorf("after the results %q is missing in:\n%s", line, after)
			}
		}
	}
}

func checkDiags(t *testing.T, cfg *Config, diags hcl.Diagnostics, markers map[string]string, more string) {
	t.Helper()
	left := map[string]string{}
	for k, v := range markers {
		left[k] = v
	}

	var all strings.Builder
	for _, d := range diags {
		if d.Subject == nil || d.Subject.Filename == "" {
			t.Errorf("a diagnostic without a place: %s", d.Summary)
			continue
		}
		fmt.Fprintln(&all, d.Detail)
		if d.Severity != hcl.DiagError {
			continue
		}

		at := shortRange(*d.Subject)
		text, ok := left[at]
		if ok && d.Summary == text {
			delete(left, at)
			continue
		}

		if markers[at] == d.Summary || (more != "" && regexp.MustCompile(more).MatchString(d.Detail)) {
			continue
		}

		t.Errorf("unexpected error at %s: %s: %s", at, d.Summary, d.Detail)
	}

	for at, text := range left {
		t.Errorf("no error %q at %s; all:\n%v", text, at, diags)
	}

	if more != "" && !regexp.MustCompile(more).MatchString(all.String()) {
		t.Errorf("no diagnostic says %q:\n%s", more, all.String())
	}

	var out bytes.Buffer
	if err := WriteDiagnostics(&out, cfg.Files(), diags, 80, false); err != nil {
		t.Error(err)
	}
}

func checkEval(t *testing.T, cfg *Config, text string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		expr, want, _ := strings.Cut(line, " = ")
		v, diags := cfg.Eval(expr)
		if diags.HasErrors() {
			t.Errorf("%s: %v", expr, diags)
			continue
		}

		got, err := ctyjson.SimpleJSONValue{Value: v}.MarshalJSON()
		if err != nil || string(got) != want {
			t.Errorf("%s = %s (%v), want %s", expr, got, err, want)
		}
	}
}

// listing returns one line per stage: its address, the decoded values and its dependencies.
func listing(t *testing.T, cfg *Config) string {
	t.Helper()
	var lines []string
	for _, in := range cfg.Instances {
		line := in.Address
		st, deferred, diags := cfg.Decode(in)
		switch {
		case diags.HasErrors():
			t.Errorf("%s: %v", in.Address, diags)
		case deferred:
			line += " deferred"
		default:
			if v := st.(*stagetest.Config).Value; v != nil {
				line += fmt.Sprintf(" value=%d", *v)
			}
		}

		if len(in.Deps) > 0 {
			deps := append([]string(nil), in.Deps...)
			sort.Strings(deps)
			line += " <- " + strings.Join(deps, ", ")
		}

		lines = append(lines, line)
	}

	return strings.Join(lines, "\n")
}

func testSystem(name, file string) (*systems.Spec, error) {
	if file != "" {
		return systems.LoadFile(file)
	}
	return systems.Load(name)
}

// TestFunctionsArePure rejects functions that would make a plan depend on the time or place.
func TestFunctionsArePure(t *testing.T) {
	for name := range Functions() {
		for _, bad := range []string{"timestamp", "env", "file", "uuid", "now", "random"} {
			if strings.Contains(name, bad) {
				t.Errorf("%s looks impure", name)
			}
		}
	}
}

func TestEvalFunctions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.hcl")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}

	cfg, diags := Load(Options{Path: path, Systems: testSystem})
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	checkEval(t, cfg, strings.TrimSpace(`
ceil_div(7, 2) = 4
powers(2, 0, 3) = [1,2,4,8]
sort([3, 20, 1]) = [1,3,20]
sort(["b", "a"]) = ["a","b"]
contains([1, null], null) = true
contains(["a"], 1) = false
pow(2, 10) = 1024
pow(0.5, 2) = 0.25
pow(0, 1e300) = 0
pow(-1, 1000000000001) = -1
pow(2, -1) = 0.5
alltrue([]) = true
anytrue([false, true]) = true
tostring(3) = "3"
startswith("gemm_perf", "gemm") = true
[for x in range(3) : x * x] = [0,1,4]
`))

	for _, expr := range []string{"ceil_div(1, 0)", "pow(-1, 0.5)", "range(1, 5, -1)", `sort([1, null])`,
		"tonumber(\"x\")"} {
		if _, diags := cfg.Eval(expr); !diags.HasErrors() {
			t.Errorf("%s must fail", expr)
		}
	}
}

func TestLocalAddress(t *testing.T) {
	for in, want := range map[string]string{
		"grid.gemm":          "grid.gemm",
		"module.a.grid.gemm": "grid.gemm",
		`module.a["x.y"].module.b.collect.c["k"]`: `collect.c["k"]`,
		`grid.module["a"]`:                        `grid.module["a"]`,
		`module.a["q\"x.y"].grid.g["]\"].z"]`:     `grid.g["]\"].z"]`,
		`module.a["unclosed`:                      `module.a["unclosed`,
		"module.a":                                "module.a",
	} {
		if got := LocalAddress(in); got != want {
			t.Errorf("LocalAddress(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestWithoutKeys(t *testing.T) {
	for in, want := range map[string][2]string{
		"grid.gemm":                {"grid.gemm", "grid.gemm"},
		`grid.g["a"]`:              {"grid.g", "grid.g"},
		`module.m["k"].grid.g`:     {`module.m["k"].grid.g`, "module.m.grid.g"},
		`module.m["[\""].g.h["]"]`: {`module.m["[\""].g.h`, "module.m.g.h"},
		`grid.g["a"`:               {`grid.g["a"`, `grid.g["a"`},
		`grid.g["x\"][\"y"]`:       {"grid.g", "grid.g"},
	} {
		if got := WithoutOwnKey(in); got != want[0] {
			t.Errorf("WithoutOwnKey(%s) = %s, want %s", in, got, want[0])
		}
		if got := WithoutKeys(in); got != want[1] {
			t.Errorf("WithoutKeys(%s) = %s, want %s", in, got, want[1])
		}
	}
}

// TestKeyedReferencesTakeLinearMemory loads plans in which each of n instances refers to another by its key.
func TestKeyedReferencesTakeLinearMemory(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"plan.hcl": `
variable "n" { type = number }
locals { keys = { for i in range(var.n) : "k${i}" => i } }
thing "a" { for_each = local.keys }
thing "b" {
  for_each = local.keys
  input    = thing.a[each.key]
}
module "m" {
  source   = "./m"
  for_each = local.keys
}
module "n" {
  source   = "./m"
  for_each = local.keys
  value    = module.m[each.key].value
}
`,
		"m/main.hcl": `
variable "value" { default = 1 }
output "value" { value = var.value }
thing "t" { value = var.value }
`,
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	allocations := func(n int) float64 {
		return testing.AllocsPerRun(1, func() {
			_, diags := Load(Options{Path: filepath.Join(dir, "plan.hcl"), Vars: []string{fmt.Sprintf("n=%d", n)},
				Kinds: map[string]stage.Kind{"thing": stagetest.Thing()}, Runtimes: testRuntimes, Systems: testSystem})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
		})
	}
	if few, many := allocations(200), allocations(400); many > 2.5*few {
		t.Errorf("%.0f allocations for 200 instances, %.0f for 400", few, many)
	}
}
