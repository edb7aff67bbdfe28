package plans_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/sink/base/testutil"
	"aicplan/sink/catalog"
)

func format(tb testing.TB, file string) (src, formatted string) {
	tb.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw), string(hclwrite.Format(raw))
}

func TestOpsAreChosen(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		got := gridsOf(t, load(t, planOf(backend), `ops=["gemm","moe"]`))
		if len(got) != 2 || got["gemm"] == nil || got["moe"] == nil {
			t.Errorf("%s: %v", backend, slices.Collect(maps.Keys(got)))
		}
	}
	cfg := load(t, planOf("trtllm"), `ops=["gemm"]`)
	for _, in := range cfg.Instances {
		if strings.Contains(in.Address, "moe") || strings.Contains(in.Address, "attention") {
			t.Errorf("%s belongs to an op that was not asked for", in.Address)
		}
	}
}

// TestDenseModel: a run about one dense model has its own products and heads
// and nothing else.
func TestDenseModel(t *testing.T) {
	t.Parallel()
	got := casesOf(t, planOf("trtllm"), `models=["Qwen/Qwen3-32B"]`, "tp=[1,2,4,8]")
	ops := make([]string, 0, len(got))
	for op := range got {
		ops = append(ops, op)
	}
	sort.Strings(ops)
	if diff := cmp.Diff([]string{"attention_context", "attention_generation", "compute_scale", "gemm"}, ops); diff != "" {
		t.Fatal(diff)
	}

	// Hidden size 5120, dense layer 25600, 64 query and 8 key/value heads of 128, 151936 words.
	want := map[string]bool{}
	for _, tp := range []int{1, 2, 4, 8} {
		want[fmt.Sprint(151936/tp, ",", 5120)] = true
		want[fmt.Sprint((64+2*8)*128/tp, ",", 5120)] = true
		want[fmt.Sprint(5120, ",", 8192/tp)] = true
		want[fmt.Sprint(2*25600/tp, ",", 5120)] = true
		want[fmt.Sprint(5120, ",", 25600/tp)] = true
	}
	shapes := map[string]bool{}
	for _, l := range lines(got["gemm"], []string{"n", "k"}, nil) {
		shapes[l] = true
	}
	if diff := cmp.Diff(want, shapes); diff != "" {
		t.Error(diff)
	}

	// Activations have the widths k of the products.
	wide := map[string]bool{}
	for _, tp := range []int{1, 2, 4, 8} {
		wide["5120"], wide[fmt.Sprint(8192/tp)], wide[fmt.Sprint(25600/tp)] = true, true, true
	}
	scaled := map[string]bool{}
	for _, l := range lines(got["compute_scale"], []string{"k"}, nil) {
		scaled[l] = true
	}
	if diff := cmp.Diff(wide, scaled); diff != "" {
		t.Error(diff)
	}

	heads := map[string]bool{}
	for _, op := range []string{"attention_context", "attention_generation"} {
		for _, l := range lines(got[op], []string{"num_heads", "num_key_value_heads", "head_dim", "window_size"}, nil) {
			heads[l] = true
		}
	}
	if diff := cmp.Diff(map[string]bool{"64,8,128,0": true, "32,4,128,0": true, "16,2,128,0": true, "8,1,128,0": true},
		heads); diff != "" {
		t.Error(diff)
	}
}

// TestHeadAndRouter checks that a run about one model plans the products of its head and of its router, in bfloat16
// only.
func TestHeadAndRouter(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		got := casesOf(t, planOf(backend), `ops=["gemm"]`, `models=["Qwen/Qwen3-30B-A3B"]`, "tp=[2]")
		seen := map[string]bool{}
		for _, l := range lines(got["gemm"], []string{"gemm_dtype", "n", "k"}, nil) {
			if !strings.HasSuffix(l, ",2560,2048") && !strings.HasSuffix(l, ",2048,2048") { // queries, keys and values; output
				seen[l] = true
			}
		}
		if diff := cmp.Diff(map[string]bool{"bfloat16,75968,2048": true, "bfloat16,128,2048": true}, seen); diff != "" {
			t.Errorf("%s: %s", backend, diff)
		}
	}
}

// TestModelsWithAndWithoutProjections checks that a model without a row of projections has the products of the base
// grid also beside a model that has one.
func TestModelsWithAndWithoutProjections(t *testing.T) {
	t.Parallel()
	got := casesOf(t, planOf("vllm"), `ops=["gemm","compute_scale"]`, "tp=[1]",
		`models=["Qwen/Qwen3-32B","deepseek-ai/DeepSeek-V3"]`)
	widths, scaled := lines(got["gemm"], []string{"n", "k"}, nil), lines(got["compute_scale"], []string{"k"}, nil)
	for _, want := range []string{"5120,25600", "151936,5120", "7168,2048"} {
		if _, k, _ := strings.Cut(want, ","); !slices.Contains(widths, want) || !slices.Contains(scaled, k) {
			t.Errorf("the products of %s are not planned", want)
		}
	}
}

// TestEveryModel: whatever model is chosen, a backend plans something for it
// or nothing at all, never everything, and all of it is part of the full plan
// or the model's own products.
func TestEveryModel(t *testing.T) {
	t.Parallel()
	full := casesOf(t, planOf("sglang"))
	ids := map[string]map[string]bool{}
	for op, c := range full {
		ids[op] = map[string]bool{}
		for i := range c.Len() {
			ids[op][c.ID(i)] = true
		}
	}
	names := modelNames(t)
	if names.LengthInt() < 60 {
		t.Fatalf("%d models", names.LengthInt())
	}
	step := testutil.Rounds(40, 10) // a sample is enough: families share their rows
	for i, v := range names.AsValueSlice() {
		if i%step != 0 {
			continue
		}
		model := v.AsString()
		got := casesOf(t, planOf("sglang"), fmt.Sprintf("models=[%q]", model))
		for op, c := range got {
			if op == "gemm" || op == "compute_scale" {
				continue
			}
			if c.Len() == full[op].Len() && c.Len() > 100 && !strings.HasPrefix(op, "msa_") {
				t.Errorf("%s: all of %s", model, op)
			}
			for i := range c.Len() {
				if !ids[op][c.ID(i)] && !sharesShape(op) {
					t.Errorf("%s: %s has a case that the full plan has not", model, op)
					break
				}
			}
		}
	}
}

