package catalog

import "strings"

// The columns of a table are written in file order after the five identity
// columns, each with a mark for its role:
//
//	name*   key: readers fail without it
//	name?   optional: part of the key where it exists
//	name=   needed: no part of the key, and readers fail without it
//	name    info: written, not read
//	name!   metric that every row has; the first is the one that readers use
//	name+   metric that a row may lack
//
// Types, units and explanations of columns are in columns.go: a name means the
// same in every table.
var tables = prepare([]*Table{
	{
		Name: "gemm_perf", Family: "gemm", OpNames: []string{"gemm"},
		Doc:     "one matrix product, m x k by k x n",
		rows:    "-n -k -m",
		columns: "gemm_dtype* m* n* k* latency!",
	},
	{
		Name: "computescale_perf", Family: "quantize", OpNames: []string{"compute_scale"}, ZeroLegal: true,
		Doc:     "dynamic minus static quantisation of an m x k matrix; zero where the difference vanishes",
		columns: "m* k* quant_dtype* latency!",
	},
	{
		Name: "scale_matrix_perf", Family: "quantize", OpNames: []string{"scale_matrix"},
		Doc:     "static quantisation of an m x k matrix",
		columns: "m* k* quant_dtype* latency!",
	},
	{
		Name: "context_attention_perf", Family: "attention", OpNames: []string{"context_attention"}, lanes: "*",
		Doc:     "prefill attention",
		columns: "batch_size* isl* num_heads* num_key_value_heads* head_dim* beam_width attn_dtype* kv_cache_dtype* step window_size? latency!",
		orders: map[string]string{
			"trtllm": "batch_size isl num_heads num_key_value_heads head_dim window_size beam_width attn_dtype kv_cache_dtype step latency",
		},
	},
	{
		Name: "generation_attention_perf", Family: "attention", OpNames: []string{"generation_attention"}, lanes: "*",
		Doc:     "decode attention; the sequence length is isl + step",
		columns: "batch_size* isl* num_heads* num_key_value_heads* head_dim* beam_width attn_dtype kv_cache_dtype* step* window_size? latency!",
		orders: map[string]string{
			"trtllm": "batch_size isl num_heads num_key_value_heads head_dim window_size beam_width attn_dtype kv_cache_dtype step latency",
		},
	},
	{
		Name: "encoder_attention_perf", Family: "encoder_attention", OpNames: []string{"encoder_attention"},
		Doc:     "attention of a vision encoder, without a mask or cache",
		columns: "batch_size* isl* num_heads* head_dim* attn_dtype* latency!",
	},
	{
		Name: "context_mla_perf", Family: "mla", OpNames: []string{"mla_context", "context_mla"},
		Doc:     "prefill of multi-head latent attention",
		columns: "mla_dtype* kv_cache_dtype* num_heads* batch_size* isl* tp_size step* latency!",
	},
	{
		Name: "generation_mla_perf", Family: "mla", OpNames: []string{"mla_generation", "generation_mla"},
		Doc:     "decode of multi-head latent attention; the sequence length is isl + step",
		columns: "mla_dtype kv_cache_dtype* num_heads* batch_size* isl* tp_size step* latency!",
	},
	{
		Name: "wideep_context_mla_perf", Family: "mla", OpNames: []string{"mla_context"}, KernelSourceKey: true, Legacy: true,
		Doc:     "prefill of latent attention under wide expert parallelism",
		columns: "model? architecture mla_dtype* kv_cache_dtype* gemm_type? num_heads* batch_size* isl* tp_size step* latency!",
	},
	{
		Name: "wideep_generation_mla_perf", Family: "mla", OpNames: []string{"mla_generation"}, KernelSourceKey: true, Legacy: true,
		Doc:     "decode of latent attention under wide expert parallelism",
		columns: "model? architecture mla_dtype kv_cache_dtype* gemm_type? num_heads* batch_size* isl* tp_size step* latency!",
	},
	{
		Name: "mla_context_module_perf", Family: "mla", OpNames: []string{"mla_context_module"},
		Doc:     "prefill of a whole latent-attention module with its projections",
		columns: "model* architecture mla_dtype* kv_cache_dtype* gemm_type* num_heads* batch_size* isl* tp_size? step latency!",
	},
	{
		Name: "mla_generation_module_perf", Family: "mla", OpNames: []string{"mla_generation_module"},
		Doc:     "decode of a whole latent-attention module with its projections",
		columns: "model* architecture mla_dtype kv_cache_dtype* gemm_type* num_heads* batch_size* isl* tp_size? step* latency!",
	},
	{
		Name: "mla_bmm_perf", Family: "mla_bmm", OpNames: []string{"mla_gen_pre", "mla_gen_post"}, OpNameKey: true,
		Doc:     "the batched products before and after latent attention in decode",
		columns: "bmm_dtype* num_tokens* num_heads* latency!",
	},
	{
		Name: "moe_perf", Family: "moe", OpNames: []string{"moe"}, lanes: "moe_torch_flow_min_latency",
		Doc:     "the experts of a mixture-of-experts layer on one rank",
		columns: "moe_dtype* num_tokens* hidden_size* inter_size* topk* num_experts* moe_tp_size* moe_ep_size* distribution* latency!",
	},
	{
		Name: "moe_expert_compute_perf", Family: "moe", OpNames: []string{"moe_expert_compute"}, KernelSourceKey: true,
		Doc:     "the experts of one rank under wide expert parallelism, without communication",
		columns: "moe_dtype* distribution* inference_phase* topk* num_experts* num_slots* hidden_size* inter_size* moe_tp_size* moe_ep_size* num_tokens* latency!",
	},
	{
		Name: "dsv4_megamoe_module_perf", Family: "moe", OpNames: []string{"dsv4_megamoe_module"}, KernelSourceKey: true, Repeats: GiveUp,
		Doc: "DeepSeek-V4's experts with dispatch and combine in one kernel; num_tokens are those of one rank",
		columns: "phase* moe_dtype* kernel_dtype* num_tokens* global_num_tokens hidden_size* inter_size* topk* num_experts* num_fused_shared_experts? " +
			"moe_tp_size? moe_ep_size* distribution* source_policy* pre_dispatch* num_max_tokens_per_rank effective_num_max_tokens_per_rank " +
			"routed_scaling_factor= includes_routed_scale= includes_gate_topk= buffer_policy includes_buffer_init used_cuda_graph= latency!",
		takes: map[string]string{
			"phase": "context generation", "used_cuda_graph": "true", "includes_routed_scale": "true", "includes_gate_topk": "false",
		},
	},
	{
		Name: "wideep_moe_perf", Family: "moe", OpNames: []string{"wideep_moe", "wideep_moe_eplb"}, OpNameKey: true, Legacy: true,
		Doc:     "experts under wide expert parallelism",
		columns: "moe_dtype* moe_kernel num_tokens* dp_num_tokens rank0_num_tokens hidden_size* inter_size* topk* num_experts* num_slots* moe_tp_size* moe_ep_size* distribution* simulation_mode latency!",
	},
	{
		Name: "wideep_context_moe_perf", Family: "moe", OpNames: []string{"moe_context"}, Legacy: true,
		Doc:     "experts in prefill under wide expert parallelism",
		columns: "moe_dtype* num_tokens* hidden_size* inter_size* topk* num_experts* moe_tp_size* moe_ep_size* distribution* latency!",
	},
	{
		Name: "wideep_generation_moe_perf", Family: "moe", OpNames: []string{"moe_generation"}, Legacy: true,
		Doc:     "experts in decode under wide expert parallelism",
		columns: "moe_dtype* num_tokens* hidden_size* inter_size* topk* num_experts* moe_tp_size* moe_ep_size* distribution* latency!",
	},
	{
		Name: "wideep_context_mlp_perf", Family: "mlp", OpNames: []string{"mlp"}, Legacy: true,
		Doc:     "the dense layer in prefill under wide expert parallelism",
		columns: "quant_type* num_token* hidden_size* intermediate_size* avg_ms!",
	},
	{
		Name: "wideep_generation_mlp_perf", Family: "mlp", OpNames: []string{"mlp"}, Legacy: true,
		Doc:     "the dense layer in decode under wide expert parallelism",
		columns: "quant_type* num_token* hidden_size* intermediate_size* avg_ms!",
	},
	{
		Name: "nccl_perf", Family: "comm", Library: "nccl", OpNames: []string{"all_gather", "alltoall", "reduce_scatter", "all_reduce"}, OpNameKey: true,
		Doc:     "one collective; message_size counts elements",
		columns: "nccl_dtype* num_gpus* message_size* latency!",
	},
	{
		Name: "oneccl_perf", Family: "comm", Library: "oneccl", OpNames: []string{"all_gather", "alltoall", "reduce_scatter", "all_reduce"}, OpNameKey: true,
		Doc:     "one collective of oneCCL, which readers take where a system has no NCCL; message_size counts elements",
		columns: "nccl_dtype* num_gpus* message_size* latency!",
	},
	{
		Name: "custom_allreduce_perf", Family: "comm", OpNames: []string{"all_reduce"}, KernelSourceKey: true,
		Doc:     "a framework's own all-reduce; message_size counts elements",
		rows:    "num_gpus message_size -kernel_source",
		columns: "allreduce_dtype num_gpus* message_size* latency! backend? implementation?",
		orders: map[string]string{
			"":       "allreduce_dtype num_gpus message_size latency backend",
			"vllm":   "allreduce_dtype num_gpus message_size latency backend",
			"sglang": "allreduce_dtype num_gpus message_size latency backend",
			"trtllm": "allreduce_dtype num_gpus message_size latency implementation",
		},
		labels: map[string]string{"vllm": "vLLM"},
	},
	{
		Name: "moe_a2a_perf", Family: "comm", KernelSourceKey: true,
		Doc:     "dispatch and combine of expert parallelism across ranks",
		columns: "comm_backend* phase* comm_dtype* ep_size* node_num* hidden_size* topk* num_experts* num_tokens* sms? latency! transmit_us notify_us",
		units:   map[string]string{"latency": "us"},
		labels:  map[string]string{"vllm": "vLLM"},
	},
	{
		Name: "trtllm_alltoall_perf", Family: "comm", OpNameKey: true, KernelSourceKey: true, Legacy: true,
		OpNames: []string{"alltoall_prepare", "alltoall_dispatch", "alltoall_combine", "alltoall_combine_low_precision"},
		Doc:     "one phase of TensorRT-LLM's exchange of tokens between experts over NVLink; moe_a2a_perf has it today",
		columns: "moe_dtype* num_tokens* hidden_size* topk* num_experts* moe_ep_size* distribution num_nodes? latency!",
	},
	{
		Name: "wideep_deepep_ll_perf", Family: "comm", OpNames: []string{"ll"}, Legacy: true,
		Doc:     "DeepEP in low-latency mode",
		columns: "node_num* hidden_size* num_token* num_topk* num_experts* combine_avg_t_us! combine_bandwidth_gbps! dispatch_avg_t_us! dispatch_bandwidth_gbps!",
		labels:  map[string]string{"sglang": "sglang"},
	},
	{
		Name: "wideep_deepep_normal_perf", Family: "comm", OpNames: []string{"normal"}, Legacy: true,
		Doc:     "DeepEP in throughput mode",
		columns: "node_num* hidden_size* num_token* num_topk* num_experts* dispatch_sms* dispatch_transmit_us! dispatch_notify_us! combine_sms combine_transmit_us! combine_notify_us!",
		labels:  map[string]string{"sglang": "sglang"},
	},
	{
		Name: "gdn_perf", Family: "linear_attention", OpNames: []string{"gdn"}, KernelSourceKey: true,
		Doc:     "gated delta-rule attention; one row per kernel",
		columns: "phase* batch_size* seq_len* num_tokens d_model* d_conv* num_k_heads* head_k_dim* num_v_heads* head_v_dim* model_name latency!",
		labels:  map[string]string{"vllm": "vLLM"},
	},
	{
		Name: "kda_perf", Family: "kda", OpNames: []string{"kda"}, KernelSourceKey: true,
		Doc:     "Kimi delta attention; one row per kernel",
		columns: "phase* batch_size* seq_len* num_tokens d_model* d_conv* num_k_heads* head_k_dim* num_v_heads* head_v_dim* model_name latency!",
	},
	{
		Name: "mamba2_perf", Family: "linear_attention", OpNames: []string{"mamba2"}, KernelSourceKey: true,
		Doc:     "state-space layers; one row per kernel",
		columns: "phase* batch_size* seq_len* num_tokens d_model* d_state* d_conv* nheads* head_dim* n_groups* chunk_size* model_name latency!",
	},
	{
		Name: "mhc_module_perf", Family: "mhc", OpNames: []string{"pre", "post"}, OpNameKey: true,
		Doc:     "hyper-connections before and after a DeepSeek-V4 block",
		columns: "architecture num_tokens* num_sites hc_mult* hidden_size* sinkhorn_iters latency!",
	},
	dsa("dsa_context_module_perf", "prefill of a whole sparse-attention module", "dsa_context_module", "dsa_context_module_skip_indexer"),
	dsa("dsa_generation_module_perf", "decode of a whole sparse-attention module", "dsa_generation_module", "dsa_generation_module_skip_indexer"),
	{
		Name: "msa_context_module_perf", Family: "msa", OpNames: []string{"msa_context_module"},
		Doc:     "prefill of a whole MiniMax sparse-attention module",
		columns: moduleColumns,
	},
	{
		Name: "msa_generation_module_perf", Family: "msa", OpNames: []string{"msa_generation_module"},
		Doc:     "decode of a whole MiniMax sparse-attention module",
		columns: moduleColumns,
	},
	dsv4("dsv4_csa_context_module", "prefill of DeepSeek-V4's compressed sparse attention"),
	dsv4("dsv4_csa_generation_module", "decode of DeepSeek-V4's compressed sparse attention"),
	dsv4("dsv4_hca_context_module", "prefill of DeepSeek-V4's heavily compressed attention"),
	dsv4("dsv4_hca_generation_module", "decode of DeepSeek-V4's heavily compressed attention"),
	kernelLevel("dsv4_paged_mqa_logits_module", "the paged logits kernel of DeepSeek-V4's indexer"),
	kernelLevel("dsv4_hca_attn_module", "the attention kernel of DeepSeek-V4's compressed layers"),
	scored("dsv4_csa_topk_calib", "what the scores' distribution adds to DeepSeek-V4's top-k; zero where nothing"),
	kernelLevel("glm5_mqa_logits_module", "the logits kernel of GLM-5's indexer"),
	kernelLevel("glm5_dsa_attn_module", "the sparse attention kernel of GLM-5"),
	scored("glm5_topk_module", "what the scores' distribution adds to GLM-5's top-k; zero where nothing"),
	{
		Name: "serving_perf", Family: "serving", Open: true,
		Doc: "one load on a model server; times are means over its requests",
		columns: "model? tensor_parallel_size? pipeline_parallel_size? data_parallel_size? concurrency? request_rate? isl? osl? turns? " +
			"request_throughput! throughput+ input_throughput+ total_throughput+ throughput_per_user+ goodput+ " +
			"ttft+ ttst+ itl+ icl+ tpot+ latency+ throughput_tokens_sec+ iteration_wall_clock+ comm_overhead+ comm_exposed_pct+ coll_call_num+",
	},
})

