# The layers that take the index of an earlier one: dsa.hcl without the indexer.
# Their rows go to the same tables, under an op_name of their own.

grid "dsa_context_module_skip_indexer" {
  enabled     = contains(module.selection.ops, "dsa_context_module_skip_indexer") && local.wants.dsa
  description = "the same in layers that take the index of another, in prefill"
  op          = "dsa_context_module_skip_indexer"
  perf_table  = "dsa_context_module_perf"
  columns     = ["batch_size", "num_heads", "tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model", "dsa_prefill_backend"]

  rows "model" {
    values = local.dsa_models
  }

  rows "precision" {
    values = local.dsa_precisions
  }

  axis "tp_size" {
    values = local.module_tp
  }

  axis "batch_size" {
    values = module.shapes.decode_batches
  }

  derive "num_heads" {
    value = native_num_heads / tp_size
  }

  derive "dsa_prefill_backend" {
    value = kv_cache_dtype != "fp8" ? null : local.sm >= 100 ? "trtllm" : "flashmla_kv"
  }

  filter "sm_floor" {
    keep   = local.sm >= 90
    reason = local.sparse_floor
  }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = local.reasons.sm
  }

  filter "index_shared" {
    keep   = shares_index
    reason = local.no_index_shared
  }

  filter "heads_supported" {
    keep   = contains(local.sparse_heads, num_heads)
    reason = local.sparse_head_set
  }

  filter "chosen" {
    keep   = selected
    reason = local.reasons.selected
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

      filter "prefix_positive" {
        keep   = step > 0
        reason = "the new tokens alone fill the context"
      }
    }

    filter "prefill" {
      keep   = isl > 1 && batch_size * isl <= local.prefill_chunk
      reason = "one token is decode; more than ${local.prefill_chunk} tokens are several chunks of prefill"
    }

    filter "long_small_batches" {
      keep   = batch_size * isl <= 131072 && (isl < 8192 || batch_size <= 8)
      reason = "long prompts come in batches of at most 8"
    }

    filter "context" {
      keep   = step + isl <= max_position
      reason = "longer than the model's context"
    }

    filter "cache" {
      keep   = batch_size * (isl + step) <= 33554432
      reason = "more than 2^25 cached tokens"
    }

    distinct {}
  }
}

grid "dsa_generation_module_skip_indexer" {
  enabled     = contains(module.selection.ops, "dsa_generation_module_skip_indexer") && local.wants.dsa
  description = "the same in layers that take the index of another, in decode"
  op          = "dsa_generation_module_skip_indexer"
  perf_table  = "dsa_generation_module_perf"
  columns     = ["num_heads", "tp_size", "kv_cache_dtype", "mla_dtype", "gemm_type", "model", "dsa_prefill_backend"]
  constants   = { isl = 1 }

  rows "model" {
    values = local.dsa_models
  }

  rows "precision" {
    values = local.dsa_precisions
  }

  axis "tp_size" {
    values = local.module_tp
  }

  derive "num_heads" {
    value = native_num_heads / tp_size
  }

  derive "dsa_prefill_backend" {
    value = kv_cache_dtype != "fp8" ? null : local.sm >= 100 ? "trtllm" : "flashmla_kv"
  }

  filter "sm_floor" {
    keep   = local.sm >= 90
    reason = local.sparse_floor
  }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = local.reasons.sm
  }

  filter "index_shared" {
    keep   = shares_index
    reason = local.no_index_shared
  }

  filter "heads_supported" {
    keep   = contains(local.sparse_heads, num_heads)
    reason = local.sparse_head_set
  }

  filter "chosen" {
    keep   = selected
    reason = local.reasons.selected
  }

  sweep "lengths" {
    columns = ["batch_size", "step"]

    case_set "batches" {
      axis "batch_size" {
        values = module.shapes.decode_batches
      }

      axis "step" {
        values = local.decode_lengths
      }

      filter "cache" {
        keep   = batch_size * step <= 262144
        reason = "more than 2^18 cached tokens: the token pool of the benchmark ends there"
      }
    }

    case_set "long" {
      axis "batch_size" {
        values = [1]
      }

      axis "step" {
        values = local.long_decode_lengths
      }

      filter "context" {
        keep   = step <= max_position - 1
        reason = "longer than the model's context"
      }
    }

    distinct {}
  }
}