// modelNames are the checkpoints that var.models may name.
func modelNames(t *testing.T) cty.Value {
	t.Helper()
	outputs, diags := load(t, filepath.Join("modules", "models")).Outputs()
	if diags.HasErrors() {
		t.Fatal(text(diags))
	}
	for _, o := range outputs {
		if o.Name == "names" {
			return o.Value
		}
	}
	t.Fatal("modules/models gives out no names")
	return cty.NilVal
}

// sharesShape is true for ops whose cases carry the name of the first model
// with a shape: choosing another one renames them.
func sharesShape(op string) bool {
	return slices.Contains([]string{"moe", "moe_ep", "attention_context", "attention_generation", "mla_context",
		"mla_generation"}, op)
}

func TestTensorParallelSizes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ models, op, column, want string }{
		{``, "moe", "moe_tp_size", "2"},
		{``, "mla_context", "tp_size", "2"},
		{``, "dsv4_hca_context_module", "tp_size", "2"},
		{``, "mla_context_module", "num_heads", "32 64"}, // half of 64 and of 128
		{`"deepseek-ai/DeepSeek-V3"`, "mla_context_module", "num_heads", "64"},
		{`"moonshotai/Kimi-K2-Instruct"`, "mla_context_module", "num_heads", "32"},
		{`"zai-org/GLM-5"`, "dsa_context_module", "num_heads", "32"},
	} {
		got := casesOf(t, planOf("trtllm"), "tp=[2]", fmt.Sprintf("models=[%s]", tc.models), fmt.Sprintf("ops=[%q]", tc.op))
		seen := lines(got[tc.op], []string{tc.column}, nil)
		slices.Sort(seen)
		if s := strings.Join(slices.Compact(seen), " "); s != tc.want {
			t.Errorf("%s of %s: %s is %s, want %s", tc.op, tc.models, tc.column, s, tc.want)
		}
	}
}

// TestWrongChoices: a misspelt choice is an error that lists what there is.
func TestWrongChoices(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ v, want string }{
		{`ops=["gem"]`, "no op gem"},
		{`models=["Qwen/Qwen-3-32B"]`, "No shapes are on file of Qwen/Qwen-3-32B. Did you mean Qwen/Qwen3-32B? Of the same " +
			"maker there are Qwen/Qwen3-0.6B, Qwen/Qwen3-1.7B"},
		{`tp=4`, "write a list: 'tp=[4]'"},
		{"tp=[3]", "powers of two"},
		{"system=h200", "did you mean h200_sxm"},
		{"opps=[]", `Did you mean "ops"`},
	} {
		_, diags := config.Load(options(planOf("vllm"), []string{tc.v}))
		if !diags.HasErrors() || !strings.Contains(strings.ToLower(text(diags)), strings.ToLower(tc.want)) {
			t.Errorf("%s: want %q, got %s", tc.v, tc.want, text(diags))
		}
	}
}

// TestEverySystem: every system plans without errors, also one that is no CUDA
// device. TestCases has all backends on other systems of the same generations;
// make test has one backend on the one that is no CUDA device.
func TestEverySystem(t *testing.T) {
	t.Parallel()
	for system, on := range map[string][]string{"b60": backends, "a30": backends[:1], "l4": backends[1:2],
		"gb300": backends[2:]} {
		if !testutil.All() {
			if on = on[:1]; system != "b60" {
				continue
			}
		}
		for _, backend := range on {
			got := casesOf(t, planOf(backend), "system="+system)
			for op, c := range got {
				for _, at := range positions(c, []string{"gemm_dtype", "moe_dtype"}, nil) {
					for i := range c.Len() {
						if w := c.Value(i, at); system == "b60" && w.Equals(cty.StringVal("fp8")).True() {
							t.Errorf("%s %s plans FP8 tensor cores on %s", backend, op, system)
						}
					}
				}
			}
		}
	}
}

// TestNothingIsUnused: what the plans and their modules declare is used.
func TestNothingIsUnused(t *testing.T) {
	t.Parallel()
	plans, err := filepath.Glob("*.hcl")
	if err != nil || len(plans) < 7 {
		t.Fatalf("plans %v, %v", plans, err)
	}
	for _, p := range plans {
		if diags := shared(t, p).Unused(); len(diags) > 0 {
			t.Errorf("%s: %s", p, text(diags))
		}
	}
}

// TestExpertFormatsAreThoseOfTheTables: the words that the module of models takes
// are those that readers of the moe tables know.
func TestExpertFormatsAreThoseOfTheTables(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("modules/models/checks.hcl")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`expert_dtypes = \[(.*)\]`).FindSubmatch(text)
	if line == nil {
		t.Fatal("no expert_dtypes")
	}
	var got []string
	for _, w := range strings.Split(string(line[1]), ",") {
		got = append(got, strings.Trim(w, ` "`))
	}
	if want := catalog.Words("moe_dtype"); !slices.Equal(got, want) {
		t.Errorf("checks.hcl has %v, the catalog %v", got, want)
	}
}
