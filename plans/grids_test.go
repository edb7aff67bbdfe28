package plans_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
	"aicplan/engine/grid"
	"aicplan/sink/catalog"
)

// TestWhyNamesTheFilter checks which filter drops cases that are not planned, and its reason.
func TestWhyNamesTheFilter(t *testing.T) {
	t.Parallel()
	type given map[string]any
	for _, tc := range []struct {
		backend, op    string
		vars           []string
		given          given
		filter, reason string
	}{
		{"trtllm", "gemm", nil, given{"gemm_dtype": "nvfp4", "m": 1, "n": 1024, "k": 1024}, "sm_gate", "NVFP4 at SM 100"},
		{"trtllm", "gemm", nil, given{"gemm_dtype": "fp8_block", "m": 1, "n": 64, "k": 1024}, "block_min_128",
			"one scale per 128 x 128 block"},
		{"trtllm", "gemm", nil, given{"gemm_dtype": "bfloat16", "m": 32768, "n": 65536, "k": 32}, "output_elements",
			"32 bits"},
		{"trtllm", "gemm", nil, given{"gemm_dtype": "bfloat16", "m": 1, "n": 65536, "k": 65536}, "base.largest_square",
			"no model's layer"},
		{"trtllm", "attention_context", nil,
			given{"num_heads": 96, "num_key_value_heads": 96, "head_dim": 256, "batch_size": 128, "isl": 1024,
				"kv_cache_dtype": "bfloat16", "attn_dtype": "bfloat16"}, "mha_tokens", "at most 65536 tokens"},
		{"trtllm", "attention_generation", nil,
			given{"num_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "window_size": 0, "batch_size": 64, "step": 131071,
				"kv_cache_dtype": "fp8"}, "batch_cap", "beyond the cache of a node"},
		{"trtllm", "moe", nil, given{"model_name": "moonshotai/Kimi-K2.5", "moe_dtype": "bfloat16", "moe_tp_size": 1,
			"moe_ep_size": 1, "distribution": "balanced", "min_latency_mode": false}, "dtype_allowed", "quantised ones only " +
			"in their own"},
		{"trtllm", "moe", nil, given{"model_name": "Qwen/Qwen3-30B-A3B", "moe_dtype": "bfloat16", "moe_tp_size": 8,
			"moe_ep_size": 1, "distribution": "balanced", "min_latency_mode": false}, "tp_limit", "not served with so many"},
		{"vllm", "moe", nil, given{"model_name": "deepseek-ai/DeepSeek-V3", "moe_dtype": "fp8_block", "moe_tp_size": 2,
			"moe_ep_size": 4, "distribution": "balanced"}, "topology", "never by both"},
		{"vllm", "msa_generation_module", nil,
			given{"num_heads": 128, "batch_size": 1024, "step": 32768, "kv_cache_dtype": "bfloat16",
				"gemm_type": "bfloat16"}, "memory", "nine tenths of the device"},
		{"sglang", "dsa_context_module_skip_indexer", nil,
			given{"model": "deepseek-ai/DeepSeek-V3.2", "tp_size": 1, "batch_size": 1,
				"kv_cache_dtype": "bfloat16"}, "index_shared", "nothing to skip"},
		{"sglang", "attention_context", []string{"system=a100_sxm"},
			given{"num_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "batch_size": 1, "isl": 1,
				"kv_cache_dtype": "bfloat16", "attn_dtype": "bfloat16",
				"architecture": "Qwen3ForCausalLM"}, "sm_known", "SM 89, 90, 100, 103 and 120 only"},
		{"trtllm", "gemm", []string{`models=["Qwen/Qwen3-32B"]`},
			given{"gemm_dtype": "bfloat16", "m": 1, "n": 1024, "k": 1024}, "base.base_grid", "chosen models"},
		{"trtllm", "dsv4_csa_generation_module", nil,
			given{"model": "sgl-project/DeepSeek-V4-Pro-FP8", "tp_size": 1, "batch_size": 128,
				"step": 8192}, "batch_ladder", "64 sequences from 8192 tokens"},
	} {
		g := gridOf(t, shared(t, planOf(tc.backend), tc.vars...), tc.op)
		if g == nil {
			t.Fatalf("%s has no grid %s", tc.backend, tc.op)
		}
		values := map[string]cty.Value{}
		for name, v := range tc.given {
			switch v := v.(type) {
			case string:
				values[name] = cty.StringVal(v)
			case int:
				values[name] = cty.NumberIntVal(int64(v))
			case bool:
				values[name] = cty.BoolVal(v)
			}
		}
		verdict, diags := grid.Why(g.Spec, values)
		if verdict == nil {
			t.Errorf("%s %s: %s", tc.backend, tc.op, text(diags))
			continue
		}
		found := slices.ContainsFunc(verdict.Drops, func(d grid.Drop) bool {
			return d.Filter == tc.filter && strings.Contains(d.Reason, tc.reason)
		})
		if verdict.Kept || !found {
			t.Errorf("%s %s %v: want filter %s (%s), got kept=%v %+v", tc.backend, tc.op, tc.given, tc.filter, tc.reason,
				verdict.Kept, verdict.Drops)
		}
	}
}

