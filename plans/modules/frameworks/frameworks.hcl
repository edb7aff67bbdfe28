# Where aiconfigurator's collectors measure the ops of each framework, and how the columns of a case become
# their arguments: one row per op. docs/guides/python-ops.md explains the words. What a row leaves out comes from
# the tables below it: the collector's file and function, and the name of its perf file.

variable "backend" { type = string } # trtllm, vllm or sglang.

locals {
  # Set before the framework is imported. The two SGLANG_OPT switches and the RESTART_WORKER variables belong to
  # the runtime, because ops with environments of their own share no process. Without RESTART_WORKER the
  # collectors of experts and of Mamba end their process after every task.
  runtime_env = merge({ PYTHONWARNINGS = "ignore::UserWarning:torch.library" }, {
    vllm = {}
    trtllm = {
      TLLM_LOG_LEVEL                   = "ERROR"
      TRTLLM_DG_ENABLED                = "1"
      FLASHINFER_LOG_LEVEL             = "ERROR"
      TRTLLM_MOE_RESTART_WORKER        = "0"
      TRTLLM_WIDEEP_MOE_RESTART_WORKER = "0"
      TRTLLM_MAMBA2_RESTART_WORKER     = "0"
    }
    sglang = {
      FLASHINFER_LOG_LEVEL            = "ERROR"
      SGLANG_JIT_DEEPGEMM_PRECOMPILE  = "0" # products set it too late if another op has imported SGLang
      SGLANG_OPT_DEEPGEMM_HC_PRENORM  = "1"
      SGLANG_OPT_USE_TILELANG_MHC_PRE = "1"
    }
  }[var.backend])

  # Ops that need a newer runtime than "base": experts, sparse attention and MiniMax attention of TensorRT-LLM a
  # later release candidate, Kimi delta attention of vLLM a preview build, that and MiniMax attention of SGLang a
  # later release.
  later = {
    trtllm = { next = [
      "moe", "moe_ep", "dsa_context_module", "dsa_generation_module", "msa_context_module", "msa_generation_module",
      "dsv4_csa_context_module", "dsv4_csa_generation_module", "dsv4_hca_context_module", "dsv4_hca_generation_module",
    ] }
    vllm   = { preview = ["kda"] }
    sglang = { next = ["kda", "msa_context_module", "msa_generation_module"] }
  }[var.backend]

  # The kinds of layers that ops measure, as the rows of models name them.
  kinds = {
    gemm                            = "any", compute_scale = "any"
    attention_context               = "attention", attention_generation = "attention", encoder_attention = "encoder"
    mla_context                     = "mla", mla_generation = "mla", mla_context_module = "mla", mla_generation_module = "mla"
    mla_bmm_gen_pre                 = "mla", mla_bmm_gen_post = "mla"
    moe                             = "moe", moe_ep = "moe", mhc_module = "mhc", gdn = "gdn", kda = "kda", mamba2 = "mamba2"
    dsa_context_module              = "dsa", dsa_generation_module = "dsa"
    dsa_context_module_skip_indexer = "dsa", dsa_generation_module_skip_indexer = "dsa"
    glm5_mqa_logits_module          = "dsa", glm5_topk_module = "dsa", glm5_dsa_attn_module = "dsa"
    msa_context_module              = "msa", msa_generation_module = "msa"
    dsv4_csa_context_module         = "dsv4", dsv4_hca_context_module = "dsv4"
    dsv4_csa_generation_module      = "dsv4", dsv4_hca_generation_module = "dsv4"
    dsv4_paged_mqa_logits_module    = "dsv4", dsv4_hca_attn_module = "dsv4", dsv4_csa_topk_calib = "dsv4"
  }

  # The perf files whose names differ from the op.
  files = {
    compute_scale        = "computescale"
    attention_context    = "context_attention"
    attention_generation = "generation_attention"
    mla_context          = "context_mla"
    mla_generation       = "generation_mla"
    mla_bmm_gen_pre      = "mla_bmm"
    mla_bmm_gen_post     = "mla_bmm"
    moe_ep               = "moe_expert_compute"
  }

  # The collectors' files and functions, by the word that a row of the tables below has as its collector.
  collectors = {
    gemm              = ["collect_gemm", "run_gemm"]
    compute_scale     = ["collect_computescale", "run_computescale"]
    attention         = ["collect_attn", "run_attention_torch"]
    encoder_attention = ["collect_attn_encoder", "run_encoder_attention_torch"]
    mla               = ["collect_mla", "run_mla"]
    mla_bmm_gen_pre   = ["collect_mla_bmm", "run_mla_gen_pre"]
    mla_bmm_gen_post  = ["collect_mla_bmm", "run_mla_gen_post"]
    mla_module        = ["collect_mla_module", "run_mla_module_worker"]
    msa_module        = ["collect_msa_module", "run_msa_module_worker"]
    dsv4_module       = ["collect_dsv4_attn", "run_dsv4_attn_worker"]
    dsv4_kernel       = ["collect_dsv4_attn", "run_dsv4_sparse_kernel_worker"]
    dsv4_sparse       = ["deepseekv4_sparse_modules", "run_dsv4_sparse_kernel_worker"]
    glm5_sparse       = ["glm5_dsa_sparse_modules", "run_glm5_dsa_sparse_kernel_worker"]
    mhc_module        = ["collect_mhc_module", "run_mhc_module_worker"]
    moe               = ["collect_moe", "run_moe_torch"]
    gdn               = ["collect_gdn", "run_gdn_torch"]
    kda               = ["collect_kda", "run_kda_torch"]
    mamba2            = ["collect_mamba2", "run_mamba2_torch"]
  }

  # Columns whose values have other words in the collectors. A distribution is one column here and two arguments there.
  fp8_cache   = { column = "kv_cache_dtype", map = { bfloat16 = false, fp8 = true } }
  fp8_compute = { column = "attn_dtype", map = { bfloat16 = false, fp8 = true } }
  spread      = { column = "distribution", map = { balanced = "balanced", "power_law_1.01" = "power_law", "power_law_1.2" = "power_law" } }
  alpha       = { column = "distribution", map = { balanced = 0, "power_law_1.01" = 1.01, "power_law_1.2" = 1.2 } }

  # Cases with enums of the framework are looked up in what the collector lists. num_heads is the native number there.
  listed_mla = { batch_size = "batch_size", native_num_heads = "num_heads", tp_size = "tp_size", kv_cache_dtype = {
    trtllm = { param = "kv_cache_dtype", map = { bf16 = "bfloat16", fp8 = "fp8" } }
    sglang = { param = "kv_cache_dtype", map = { bfloat16 = "bfloat16", float8_e4m3fn = "fp8" } }
    vllm   = null
  }[var.backend] }
  listed_gdn = { for c in ["phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"] : c => c }

  # Rows that all backends share.
  every = {
    gemm              = { by = "gemm", args = ["gemm_dtype", "m", "n", "k"] }
    compute_scale     = { by = "compute_scale", args = ["m", "k"] }
    encoder_attention = { by = "encoder_attention", args = ["batch_size", "isl", "num_heads", "head_dim"] }
    mla_bmm_gen_pre   = { by = "mla_bmm_gen_pre", args = ["num_tokens", "num_heads", "bmm_dtype", 2, 10] }
    mla_bmm_gen_post  = { by = "mla_bmm_gen_post", args = ["num_tokens", "num_heads", "bmm_dtype", 2, 10] }
    gdn               = { by = "gdn", getter = "get_gdn_test_cases", match = local.listed_gdn }
  }

  # Whole modules of TensorRT-LLM and vLLM.
  precision = ["num_heads", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]
  modules = merge(local.every, {
    mla_context_module    = { by = "mla_module", args = concat(["isl", "batch_size"], local.precision, [{ value = "mla" }]) }
    mla_generation_module = { by = "mla_module", args = concat(["step", "batch_size"], local.precision, [{ value = "mla" }]) }
    dsa_context_module    = { by = "mla_module", args = concat(["isl", "batch_size"], local.precision, [{ value = "dsa" }, "step"]) }
    dsa_generation_module = { by = "mla_module", args = concat(["step", "batch_size"], local.precision, [{ value = "dsa" }]) }
    msa_context_module    = { by = "msa_module", args = concat(["isl", "batch_size"], local.precision, ["step"]) }
    msa_generation_module = { by = "msa_module", args = concat(["step", "batch_size"], local.precision) }
    mhc_module            = { by = "mhc_module", args = ["op", "num_tokens", "hidden_size", "hc_mult"] }
  })
}

