# Single kernels of the sparse indexers, which the modules' times are split and
# extended with. One model stands for all.

locals {
  # The kernels' shapes are those of GLM-5 wherever NVFP4 does not run.
  indexer_models = [
    { model = "zai-org/GLM-5", nvfp4 = false },
    { model = "nvidia/GLM-5.2-NVFP4", nvfp4 = true },
  ]

  glm5_chosen    = anytrue([for r in local.models.dsa : r.selected if r.architecture == "GlmMoeDsaForCausalLM"])
  glm5_context   = 202752
  not_this_model = "the benchmark takes GLM-5.2-NVFP4 on SM 100, 103 and 120, and GLM-5 elsewhere"
}

grid "glm5_mqa_logits_module" {
  enabled     = contains(module.selection.ops, "glm5_mqa_logits_module") && local.glm5_chosen
  description = "logits of GLM-5's indexer"
  op          = "glm5_mqa_logits_module"
  perf_table  = "glm5_mqa_logits_module_perf"
  columns     = ["batch_size", "model"]

  rows "model" {
    values = local.indexer_models
  }

  axis "batch_size" {
    values = module.shapes.decode_batches
  }

  filter "sm_floor" {
    keep   = local.sm >= 90
    reason = local.sparse_floor
  }

  filter "model_of_sm" {
    keep   = nvfp4 == contains([100, 103, 120], local.sm)
    reason = local.not_this_model
  }

  sweep "lengths" {
    columns = ["isl", "step"]

    case_set "prefixes" {
      axis "step" {
        values = local.prefixes
      }

      axis "isl" {
        values = local.module_lengths
      }

      filter "prefill" {
        keep   = isl > 1 && batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
        reason = "one token is decode; long prompts come in batches of at most 8"
      }

      filter "context" {
        keep   = step + isl <= local.glm5_context && batch_size * (isl + step) <= 33554432
        reason = "longer than the model's context, or more than 2^25 cached tokens"
      }
    }

    case_set "full_context" {
      axis "cover" {
        values = local.contexts
      }

      axis "isl" {
        values = local.module_lengths
      }

      derive "step" {
        value = cover - isl
      }

      filter "prefill" {
        keep   = isl > 1 && batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
        reason = "one token is decode; long prompts come in batches of at most 8"
      }

      filter "context" {
        keep   = step > 0 && step + isl <= local.glm5_context && batch_size * (isl + step) <= 33554432
        reason = "longer than the model's context, or more than 2^25 cached tokens"
      }
    }

    case_set "decode" {
      axis "isl" {
        values = [1]
      }

      axis "step" {
        values = local.decode_lengths
      }

      filter "cache" {
        keep   = batch_size * step <= 262144 && step < local.glm5_context
        reason = "more than 2^18 cached tokens, or longer than the model's context"
      }
    }

    case_set "decode_full_context" {
      axis "isl" {
        values = [1]
      }

      axis "cover" {
        values = local.contexts
      }

      derive "step" {
        value = cover - 1
      }

      filter "one_sequence" {
        keep   = batch_size == 1 && step < local.glm5_context
        reason = "full contexts are decoded one at a time, up to the model's own"
      }
    }

    distinct {}
  }
}

grid "glm5_topk_module" {
  enabled     = contains(module.selection.ops, "glm5_topk_module") && local.glm5_chosen
  description = "top-k of GLM-5's indexer, in two distributions of scores"
  op          = "glm5_topk_module"
  perf_table  = "glm5_topk_module_perf"
  columns     = ["batch_size", "model"]

  rows "model" {
    values = local.indexer_models
  }

  axis "batch_size" {
    values = module.shapes.decode_batches
  }

  filter "sm_floor" {
    keep   = local.sm >= 90
    reason = local.sparse_floor
  }

  filter "model_of_sm" {
    keep   = nvfp4 == contains([100, 103, 120], local.sm)
    reason = local.not_this_model
  }

  sweep "lengths" {
    columns = ["isl", "step"]

    case_set "prefixes" {
      axis "step" {
        values = local.prefixes
      }

      axis "isl" {
        values = local.module_lengths
      }

      filter "prefill" {
        keep   = isl > 1 && batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
        reason = "one token is decode; long prompts come in batches of at most 8"
      }

      filter "context" {
        keep   = step + isl <= local.glm5_context && batch_size * (isl + step) <= 33554432
        reason = "longer than the model's context, or more than 2^25 cached tokens"
      }
    }

    case_set "full_context" {
      axis "cover" {
        values = local.contexts
      }

      axis "isl" {
        values = local.module_lengths
      }

      derive "step" {
        value = cover - isl
      }

      filter "prefill" {
        keep   = isl > 1 && batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
        reason = "one token is decode; long prompts come in batches of at most 8"
      }

      filter "context" {
        keep   = step > 0 && step + isl <= local.glm5_context && batch_size * (isl + step) <= 33554432
        reason = "longer than the model's context, or more than 2^25 cached tokens"
      }
    }

    case_set "decode" {
      axis "isl" {
        values = [1]
      }

      axis "step" {
        values = local.decode_lengths
      }

      filter "cache" {
        keep   = batch_size * step <= 262144 && step < local.glm5_context
        reason = "more than 2^18 cached tokens, or longer than the model's context"
      }
    }

    case_set "decode_full_context" {
      axis "isl" {
        values = [1]
      }

      axis "cover" {
        values = local.contexts
      }

      derive "step" {
        value = cover - 1
      }

      filter "one_sequence" {
        keep   = batch_size == 1 && step < local.glm5_context
        reason = "full contexts are decoded one at a time, up to the model's own"
      }
    }

    distinct {}
  }
}

