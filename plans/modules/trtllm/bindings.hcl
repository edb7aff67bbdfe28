# Where aiconfigurator's collectors for TensorRT-LLM measure the ops of this
# module, and how a case's columns become their arguments. See
# docs/guides/python-ops.md for the words used here.

locals {
  # Set before the framework is imported.
  runtime_env = {
    TLLM_LOG_LEVEL       = "ERROR"
    TRTLLM_DG_ENABLED    = "1"
    FLASHINFER_LOG_LEVEL = "ERROR"
    PYTHONWARNINGS       = "ignore::UserWarning:torch.library"

    # The collectors of experts and of Mamba end their process after every task
    # by default; here a process ends when it has grown. The variables are the
    # runtime's, since ops with environments of their own share no process.
    TRTLLM_MOE_RESTART_WORKER        = "0"
    TRTLLM_WIDEEP_MOE_RESTART_WORKER = "0"
    TRTLLM_MAMBA2_RESTART_WORKER     = "0"
  }

  fp8_cache   = { column = "kv_cache_dtype", map = { bfloat16 = false, fp8 = true } }
  fp8_compute = { column = "attn_dtype", map = { bfloat16 = false, fp8 = true } }

  # A distribution is one column here and two arguments there.
  spread = { column = "distribution", map = { balanced = "balanced", "power_law_1.01" = "power_law", "power_law_1.2" = "power_law" } }
  alpha  = { column = "distribution", map = { balanced = 0, "power_law_1.01" = 1.01, "power_law_1.2" = 1.2 } }

  # Cases of these hold enums of the framework: they are looked up in what the
  # collector itself lists. num_heads is the native number there.
  bound_dtype = { param = "kv_cache_dtype", map = { bf16 = "bfloat16", fp8 = "fp8" } }

  attention_module = { run = "run_mla_module_worker", module = "collector.trtllm.collect_mla_module" }
  msa_module       = { run = "run_msa_module_worker", module = "collector.trtllm.collect_msa_module" }
  dsv4_module      = { run = "run_dsv4_attn_worker", module = "collector.trtllm.collect_dsv4_attn" }
  precision        = ["num_heads", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]
  shard_precision  = ["tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model"]

  bindings = {
    gemm = {
      module        = "collector.trtllm.collect_gemm"
      run           = "run_gemm"
      perf_filename = "gemm_perf.txt"
      args          = ["gemm_dtype", "m", "n", "k"]
    }

    compute_scale = {
      module        = "collector.trtllm.collect_computescale"
      run           = "run_computescale"
      perf_filename = "computescale_perf.txt"
      args          = ["m", "k"]
    }

    attention_context = {
      module        = "collector.trtllm.collect_attn"
      run           = "run_attention_torch"
      perf_filename = "context_attention_perf.txt"
      args = [
        "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size",
        local.fp8_cache, local.fp8_compute, true, "attn_backend",
      ]
    }

    attention_generation = {
      module        = "collector.trtllm.collect_attn"
      run           = "run_attention_torch"
      perf_filename = "generation_attention_perf.txt"
      args = [
        "batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size",
        local.fp8_cache, false, false, "attn_backend",
      ]
    }

    encoder_attention = {
      module        = "collector.trtllm.collect_attn_encoder"
      run           = "run_encoder_attention_torch"
      perf_filename = "encoder_attention_perf.txt"
      args          = ["batch_size", "isl", "num_heads", "head_dim"]
    }

    mla_context = {
      module        = "collector.trtllm.collect_mla"
      getter        = "get_context_mla_test_cases"
      run           = "run_mla"
      perf_filename = "context_mla_perf.txt"
      match = {
        isl              = "input_len"
        batch_size       = "batch_size"
        native_num_heads = "num_heads"
        tp_size          = "tp_size"
        kv_cache_dtype   = local.bound_dtype
      }
    }

    mla_generation = {
      module        = "collector.trtllm.collect_mla"
      getter        = "get_generation_mla_test_cases"
      run           = "run_mla"
      perf_filename = "generation_mla_perf.txt"
      match = {
        step             = "input_len"
        batch_size       = "batch_size"
        native_num_heads = "num_heads"
        tp_size          = "tp_size"
        kv_cache_dtype   = local.bound_dtype
      }
    }

    mla_bmm_gen_pre = {
      module        = "collector.trtllm.collect_mla_bmm"
      run           = "run_mla_gen_pre"
      perf_filename = "mla_bmm_perf.txt"
      args          = ["num_tokens", "num_heads", "bmm_dtype", 2, 10]
    }

    mla_bmm_gen_post = {
      module        = "collector.trtllm.collect_mla_bmm"
      run           = "run_mla_gen_post"
      perf_filename = "mla_bmm_perf.txt"
      args          = ["num_tokens", "num_heads", "bmm_dtype", 2, 10]
    }

    moe = {
      module        = "collector.trtllm.collect_moe"
      run           = "run_moe_torch"
      perf_filename = "moe_perf.txt"
      args = [
        "moe_dtype", { sweep = "num_tokens" }, "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "min_latency_mode", "model_name", local.spread, local.alpha,
      ]
    }

    moe_ep = {
      module        = "collector.wideep.trtllm.collect_moe_compute"
      run           = "run_moe_ep"
      perf_filename = "moe_expert_compute_perf.txt"
      args = [
        "moe_dtype", { value = "cutlass" }, { sweep = "num_tokens" }, "hidden_size", "inter_size", "topk", "num_experts",
        "moe_tp_size", "moe_ep_size", false, "model_name", { value = "power_law" },
        { column = "distribution", map = { "power_law_1.01" = 1.01, "power_law_1.01_eplb" = 1.01, "power_law_1.2" = 1.2, "power_law_1.2_eplb" = 1.2 } },
        "use_eplb", "num_slots", true,
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
      args          = concat(["isl", "batch_size"], local.shard_precision, [{ value = "csa" }, "step"])
    })

    dsv4_hca_context_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_hca_context_module_perf.txt"
      args          = concat(["isl", "batch_size"], local.shard_precision, [{ value = "hca" }, "step"])
    })

    dsv4_csa_generation_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_csa_generation_module_perf.txt"
      args          = concat(["step", "batch_size"], local.shard_precision, [{ value = "csa" }])
    })

    dsv4_hca_generation_module = merge(local.dsv4_module, {
      perf_filename = "dsv4_hca_generation_module_perf.txt"
      args          = concat(["step", "batch_size"], local.shard_precision, [{ value = "hca" }])
    })

    mhc_module = {
      module        = "collector.trtllm.collect_mhc_module"
      run           = "run_mhc_module_worker"
      perf_filename = "mhc_module_perf.txt"
      args          = ["op", "num_tokens", "hidden_size", "hc_mult"]
    }

    gdn = {
      module        = "collector.trtllm.collect_gdn"
      getter        = "get_gdn_test_cases"
      run           = "run_gdn_torch"
      perf_filename = "gdn_perf.txt"
      match         = { for c in ["phase", "d_model", "d_conv", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"] : c => c }
    }

    mamba2 = {
      module        = "collector.trtllm.collect_mamba2"
      getter        = "get_mamba2_test_cases"
      run           = "run_mamba2_torch"
      perf_filename = "mamba2_perf.txt"
      match         = { for c in ["phase", "d_model", "d_state", "d_conv", "nheads", "head_dim", "n_groups", "chunk_size"] : c => c }
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