// TestCasesFollowTheMemoryOfTheDevice checks that each GPU plans the cases that fit its memory if none is given.
func TestCasesFollowTheMemoryOfTheDevice(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		backend, system, op string
		cases, points       int
	}{
		{"vllm", "h200_sxm", "msa_generation_module", 5882, 0},
		{"vllm", "b200_sxm", "msa_generation_module", 8832, 0},
		{"vllm", "l40s", "mla_generation_module", 2896, 0},
		{"sglang", "h200_sxm", "dsv4_csa_context_module", 176, 102936},
		{"sglang", "b200_sxm", "dsv4_csa_context_module", 176, 105928},
	} {
		g := gridsOf(t, load(t, planOf(tc.backend), "system="+tc.system, fmt.Sprintf("ops=[%q]", tc.op)))[tc.op]
		c, diags := g.Cases()
		if c == nil {
			t.Fatal(text(diags))
		}
		if c.Len() != tc.cases || tc.points > 0 && c.Rows() != tc.points {
			t.Errorf("%s %s on %s: %d cases, %d points, want %d, %d", tc.backend, tc.op, tc.system, c.Len(), c.Rows(), tc.cases,
				tc.points)
		}
	}
}

// helpers are case columns that the backends' benchmarks take and their tables
// do not record.
var helpers = []string{
	"attn_backend", "native_num_heads", "model", "min_latency_mode", "model_name", "use_eplb", "op", "dsa_prefill_backend",
	"v_head_dim", "runtime_window_size", "attention_chunk_size", "has_attention_sink", "scaling", "architecture",
	"swiglu_limit", "moe_backend", "activation", "is_gated", "has_bias", "gemm1_alpha", "gemm1_clamp_limit",
	"scoring_func",
	"routing_method_type", "routed_scaling_factor", "renormalize", "has_correction_bias", "num_expert_group", "topk_group",
	"apply_router_weight_on_input", "is_fp4_experts",
}

// fromBenchmark are key columns that a benchmark adds to its rows.
var fromBenchmark = []string{"op_name", "kernel_source", "architecture", "inference_phase", "score_mode", "mla_dtype",
	"kv_cache_dtype", "gemm_type", "hidden_size", "hc_mult"}

// TestGridsFitTheirTables checks that the op's perf table or its benchmark has every column of a case, that readers
// know the words, and that the columns that readers need exist.
func TestGridsFitTheirTables(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for op, g := range gridsOf(t, shared(t, planOf(backend))) {
			id := backend + " " + op
			spec := g.Spec
			want, ok := catalog.LookupOp(op)
			if !ok || want.Table != spec.Perf {
				t.Errorf("%s: table %q, the catalog says %q", id, spec.Perf, want.Table)
				continue
			}
			tab, _ := catalog.Lookup(spec.Perf)
			have := map[string]bool{}
			var columns []string
			columns = append(columns, spec.Columns...)
			if spec.Sweep != nil {
				columns = append(columns, spec.Sweep.Columns...)
			}
			for _, c := range columns {
				have[c] = true
				if _, ok := tab.Column(c); !ok && !slices.Contains(helpers, c) {
					t.Errorf("%s: %s has no column %s", id, tab.Name, c)
				}
			}
			for _, k := range spec.Constants {
				have[k.Name] = true
				col, ok := tab.Column(k.Name)
				if !ok || (col.Type.ID() == arrow.STRING) != (k.Value.Type() == cty.String) {
					t.Errorf("%s: the constant %s does not fit %s", id, k.Name, tab.Name)
				}
			}
			for _, k := range tab.Required() {
				if !have[k] && !slices.Contains(fromBenchmark, k) && !slices.Contains(tab.Metrics(), k) {
					t.Errorf("%s: nothing says %s, and readers of %s need it", id, k, tab.Name)
				}
			}
			for _, set := range spec.Sets {
				for _, f := range set.Filters {
					if len(f.Reason) < 10 {
						t.Errorf("%s: filter %s gives no reason: %q", id, f.Label(), f.Reason)
					}
				}
			}
			checkWords(t, id, g.Spec, func() *grid.Cases { c, _ := g.Cases(); return c })
		}
	}
}

