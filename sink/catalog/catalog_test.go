package catalog

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

type published struct {
	family, backend, version, table string
	rows                            int
	frameworks                      []string
	columns                         []Column
}

// readPublished reads the schemas of the database that aiconfigurator 0.11.0
// ships for the H200, and those of the tables that 0.12.0 has of other systems
// alone.
func readPublished(t *testing.T) []published {
	t.Helper()
	return append(readSchemas(t, "testdata/published.tsv"), readSchemas(t, "testdata/elsewhere.tsv")...)
}

func readSchemas(t *testing.T, path string) []published {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]arrow.DataType{"s": table.String, "i": table.Int64, "d": table.Float64, "b": table.Bool}
	var all []published
	for _, line := range strings.Split(strings.TrimSpace(string(src)), "\n")[1:] {
		f := strings.Split(line, "\t")
		p := published{family: f[0], backend: f[1], version: f[2], table: f[3], frameworks: strings.Split(f[5], ",")}
		if p.rows, err = strconv.Atoi(f[4]); err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Fields(f[6]) {
			name, typ, _ := strings.Cut(c, ":")
			p.columns = append(p.columns, Column{Name: name, Type: Type{types[typ]}})
		}
		all = append(all, p)
	}
	return all
}

func names(cols []Column) string {
	var n []string
	for _, c := range cols {
		n = append(n, c.Name)
	}
	return strings.Join(n, " ")
}

// older lists the published files that were written before a column or an
// order became what it is, with what is different.
var older = map[string]string{
	"context_attention_perf sglang/0.5.10":          "no window_size",
	"context_attention_perf sglang/0.5.6.post2":     "no window_size",
	"context_attention_perf sglang/0.5.9":           "no window_size",
	"context_attention_perf vllm/0.14.0":            "no window_size",
	"generation_attention_perf sglang/0.5.10":       "no window_size",
	"generation_attention_perf sglang/0.5.6.post2":  "no window_size",
	"generation_attention_perf sglang/0.5.9":        "no window_size",
	"generation_attention_perf vllm/0.14.0":         "no window_size",
	"nccl_perf nccl/2.23":                           "no identity columns but kernel_source and op_name",
	"custom_allreduce_perf sglang/0.5.6.post2":      "a copy of trtllm's table",
	"wideep_context_mla_perf sglang/0.5.6.post2":    "no model",
	"wideep_generation_mla_perf sglang/0.5.6.post2": "no model",
	"wideep_deepep_ll_perf sglang/0.5.6.post2":      "node_num before kernel_source",
	"wideep_deepep_normal_perf sglang/0.5.6.post2":  "node_num before kernel_source",
	"trtllm_alltoall_perf trtllm/1.3.0rc10":         "no num_nodes",
}

// TestPublishedSchemas holds the catalog against every table of the published
// database: known columns, types, families, orders and what readers need.
func TestPublishedSchemas(t *testing.T) {
	all := readPublished(t)
	if len(all) != 179+8 {
		t.Fatalf("%d schemas, the database of the H200 has 179 tables, and 8 are of other systems and versions", len(all))
	}
	seen := map[string]bool{}
	for _, p := range all {
		id := p.table + " " + p.backend + "/" + p.version
		tab, ok := Lookup(p.table)
		if !ok {
			t.Errorf("%s: not in the catalog", id)
			continue
		}
		seen[p.table] = true
		if tab.Family != p.family {
			t.Errorf("%s: family %s, want %s", id, tab.Family, p.family)
		}
		for _, c := range p.columns {
			if own, ok := tab.Column(c.Name); !ok || own.Type != c.Type {
				t.Errorf("%s: the column %s is %s, and the catalog has it: %t, as %s", id, c.Name, c.Type, ok, own.Type)
			}
		}
		for _, name := range tab.Required() {
			if !slices.ContainsFunc(p.columns, func(c Column) bool { return c.Name == name }) {
				t.Errorf("%s: the required column %s is not there", id, name)
			}
		}
		power := slices.ContainsFunc(p.columns, func(c Column) bool { return c.Name == "power" })
		got, want := names(tab.Columns(p.backend, power)), names(p.columns)
		if _, isOld := older[id]; isOld == (got == want) {
			t.Errorf("%s: order\n got  %s\n want %s", id, got, want)
		}
	}
	for _, tab := range Tables() {
		if !seen[tab.Name] && !tab.Open && tab.Name != "moe_expert_compute_perf" && tab.Name != "moe_a2a_perf" {
			t.Errorf("%s is in no published database", tab.Name)
		}
	}
}

