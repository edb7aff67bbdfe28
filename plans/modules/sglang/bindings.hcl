# Where aiconfigurator's collectors for SGLang measure the ops of this module,
# and how a case's columns become their arguments. See docs/guides/python-ops.md for
# the words used here.

locals {
  # The two SGLANG_OPT switches must be there before the framework is imported.
  runtime_env = {
    FLASHINFER_LOG_LEVEL            = "ERROR"
    SGLANG_OPT_DEEPGEMM_HC_PRENORM  = "1"
    SGLANG_OPT_USE_TILELANG_MHC_PRE = "1"
    PYTHONWARNINGS                  = "ignore::UserWarning:torch.library"
  }

  # Whole modules are built by the framework's own loader, with weights that
  # nobody has to download.
  module_env = {
    SGLANG_LOAD_FORMAT     = "dummy"
    SGLANG_TEST_NUM_LAYERS = "2"
  }

  fp8_cache   = { column = "kv_cache_dtype", map = { bfloat16 = false, fp8 = true } }
  fp8_compute = { column = "attn_dtype", map = { bfloat16 = false, fp8 = true } }

  # A distribution is one column here and two arguments there.
  spread = { column = "distribution", map = { balanced = "balanced", "power_law_1.01" = "power_law", "power_law_1.2" = "power_law" } }
  alpha  = { column = "distribution", map = { balanced = 0, "power_law_1.01" = 1.01, "power_law_1.2" = 1.2 } }

  torch_dtype = { param = "kv_cache_dtype", map = { bfloat16 = "bfloat16", float8_e4m3fn = "fp8" } }

  head_variant = [
    "window_size", "v_head_dim", "runtime_window_size", "attention_chunk_size", "has_attention_sink", "scaling", "kernel_source",
    "architecture",
  ]

  # One task of these loads a model and sweeps a list of shapes that only the
  # collector knows: it is looked up in what the collector lists.
  shard         = { tp_size = "target_tp_size", kv_cache_dtype = "kv_cache_dtype", mla_dtype = "compute_dtype", gemm_type = "gemm_type", model = "model_path" }
  dsa           = merge(local.shard, { dsa_prefill_backend = "dsa_prefill_backend" })
  per_batch     = { batch_size = "batch_size" }
  dsv4          = { batch_size = "batch_size", tp_size = "tp_size", kv_cache_dtype = "kv_cache_dtype", gemm_type = "gemm_type", model = "model_path" }
  sparse_kernel = { batch_size = "bs_only", model = "model_path" }

  dsa_module = { run = "run_mla_module_worker", module = "collector.sglang.collect_mla_module", env = local.module_env }
  msa_module = { run = "run_msa_module_worker", module = "collector.sglang.collect_msa_module", env = local.module_env }
  # Its rows have SGLang's word for the cache's format.
  dsv4_module = {
    run    = "run_dsv4_attn_worker"
    module = "collector.sglang.collect_dsv4_attn"
    env    = local.module_env
    words  = { kv_cache_dtype = { fp8_e4m3 = "fp8" } }
  }
  glm5_module = { run = "run_glm5_dsa_sparse_kernel_worker", module = "collector.sglang.glm5_dsa_sparse_modules" }

  bindings = {
    gemm = {
      module        = "collector.sglang.collect_gemm"
      run           = "run_gemm"
      perf_filename = "gemm_perf.txt"
      args          = ["gemm_dtype", "m", "n", "k"]
    }

    compute_scale = {
      module        = "collector.sglang.collect_computescale"
      run           = "run_computescale"
      perf_filename = "computescale_perf.txt"
      args          = ["m", "k"]
    }

    # Attention, latent attention and experts replace global state of the
    # framework when they are imported: each has a process of its own.
    attention_context = {
      module        = "collector.sglang.collect_attn"
      run           = "run_attention_torch"
      perf_filename = "context_attention_perf.txt"
      isolate       = true
      args = concat(
        ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", local.fp8_cache, local.fp8_compute, true],
        local.head_variant,
      )
    }

    attention_generation = {
      module        = "collector.sglang.collect_attn"
      run           = "run_attention_torch"
      perf_filename = "generation_attention_perf.txt"
      isolate       = true
      args = concat(
        ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", local.fp8_cache, false, false],
        local.head_variant,
      )
    }

    encoder_attention = {
      module        = "collector.sglang.collect_attn_encoder"
      run           = "run_encoder_attention_torch"
      perf_filename = "encoder_attention_perf.txt"
      args          = ["batch_size", "isl", "num_heads", "head_dim"]
    }

    mla_context = {
      module        = "collector.sglang.collect_mla"
      getter        = "get_context_mla_test_cases"
      run           = "run_mla"
      perf_filename = "context_mla_perf.txt"
      isolate       = true
      match         = { isl = "input_len", batch_size = "batch_size", native_num_heads = "num_heads", tp_size = "tp_size", kv_cache_dtype = local.torch_dtype }
    }

    mla_generation = {
      module        = "collector.sglang.collect_mla"
      getter        = "get_generation_mla_test_cases"
      run           = "run_mla"
      perf_filename = "generation_mla_perf.txt"
      isolate       = true
      match         = { step = "input_len", batch_size = "batch_size", native_num_heads = "num_heads", tp_size = "tp_size", kv_cache_dtype = local.torch_dtype }
    }

    mla_bmm_gen_pre = {
      module        = "collector.sglang.collect_mla_bmm"
      run           = "run_mla_gen_pre"
      perf_filename = "mla_bmm_perf.txt"
      args          = ["num_tokens", "num_heads", "bmm_dtype", 2, 10]
    }

    mla_bmm_gen_post = {
      module        = "collector.sglang.collect_mla_bmm"
      run           = "run_mla_gen_post"
      perf_filename = "mla_bmm_perf.txt"
      args          = ["num_tokens", "num_heads", "bmm_dtype", 2, 10]
    }

    moe = {
      module        = "collector.sglang.collect_moe"
      run           = "run_moe_torch"
      perf_filename = "moe_perf.txt"
      isolate       = true
      args = [
        "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "model_name",
        local.spread, local.alpha, "swiglu_limit", "moe_backend", "activation", "is_gated", "has_bias", "gemm1_alpha",
        "gemm1_clamp_limit", "scoring_func", "routing_method_type", "routed_scaling_factor", "renormalize", "has_correction_bias",
        "num_expert_group", "topk_group", "apply_router_weight_on_input", "is_fp4_experts",
      ]
    }

    mhc_module = {
      module        = "collector.sglang.collect_mhc_module"
      run           = "run_mhc_module_worker"
      perf_filename = "mhc_module_perf.txt"
      env           = local.module_env
      args          = ["op", "model"]
    }

    gdn = {
      module        = "collector.sglang.collect_gdn"
      getter        = "get_gdn_test_cases"
      run           = "run_gdn_torch"
      perf_filename = "gdn_perf.txt"
      match         = { for c in ["phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"] : c => c }
    }

    kda = {
      module        = "collector.sglang.collect_kda"
      getter        = "get_kda_test_cases"
      run           = "run_kda_torch"
      perf_filename = "kda_perf.txt"
      match         = { for c in ["phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"] : c => c }
    }

    dsa_context_module = merge(local.dsa_module, {
      perf_filename = "dsa_context_module_perf.txt"
      getter        = "get_dsa_context_module_test_cases"
      match         = merge(local.dsa, local.per_batch)
    })

    dsa_generation_module = merge(local.dsa_module, {
      perf_filename = "dsa_generation_module_perf.txt"
      getter        = "get_dsa_generation_module_test_cases"
      match         = local.dsa
    })

    # The variant is chosen by the name of the perf file.
    dsa_context_module_skip_indexer = merge(local.dsa_module, {
      perf_filename = "dsa_context_module_skip_indexer_perf.txt"
      getter        = "get_dsa_context_module_skip_indexer_test_cases"
      match         = merge(local.dsa, local.per_batch)
    })

    dsa_generation_module_skip_indexer = merge(local.dsa_module, {
      perf_filename = "dsa_generation_module_skip_indexer_perf.txt"
      getter        = "get_dsa_generation_module_skip_indexer_test_cases"
      match         = local.dsa
    })

    msa_context_module = merge(local.msa_module, {
      perf_filename = "msa_context_module_perf.txt"
      getter        = "get_msa_context_module_test_cases"
      match         = merge(local.shard, local.per_batch)
    })

    msa_generation_module = merge(local.msa_module, {
      perf_filename = "msa_generation_module_perf.txt"
      getter        = "get_msa_generation_module_test_cases"
      match         = local.shard
    })

    dsv4_csa_context_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_csa_context_module_perf.txt"
      getter        = "get_dsv4_csa_context_test_cases"
      match         = local.dsv4
    })

    dsv4_hca_context_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_hca_context_module_perf.txt"
      getter        = "get_dsv4_hca_context_test_cases"
      match         = local.dsv4
    })

    dsv4_csa_generation_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_csa_generation_module_perf.txt"
      getter        = "get_dsv4_csa_generation_test_cases"
      match         = local.dsv4
    })

    dsv4_hca_generation_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_hca_generation_module_perf.txt"
      getter        = "get_dsv4_hca_generation_test_cases"
      match         = local.dsv4
    })

    glm5_mqa_logits_module = merge(local.glm5_module, {
      perf_filename = "glm5_mqa_logits_module_perf.txt"
      getter        = "get_glm5_mqa_test_cases"
      match         = local.sparse_kernel
    })

    glm5_topk_module = merge(local.glm5_module, {
      perf_filename = "glm5_topk_module_perf.txt"
      getter        = "get_glm5_topk_test_cases"
      match         = local.sparse_kernel
    })

    glm5_dsa_attn_module = merge(local.glm5_module, {
      perf_filename = "glm5_dsa_attn_module_perf.txt"
      getter        = "get_glm5_dsa_attn_test_cases"
      match         = local.sparse_kernel
    })

    dsv4_paged_mqa_logits_module = {
      module        = "collector.sglang.deepseekv4_sparse_modules"
      getter        = "get_dsv4_paged_mqa_logits_test_cases"
      run           = "run_dsv4_sparse_kernel_worker"
      perf_filename = "dsv4_paged_mqa_logits_module_perf.txt"
      match         = local.sparse_kernel
    }

    dsv4_csa_topk_calib = {
      module        = "collector.sglang.deepseekv4_sparse_modules"
      getter        = "get_dsv4_topk_calib_test_cases"
      run           = "run_dsv4_sparse_kernel_worker"
      perf_filename = "dsv4_csa_topk_calib_perf.txt"
      match         = local.sparse_kernel
    }
  }
}

output "bindings" {
  description = "How the ops are hosted: the ops of a python runtime with collector_root."
  value       = local.bindings
}

output "runtime_env" {
  description = "Environment that the collectors' own runner sets."
  value       = local.runtime_env
}