const (
	moduleColumns = "model architecture* mla_dtype* kv_cache_dtype* gemm_type* num_heads* batch_size* isl* tp_size? step* latency!"
	dsv4Columns   = "model? architecture mla_dtype* kv_cache_dtype* gemm_type* num_heads* batch_size* isl* tp_size* step* compress_ratio latency!"
	kernelColumns = "model architecture mla_dtype kv_cache_dtype gemm_type num_heads? batch_size* isl* tp_size? step* compress_ratio latency!"
)

func dsa(name, doc string, ops ...string) *Table {
	return &Table{Name: name, Family: "sparse_attention", OpNames: ops, OpNameKey: true, lanes: "_indexer_trtllm", Repeats: TakeLast, Doc: doc, columns: moduleColumns}
}

func dsv4(op, doc string) *Table {
	return &Table{
		Name: op + "_perf", Family: "sparse_attention", OpNames: []string{op}, Doc: doc, columns: dsv4Columns,
		words: map[string]string{"sglang kv_cache_dtype fp8": "fp8_e4m3"},
	}
}

func kernelLevel(op, doc string) *Table {
	t := &Table{Name: op + "_perf", Family: "sparse_attention", OpNames: []string{op}, Doc: doc, columns: kernelColumns}
	if strings.HasPrefix(op, "dsv4_") {
		local := strings.Replace(kernelColumns, "num_heads? ", "num_heads? local_num_heads ", 1)
		t.columns = local
		t.orders = map[string]string{"": plainOrder(kernelColumns), "sglang": plainOrder(kernelColumns)}
	}
	return t
}

func scored(op, doc string) *Table {
	return &Table{
		Name: op + "_perf", Family: "sparse_attention", OpNames: []string{op}, ZeroLegal: true, Doc: doc,
		columns: kernelColumns + " score_mode*",
	}
}

func plainOrder(columns string) string {
	return strings.NewReplacer("*", "", "?", "", "=", "", "!", "", "+", "").Replace(columns)
}

// prepare parses the notation once.
func prepare(list []*Table) []*Table {
	for _, t := range list {
		for _, n := range identityNames {
			t.parsed = append(t.parsed, describe(n, Identity))
		}
		for _, f := range strings.Fields(t.columns) {
			role := Info
			switch f[len(f)-1] {
			case '*':
				role = Key
			case '?':
				role = Optional
			case '=':
				role = Needed
			case '!', '+':
				role = Metric
			}
			c := describe(strings.TrimRight(f, "*?=!+"), role)
			c.Lacking = strings.HasSuffix(f, "+")
			if u, ok := t.units[c.Name]; ok {
				c.Unit = u
			}
			t.parsed = append(t.parsed, c)
		}
		t.byName = map[string]int{}
		for i, c := range t.parsed {
			t.byName[c.Name] = i
		}
	}
	return list
}
