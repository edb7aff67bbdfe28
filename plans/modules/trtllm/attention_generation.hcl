# Attention in decode. Heads and reasons are those of attention.hcl.

grid "attention_generation" {
  enabled     = contains(module.selection.ops, "attention_generation") && local.wants.attention
  description = "attention in decode"
  op          = "attention_generation"
  perf_table  = "generation_attention_perf"
  columns     = ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype", "attn_backend"]
  constants   = { beam_width = 1, isl = 1, attn_dtype = "bfloat16" }
  loop_order  = ["head_dim", "num_heads", "num_key_value_heads", "window_size", "head", "tp_size", "batch_size", "target_seq"]

  case_set "mha" {
    axis "num_heads" {
      values = reverse(local.decode_mha_heads)
    }

    axis "head_dim" {
      values = [64, 128, 256]
    }

    axis "window_size" {
      values = [0]
    }

    derive "num_key_value_heads" {
      value = num_heads
    }

    derive "attn_backend" {
      value = "TRTLLM"
    }

    filter "base_grid" {
      keep   = module.selection.everything
      reason = local.reasons.base
    }
  }

  case_set "gqa" {
    axis "num_heads" {
      values = reverse(local.decode_gqa_heads)
    }

    axis "num_key_value_heads" {
      values = local.kv_heads
    }

    axis "head_dim" {
      values = [64, 128, 256]
    }

    axis "window_size" {
      values = [0]
    }

    derive "attn_backend" {
      value = "TRTLLM"
    }

    filter "grouped" {
      keep   = num_key_value_heads < num_heads && num_heads % num_key_value_heads == 0
      reason = local.not_grouped
    }

    filter "base_grid" {
      keep   = module.selection.everything
      reason = local.reasons.base
    }
  }

  case_set "head64_window" {
    axis "num_heads" {
      values = reverse(local.decode_gqa_heads)
    }

    axis "num_key_value_heads" {
      values = local.kv_heads
    }

    axis "head_dim" {
      values = [64]
    }

    axis "window_size" {
      values = [128]
    }

    derive "attn_backend" {
      value = "TRTLLM"
    }

    filter "grouped" {
      keep   = num_key_value_heads < num_heads && num_heads % num_key_value_heads == 0
      reason = local.not_grouped
    }

    filter "base_grid" {
      keep   = module.selection.everything
      reason = local.reasons.base
    }
  }

  case_set "model_heads" {
    rows "head" {
      values = local.model_heads
    }

    axis "tp_size" {
      values = module.selection.tp_sizes
    }

    derive "num_heads" {
      value = floor(native_num_heads / tp_size)
    }

    derive "num_key_value_heads" {
      value       = ceil_div(native_num_key_value_heads, tp_size)
      description = "every rank keeps at least one"
    }

    filter "tp_served" {
      keep   = contains(served_tp, tp_size) && native_num_heads % tp_size == 0
      reason = local.reasons.served
    }

    filter "kv_divides" {
      keep   = num_key_value_heads <= num_heads && num_heads % num_key_value_heads == 0
      reason = "the key/value heads of a rank do not divide its query heads"
    }

    filter "chosen" {
      keep   = selected
      reason = local.reasons.selected
    }
  }

  rows "precision" {
    values = [
      { kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", min_sm = 87, max_sm = 999 },
    ]
  }

  axis "target_seq" {
    values      = module.shapes.cache_lengths
    description = "tokens in the cache after the step"
  }

  axis "batch_size" {
    values = powers(2, 0, 11)
  }

  derive "step" {
    value       = target_seq - 1
    description = "tokens in the cache before the decoded one"
  }

  # Cached tokens times query heads are bounded; grouped heads share a cache
  # and may hold twice as many.
  derive "max_batch" {
    value       = floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) / target_seq) / num_heads)
    description = "largest batch at this length"
  }

  derive "max_batch_doubled" {
    value       = floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) / (target_seq * 2)) / num_heads)
    description = "largest batch at twice this length"
  }

  filter "sm_gate" {
    keep   = local.sm >= min_sm && local.sm <= max_sm
    reason = local.reasons.sm
  }

  filter "batch_cap" {
    keep   = batch_size <= max_batch
    reason = "batch times length times query heads is beyond the cache of a node (2^23, 2^24 when grouped)"
  }

  filter "few_batches" {
    keep   = max_batch >= 8
    reason = "fewer than four batch sizes fit at this length: too few points to interpolate between"
  }

  filter "longest_of_large_batches" {
    keep   = batch_size < 256 || (target_seq < 131072 && max_batch_doubled >= max(batch_size, 8))
    reason = "from batch 256 on the longest length that fits is left out: it takes most of the time and serves nobody"
  }

  filter "gqa_ratio_sm100" {
    keep   = local.sm < 100 || num_key_value_heads == num_heads || attn_backend != "TRTLLM" || floor(num_heads / num_key_value_heads) < 32 || floor(num_heads / num_key_value_heads) % 32 == 0
    reason = local.gqa_on_sm100
  }

  distinct {}
}
