# Attention in decode. Heads and reasons are those of attention.hcl.

grid "attention_generation" {
  enabled     = contains(var.selection.ops, "attention_generation") && local.wants.attention
  description = "attention in decode"
  op          = "attention_generation"
  perf_table  = "generation_attention_perf"
  columns = [
    "batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", "kv_cache_dtype",
    "v_head_dim", "runtime_window_size", "attention_chunk_size", "has_attention_sink", "scaling", "kernel_source", "architecture",
  ]
  constants  = { beam_width = 1, isl = 1, attn_dtype = "bfloat16" }
  loop_order = ["head_dim", "num_heads", "num_key_value_heads", "head", "tp_size", "batch_size", "target_seq"]
  include    = [local.parts.attention_generation]

  case_set "model_heads" {
    include = [local.parts.served_kv_heads]

    rows "head" { values = local.model_heads }
  }

  case_set "mha" {
    include = [part.plain, local.parts.base_grid]

    axis "num_heads" { values = reverse(local.decode_mha_heads) }
    axis "head_dim" { values = [128, 256] }

    derive "num_key_value_heads" { value = num_heads }
  }

  case_set "gqa" {
    include = [part.plain, local.parts.base_grid, local.parts.grouped]

    axis "num_heads" { values = reverse(local.decode_gqa_heads) }
    axis "num_key_value_heads" { values = local.kv_heads }
    axis "head_dim" { values = [128, 256] }
  }

  rows "precision" {
    values = [
      { kv_cache_dtype = "bfloat16", min_sm = 0, max_sm = 999 },
      { kv_cache_dtype = "fp8", min_sm = 89, max_sm = 999 },
    ]
  }

  # Cached tokens times query heads are bounded for heads of 128, in proportion
  # for others; grouped heads share a cache and may have twice as many.
  derive "max_batch" {
    value       = floor(floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) / target_seq) / num_heads) * 128 / head_dim)
    description = "largest batch at this length"
  }

  derive "max_batch_doubled" {
    value       = floor(floor(floor((num_key_value_heads == num_heads ? 8388608 : 16777216) / (target_seq * 2)) / num_heads) * 128 / head_dim)
    description = "largest batch at twice this length"
  }

  filter "sm_known" {
    keep   = local.default_kernel != "none"
    reason = local.sm_unknown
  }

  filter "batch_cap" {
    keep   = batch_size <= max_batch
    reason = "batch times length times query heads is beyond the cache of a node (2^23 heads of 128, 2^24 when grouped)"
  }

  distinct {
    by = ["num_heads", "num_key_value_heads", "head_dim", "window_size", "batch_size", "step", "kv_cache_dtype", "kernel_source"]
  }
}
