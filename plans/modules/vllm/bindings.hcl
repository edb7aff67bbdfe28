# Where aiconfigurator's collectors for vLLM measure the ops of this module, and
# how a case's columns become their arguments. See docs/guides/python-ops.md for the
# words used here.

locals {
  runtime_env = {
    PYTHONWARNINGS = "ignore::UserWarning:torch.library"
  }

  fp8_cache = { column = "kv_cache_dtype", map = { bfloat16 = false, fp8 = true } }

  # A distribution is one column here and two arguments there.
  spread = { column = "distribution", map = { balanced = "balanced", "power_law_1.01" = "power_law", "power_law_1.2" = "power_law" } }
  alpha  = { column = "distribution", map = { balanced = 0, "power_law_1.01" = 1.01, "power_law_1.2" = 1.2 } }

  attention_module = { run = "run_mla_module_worker", module = "collector.vllm.collect_mla_module" }
  msa_module       = { run = "run_msa_module_worker", module = "collector.vllm.collect_msa_module" }
  dsv4_module      = { run = "run_dsv4_attn_worker", module = "collector.vllm.collect_dsv4_attn" }
  precision        = ["num_heads", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]

  # The attention backend of these is the collector's choice.
  dsv4_context    = { isl = "seq_len", step = "prefix_len", batch_size = "batch_size", tp_size = "tp_size", model = "model_path" }
  dsv4_generation = { step = "seq_len", batch_size = "batch_size", tp_size = "tp_size", model = "model_path" }

  bindings = {
    gemm = {
      module        = "collector.vllm.collect_gemm"
      run           = "run_gemm"
      perf_filename = "gemm_perf.txt"
      args          = ["gemm_dtype", "m", "n", "k"]

      # The collector leaves the weights of bfloat16 as the memory is, mostly zeros:
      # products that the power cap holds are up to 16 % too short with them.
      uninitialised = "random"
    }

    compute_scale = {
      module        = "collector.vllm.collect_computescale"
      run           = "run_computescale"
      perf_filename = "computescale_perf.txt"
      args          = ["m", "k"]
    }

    attention_context = {
      module        = "collector.vllm.collect_attn"
      run           = "run_attention_torch"
      perf_filename = "context_attention_perf.txt"
      args          = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", local.fp8_cache, true, "window_size"]
    }

    attention_generation = {
      module        = "collector.vllm.collect_attn"
      run           = "run_attention_torch"
      perf_filename = "generation_attention_perf.txt"
      args          = ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", local.fp8_cache, false, "window_size"]

      # The collector reads the same keys and values again and again, so that short
      # ones stay in the L2 cache. A model reads its weights in between.
      cache = "cold"
    }

    encoder_attention = {
      module        = "collector.vllm.collect_attn_encoder"
      run           = "run_encoder_attention_torch"
      perf_filename = "encoder_attention_perf.txt"
      args          = ["batch_size", "isl", "num_heads", "head_dim"]
    }

    mla_bmm_gen_pre = {
      module        = "collector.vllm.collect_mla_bmm"
      run           = "run_mla_gen_pre"
      perf_filename = "mla_bmm_perf.txt"
      args          = ["num_tokens", "num_heads", "bmm_dtype", 2, 10]
    }

    mla_bmm_gen_post = {
      module        = "collector.vllm.collect_mla_bmm"
      run           = "run_mla_gen_post"
      perf_filename = "mla_bmm_perf.txt"
      args          = ["num_tokens", "num_heads", "bmm_dtype", 2, 10]
    }

    moe = {
      module        = "collector.vllm.collect_moe"
      run           = "run_moe_torch"
      perf_filename = "moe_perf.txt"
      args = [
        "moe_dtype", { sweep = "num_tokens" }, "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "model_name", local.spread, local.alpha,
      ]
    }

    mla_context_module = merge(local.attention_module, {
      perf_filename = "mla_context_module_perf.txt"
      args          = concat(["isl", "batch_size"], local.precision, [{ value = "mla" }])
    })

    mla_generation_module = merge(local.attention_module, {
      perf_filename = "mla_generation_module_perf.txt"
      args          = concat(["step", "batch_size"], local.precision, [{ value = "mla" }])
    })

    dsa_context_module = merge(local.attention_module, {
      perf_filename = "dsa_context_module_perf.txt"
      args          = concat(["isl", "batch_size"], local.precision, [{ value = "dsa" }, "step"])
    })

    dsa_generation_module = merge(local.attention_module, {
      perf_filename = "dsa_generation_module_perf.txt"
      args          = concat(["step", "batch_size"], local.precision, [{ value = "dsa" }])
    })

    msa_context_module = merge(local.msa_module, {
      perf_filename = "msa_context_module_perf.txt"
      args          = concat(["isl", "batch_size"], local.precision, ["step"])
    })

    msa_generation_module = merge(local.msa_module, {
      perf_filename = "msa_generation_module_perf.txt"
      args          = concat(["step", "batch_size"], local.precision)
    })

    dsv4_csa_context_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_csa_context_module_perf.txt"
      getter        = "get_dsv4_csa_context_test_cases"
      match         = local.dsv4_context
    })

    dsv4_hca_context_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_hca_context_module_perf.txt"
      getter        = "get_dsv4_hca_context_test_cases"
      match         = local.dsv4_context
    })

    dsv4_csa_generation_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_csa_generation_module_perf.txt"
      getter        = "get_dsv4_csa_generation_test_cases"
      match         = local.dsv4_generation
    })

    dsv4_hca_generation_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_hca_generation_module_perf.txt"
      getter        = "get_dsv4_hca_generation_test_cases"
      match         = local.dsv4_generation
    })

    # Single kernels of the same module, which the modules' times are extended with.
    dsv4_paged_mqa_logits_module = {
      module        = "collector.vllm.collect_dsv4_attn"
      run           = "run_dsv4_sparse_kernel_worker"
      perf_filename = "dsv4_paged_mqa_logits_module_perf.txt"
      args          = ["batch_size", "isl", "step", 1, { value = "paged_mqa_logits" }, "model"]
    }

    dsv4_hca_attn_module = {
      module        = "collector.vllm.collect_dsv4_attn"
      run           = "run_dsv4_sparse_kernel_worker"
      perf_filename = "dsv4_hca_attn_module_perf.txt"
      args          = ["batch_size", "isl", "step", 1, { value = "hca_attn" }, "model"]
    }

    mhc_module = {
      module        = "collector.vllm.collect_mhc_module"
      run           = "run_mhc_module_worker"
      perf_filename = "mhc_module_perf.txt"
      args          = ["op", "num_tokens", "hidden_size", "hc_mult"]
    }

    gdn = {
      module        = "collector.vllm.collect_gdn"
      getter        = "get_gdn_test_cases"
      run           = "run_gdn_torch"
      perf_filename = "gdn_perf.txt"
      match         = { for c in ["phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"] : c => c }
    }

    kda = {
      module        = "collector.vllm.collect_kda"
      getter        = "get_kda_test_cases"
      run           = "run_kda_torch"
      perf_filename = "kda_perf.txt"
      match         = { for c in ["phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"] : c => c }
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