grid "glm5_dsa_attn_module" {
  enabled     = contains(module.selection.ops, "glm5_dsa_attn_module") && local.glm5_chosen
  description = "GLM-5's sparse attention kernel"
  op          = "glm5_dsa_attn_module"
  perf_table  = "glm5_dsa_attn_module_perf"
  columns     = ["batch_size", "model"]

  rows "model" {
    values = local.indexer_models
  }

  axis "batch_size" {
    values = module.shapes.decode_batches
  }

  filter "sm_floor" {
    keep   = local.sm >= 90
    reason = local.sparse_floor
  }

  filter "model_of_sm" {
    keep   = nvfp4 == contains([100, 103, 120], local.sm)
    reason = local.not_this_model
  }

  sweep "lengths" {
    columns = ["isl", "step"]

    case_set "prefixes" {
      axis "step" {
        values = local.prefixes
      }

      axis "isl" {
        values = local.module_lengths
      }

      filter "prefill" {
        keep   = isl > 1 && batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
        reason = "one token is decode; long prompts come in batches of at most 8"
      }

      filter "context" {
        keep   = step + isl <= local.glm5_context && batch_size * (isl + step) <= 33554432
        reason = "longer than the model's context, or more than 2^25 cached tokens"
      }
    }

    case_set "full_context" {
      axis "cover" {
        values = local.contexts
      }

      axis "isl" {
        values = local.module_lengths
      }

      derive "step" {
        value = cover - isl
      }

      filter "prefill" {
        keep   = isl > 1 && batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
        reason = "one token is decode; long prompts come in batches of at most 8"
      }

      filter "context" {
        keep   = step > 0 && step + isl <= local.glm5_context && batch_size * (isl + step) <= 33554432
        reason = "longer than the model's context, or more than 2^25 cached tokens"
      }
    }

    case_set "decode" {
      axis "isl" {
        values = [1]
      }

      axis "step" {
        values = local.decode_lengths
      }

      filter "cache" {
        keep   = batch_size * step <= 262144 && step < local.glm5_context
        reason = "more than 2^18 cached tokens, or longer than the model's context"
      }
    }

    case_set "decode_full_context" {
      axis "isl" {
        values = [1]
      }

      axis "cover" {
        values = local.contexts
      }

      derive "step" {
        value = cover - 1
      }

      filter "one_sequence" {
        keep   = batch_size == 1 && step < local.glm5_context
        reason = "full contexts are decoded one at a time, up to the model's own"
      }
    }

    distinct {}
  }
}

grid "dsv4_csa_topk_calib" {
  enabled     = contains(module.selection.ops, "dsv4_csa_topk_calib") && local.wants.dsv4
  description = "what the distribution of scores adds to DeepSeek-V4's top-k"
  op          = "dsv4_csa_topk_calib"
  perf_table  = "dsv4_csa_topk_calib_perf"
  columns     = ["batch_size", "model"]

  # The shapes are the same for Pro.
  rows "model" {
    values = [for r in slice(local.models.dsv4, 0, 1) : {
      model        = r.model
      max_position = r.max_position
      selected     = anytrue([for q in local.models.dsv4 : q.selected])
    }]
  }

  axis "batch_size" {
    values = module.shapes.decode_batches
  }

  filter "sm_floor" {
    keep   = local.sm >= 90
    reason = local.sparse_floor
  }

  filter "chosen" {
    keep   = selected
    reason = local.reasons.selected
  }

  sweep "lengths" {
    columns = ["isl", "step"]

    case_set "prefill" {
      axis "step" {
        values = local.prefixes
      }

      axis "isl" {
        values = local.dsv4_lengths
      }

      filter "chunk" {
        keep   = batch_size * isl <= local.prefill_chunk
        reason = "more than ${local.prefill_chunk} tokens are several chunks of prefill"
      }

      filter "context" {
        keep   = step + isl <= max_position
        reason = "longer than the model's context"
      }

      filter "cache" {
        keep   = batch_size * (isl + step) <= 1048576
        reason = local.dsv4_pool
      }
    }

    case_set "decode" {
      axis "isl" {
        values = [1]
      }

      axis "step" {
        values = local.dsv4_lengths
      }

      filter "cache" {
        keep   = batch_size * step <= 1048576
        reason = local.dsv4_pool
      }

      filter "batch_ladder" {
        keep = (
          (step < 524288 || batch_size <= 1) && (step < 262144 || batch_size <= 2) && (step < 131072 || batch_size <= 4) &&
          (step < 65536 || batch_size <= 8) && (step < 32768 || batch_size <= 16) && (step < 8192 || batch_size <= 64)
        )
        reason = local.dsv4_ladder
      }
    }

    distinct {}
  }
}