locals {
  shard_precision = ["tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]

  trtllm = merge(local.modules, {
    attention_context = { by = "attention", args = [
      "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", local.fp8_cache,
      local.fp8_compute, true, "attn_backend",
    ] }
    attention_generation = { by = "attention", args = [
      "batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", local.fp8_cache, false, false,
      "attn_backend",
    ] }
    mla_context    = { by = "mla", getter = "get_context_mla_test_cases", match = merge(local.listed_mla, { isl = "input_len" }) }
    mla_generation = { by = "mla", getter = "get_generation_mla_test_cases", match = merge(local.listed_mla, { step = "input_len" }) }
    moe = { by = "moe", args = [
      "moe_dtype", { sweep = "num_tokens" }, "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
      "moe_ep_size", "min_latency_mode", "model_name", local.spread, local.alpha,
    ] }
    moe_ep = {
      by     = "moe"
      module = "collector.wideep.trtllm.collect_moe_compute"
      run    = "run_moe_ep"
      args = [
        "moe_dtype", { value = "cutlass" }, { sweep = "num_tokens" }, "hidden_size", "inter_size", "topk", "num_experts",
        "moe_tp_size", "moe_ep_size", false, "model_name", { value = "power_law" },
        { column = "distribution", map = { "power_law_1.01" = 1.01, "power_law_1.01_eplb" = 1.01, "power_law_1.2" = 1.2, "power_law_1.2_eplb" = 1.2 } },
        "use_eplb", "num_slots", true,
      ]
    }
    dsv4_csa_context_module    = { by = "dsv4_module", args = concat(["isl", "batch_size"], local.shard_precision, [{ value = "csa" }, "step"]) }
    dsv4_hca_context_module    = { by = "dsv4_module", args = concat(["isl", "batch_size"], local.shard_precision, [{ value = "hca" }, "step"]) }
    dsv4_csa_generation_module = { by = "dsv4_module", args = concat(["step", "batch_size"], local.shard_precision, [{ value = "csa" }]) }
    dsv4_hca_generation_module = { by = "dsv4_module", args = concat(["step", "batch_size"], local.shard_precision, [{ value = "hca" }]) }
    mamba2 = {
      by     = "mamba2"
      getter = "get_mamba2_test_cases"
      match  = { for c in ["phase", "d_model", "d_state", "d_conv", "nheads", "head_dim", "n_groups", "chunk_size"] : c => c }
    }
  })
}

locals {
  # The attention backend of DeepSeek-V4 is the collector's choice.
  dsv4_context    = { isl = "seq_len", step = "prefix_len", batch_size = "batch_size", tp_size = "tp_size", model = "model_path" }
  dsv4_generation = { step = "seq_len", batch_size = "batch_size", tp_size = "tp_size", model = "model_path" }

  vllm = merge(local.modules, {
    # The collector leaves the weights of bfloat16 as the memory is, mostly zeros: products that the power cap
    # limits are up to 16 % too short with them.
    gemm = merge(local.every.gemm, { uninitialised = "random" })

    attention_context = { by = "attention", args = [
      "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", local.fp8_cache, true, "window_size",
    ] }
    # The collector reads the same keys and values again and again, so that short ones stay in the L2 cache. A model
    # reads its weights in between.
    attention_generation = { by = "attention", cache = "cold", args = [
      "batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", local.fp8_cache, false, "window_size",
    ] }
    moe = { by = "moe", args = [
      "moe_dtype", { sweep = "num_tokens" }, "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
      "moe_ep_size", "model_name", local.spread, local.alpha,
    ] }
    dsv4_csa_context_module    = { by = "dsv4_module", getter = "get_dsv4_csa_context_test_cases", match = local.dsv4_context }
    dsv4_hca_context_module    = { by = "dsv4_module", getter = "get_dsv4_hca_context_test_cases", match = local.dsv4_context }
    dsv4_csa_generation_module = { by = "dsv4_module", getter = "get_dsv4_csa_generation_test_cases", match = local.dsv4_generation }
    dsv4_hca_generation_module = { by = "dsv4_module", getter = "get_dsv4_hca_generation_test_cases", match = local.dsv4_generation }

    # Single kernels of the same module, which the modules' times are extended with.
    dsv4_paged_mqa_logits_module = { by = "dsv4_kernel", args = ["batch_size", "isl", "step", 1, { value = "paged_mqa_logits" }, "model"] }
    dsv4_hca_attn_module         = { by = "dsv4_kernel", args = ["batch_size", "isl", "step", 1, { value = "hca_attn" }, "model"] }
    kda                          = { by = "kda", getter = "get_kda_test_cases", match = local.listed_gdn }
  })
}

locals {
  # Whole modules are built by the framework's own loader, with weights that need no download.
  module_env = { SGLANG_LOAD_FORMAT = "dummy", SGLANG_TEST_NUM_LAYERS = "2" }

  head_variant = [
    "window_size", "v_head_dim", "runtime_window_size", "attention_chunk_size", "has_attention_sink", "scaling",
    "kernel_source", "architecture",
  ]

  # One task of these loads a model and sweeps a list of shapes that only the collector has: it is looked up in
  # what the collector lists.
  shard = {
    tp_size   = "target_tp_size", kv_cache_dtype = "kv_cache_dtype", mla_dtype = "compute_dtype"
    gemm_type = "gemm_type", model = "model_path"
  }
  dsa       = merge(local.shard, { dsa_prefill_backend = "dsa_prefill_backend" })
  per_batch = { batch_size = "batch_size" }
  # With fills_memory: a process of the collector takes nine tenths of the GPU's memory, so of two at a time one fails.
  # The rows of DeepSeek-V4 have SGLang's word for the format of the cache.
  dsv4 = {
    by           = "dsv4_module"
    env          = local.module_env
    fills_memory = true
    words        = { kv_cache_dtype = { fp8_e4m3 = "fp8" } }
    match        = { batch_size = "batch_size", tp_size = "tp_size", kv_cache_dtype = "kv_cache_dtype", gemm_type = "gemm_type", model = "model_path" }
  }
  dsa_module    = { by = "mla_module", env = local.module_env, fills_memory = true, match = local.dsa }
  msa_module    = { by = "msa_module", env = local.module_env, fills_memory = true, match = local.shard }
  sparse_kernel = { batch_size = "bs_only", model = "model_path" }

  # Attention, latent attention and experts replace global state of the framework when they are imported: each has
  # a process of its own.
  sglang = merge(local.every, {
    attention_context = { by = "attention", isolate = true, args = concat(
      ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", local.fp8_cache, local.fp8_compute, true],
      local.head_variant,
    ) }
    attention_generation = { by = "attention", isolate = true, args = concat(
      ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", local.fp8_cache, false, false],
      local.head_variant,
    ) }
    mla_context = {
      by    = "mla", isolate = true, getter = "get_context_mla_test_cases"
      match = merge(local.listed_mla, { isl = "input_len" })
    }
    mla_generation = {
      by    = "mla", isolate = true, getter = "get_generation_mla_test_cases"
      match = merge(local.listed_mla, { step = "input_len" })
    }
    moe = { by = "moe", isolate = true, args = [
      "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
      "model_name", local.spread, local.alpha, "swiglu_limit", "moe_backend", "activation", "is_gated", "has_bias",
      "gemm1_alpha", "gemm1_clamp_limit", "scoring_func", "routing_method_type", "routed_scaling_factor", "renormalize",
      "has_correction_bias", "num_expert_group", "topk_group", "apply_router_weight_on_input", "is_fp4_experts",
    ] }
    mhc_module = { by = "mhc_module", env = local.module_env, args = ["op", "model"] }
    kda        = { by = "kda", getter = "get_kda_test_cases", match = local.listed_gdn }

    # The perf file chooses the variant of these.
    dsa_context_module                 = merge(local.dsa_module, { match = merge(local.dsa, local.per_batch) })
    dsa_generation_module              = local.dsa_module
    dsa_context_module_skip_indexer    = merge(local.dsa_module, { match = merge(local.dsa, local.per_batch) })
    dsa_generation_module_skip_indexer = local.dsa_module
    msa_context_module                 = merge(local.msa_module, { match = merge(local.shard, local.per_batch) })
    msa_generation_module              = local.msa_module
    dsv4_csa_context_module            = merge(local.dsv4, { getter = "get_dsv4_csa_context_test_cases" })
    dsv4_hca_context_module            = merge(local.dsv4, { getter = "get_dsv4_hca_context_test_cases" })
    dsv4_csa_generation_module         = merge(local.dsv4, { getter = "get_dsv4_csa_generation_test_cases" })
    dsv4_hca_generation_module         = merge(local.dsv4, { getter = "get_dsv4_hca_generation_test_cases" })
    glm5_mqa_logits_module             = { by = "glm5_sparse", getter = "get_glm5_mqa_test_cases", match = local.sparse_kernel }
    glm5_topk_module                   = { by = "glm5_sparse", getter = "get_glm5_topk_test_cases", match = local.sparse_kernel }
    glm5_dsa_attn_module               = { by = "glm5_sparse", getter = "get_glm5_dsa_attn_test_cases", match = local.sparse_kernel }
    dsv4_paged_mqa_logits_module       = { by = "dsv4_sparse", getter = "get_dsv4_paged_mqa_logits_test_cases", match = local.sparse_kernel }
    dsv4_csa_topk_calib                = { by = "dsv4_sparse", getter = "get_dsv4_topk_calib_test_cases", match = local.sparse_kernel }
  })

  rows = { trtllm = local.trtllm, vllm = local.vllm, sglang = local.sglang }[var.backend]

  bindings = { for op, row in local.rows : op => merge(
    {
      module        = "collector.${var.backend}.${local.collectors[row.by][0]}"
      run           = local.collectors[row.by][1]
      perf_filename = "${lookup(local.files, op, op)}_perf.txt"
    },
    { for name in ["getter"] : name => "get_${op}_test_cases" if contains(keys(row), "match") },
    { for name, value in row : name => value if name != "by" },
  ) }
}

output "bindings" { value = local.bindings } # how the ops are hosted: the ops of a python runtime with collector_root
output "kinds" { value = local.kinds }       # the kind of layer that each op measures; any for ops that all models need

output "runtime_of" {
  description = "Which of the plan's runtimes an op runs in."
  value = merge(
    { for op in keys(local.rows) : op => "base" },
    [for name, ops in local.later : { for op in ops : op => name }]...
  )
}

output "runtime_env" { value = local.runtime_env } # environment that the collectors' own runner sets