func TestFrameworkLabels(t *testing.T) {
	for _, p := range readPublished(t) {
		tab, _ := Lookup(p.table)
		for _, f := range p.frameworks {
			if f == "-" || p.backend == "nccl" || p.backend == "oneccl" || p.version == "0.5.6.post2" && p.family == "comm" {
				continue // labels that the collectors got wrong
			}
			if b, ok := BackendOf(f); !ok || b.Name != p.backend {
				t.Errorf("%s %s: label %q is of %v", p.backend, p.table, f, b.Name)
			}
			// Only linear attention changed its label over the versions.
			if got := tab.Framework(p.backend); got != f && p.table != "gdn_perf" {
				t.Errorf("%s %s: label %q, published %q", p.backend, p.table, got, f)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	for table, want := range map[string]string{
		"gemm_perf": "gemm_dtype m n k",
		"context_attention_perf": "batch_size isl num_heads num_key_value_heads head_dim attn_dtype kv_cache_dtype " +
			"window_size",
		"generation_attention_perf": "batch_size isl num_heads num_key_value_heads head_dim kv_cache_dtype step window_size",
		"mla_bmm_perf":              "op_name bmm_dtype num_tokens num_heads",
		"gdn_perf": "kernel_source phase batch_size seq_len d_model d_conv num_k_heads head_k_dim " +
			"num_v_heads head_v_dim",
		"nccl_perf":   "op_name nccl_dtype num_gpus message_size",
		"oneccl_perf": "op_name nccl_dtype num_gpus message_size",
		"trtllm_alltoall_perf": "op_name kernel_source moe_dtype num_tokens hidden_size topk num_experts moe_ep_size " +
			"num_nodes",
		"dsv4_megamoe_module_perf": "kernel_source phase moe_dtype kernel_dtype num_tokens hidden_size inter_size topk " +
			"num_experts " +
			"num_fused_shared_experts moe_tp_size moe_ep_size distribution source_policy pre_dispatch",
		"dsv4_csa_context_module_perf": "model mla_dtype kv_cache_dtype gemm_type num_heads batch_size isl tp_size step",
		"glm5_topk_module_perf":        "num_heads batch_size isl tp_size step score_mode",
	} {
		tab, ok := Lookup(table + ".parquet")
		if !ok {
			t.Fatalf("no %s", table)
		}
		if got := strings.Join(tab.Key(), " "); got != want {
			t.Errorf("%s: key %q, want %q", table, got, want)
		}
	}
	tab, _ := Lookup("context_attention_perf")
	if got := strings.Join(tab.Required(), " "); strings.Contains(got, "window_size") ||
		!strings.HasSuffix(got, " latency") {
		t.Errorf("required: %s", got)
	}
	if got := strings.Join(tab.Params(),
		" "); got != "batch_size isl num_heads num_key_value_heads head_dim beam_width attn_dtype kv_cache_dtype step "+
		"window_size" {
		t.Errorf("params: %s", got)
	}
}

func TestUnitsAndWords(t *testing.T) {
	for table, want := range map[string]string{"gemm_perf": "ms", "moe_a2a_perf": "us", "wideep_context_mlp_perf": "ms",
		"wideep_deepep_ll_perf": "us"} {
		tab, _ := Lookup(table)
		if got := tab.LatencyUnit(); got != want {
			t.Errorf("%s: unit %q, want %q", table, got, want)
		}
	}
	for _, table := range []string{"computescale_perf", "dsv4_csa_topk_calib_perf", "glm5_topk_module_perf"} {
		if tab, _ := Lookup(table); !tab.ZeroLegal {
			t.Errorf("%s: zeros are data", table)
		}
	}
	csa, _ := Lookup("dsv4_csa_context_module_perf")
	if got := csa.Spelling("sglang", "kv_cache_dtype", "fp8"); got != "fp8_e4m3" {
		t.Errorf("sglang spells %s", got)
	}
	if got := csa.Spelling("vllm", "kv_cache_dtype", "fp8"); got != "fp8" {
		t.Errorf("vllm spells %s", got)
	}
	for _, tc := range []struct{ column, word, want, err string }{
		{"gemm_dtype", "fp8_block", "fp8_block", ""},
		{"gemm_dtype", "float16", "bfloat16", ""},
		{"kv_cache_dtype", "float16", "bfloat16", ""},
		{"gemm_dtype", "fp8_blok", "", "did you mean fp8_block?"},
		{"moe_dtype", "int3", "", `moe_dtype "int3" is unknown`},
		{"nccl_dtype", "float16", "", `nccl_dtype "float16" is unknown`},
		{"distribution", "power_law_1.01", "power_law_1.01", ""},
		{"distribution", "power_law_1.2_eplb", "power_law_1.2_eplb", ""},
		{"distribution", "power_law_sampled_1.9", "power_law_sampled_1.9", ""},
		{"distribution", "power_law_sampled_", "", "power_law_<alpha>"},
		{"distribution", "skewed", "", "power_law_<alpha>"},
		{"kernel_source", "anything", "anything", ""},
	} {
		got, err := Word(tc.column, tc.word)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s %s: %q %v", tc.column, tc.word, got, err)
		}
	}
}

func TestLookups(t *testing.T) {
	for _, file := range []string{"gemm_perf", "gemm_perf.txt", "a/b/gemm_perf.csv", `c:\x\gemm_perf.parquet`} {
		if tab, ok := Lookup(file); !ok || tab.Name != "gemm_perf" {
			t.Errorf("%s not found", file)
		}
	}
	if _, ok := Lookup("gemmperf"); ok {
		t.Error("no such table")
	}
	if got := Suggest("gem_perf"); len(got) == 0 || got[0] != "gemm_perf" {
		t.Errorf("suggestions %v", got)
	}
	for _, op := range Ops() {
		tab, ok := Lookup(op.Table)
		if !ok {
			t.Fatalf("%s goes to %s, which is no table", op.Name, op.Table)
		}
		if op.OpName != "" && !slices.Contains(tab.OpNames, op.OpName) {
			t.Errorf("%s writes op_name %s, %s knows %v", op.Name, op.OpName, op.Table, tab.OpNames)
		}
		if op.Also != "" {
			if _, ok := Lookup(op.Also); !ok {
				t.Errorf("%s goes to %s too, which is no table", op.Name, op.Also)
			}
		}
	}
	if op, ok := LookupOp("mla_bmm_gen_pre"); !ok || op.OpName != "mla_gen_pre" {
		t.Errorf("%+v", op)
	}
	// What a caller does to its slices stays with the caller.
	tab, _ := Lookup("gemm_perf")
	tab.Columns("trtllm", true)[0].Name = "spoiled"
	tab.Columns("", false)[0].Name = "spoiled"
	Words("gemm_dtype")[0] = "spoiled"
	if tab.Columns("", false)[0].Name != "framework" || Words("gemm_dtype")[0] != "bfloat16" {
		t.Error("the catalog changed")
	}
}

func TestEveryColumnIsExplained(t *testing.T) {
	for _, tab := range Tables() {
		if tab.Doc == "" {
			t.Errorf("%s: doc %q", tab.Name, tab.Doc)
		}
		for _, c := range tab.Columns("", true) {
			if c.Role == Key && c.Doc == "" && c.Type.ID() == arrow.INT64 && !strings.HasSuffix(c.Name, "_sms") {
				t.Errorf("%s.%s has no explanation", tab.Name, c.Name)
			}
		}
	}
}
