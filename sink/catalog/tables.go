package catalog

import "slices"

// tables are the perf tables of published databases, and serving_perf. The columns of a
// table are in the order in which most backends write them.
var tables = []*Table{
	{
		Name: "gemm_perf", Family: "gemm", OpNames: []string{"gemm"},
		Doc:     "one matrix product, m x k by k x n",
		rows:    []string{"-n", "-k", "-m"},
		columns: list(key("gemm_dtype", "m", "n", "k"), metric("latency")),
	},
	{
		Name: "computescale_perf", Family: "quantize", OpNames: []string{"compute_scale"}, ZeroLegal: true,
		Doc:     "dynamic minus static quantisation of an m x k matrix; zero where the difference vanishes",
		columns: list(key("m", "k", "quant_dtype"), metric("latency")),
	},
	{
		Name: "scale_matrix_perf", Family: "quantize", OpNames: []string{"scale_matrix"},
		Doc:     "static quantisation of an m x k matrix",
		columns: list(key("m", "k", "quant_dtype"), metric("latency")),
	},
	{
		Name: "context_attention_perf", Family: "attention", OpNames: []string{"context_attention"}, lanes: "*",
		Doc: "prefill attention",
		columns: list(
			key("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim"), info("beam_width"),
			key("attn_dtype", "kv_cache_dtype"), info("step"), optional("window_size"), metric("latency"),
		),
		orders: map[string][]string{"trtllm": trtllmAttention},
	},
	{
		Name: "generation_attention_perf", Family: "attention", OpNames: []string{"generation_attention"}, lanes: "*",
		Doc: "decode attention; the sequence length is isl + step",
		columns: list(
			key("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim"),
			info("beam_width", "attn_dtype"), key("kv_cache_dtype", "step"), optional("window_size"),
			metric("latency"),
		),
		orders: map[string][]string{"trtllm": trtllmAttention},
	},
	{
		Name: "encoder_attention_perf", Family: "encoder_attention", OpNames: []string{"encoder_attention"},
		Doc:     "attention of a vision encoder, without a mask or cache",
		columns: list(key("batch_size", "isl", "num_heads", "head_dim", "attn_dtype"), metric("latency")),
	},
	{
		Name: "context_mla_perf", Family: "mla", OpNames: []string{"mla_context", "context_mla"},
		Doc: "prefill of multi-head latent attention",
		columns: list(
			key("mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "isl"), info("tp_size"), key("step"),
			metric("latency"),
		),
	},
	{
		Name: "generation_mla_perf", Family: "mla", OpNames: []string{"mla_generation", "generation_mla"},
		Doc: "decode of multi-head latent attention; the sequence length is isl + step",
		columns: list(
			info("mla_dtype"), key("kv_cache_dtype", "num_heads", "batch_size", "isl"), info("tp_size"),
			key("step"), metric("latency"),
		),
	},
	{
		Name: "wideep_context_mla_perf", Family: "mla", OpNames: []string{"mla_context"}, KernelSourceKey: true, Legacy: true,
		Doc: "prefill of latent attention under wide expert parallelism",
		columns: list(
			optional("model"), info("architecture"), key("mla_dtype", "kv_cache_dtype"), optional("gemm_type"),
			key("num_heads", "batch_size", "isl"), info("tp_size"), key("step"), metric("latency"),
		),
	},
	{
		Name:            "wideep_generation_mla_perf",
		Family:          "mla",
		OpNames:         []string{"mla_generation"},
		KernelSourceKey: true,
		Legacy:          true,
		Doc:             "decode of latent attention under wide expert parallelism",
		columns: list(
			optional("model"), info("architecture", "mla_dtype"), key("kv_cache_dtype"), optional("gemm_type"),
			key("num_heads", "batch_size", "isl"), info("tp_size"), key("step"), metric("latency"),
		),
	},
	{
		Name: "mla_context_module_perf", Family: "mla", OpNames: []string{"mla_context_module"},
		Doc: "prefill of a whole latent-attention module with its projections",
		columns: list(
			key("model"), info("architecture"),
			key("mla_dtype", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl"),
			optional("tp_size"), info("step"), metric("latency"),
		),
	},
	{
		Name: "mla_generation_module_perf", Family: "mla", OpNames: []string{"mla_generation_module"},
		Doc: "decode of a whole latent-attention module with its projections",
		columns: list(
			key("model"), info("architecture", "mla_dtype"),
			key("kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl"), optional("tp_size"),
			key("step"), metric("latency"),
		),
	},
	{
		Name: "mla_bmm_perf", Family: "mla_bmm", OpNames: []string{"mla_gen_pre", "mla_gen_post"}, OpNameKey: true,
		Doc:     "the batched products before and after latent attention in decode",
		columns: list(key("bmm_dtype", "num_tokens", "num_heads"), metric("latency")),
	},
	{
		Name: "moe_perf", Family: "moe", OpNames: []string{"moe"}, lanes: "moe_torch_flow_min_latency",
		Doc: "the experts of a mixture-of-experts layer on one rank",
		columns: list(
			key("moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts"),
			key("moe_tp_size", "moe_ep_size", "distribution"), metric("latency"),
		),
	},
	{
		Name: "moe_expert_compute_perf", Family: "moe", OpNames: []string{"moe_expert_compute"}, KernelSourceKey: true,
		Doc: "the experts of one rank under wide expert parallelism, without communication",
		columns: list(
			key("moe_dtype", "distribution", "inference_phase", "topk", "num_experts", "num_slots"),
			key("hidden_size", "inter_size", "moe_tp_size", "moe_ep_size", "num_tokens"), metric("latency"),
		),
	},
	{
		Name:            "dsv4_megamoe_module_perf",
		Family:          "moe",
		OpNames:         []string{"dsv4_megamoe_module"},
		KernelSourceKey: true,
		Repeats:         GiveUp,
		Doc:             "DeepSeek-V4's experts with dispatch and combine in one kernel; num_tokens are those of one rank",
		columns: list(
			key("phase", "moe_dtype", "kernel_dtype", "num_tokens"), info("global_num_tokens"),
			key("hidden_size", "inter_size", "topk", "num_experts"),
			optional("num_fused_shared_experts", "moe_tp_size"),
			key("moe_ep_size", "distribution", "source_policy", "pre_dispatch"),
			info("num_max_tokens_per_rank", "effective_num_max_tokens_per_rank"),
			needed("routed_scaling_factor", "includes_routed_scale", "includes_gate_topk"),
			info("buffer_policy", "includes_buffer_init"), needed("used_cuda_graph"), metric("latency"),
		),
		takes: map[string][]string{
			"phase":                 {"context", "generation"},
			"used_cuda_graph":       {"true"},
			"includes_routed_scale": {"true"},
			"includes_gate_topk":    {"false"},
		},
	},
	{
		Name:      "wideep_moe_perf",
		Family:    "moe",
		OpNames:   []string{"wideep_moe", "wideep_moe_eplb"},
		OpNameKey: true,
		Legacy:    true,
		Doc:       "experts under wide expert parallelism",
		columns: list(
			key("moe_dtype"), info("moe_kernel"), key("num_tokens"), info("dp_num_tokens", "rank0_num_tokens"),
			key("hidden_size", "inter_size", "topk", "num_experts", "num_slots", "moe_tp_size"),
			key("moe_ep_size", "distribution"), info("simulation_mode"), metric("latency"),
		),
	},
	{
		Name: "wideep_context_moe_perf", Family: "moe", OpNames: []string{"moe_context"}, Legacy: true,
		Doc: "experts in prefill under wide expert parallelism",
		columns: list(
			key("moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts"),
			key("moe_tp_size", "moe_ep_size", "distribution"), metric("latency"),
		),
	},
	{
		Name: "wideep_generation_moe_perf", Family: "moe", OpNames: []string{"moe_generation"}, Legacy: true,
		Doc: "experts in decode under wide expert parallelism",
		columns: list(
			key("moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts"),
			key("moe_tp_size", "moe_ep_size", "distribution"), metric("latency"),
		),
	},
	{
		Name: "wideep_context_mlp_perf", Family: "mlp", OpNames: []string{"mlp"}, Legacy: true,
		Doc:     "the dense layer in prefill under wide expert parallelism",
		columns: list(key("quant_type", "num_token", "hidden_size", "intermediate_size"), metric("avg_ms")),
	},
	{
		Name: "wideep_generation_mlp_perf", Family: "mlp", OpNames: []string{"mlp"}, Legacy: true,
		Doc:     "the dense layer in decode under wide expert parallelism",
		columns: list(key("quant_type", "num_token", "hidden_size", "intermediate_size"), metric("avg_ms")),
	},
	{
		Name:      "nccl_perf",
		Family:    "comm",
		Library:   "nccl",
		OpNames:   []string{"all_gather", "alltoall", "reduce_scatter", "all_reduce"},
		OpNameKey: true,
		Doc:       "one collective; message_size counts elements",
		columns:   list(key("nccl_dtype", "num_gpus", "message_size"), metric("latency")),
	},
	{
		Name:      "oneccl_perf",
		Family:    "comm",
		Library:   "oneccl",
		OpNames:   []string{"all_gather", "alltoall", "reduce_scatter", "all_reduce"},
		OpNameKey: true,
		Doc:       "one collective of oneCCL, which readers take where a system has no NCCL; message_size counts elements",
		columns:   list(key("nccl_dtype", "num_gpus", "message_size"), metric("latency")),
	},
	{
		Name: "custom_allreduce_perf", Family: "comm", OpNames: []string{"all_reduce"}, KernelSourceKey: true,
		Doc:  "a framework's own all-reduce; message_size counts elements",
		rows: []string{"num_gpus", "message_size", "-kernel_source"},
		columns: list(
			info("allreduce_dtype"), key("num_gpus", "message_size"), metric("latency"),
			optional("backend", "implementation"),
		),
		orders: map[string][]string{
			"":       {"allreduce_dtype", "num_gpus", "message_size", "latency", "backend"},
			"vllm":   {"allreduce_dtype", "num_gpus", "message_size", "latency", "backend"},
			"sglang": {"allreduce_dtype", "num_gpus", "message_size", "latency", "backend"},
			"trtllm": {"allreduce_dtype", "num_gpus", "message_size", "latency", "implementation"},
		},
		labels: map[string]string{"vllm": "vLLM"},
	},
	{
		Name: "moe_a2a_perf", Family: "comm", KernelSourceKey: true,
		Doc: "dispatch and combine of expert parallelism across ranks",
		columns: list(
			key("comm_backend", "phase", "comm_dtype", "ep_size", "node_num", "hidden_size", "topk"),
			key("num_experts", "num_tokens"), optional("sms"), in("us", metric("latency")),
			info("transmit_us", "notify_us"),
		),
		labels: map[string]string{"vllm": "vLLM"},
	},
	{
		Name: "trtllm_alltoall_perf", Family: "comm", OpNameKey: true, KernelSourceKey: true, Legacy: true,
		OpNames: []string{"alltoall_prepare", "alltoall_dispatch", "alltoall_combine", "alltoall_combine_low_precision"},
		Doc:     "one phase of TensorRT-LLM's exchange of tokens between experts over NVLink; moe_a2a_perf has it today",
		columns: list(
			key("moe_dtype", "num_tokens", "hidden_size", "topk", "num_experts", "moe_ep_size"),
			info("distribution"), optional("num_nodes"), metric("latency"),
		),
	},
	{
		Name: "wideep_deepep_ll_perf", Family: "comm", OpNames: []string{"ll"}, Legacy: true,
		Doc: "DeepEP in low-latency mode",
		columns: list(
			key("node_num", "hidden_size", "num_token", "num_topk", "num_experts"),
			metric("combine_avg_t_us", "combine_bandwidth_gbps", "dispatch_avg_t_us"),
			metric("dispatch_bandwidth_gbps"),
		),
		labels: map[string]string{"sglang": "sglang"},
	},
	{
		Name: "wideep_deepep_normal_perf", Family: "comm", OpNames: []string{"normal"}, Legacy: true,
		Doc: "DeepEP in throughput mode",
		columns: list(
			key("node_num", "hidden_size", "num_token", "num_topk", "num_experts", "dispatch_sms"),
			metric("dispatch_transmit_us", "dispatch_notify_us"), info("combine_sms"),
			metric("combine_transmit_us", "combine_notify_us"),
		),
		labels: map[string]string{"sglang": "sglang"},
	},
	{
		Name: "gdn_perf", Family: "linear_attention", OpNames: []string{"gdn"}, KernelSourceKey: true,
		Doc: "gated delta-rule attention; one row per kernel",
		columns: list(
			key("phase", "batch_size", "seq_len"), info("num_tokens"),
			key("d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"),
			info("model_name"), metric("latency"),
		),
		labels: map[string]string{"vllm": "vLLM"},
	},
	{
		Name: "kda_perf", Family: "kda", OpNames: []string{"kda"}, KernelSourceKey: true,
		Doc: "Kimi delta attention; one row per kernel",
		columns: list(
			key("phase", "batch_size", "seq_len"), info("num_tokens"),
			key("d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"),
			info("model_name"), metric("latency"),
		),
	},
	{
		Name: "mamba2_perf", Family: "linear_attention", OpNames: []string{"mamba2"}, KernelSourceKey: true,
		Doc: "state-space layers; one row per kernel",
		columns: list(
			key("phase", "batch_size", "seq_len"), info("num_tokens"),
			key("d_model", "d_state", "d_conv", "nheads", "head_dim", "n_groups", "chunk_size"),
			info("model_name"), metric("latency"),
		),
	},
	{
		Name: "mhc_module_perf", Family: "mhc", OpNames: []string{"pre", "post", "expand"}, OpNameKey: true,
		Doc: "hyper-connections before and after a DeepSeek-V4 block",
		columns: list(
			info("architecture"), key("num_tokens"), info("num_sites"), key("hc_mult", "hidden_size"),
			info("sinkhorn_iters"), metric("latency"),
		),
	},
	dsa(
		"dsa_context_module_perf",
		"prefill of a whole sparse-attention module",
		"dsa_context_module",
		"dsa_context_module_skip_indexer",
	),
	dsa(
		"dsa_generation_module_perf",
		"decode of a whole sparse-attention module",
		"dsa_generation_module",
		"dsa_generation_module_skip_indexer",
	),
	{
		Name: "msa_context_module_perf", Family: "msa", OpNames: []string{"msa_context_module"},
		Doc:     "prefill of a whole MiniMax sparse-attention module",
		columns: module(info("model"), key("architecture")),
	},
	{
		Name: "msa_generation_module_perf", Family: "msa", OpNames: []string{"msa_generation_module"},
		Doc:     "decode of a whole MiniMax sparse-attention module",
		columns: module(info("model"), key("architecture")),
	},
	dsv4("dsv4_csa_context_module", "prefill of DeepSeek-V4's compressed sparse attention"),
	dsv4("dsv4_csa_generation_module", "decode of DeepSeek-V4's compressed sparse attention"),
	dsv4("dsv4_hca_context_module", "prefill of DeepSeek-V4's heavily compressed attention"),
	dsv4("dsv4_hca_generation_module", "decode of DeepSeek-V4's heavily compressed attention"),
	localKernel("dsv4_paged_mqa_logits_module", "the paged logits kernel of DeepSeek-V4's indexer"),
	localKernel("dsv4_hca_attn_module", "the attention kernel of DeepSeek-V4's compressed layers"),
	scored("dsv4_csa_topk_calib", "what the scores' distribution adds to DeepSeek-V4's top-k; zero where nothing"),
	kernelLevel("glm5_mqa_logits_module", "the logits kernel of GLM-5's indexer"),
	kernelLevel("glm5_dsa_attn_module", "the sparse attention kernel of GLM-5"),
	scored("glm5_topk_module", "what the scores' distribution adds to GLM-5's top-k; zero where nothing"),
	recorded(
		"glm53_attention",
		"parts of GLM-5.3-Flash: attention, projections, indexer",
		"source_sha256",
		"config_sha256",
		"runtime_digest",
		"used_cuda_graph",
		"sample_count",
		"kv_seed_regime",
		"execution_profile",
	),
	recorded(
		"dsv41",
		"parts of DeepSeek-V4.1",
		"used_cuda_graph",
		"sample_count",
		"kv_seed_regime",
		"source_sha256",
		"config_sha256",
		"runtime_digest",
		"execution_profile",
	),
	{
		Name: "serving_perf", Family: "serving", Open: true,
		Doc: "one load on a model server; times are means over its requests",
		columns: list(
			optional("model", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
			optional("concurrency", "request_rate", "isl", "osl", "turns"), metric("request_throughput"),
			maybe("throughput", "input_throughput", "total_throughput", "throughput_per_user", "goodput"),
			maybe("ttft", "ttst", "itl", "icl", "tpot", "latency", "throughput_tokens_sec"),
			maybe("iteration_wall_clock", "comm_overhead", "comm_exposed_pct", "coll_call_num"),
		),
	},
}

// trtllmAttention is the order of the attention tables of TensorRT-LLM.
var trtllmAttention = []string{
	"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "beam_width", "attn_dtype",
	"kv_cache_dtype", "step", "latency",
}

// module lists the columns of attention modules after those that name the model.
func module(model ...[]Column) []Column {
	return list(slices.Concat(model...),
		key("mla_dtype", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl"), optional("tp_size"),
		key("step"), metric("latency"))
}

// recorded describes a table whose rows name their code and image by digests instead of a
// framework, version and device.
func recorded(family, doc string, rest ...string) *Table {
	return &Table{
		Name: family + "_module_perf", Family: family, Doc: doc,
		columns: slices.Concat(key("component", "geometry", "batch_size", "prefix", "x"), metric("latency"),
			role(Identity, "kernel_source"), info("measurement_scope"), info(rest...)),
	}
}

func dsa(name, doc string, ops ...string) *Table {
	return &Table{
		Name: name, Family: "sparse_attention", OpNames: ops, OpNameKey: true, lanes: "_indexer_trtllm",
		Repeats: TakeLast, Doc: doc, columns: module(info("model"), key("architecture")),
	}
}

func dsv4(op, doc string) *Table {
	return &Table{
		Name: op + "_perf", Family: "sparse_attention", OpNames: []string{op}, Doc: doc,
		columns: list(optional("model"), info("architecture"),
			key("mla_dtype", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl", "tp_size", "step"),
			info("compress_ratio"), metric("latency")),
		words: map[string]string{"sglang kv_cache_dtype fp8": "fp8_e4m3"},
	}
}

// kernelLevel describes the table of one kernel of a sparse attention module. The extra
// columns follow num_heads.
func kernelLevel(op, doc string, extra ...[]Column) *Table {
	return &Table{
		Name: op + "_perf", Family: "sparse_attention", OpNames: []string{op}, Doc: doc,
		columns: list(info("model", "architecture", "mla_dtype", "kv_cache_dtype", "gemm_type"), optional("num_heads"),
			slices.Concat(extra...), key("batch_size", "isl"), optional("tp_size"), key("step"), info("compress_ratio"),
			metric("latency")),
	}
}

// localKernel is kernelLevel for DeepSeek-V4: only some backends write local_num_heads.
func localKernel(op, doc string) *Table {
	t := kernelLevel(op, doc, info("local_num_heads"))
	var order []string
	for _, c := range t.columns {
		if c.Name != "local_num_heads" {
			order = append(order, c.Name)
		}
	}
	t.orders = map[string][]string{"": order, "sglang": order}
	return t
}

// scored describes a table of top-k corrections by the distribution of the scores.
func scored(op, doc string) *Table {
	t := kernelLevel(op, doc)
	t.ZeroLegal = true
	t.columns = append(t.columns, key("score_mode")...)
	return t
}