func checkWords(t *testing.T, id string, spec *grid.Spec, cases func() *grid.Cases) {
	t.Helper()
	for _, name := range spec.Columns {
		if catalog.Words(name) == nil && name != "distribution" {
			continue
		}
		c := cases()
		seen := map[string]bool{}
		for _, at := range positions(c, []string{name}, nil) {
			for i := range c.Len() {
				seen[cell(c.Value(i, at))] = true
			}
		}
		for w := range seen {
			if _, err := catalog.Word(name, w); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
}

// TestEveryGridIsCollectedAndExported checks that collect, dedupe, gate and export follow every grid, that a preflight
// precedes every collect, and that no two exports write one file.
func TestEveryGridIsCollectedAndExported(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		cfg := shared(t, planOf(backend))
		behind := map[string][]string{}
		kind := map[string]string{}
		for _, in := range cfg.Instances {
			kind[in.Address] = in.Kind.Name
			for _, d := range in.Deps {
				behind[d] = append(behind[d], in.Address)
			}
		}
		next := func(from, want string) []string {
			var out []string
			for _, a := range behind[from] {
				if kind[a] == want {
					out = append(out, a)
				}
			}
			return out
		}
		grids, exports := 0, map[string]int{}
		for _, in := range cfg.Instances {
			if in.Kind.Name != "grid" {
				continue
			}
			grids++
			at := in.Address
			for _, want := range []string{"collect", "dedupe", "gate"} {
				found := next(at, want)
				if len(found) != 1 {
					t.Fatalf("%s: %d %s stages behind %s", backend, len(found), want, at)
				}
				at = found[0]
				if want == "collect" {
					guarded := slices.ContainsFunc(cfg.Instance(at).Deps, func(d string) bool { return kind[d] == "preflight" })
					if !guarded {
						t.Errorf("%s: no preflight before %s", backend, at)
					}
				}
			}
			files := next(at, "export")
			if len(files) == 0 {
				t.Errorf("%s: nothing exports %s", backend, at)
			}
			for _, f := range files {
				exports[f]++
			}
		}
		if want := map[string]int{"trtllm": 24, "vllm": 23, "sglang": 28}[backend]; grids != want {
			t.Errorf("%s: %d grids, want %d", backend, grids, want)
		}
		for _, op := range catalog.Ops() {
			if a := fmt.Sprintf(`module.pipeline["base"].export.table[%q]`, op.Also); op.Also != "" && exports[a] == 0 {
				t.Errorf("%s: nothing exports the second table of %s", backend, op.Name)
			}
		}
		for _, in := range cfg.Instances {
			if in.Kind.Name == "export" && exports[in.Address] == 0 {
				t.Errorf("%s: %s exports no grid's rows", backend, in.Address)
			}
		}
	}
}

func TestPlansAreFormatted(t *testing.T) {
	t.Parallel()
	for _, f := range moduleFiles(t) {
		src, formatted := format(t, f)
		if src != formatted {
			t.Errorf("%s is not formatted; run aicplan fmt", f)
		}
	}
}

var sink map[string]*grid.Cases

// BenchmarkPlan is what aicplan plan does with a whole backend: read, evaluate
// and expand. Run it with -cpu 2.
func BenchmarkPlan(b *testing.B) {
	for _, backend := range backends {
		b.Run(backend, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = casesOf(b, planOf(backend))
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	for _, backend := range backends {
		b.Run(backend, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, diags := config.Load(options(planOf(backend), nil)); diags.HasErrors() {
					b.Fatal(text(diags))
				}
			}
		})
	}
}

// TestExperimentsHaveFolders checks that ids which the export rejects, or makes one folder of, are rejected before anything
// is measured.
func TestExperimentsHaveFolders(t *testing.T) {
	for ids, want := range map[string]string{
		`{experiment_id="E1 a"},{experiment_id="E1/a"}`: "experiment_id names a folder",
		`{experiment_id=".."}`:                          "experiment_id names a folder",
		`{experiment_id=""}`:                            "experiment_id names a folder",
		`{experiment_id="E1.a"},{experiment_id="E1-a"}`: "",
	} {
		_, diags := config.Load(options("experiments/tp_scaling.hcl", []string{"experiments=[" + ids + "]"}))
		if got := text(diags); !strings.Contains(got, want) || want == "" && diags.HasErrors() {
			t.Errorf("%s: %s", ids, got)
		}
	}
}
