# Multi-head and grouped-query attention through vLLM's own backend choice.

locals {
  model_heads = [for r in local.models.attention : {
    native_num_heads           = r.num_heads
    native_num_key_value_heads = r.num_kv_heads
    head_dim                   = r.head_dim
    window_size                = r.window
    served_tp                  = r.tp
    selected                   = r.selected
  } if contains(r.only, "vllm")]

  query_heads = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64]
  kv_heads    = [1, 2, 4, 8]

  # The cache format decides; attention itself multiplies in bfloat16.
  kv_precisions = [for f in [
    { kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
    { kv_cache_dtype = "fp8", min_sm = 87, max_sm = 999 },
  ] : f if length(var.formats) == 0 || contains(var.formats, f.kv_cache_dtype)]
}

grid "attention_context" {
  enabled     = contains(var.selection.ops, "attention_context") && local.wants.attention
  description = "attention in prefill"
  op          = "attention_context"
  perf_table  = "context_attention_perf"
  columns     = ["batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype"]
  constants   = { beam_width = 1, step = 0, attn_dtype = "bfloat16" }
  loop_order  = ["head_dim", "num_heads", "num_key_value_heads", "window_size", "head", "tp_size", "isl", "batch_size"]
  include     = [local.parts.attention_context]

  case_set "mha" {
    include = [local.parts.base_grid]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "head_dim" { values = [64, 128] }
    axis "window_size" { values = [0, 128] }

    derive "num_key_value_heads" { value = num_heads }
  }

  case_set "gqa" {
    include = [local.parts.base_grid, local.parts.grouped]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "num_key_value_heads" { values = local.kv_heads }
    axis "head_dim" { values = [64, 128] }
    axis "window_size" { values = [0, 128] }
  }

  case_set "model_heads" {
    include = [local.parts.served_kv_heads]

    rows "head" { values = local.model_heads }
  }

  rows "precision" { values = local.kv_precisions }

  distinct {}
}

grid "attention_generation" {
  enabled     = contains(var.selection.ops, "attention_generation") && local.wants.attention
  description = "attention in decode"
  op          = "attention_generation"
  perf_table  = "generation_attention_perf"
  columns     = ["batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype"]
  constants   = { beam_width = 1, isl = 1, attn_dtype = "bfloat16" }
  loop_order  = ["head_dim", "num_heads", "num_key_value_heads", "window_size", "head", "tp_size", "batch_size", "target_seq"]
  include     = [local.parts.attention_generation]

  # Heads without grouping are part of this set.
  case_set "gqa" {
    include = [local.parts.base_grid]

    axis "num_heads" { values = reverse(local.query_heads) }
    axis "num_key_value_heads" { values = local.kv_heads }
    axis "head_dim" { values = [64, 128] }
    axis "window_size" { values = [0, 128] }

    filter "kv_divides" {
      keep   = num_key_value_heads <= num_heads && num_heads % num_key_value_heads == 0
      reason = "the key/value heads do not divide the query heads"
    }
  }

  case_set "model_heads" {
    include = [local.parts.served_kv_heads]

    rows "head" { values = local.model_heads }
  }

  rows "precision" { values = local.kv_precisions }

  # Cached tokens times query heads are bounded for heads of 128, in proportion
  # for others; grouped heads share a cache and may have twice as many.
  derive "max_batch" {
    value       = floor(floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) * 128 / head_dim) / target_seq) / num_heads)
    description = "largest batch at this length"
  }

  derive "max_batch_doubled" {
    value       = floor(floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) * 128 / head_dim) / (target_seq * 2)) / num_heads)
    description = "largest batch at twice this length"
  }

  filter "batch_cap" {
    keep   = batch_size <= max_batch
    reason = "batch times length times query heads is beyond the cache of a node (2^23 heads of 128, 2^24 when grouped)"
  }

  distinct {}
}
