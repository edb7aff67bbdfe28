# Single kernels of the sparse indexers, which the modules' times are split and extended with. One model represents all.

locals {
  # The kernels' shapes are those of GLM-5 wherever NVFP4 does not run.
  indexer_models = [{ model = "zai-org/GLM-5", nvfp4 = false }, { model = "nvidia/GLM-5.2-NVFP4", nvfp4 = true }]

  glm5_chosen  = anytrue([for r in var.selection.models.dsa : r.selected if r.architecture == "GlmMoeDsaForCausalLM"])
  glm5_context = 202752
}

part "glm5_prefill" {
  filter "prefill" {
    keep   = isl > 1 && batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
    reason = "one token is decode; long prompts come in batches of at most 8"
  }

  filter "context" {
    keep   = step + isl <= local.glm5_context && batch_size * (isl + step) <= 33554432
    reason = "longer than the model's context, or more than 2^25 cached tokens"
  }
}

part "glm5_kernel" {
  include = [local.parts.decode_batches, local.parts.sm_90]

  rows "model" { values = local.indexer_models }

  filter "model_of_sm" {
    keep   = nvfp4 == contains([100, 103, 120], local.sm)
    reason = "the benchmark takes GLM-5.2-NVFP4 on SM 100, 103 and 120, and GLM-5 elsewhere"
  }

  sweep "lengths" {
    columns = ["isl", "step"]

    case_set "prefixes" { include = [part.prefixes, part.glm5_prefill] }

    case_set "full_context" { include = [part.full_context, part.glm5_prefill] }

    case_set "decode" {
      axis "isl" { values = [1] }
      axis "step" { values = local.decode_lengths }

      filter "cache" {
        keep   = batch_size * step <= 262144 && step < local.glm5_context
        reason = "more than 2^18 cached tokens, or longer than the model's context"
      }
    }

    case_set "decode_full_context" {
      axis "isl" { values = [1] }
      axis "cover" { values = local.contexts }
      derive "step" { value = cover - 1 }

      filter "one_sequence" {
        keep   = batch_size == 1 && step < local.glm5_context
        reason = "full contexts are decoded one at a time, up to the model's own"
      }
    }

    distinct {}
  }
}

grid "glm5_mqa_logits_module" {
  enabled     = var.selection.plans.glm5_mqa_logits_module && local.glm5_chosen
  description = "logits of GLM-5's indexer"
  perf_table  = "glm5_mqa_logits_module_perf"
  columns     = ["batch_size", "model"]
  include     = [part.glm5_kernel]
}

grid "glm5_topk_module" {
  enabled     = var.selection.plans.glm5_topk_module && local.glm5_chosen
  description = "top-k of GLM-5's indexer, in two distributions of scores"
  perf_table  = "glm5_topk_module_perf"
  columns     = ["batch_size", "model"]
  include     = [part.glm5_kernel]
}

grid "glm5_dsa_attn_module" {
  enabled     = var.selection.plans.glm5_dsa_attn_module && local.glm5_chosen
  description = "GLM-5's sparse attention kernel"
  perf_table  = "glm5_dsa_attn_module_perf"
  columns     = ["batch_size", "model"]
  include     = [part.glm5_kernel]
}

# Prefill within one chunk, and decode.
part "dsv4_kernel" {
  include = [local.parts.decode_batches, local.parts.sm_90, local.parts.chosen]

  sweep "lengths" {
    columns = ["isl", "step"]

    case_set "prefill" {
      include = [part.model_context]

      axis "step" { values = local.prefixes }
      axis "isl" { values = local.dsv4_lengths }

      filter "chunk" {
        keep   = batch_size * isl <= local.prefill_chunk
        reason = "more than ${local.prefill_chunk} tokens are several chunks of prefill"
      }

      filter "cache" {
        keep   = batch_size * (isl + step) <= 1048576
        reason = local.dsv4_pool
      }
    }

    case_set "decode" {
      include = [part.dsv4_generation_lengths]
      axis "isl" { values = [1] }
    }

    distinct {}
  }
}

grid "dsv4_csa_topk_calib" {
  enabled     = var.selection.plans.dsv4_csa_topk_calib
  description = "what the distribution of scores adds to DeepSeek-V4's top-k"
  perf_table  = "dsv4_csa_topk_calib_perf"
  columns     = ["batch_size", "model"]
  include     = [part.dsv4_kernel]

  # The shapes are the same for Pro.
  rows "model" {
    values = [merge(var.selection.models.dsv4[0], { selected = anytrue([for r in var.selection.models.dsv4 : r.selected]) })]
  }
}

grid "dsv4_paged_mqa_logits_module" {
  enabled     = var.selection.plans.dsv4_paged_mqa_logits_module
  description = "the paged logits kernel of DeepSeek-V4's indexer"
  perf_table  = "dsv4_paged_mqa_logits_module_perf"
  columns     = ["batch_size", "num_heads", "model"]
  constants   = { tp_size = 1, mla_dtype = "fp8_e4m3", kv_cache_dtype = "fp8_e4m3", gemm_type = "fp8_block", compress_ratio = 4 }
  include     = [part.dsv4_kernel]

  rows "model" { values = var.selection.models.dsv4 }
}
