package export

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aicplan/sink/lint"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/importer"
)

// TestTablesOfAisimulate imports tables in the form that aisimulate has and exports them to
// the folder in which it looks for them, with all columns.
func TestTablesOfAisimulate(t *testing.T) {
	t.Parallel()
	for path, c := range map[string]struct{ text, columns string }{
		// Rows that name digests instead of a framework, version and device.
		"data/h200_sxm/glm53_attention/sglang/0.5.20/glm53_attention_module_perf": {
			`component,geometry,batch_size,prefix,x,latency,kernel_source,measurement_scope,source_sha256,config_sha256,runtime_digest,used_cuda_graph,sample_count,kv_seed_regime,execution_profile
attention,"{""tp_size"":4}",1,0,64,0.086,DeepseekV2AttentionMLA,local_compute,8c,97,sha256:b2,true,10,real_kv,full
`,
			"component geometry batch_size prefix x latency kernel_source measurement_scope source_sha256 config_sha256 " +
				"runtime_digest used_cuda_graph sample_count kv_seed_regime execution_profile",
		},
		// A version that is not one of the framework.
		"data/h200_sxm/sparse_attention/sglang/0.5.14/glm5_dsa_attn_module_perf": {
			`framework,version,device,op_name,kernel_source,model,architecture,mla_dtype,kv_cache_dtype,gemm_type,num_heads,batch_size,isl,tp_size,step,compress_ratio,latency
SGLang,kernel-level,NVIDIA H200,glm5_dsa_attn_module,k,m,a,bfloat16,bfloat16,bfloat16,16,1,64,1,0,1,0.05
`,
			"framework version device op_name kernel_source model architecture mla_dtype kv_cache_dtype gemm_type num_heads " +
				"batch_size isl tp_size step compress_ratio latency",
		},
		// Columns that most files lack. The second row is of a kernel that readers do not choose by themselves.
		"data/h200_sxm/moe/sglang/0.5.20/moe_perf": {
			`framework,version,device,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,latency,sample_count,default_eligible
SGLang,0.5.20,NVIDIA H200,moe,k,w4a16_mxfp4_humming,1,2048,768,8,128,1,1,balanced,0.05,10,true
SGLang,0.5.20,NVIDIA H200,moe,l,w4a16_mxfp4_humming,1,2048,768,8,128,1,1,balanced,0.04,10,false
`,
			"framework version device op_name kernel_source moe_dtype num_tokens hidden_size inter_size topk num_experts " +
				"moe_tp_size moe_ep_size distribution latency sample_count default_eligible",
		},
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			from, to := t.TempDir(), t.TempDir()
			file := filepath.Join(from, path+".txt")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}

			set, err := importer.Load(file, importer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			mustRun(t, config(func(c *Config) { c.Layout = tree.Families }), to, set.Data)
			rec, err := tree.ReadFile(filepath.Join(to, path+".parquet"))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(table.Names(rec), " "); got != c.columns {
				t.Errorf("columns %s, want %s", got, c.columns)
			}

			report, err := lint.Run(t.Context(), to, lint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				if slices.Contains([]string{"unknown_table", "schema", "R4", "duplicates"}, f.Rule) {
					t.Errorf("lint: %+v", f)
				}
			}
		})
	}
}
